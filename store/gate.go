package store

import (
	"sync"
	"sync/atomic"
)

// gate counts the readers of main, so that Close does not unmap what they read. It may be entered again by one who is
// inside, which a read lock would not allow while a writer waits.
type gate struct {
	inside  atomic.Int64
	drained chan struct{}
	once    sync.Once
}

// gateShut is added to the count when the gate is shut; it is far above any number of readers.
const gateShut = 1 << 60

func newGate() *gate { return &gate{drained: make(chan struct{})} }

// enter returns false when the gate is shut.
func (g *gate) enter() bool {
	if g.inside.Add(1) > gateShut {
		g.leave()
		return false
	}
	return true
}

func (g *gate) leave() {
	if g.inside.Add(-1) == gateShut {
		g.once.Do(func() { close(g.drained) })
	}
}

// shut lets nobody in any more and waits until all have left. Called once.
func (g *gate) shut() {
	if g.inside.Add(gateShut) == gateShut {
		g.once.Do(func() { close(g.drained) })
	}
	<-g.drained
}
