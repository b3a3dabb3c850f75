package history

import (
	"sync/atomic"

	"github.com/google/uuid"
)

// Count names one counter of a queue.
type Count int

// The counters of a queue. Files hold them in this order: new ones go to the end.
const (
	PushRequests Count = iota
	PushMessages
	PopRequests
	PopMessages
	PopEmpty
	AckRequests
	AckSuccess
	AckFailed
	Transactions
	PartitionsCreated
	PartitionsDeleted
	RetentionMessages
	RetentionEvents
	// Conflated are messages that a conflating group was not given, because a newer one was.
	Conflated
	// LagMicros is the age at delivery, summed over the delivered messages.
	LagMicros
	counts
)

// Counts are the counters of a queue over some time.
type Counts [counts]uint64

// Add sums.
func (c *Counts) Add(o *Counts) {
	for i := range c {
		c[i] += o[i]
	}
}

// Activity orders queues by how much went on in them.
func (c *Counts) Activity() uint64 {
	return c[PushMessages] + c[PopMessages] + c[AckSuccess] + c[AckFailed]
}

// Tally is what a queue has counted over some time.
type Tally struct {
	Counts Counts
	// LagMaxMicros is the greatest age at delivery.
	LagMaxMicros uint64
}

// Add sums.
func (t *Tally) Add(o *Tally) {
	t.Counts.Add(&o.Counts)
	t.LagMaxMicros = max(t.LagMaxMicros, o.LagMaxMicros)
}

func (t *Tally) empty() bool { return *t == Tally{} }

// Lag is the age at delivery in milliseconds; zeros when nothing was delivered.
func (t *Tally) Lag() (averageMs, maxMs float64) {
	if t.Counts[PopMessages] == 0 {
		return 0, 0
	}
	return float64(t.Counts[LagMicros]/t.Counts[PopMessages]) / 1000, float64(t.LagMaxMicros) / 1000
}

// Name is a queue of a tenant.
type Name struct {
	Tenant uuid.UUID
	Queue  string
}

// recentSlots of slotTime each are what the gauges per minute look back on, the running one included.
const recentSlots = 6

// counter counts for one queue. The atomics are added to under the read lock of the recorder and drained under its write
// lock, so that a count can neither be lost nor counted twice when an idle counter is dropped.
type counter struct {
	counts       [counts]atomic.Uint64
	lagMaxMicros atomic.Uint64
	parked       atomic.Int64

	// What was drained and is not in a row yet, and the last slots for the gauges.
	pending Tally
	recent  [recentSlots]Tally
}

func (c *counter) add(count Count, n uint64) {
	if n > 0 {
		c.counts[count].Add(n)
	}
}

func (c *counter) raiseLag(micros uint64) {
	for {
		held := c.lagMaxMicros.Load()
		if micros <= held || c.lagMaxMicros.CompareAndSwap(held, micros) {
			return
		}
	}
}

// drain moves what was counted to pending and to the running slot.
func (c *counter) drain(slot int) {
	var fresh Tally
	for i := range c.counts {
		if c.counts[i].Load() > 0 {
			fresh.Counts[i] = c.counts[i].Swap(0)
		}
	}
	fresh.LagMaxMicros = c.lagMaxMicros.Swap(0)
	c.pending.Add(&fresh)
	c.recent[slot].Add(&fresh)
}

// idle tells that the counter holds nothing that anybody could still ask for. It was drained just now.
func (c *counter) idle() bool {
	if c.parked.Load() != 0 || !c.pending.empty() {
		return false
	}
	for i := range c.recent {
		if !c.recent[i].empty() {
			return false
		}
	}
	return true
}

// lastMinute sums the slots.
func (c *counter) lastMinute() (sum Tally) {
	for i := range c.recent {
		sum.Add(&c.recent[i])
	}
	return sum
}
