package bench

import (
	"fmt"
	"math"
	"net/url"
	"time"
)

// Mode is what a run does.
type Mode string

// The modes.
const (
	ModePush  Mode = "push"
	ModePop   Mode = "pop"
	ModeMixed Mode = "mixed"
)

// Limits of a run. They keep a typing mistake from filling the machine it runs on.
const (
	maxClients    = 20_000     // connections; a Linux host has about 28,000 ports towards one address
	maxQueues     = 10_000     // names
	maxPartitions = 10_000_000 // per run, over all queues: 64 bytes of ledger each
	maxBatch      = 100_000    // messages of one request
	maxSizeBytes  = 16 << 20   // one payload
	// minSizeBytes leaves room for the identity that every payload carries.
	minSizeBytes = 24
	// maxClaimedPartitions is the most that one pop may claim (messaging 5.2).
	maxClaimedPartitions = 64
	maxPopWait           = time.Minute // messaging 5.2
	maxDuration          = 7 * 24 * time.Hour
)

// Options describes a run. Defaults returns a usable set.
type Options struct {
	Mode   Mode
	Server string // base URL, such as http://127.0.0.1:6632
	Token  string // sent as bearer token when not empty

	Queue      string // name, or name stem when Queues > 1; empty: bench-<run id>
	Queues     int
	Partitions int // per queue
	Batch      int // messages of one push, and the batch of one pop
	SizeBytes  int // JSON text of one payload
	Spread     bool

	Clients   int     // producers, one connection each
	Rate      float64 // messages per second over all producers; 0: closed loop
	Consumers int     // one connection each

	Group         string        // empty: queue mode
	PopPartitions int           // partitions that one pop may claim; 0: as many as a batch may span
	AutoAck       bool          // commit on delivery instead of acks
	LeaseSeconds  int           // lease of a pop; the ledger needs to know it
	PopWait       time.Duration // long poll of a consumer; a finished run ends that much later

	Warmup       time.Duration
	Duration     time.Duration
	Prefill      int64         // messages pushed before the warm-up, not measured
	DrainTimeout time.Duration // how long a finished mixed run may go without progress before the rest counts as missing
	CallTimeout  time.Duration // client-side limit of a push or an ack

	PIDs []int // server processes on this machine whose CPU and memory are read
}

// Defaults returns the options of a short push run against a local broker.
func Defaults() Options {
	return Options{
		Mode: ModePush, Server: "http://127.0.0.1:6632", Queues: 1, Partitions: 1000, Batch: 10, SizeBytes: 256,
		Clients: 64, Consumers: 16, LeaseSeconds: 60, PopWait: 500 * time.Millisecond, Warmup: time.Second, Duration: 10 * time.Second,
		DrainTimeout: 60 * time.Second, CallTimeout: 65 * time.Second,
	}
}

// Validate refuses options that cannot be run; the text names the flag.
func (o Options) Validate() error {
	server, err := url.Parse(o.Server)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return fmt.Errorf("server %q: want a URL such as http://127.0.0.1:6632", o.Server)
	}
	if o.Mode != ModePush && o.Mode != ModePop && o.Mode != ModeMixed {
		return fmt.Errorf("mode %q: want push, pop or mixed", o.Mode)
	}
	for _, number := range []struct {
		flag             string
		value, low, high int64
	}{
		{"queues", int64(o.Queues), 1, maxQueues},
		{"partitions", int64(o.Partitions), 1, maxPartitions},
		{"queues x partitions", int64(o.Queues) * int64(o.Partitions), 1, maxPartitions},
		{"batch", int64(o.Batch), 1, maxBatch},
		{"size", int64(o.SizeBytes), minSizeBytes, maxSizeBytes},
		{"clients", int64(o.Clients), 1, maxClients},
		{"consumers", int64(o.Consumers), 1, maxClients},
		{"pop-partitions", int64(o.PopPartitions), 0, maxClaimedPartitions},
		{"lease", int64(o.LeaseSeconds), 1, 86400},
		{"pop-wait", int64(o.PopWait), int64(time.Millisecond), int64(maxPopWait)},
		{"prefill", o.Prefill, 0, math.MaxInt32},
		{"warmup", int64(o.Warmup), 0, int64(maxDuration)},
		{"duration", int64(o.Duration), int64(time.Millisecond), int64(maxDuration)},
		{"drain-timeout", int64(o.DrainTimeout), int64(time.Millisecond), int64(maxDuration)},
		{"timeout", int64(o.CallTimeout), int64(time.Millisecond), int64(maxDuration)},
	} {
		if number.value < number.low || number.value > number.high {
			return fmt.Errorf("%s %d: want %d to %d", number.flag, number.value, number.low, number.high)
		}
	}
	if o.Rate < 0 || math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0) {
		return fmt.Errorf("rate %v: want messages per second, or 0 for a closed loop", o.Rate)
	}
	if o.Spread && o.Batch > o.Queues*o.Partitions {
		return fmt.Errorf("spread: a batch of %d needs as many partitions, there are %d", o.Batch, o.Queues*o.Partitions)
	}
	if o.Mode == ModePop && o.Queue == "" && o.Prefill == 0 {
		return fmt.Errorf("mode pop: want --queue with messages in it, or --prefill")
	}
	return nil
}

// queueNames returns the names of the queues of a run.
func (o Options) queueNames(run string) []string {
	stem := o.Queue
	if stem == "" {
		stem = "bench-" + run
	}
	if o.Queues == 1 {
		return []string{stem}
	}
	names := make([]string, o.Queues)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", stem, i)
	}
	return names
}

// claimedPartitions is the `partitions` parameter of a pop. Without a wish it is what a batch of one message per partition
// would need.
func (o Options) claimedPartitions() int {
	if o.PopPartitions > 0 {
		return o.PopPartitions
	}
	return max(1, min(maxClaimedPartitions, o.Batch, o.Partitions))
}
