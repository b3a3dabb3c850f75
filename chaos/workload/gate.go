package workload

import (
	"context"
	"sync"
)

// Gate holds the load back while no broker can answer. Requests that are under way when it closes are not touched.
type Gate struct {
	mutex sync.Mutex
	open  chan struct{} // closed while the gate is open
}

// NewGate returns an open gate.
func NewGate() *Gate {
	gate := &Gate{open: make(chan struct{})}
	close(gate.open)
	return gate
}

// Close lets nobody pass until the next Open.
func (g *Gate) Close() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default:
	}
}

// Open lets everybody pass.
func (g *Gate) Open() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// Pass waits until the gate is open; false means that the context ended first.
func (g *Gate) Pass(ctx context.Context) bool {
	g.mutex.Lock()
	open := g.open
	g.mutex.Unlock()
	select {
	case <-open:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
