package store

import (
	"sync"
	"sync/atomic"
)

// horizon knows which indexes can be read: the last committed one, the durable one, and those that open views hold.
type horizon struct {
	mu        sync.Mutex
	committed mark
	held      map[uint64]int // index -> views that read there

	durable atomic.Uint64
}

// mark is a position in the Raft log.
type mark struct{ index, term uint64 }

func newHorizon(at mark) *horizon {
	h := &horizon{committed: at, held: make(map[uint64]int)}
	h.durable.Store(at.index)
	return h
}

// enter holds the last committed index and returns it.
func (h *horizon) enter() uint64 {
	h.mu.Lock()
	index := h.committed.index
	h.held[index]++
	h.mu.Unlock()
	return index
}

func (h *horizon) leave(index uint64) {
	h.mu.Lock()
	if h.held[index]--; h.held[index] == 0 {
		delete(h.held, index)
	}
	h.mu.Unlock()
}

func (h *horizon) advance(to mark) {
	h.mu.Lock()
	h.committed = to
	h.mu.Unlock()
}

func (h *horizon) last() mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.committed
}

// floor is the lowest index that anybody may still read: the durable one, where an unclean start goes back to, or that
// of an older view. New views start at the committed index, which is never below.
func (h *horizon) floor() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	floor := h.durable.Load()
	for index := range h.held {
		floor = min(floor, index)
	}
	return floor
}
