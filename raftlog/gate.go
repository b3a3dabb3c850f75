package raftlog

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
)

// appliedGate lets goroutines wait until an index has been applied.
type appliedGate struct {
	index atomic.Uint64

	mu      sync.Mutex
	waiters waiterHeap
	// closed is why nothing will be applied any more.
	closed error
}

type gateWaiter struct {
	index uint64
	done  chan struct{}
	place int
}

// advance is called by the goroutine that applies, after the state machine has returned.
func (g *appliedGate) advance(index uint64) {
	if index <= g.index.Load() {
		return
	}
	g.index.Store(index)
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiters) > 0 && g.waiters[0].index <= index {
		close(heap.Pop(&g.waiters).(*gateWaiter).done)
	}
}

// close ends all waiting with the error.
func (g *appliedGate) close(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		return
	}
	g.closed = err
	for _, waiter := range g.waiters {
		close(waiter.done)
	}
	g.waiters = nil
}

// wait returns nil once the index is applied.
func (g *appliedGate) wait(ctx context.Context, index uint64) error {
	if index <= g.index.Load() {
		return nil
	}
	g.mu.Lock()
	if index <= g.index.Load() {
		g.mu.Unlock()
		return nil
	}
	if g.closed != nil {
		defer g.mu.Unlock()
		return g.closed
	}
	waiter := &gateWaiter{index: index, done: make(chan struct{})}
	heap.Push(&g.waiters, waiter)
	g.mu.Unlock()
	select {
	case <-waiter.done:
		g.mu.Lock()
		defer g.mu.Unlock()
		if index > g.index.Load() {
			return g.closed
		}
		return nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		if waiter.place >= 0 && waiter.place < len(g.waiters) && g.waiters[waiter.place] == waiter {
			heap.Remove(&g.waiters, waiter.place)
		}
		return context.Cause(ctx)
	}
}

// waiterHeap has the smallest index first.
type waiterHeap []*gateWaiter

func (h waiterHeap) Len() int           { return len(h) }
func (h waiterHeap) Less(i, j int) bool { return h[i].index < h[j].index }
func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *waiterHeap) Push(x any) {
	waiter := x.(*gateWaiter)
	waiter.place = len(*h)
	*h = append(*h, waiter)
}

// Pop implements heap.Interface.
func (h *waiterHeap) Pop() any {
	last := len(*h) - 1
	waiter := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	waiter.place = -1
	return waiter
}
