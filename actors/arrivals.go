package actors

import (
	"sync"
	"sync/atomic"

	"queen/raftlog/command"
)

// bell wakes one goroutine that waits for several things at once. It holds one ring; more add nothing until it is heard.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// arrivals tells readers that wait without a cursor (messaging 13.1) that something was stored in a queue, or that the queue
// is gone. Nobody waiting costs apply one atomic load.
type arrivals struct {
	waiting atomic.Int64
	mu      sync.Mutex
	queues  map[uint64]map[bell]struct{}
}

// Await returns a channel that fires at the next append to any of the queues, and when one of them is made or deleted: the
// caller then looks everything up anew and waits again. end ends the wait and must be called. Wait before looking at the
// store, so that nothing is missed in between. Names may repeat; whatever happens to other queues costs the wait nothing.
func (b *Broker) Await(tenant command.Tenant, queues []string) (changed <-chan struct{}, end func()) {
	b.arrivals.waiting.Add(1)
	changes := newBell()
	var missing []directoryKey
	var present []uint64
	for _, name := range queues {
		key := directoryKey{tenant, name}
		if queueID := b.join(key, changes); queueID != 0 {
			present = append(present, queueID)
		} else {
			missing = append(missing, key)
		}
	}
	return changes, func() {
		for _, key := range missing {
			b.directory.stopAwaiting(key, changes)
		}
		b.arrivals.leave(present, changes)
		b.arrivals.waiting.Add(-1)
	}
}

// Awaiting is the number of waits that have not ended.
func (b *Broker) Awaiting() int64 { return b.arrivals.waiting.Load() }

// join waits by the id of a queue, or by its name when it does not exist: then the id is 0.
func (b *Broker) join(key directoryKey, changes bell) (queueID uint64) {
	for {
		queue := b.directory.findOrAwait(key, changes)
		if queue == nil {
			return 0
		}
		b.arrivals.join(queue.ID, changes)
		// A deletion is announced after the queue has left the directory: one that is still there will be announced, one
		// that is not may have been before this wait could hear it.
		if b.directory.QueueByID(queue.ID) != nil {
			return queue.ID
		}
		b.arrivals.leave([]uint64{queue.ID}, changes)
	}
}

func (w *arrivals) join(queueID uint64, changes bell) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queues == nil {
		w.queues = map[uint64]map[bell]struct{}{}
	}
	if w.queues[queueID] == nil {
		w.queues[queueID] = map[bell]struct{}{}
	}
	w.queues[queueID][changes] = struct{}{}
}

func (w *arrivals) leave(queueIDs []uint64, changes bell) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range queueIDs {
		delete(w.queues[id], changes)
		if len(w.queues[id]) == 0 {
			delete(w.queues, id)
		}
	}
}

// announce wakes the readers of queues, once: who is not content waits again. It is called when an append can be read, or
// when the queue has left the directory.
func (w *arrivals) announce(queueIDs ...uint64) {
	if w.waiting.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range queueIDs {
		for changes := range w.queues[id] {
			changes.ring()
		}
		delete(w.queues, id)
	}
}
