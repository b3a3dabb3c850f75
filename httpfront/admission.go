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

// largeBodyBytes parts the bodies into two lanes: what is larger waits behind its like only, so that an ordinary push never
// stands behind an upload. largeShare of the budget is the most that large bodies hold together.
const (
	largeBodyBytes = 256 << 10
	largeShare     = 0.75
)

// admission hands out byte permits: a request holds as many bytes as its body has, from before the body is read until its
// answer is made. Requests without room wait in two queues, small bodies and large ones, each first come first served among the
// clients of a node (messaging 2.10, cluster 11.1). The leader lets the commands of other nodes in here as well.
type admission struct {
	// capacity is the budget in bytes; 0 turns admission off. largeCapacity is what large bodies may hold of it.
	capacity, largeCapacity int64
	hold                    time.Duration
	stats                   *admissionStats

	mu           sync.Mutex
	small, large lane
	closed       bool
}

// lane is one of the two queues. Of this node's own clients it holds at most one waiter per connection.
type lane struct {
	held    int64
	waiters fairQueue
}

// ownClients is the source of the requests of this node's clients; other sources are nodes, by their id.
const ownClients = 0

// waiter is a request that waits for room. answered is called once, with the lock held: it must not block.
type waiter struct {
	bytes    int64
	source   uint64
	answered func(admitOutcome)
	place    *list.Element
}

type admitOutcome uint8

const (
	admitGranted admitOutcome = iota
	admitRefused
	admitClosed
)

// lane returns the lane of a body.
func (a *admission) lane(bytes int64) *lane {
	if bytes > largeBodyBytes {
		return &a.large
	}
	return &a.small
}

// fits reports whether a body may be let in now. One larger than its share of the budget is admitted when nothing else
// holds a permit. mu is held.
func (a *admission) fits(bytes int64) bool {
	if a.small.held+a.large.held == 0 {
		return true
	}
	if a.lane(bytes) == &a.large {
		return a.large.held+bytes <= a.largeCapacity && a.small.held+a.large.held+bytes <= a.capacity
	}
	room := a.capacity - min(a.large.held, a.largeCapacity)
	if a.smallBlockLarge() {
		room = a.capacity - a.largeCapacity
	}
	return a.small.held+bytes <= room
}

// smallBlockLarge reports whether the next large body waits for nothing but small ones. These leave it its share then, or
// a steady stream of them would keep it out for ever. mu is held.
func (a *admission) smallBlockLarge() bool {
	front := a.large.waiters.front()
	return front != nil && a.large.held+front.bytes <= a.largeCapacity
}

// try takes a permit only if there is room at once.
func (a *admission) try(bytes int64) bool {
	if a.capacity <= 0 {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.take(bytes)
}

// take takes a permit if there is room and nobody waits in the lane. mu is held.
func (a *admission) take(bytes int64) bool {
	l := a.lane(bytes)
	if a.closed || l.waiters.Len() > 0 || !a.fits(bytes) {
		return false
	}
	l.held += bytes
	return true
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
	if a.take(bytes) {
		a.mu.Unlock()
		return admitGranted
	}
	if a.hold <= 0 {
		a.mu.Unlock()
		a.stats.refused.Inc()
		return admitRefused
	}
	outcomes := make(chan admitOutcome, 1)
	w := &waiter{bytes: bytes, source: ownClients, answered: func(outcome admitOutcome) { outcomes <- outcome }}
	a.lane(bytes).waiters.push(w)
	a.mu.Unlock()
	a.stats.waited.Inc()

	timer := time.NewTimer(jittered(a.hold))
	defer timer.Stop()
	select {
	case outcome := <-outcomes:
		return outcome
	case <-timer.C:
	}
	if a.giveUp(w) {
		a.stats.refused.Inc()
	}
	return <-outcomes
}

// acquireLater takes a permit for a request of another node. It never blocks: done is called once, at once or on a goroutine of
// its own, when there was room or none for as long as hold.
func (a *admission) acquireLater(source uint64, bytes int64, hold time.Duration, done func(admitOutcome)) {
	if a.capacity <= 0 {
		done(admitGranted)
		return
	}
	a.mu.Lock()
	outcome, decided := admitGranted, true
	switch {
	case a.closed:
		outcome = admitClosed
	case a.take(bytes):
	case hold <= 0:
		outcome = admitRefused
	default:
		decided = false
		w := &waiter{bytes: bytes, source: source}
		timer := time.AfterFunc(hold, func() { a.giveUp(w) })
		w.answered = func(outcome admitOutcome) {
			timer.Stop()
			go done(outcome) // ends with it
		}
		a.lane(bytes).waiters.push(w)
	}
	a.mu.Unlock()
	if decided {
		done(outcome)
	}
}

// giveUp refuses a waiter; false when it was answered just now.
func (a *admission) giveUp(w *waiter) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.place == nil {
		return false
	}
	a.lane(w.bytes).waiters.remove(w)
	w.answered(admitRefused)
	a.grant() // others may have waited behind this one
	return true
}

// grant lets waiters in from the front of both lanes for as long as they fit. Large ones come first: what they may take is
// theirs by their share, and it does not grow with their number. mu is held.
func (a *admission) grant() {
	for _, l := range []*lane{&a.large, &a.small} {
		for w := l.waiters.front(); w != nil && a.fits(w.bytes); w = l.waiters.front() {
			l.held += w.bytes
			l.waiters.take(w)
			w.answered(admitGranted)
		}
	}
}

// release gives a permit back.
func (a *admission) release(bytes int64) {
	if a.capacity <= 0 || bytes == 0 {
		return
	}
	a.mu.Lock()
	l := a.lane(bytes)
	l.held -= bytes
	if l.held < 0 {
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
	a.lane(guessed).held -= guessed
	a.lane(real).held += real
	a.grant()
	a.mu.Unlock()
}

// close lets every waiter go without a permit; so does every later request.
func (a *admission) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, l := range []*lane{&a.large, &a.small} {
		for w := l.waiters.front(); w != nil; w = l.waiters.front() {
			l.waiters.take(w)
			w.answered(admitClosed)
		}
	}
}

// state returns the bytes held and the number of waiting requests.
func (a *admission) state() (held int64, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.small.held + a.large.held, a.small.waiters.Len() + a.large.waiters.Len()
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - holdJitter + 2*holdJitter*rand.Float64()))
}
