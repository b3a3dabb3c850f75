package actors

import (
	"sync"
	"sync/atomic"
)

// arrivals tells readers that wait without a cursor (messaging 13.1) that something was stored in a queue. Nobody waiting
// costs apply one atomic load.
type arrivals struct {
	waiting atomic.Int64
	mu      sync.Mutex
	queues  map[uint64]*arrival
}

type arrival struct {
	stored  chan struct{}
	readers int
}

// AnyNewPartition stands in place of a queue id for the first append to any partition, of whatever queue. No queue has it.
const AnyNewPartition = 0

// Await returns a channel that is closed at the next append to any of the queues, and a function that ends the wait. Take
// the channel before looking at the store, so that nothing is missed in between.
func (b *Broker) Await(queueIDs []uint64) (stored []<-chan struct{}, end func()) {
	w := &b.arrivals
	w.waiting.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queues == nil {
		w.queues = map[uint64]*arrival{}
	}
	held := make([]*arrival, 0, len(queueIDs))
	for _, id := range queueIDs {
		a := w.queues[id]
		if a == nil {
			a = &arrival{stored: make(chan struct{})}
			w.queues[id] = a
		}
		a.readers++
		held = append(held, a)
		stored = append(stored, a.stored)
	}
	return stored, func() { w.end(queueIDs, held) }
}

func (w *arrivals) end(queueIDs []uint64, held []*arrival) {
	w.waiting.Add(-1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, a := range held {
		if a.readers--; a.readers == 0 && w.queues[queueIDs[i]] == a {
			delete(w.queues, queueIDs[i])
		}
	}
}

// announce wakes the readers of a queue; called when the append can be read.
func (w *arrivals) announce(queueIDs []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range queueIDs {
		if a := w.queues[id]; a != nil {
			close(a.stored)
			delete(w.queues, id)
		}
	}
}
