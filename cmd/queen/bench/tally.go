package bench

import (
	"maps"
	"sync"
	"sync/atomic"
)

// tally counts what all clients of a run have done so far.
type tally struct {
	pushed       atomic.Int64 // messages stored, as far as the broker said
	pushCalls    atomic.Int64
	popped       atomic.Int64 // messages received
	popCalls     atomic.Int64
	emptyPops    atomic.Int64
	acked        atomic.Int64 // successful items
	ackCalls     atomic.Int64
	itemErrors   atomic.Int64 // pushed items that the broker refused one by one
	falseRepeats atomic.Int64 // items called duplicate although they were sent once

	mutex    sync.Mutex // guards the rest
	failures map[string]int64
	// uncertain lists messages whose push never got a known outcome: they may be there or not.
	uncertain []identity
}

// fail counts one failed call or item under a kind. The number of kinds is bounded, since some of them come from outside.
func (t *tally) fail(kind string) {
	const maxKinds = 64
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.failures == nil {
		t.failures = map[string]int64{}
	}
	if _, known := t.failures[kind]; !known && len(t.failures) >= maxKinds {
		kind = "other"
	}
	t.failures[kind]++
}

func (t *tally) failed() map[string]int64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return maps.Clone(t.failures)
}

func (t *tally) failureCount() int64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var sum int64
	for _, count := range t.failures {
		sum += count
	}
	return sum
}

func (t *tally) addUncertain(batch []identity) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.uncertain = append(t.uncertain, batch...)
}

// counts is a reading of the tally at one instant.
type counts struct {
	atUs                             int64
	pushed, pushCalls, popped, acked int64
	popCalls, emptyPops, ackCalls    int64
}

func (t *tally) read(atUs int64) counts {
	return counts{
		atUs: atUs, pushed: t.pushed.Load(), pushCalls: t.pushCalls.Load(), popped: t.popped.Load(), acked: t.acked.Load(),
		popCalls: t.popCalls.Load(), emptyPops: t.emptyPops.Load(), ackCalls: t.ackCalls.Load(),
	}
}
