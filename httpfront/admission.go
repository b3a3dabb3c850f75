package httpfront

import (
	"container/list"
	"math/rand/v2"
	"sync"
	"time"
)

// chunkedBytes is what a body of unknown length asks for before it is read (messaging 2.10).
const chunkedBytes = 64 << 10

// holdJitter is how much longer or shorter than configured a request waits for room, so that requests that arrived
// together are not refused together.
const holdJitter = 0.25

// admission hands out byte permits: a request holds as many bytes as its body has, from before the body is read until its
// answer is made. Requests without room wait in a queue, first come first served (messaging 2.10, cluster 11.1).
type admission struct {
	// capacity is the budget in bytes; 0 turns admission off.
	capacity int64
	hold     time.Duration
	stats    *admissionStats

	mu   sync.Mutex
	held int64
	// waiters are *waiter in the order of their arrival. There is at most one per connection.
	waiters list.List
	closed  bool
}

// waiter is a request that waits for room. outcome has room for the one answer it gets.
type waiter struct {
	bytes   int64
	outcome chan admitOutcome
}

type admitOutcome uint8

const (
	admitGranted admitOutcome = iota
	admitRefused
	admitClosed
)

// fits reports whether bytes may be taken now. A request larger than the whole budget is admitted when nothing else
// holds a permit. mu is held.
func (a *admission) fits(bytes int64) bool {
	return a.held == 0 || a.held+bytes <= a.capacity
}

// acquire takes a permit, and waits for room if need be. It blocks the goroutine of the connection.
func (a *admission) acquire(bytes int64) admitOutcome {
	if a.capacity <= 0 {
		return admitGranted
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return admitClosed
	}
	if a.waiters.Len() == 0 && a.fits(bytes) {
		a.held += bytes
		a.mu.Unlock()
		return admitGranted
	}
	if a.hold <= 0 {
		a.mu.Unlock()
		a.stats.refused.Inc()
		return admitRefused
	}
	w := &waiter{bytes: bytes, outcome: make(chan admitOutcome, 1)}
	place := a.waiters.PushBack(w)
	a.mu.Unlock()
	a.stats.waited.Inc()

	timer := time.NewTimer(jittered(a.hold))
	defer timer.Stop()
	select {
	case outcome := <-w.outcome:
		return outcome
	case <-timer.C:
	}
	return a.giveUp(place, w)
}

// giveUp takes a waiter out of the queue, unless it was answered just now.
func (a *admission) giveUp(place *list.Element, w *waiter) admitOutcome {
	a.mu.Lock()
	select {
	case outcome := <-w.outcome:
		a.mu.Unlock()
		return outcome
	default:
	}
	a.waiters.Remove(place)
	a.grant() // a smaller request may have waited behind this one
	a.mu.Unlock()
	a.stats.refused.Inc()
	return admitRefused
}

// grant lets waiters in from the front for as long as they fit. mu is held.
func (a *admission) grant() {
	for front := a.waiters.Front(); front != nil; front = a.waiters.Front() {
		w := front.Value.(*waiter)
		if !a.fits(w.bytes) {
			return
		}
		a.held += w.bytes
		a.waiters.Remove(front)
		w.outcome <- admitGranted
	}
}

// release gives a permit back.
func (a *admission) release(bytes int64) {
	if a.capacity <= 0 || bytes == 0 {
		return
	}
	a.mu.Lock()
	a.held -= bytes
	if a.held < 0 {
		panic("BUG: more permits given back than taken")
	}
	a.grant()
	a.mu.Unlock()
}

// correct changes a permit from a guessed size to the real one. Nobody waits for it: the body is in memory already.
func (a *admission) correct(guessed, real int64) {
	if a.capacity <= 0 {
		return
	}
	a.mu.Lock()
	a.held += real - guessed
	a.grant()
	a.mu.Unlock()
}

// close lets every waiter go without a permit; so does every later request.
func (a *admission) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for front := a.waiters.Front(); front != nil; front = a.waiters.Front() {
		a.waiters.Remove(front)
		front.Value.(*waiter).outcome <- admitClosed
	}
}

// state returns the bytes held and the number of waiting requests.
func (a *admission) state() (held int64, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held, a.waiters.Len()
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - holdJitter + 2*holdJitter*rand.Float64()))
}
