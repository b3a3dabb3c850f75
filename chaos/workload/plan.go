package workload

import (
	"fmt"
	"time"

	"queen/chaos/ledger"
)

// QueueMode is the name of the reader without a group.
const QueueMode = "__QUEUE_MODE__"

// Plan says what load there is.
type Plan struct {
	Queues       []Queue
	Producers    int
	ConsumersPer int           // of each group of each queue
	PushEvery    time.Duration // pause of a producer between two calls
	BatchMax     int           // messages of one push
	PayloadMax   int           // bytes of filler in a payload
	RepeatPct    int           // of the pushed messages, how many repeat an older one
	BundledPct   int           // of the pushes, how many go as a transaction over several partitions
	LeavePct     int           // of the pops, how many lose their client while they wait
}

// Queue is one queue of the plan.
type Queue struct {
	Name       string
	Partitions int
	Groups     []string // QueueMode among them where it is read so
	Lease      time.Duration
	Rules      ledger.QueueRules
	Pushed     bool   // producers push into it; otherwise only transactions do
	Target     string // where the transactions of its consumers push to; "" for none
	BundledPct int    // of its batches, how many are settled in such a transaction
}

// Mixed is the load of the crash campaigns: two queues that are pushed to and one that transactions feed. The leases
// are short, so that they run out within the campaign.
func Mixed() Plan {
	return Plan{
		Queues: []Queue{
			{
				Name: "orders", Partitions: 4, Groups: []string{QueueMode, "billing", "audit"}, Lease: 2 * time.Second,
				Rules: ledger.QueueRules{RetryLimit: 2, DeadLetter: true}, Pushed: true, Target: "invoices", BundledPct: 15,
			},
			{
				Name: "events", Partitions: 3, Groups: []string{"billing", "search"}, Lease: time.Second,
				Rules: ledger.QueueRules{RetryLimit: 1, RetryDelay: 300 * time.Millisecond, DeadLetter: false}, Pushed: true, Target: "invoices", BundledPct: 15,
			},
			{
				Name: "invoices", Partitions: 2, Groups: []string{"mailer"}, Lease: time.Second,
				Rules: ledger.QueueRules{RetryLimit: 3, DeadLetter: true},
			},
		},
		Producers: 3, ConsumersPer: 3, PushEvery: 20 * time.Millisecond, BatchMax: 12, PayloadMax: 600,
		RepeatPct: 8, LeavePct: 3,
	}
}

// Steady is the queues of the recovery scenarios (operations.md 10.1): a Pulse pushes, and consumers take what it pushes.
func Steady() Plan {
	plan := Plan{ConsumersPer: 1, PayloadMax: 600, LeavePct: 1}
	for _, name := range []string{"red", "green", "blue"} {
		plan.Queues = append(plan.Queues, Queue{
			Name: name, Partitions: 4, Groups: []string{"readers"}, Lease: 2 * time.Second, Rules: ledger.QueueRules{RetryLimit: 2, DeadLetter: true}, Pushed: true,
		})
	}
	return plan
}

// Pushes is the first consistency workload (operations.md 10.5): pushes, also in transactions, which are read in full.
func Pushes() Plan {
	return Plan{
		Queues: []Queue{
			{Name: "left", Partitions: 3, Lease: time.Second, Pushed: true},
			{Name: "right", Partitions: 3, Lease: time.Second, Pushed: true},
		},
		Producers: 5, PushEvery: 40 * time.Millisecond, BatchMax: 6, PayloadMax: 600, RepeatPct: 8, BundledPct: 25,
	}
}

// Leases is the second one: pushes, pops and every way to settle a batch.
func Leases() Plan {
	return Plan{
		Queues: []Queue{{
			Name: "jobs", Partitions: 4, Groups: []string{QueueMode, "crew"}, Lease: time.Second,
			Rules: ledger.QueueRules{RetryLimit: 2, DeadLetter: true}, Pushed: true,
		}},
		Producers: 3, ConsumersPer: 3, PushEvery: 50 * time.Millisecond, BatchMax: 6, PayloadMax: 600, RepeatPct: 5, LeavePct: 1,
	}
}

// Relay is the seventh: most batches are settled in a transaction that pushes to the next queue.
func Relay() Plan {
	return Plan{
		Queues: []Queue{
			{
				Name: "in", Partitions: 3, Groups: []string{"relay"}, Lease: time.Second,
				Rules: ledger.QueueRules{RetryLimit: 2, DeadLetter: true}, Pushed: true, Target: "out", BundledPct: 80,
			},
			{Name: "out", Partitions: 2, Groups: []string{"sink"}, Lease: time.Second, Rules: ledger.QueueRules{RetryLimit: 2, DeadLetter: true}},
		},
		Producers: 2, ConsumersPer: 3, PushEvery: 40 * time.Millisecond, BatchMax: 6, PayloadMax: 600, RepeatPct: 5, LeavePct: 1,
	}
}

// Repeats is the eighth: every other message repeats the txid of one before.
func Repeats() Plan {
	return Plan{
		Queues: []Queue{{
			Name: "once", Partitions: 3, Groups: []string{"reader"}, Lease: time.Second,
			Rules: ledger.QueueRules{RetryLimit: 2, DeadLetter: true}, Pushed: true,
		}},
		Producers: 4, ConsumersPer: 1, PushEvery: 40 * time.Millisecond, BatchMax: 6, PayloadMax: 600, RepeatPct: 50, LeavePct: 1,
	}
}

// Rules gives the options of all queues in the form the ledger needs.
func (p Plan) Rules() map[string]ledger.QueueRules {
	rules := map[string]ledger.QueueRules{}
	for _, queue := range p.Queues {
		rules[queue.Name] = queue.Rules
	}
	return rules
}

// Partitions lists all partitions of the plan.
func (p Plan) Partitions() []ledger.Partition {
	var all []ledger.Partition
	for _, queue := range p.Queues {
		for i := range queue.Partitions {
			all = append(all, queue.partition(i))
		}
	}
	return all
}

func (q Queue) partition(i int) ledger.Partition {
	return ledger.Partition{Queue: q.Name, Name: fmt.Sprintf("p%d", i)}
}

// options are what configure is told about the queue.
func (q Queue) options() map[string]any {
	options := map[string]any{
		"leaseTime": int(q.Lease / time.Second), "retryLimit": q.Rules.RetryLimit,
		"deadLetterQueue": q.Rules.DeadLetter, "dlqAfterMaxRetries": q.Rules.DeadLetter,
	}
	if q.Rules.RetryDelay > 0 {
		options["retryDelay"] = q.Rules.RetryDelay.Milliseconds()
	}
	return options
}
