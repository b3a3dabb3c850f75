package raftlog

import (
	"context"
	"sync"
)

// rounds shares one question among all who need its answer: those who ask while one is under way get the answer to the next.
type rounds struct {
	// ask runs on a goroutine of its own, one at a time.
	ask func() (answer readPoint, err error)

	mu      sync.Mutex
	next    *round
	running bool
	closed  bool
	group   sync.WaitGroup
}

// round is one question, asked after everybody who waits for it has come.
type round struct {
	done chan struct{}
	readPoint
	err error
}

// wait returns an answer to a question that was asked after the call began.
func (r *rounds) wait(ctx context.Context) (round, error) {
	joined, err := r.join()
	if err != nil {
		return round{}, err
	}
	select {
	case <-joined.done:
		return *joined, joined.err
	case <-ctx.Done():
		return round{}, context.Cause(ctx)
	}
}

func (r *rounds) join() (*round, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	if !r.running {
		r.running = true
		r.group.Go(r.run)
	}
	return r.next, nil
}

func (r *rounds) run() {
	for {
		r.mu.Lock()
		current := r.next
		r.next = nil
		r.running = current != nil
		r.mu.Unlock()
		if current == nil {
			return
		}
		current.readPoint, current.err = r.ask()
		close(current.done)
	}
}

// close lets no further round begin and waits for the one that is under way.
func (r *rounds) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.group.Wait()
}
