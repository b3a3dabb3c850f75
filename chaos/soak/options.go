package soak

import (
	"fmt"
	"time"

	"queen/chaos/contract/harness"
)

// Options says how a soak runs. Binary and Dir are required; DefaultOptions fills the rest.
type Options struct {
	Binary   string
	Dir      string
	Duration time.Duration
	// MessagesPerSecond is the rate of all producers together.
	MessagesPerSecond int
	PayloadBytes      int
	BatchMessages     int
	Partitions        int // of the queue churn
	// Consumed is how long consumed messages are kept, Aged how long those of the queue ageing are.
	Consumed, Aged time.Duration
	SampleEvery    time.Duration
	// Kills is how often the broker is interrupted, spread over the run; Interrupt ends its process and waits for it.
	Kills     int
	Interrupt func(*harness.Broker) error
	// Data is the data directory of the broker; "" is one below Dir.
	Data string
	Log  func(format string, values ...any)
}

const (
	// coldOneIn is how many partitions there are to one that nobody consumes.
	coldOneIn = 100
	// agedOneIn is how many pushes there are to one that goes to the queue ageing.
	agedOneIn = 10
	// agingPartitions is the number of partitions of the queue ageing.
	agingPartitions = 20
	producers       = 4
	consumers       = 4
	// memory is how long txids are remembered, so that this reaches its steady state within a short run.
	memorySeconds = 60
)

// DefaultOptions are a moderate load for a small machine.
func DefaultOptions() Options {
	return Options{
		Duration: 30 * time.Minute, MessagesPerSecond: 2000, PayloadBytes: 1024, BatchMessages: 20, Partitions: 500,
		Consumed: 20 * time.Second, Aged: 15 * time.Second, SampleEvery: 5 * time.Second, Kills: 1, Interrupt: Kill,
		Log: func(string, ...any) {},
	}
}

func (o Options) validate() error {
	for _, positive := range []struct {
		name  string
		value int64
	}{
		{"Duration", int64(o.Duration)}, {"MessagesPerSecond", int64(o.MessagesPerSecond)}, {"BatchMessages", int64(o.BatchMessages)},
		{"SampleEvery", int64(o.SampleEvery)}, {"Consumed", int64(o.Consumed)}, {"Aged", int64(o.Aged)},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("soak option %s must be positive", positive.name)
		}
	}
	if o.Partitions < coldOneIn {
		return fmt.Errorf("soak option Partitions must be at least %d, so that one stays cold", coldOneIn)
	}
	return nil
}

// env is what the broker is started with: the windows that would outlast a short run are shortened.
func (o Options) env() map[string]string {
	return map[string]string{
		"RETENTION_INTERVAL":          "1000",
		"QUEEN_RAFT_TXN_WINDOW_MIN_S": fmt.Sprint(memorySeconds),
		"QUEEN_RAFT_DIR":              o.Data,
	}
}

// Kill is SIGKILL.
func Kill(broker *harness.Broker) error {
	broker.Kill()
	return nil
}
