package httpfront

import (
	"container/list"
	"slices"
)

// quantumBytes is what a source may take more each time its turn comes (cluster 11.1).
const quantumBytes = 256 << 10

// fairQueue holds those who wait for permits: the waiters of one source in the order of their arrival, the sources in turn, by
// deficit round robin. Over any time in which several sources wait, they get as many bytes each, give or take a quantum and
// the largest request; a source that is alone gets everything. It is a plain data structure: no clock, no lock.
type fairQueue struct {
	// sources are those with waiters, in the order in which they came; turn is whose turn it is.
	sources []*source
	turn    int
	waiting int
}

// source is where requests come from: this node's own clients, or another node.
type source struct {
	id      uint64
	waiters list.List
	// deficit is what the source may still take in its turn, begun tells that it has got its quantum for that.
	deficit int64
	begun   bool
}

// Len is the number of waiters.
func (q *fairQueue) Len() int { return q.waiting }

// push appends a waiter to those of its source.
func (q *fairQueue) push(w *waiter) {
	at := slices.IndexFunc(q.sources, func(s *source) bool { return s.id == w.source })
	if at < 0 {
		at = len(q.sources)
		q.sources = append(q.sources, &source{id: w.source})
	}
	w.place = q.sources[at].waiters.PushBack(w)
	q.waiting++
}

// front returns who is to be let in next; nil when nobody waits. It stays the same until that one is taken or removed, or its
// source was alone and is not any more.
func (q *fairQueue) front() *waiter {
	if q.waiting == 0 {
		return nil
	}
	for {
		s := q.sources[q.turn]
		first := s.waiters.Front().Value.(*waiter)
		if len(q.sources) == 1 {
			return first
		}
		if !s.begun {
			s.begun = true
			s.deficit += quantumBytes
		}
		if first.bytes <= s.deficit {
			return first
		}
		s.begun = false
		q.turn = (q.turn + 1) % len(q.sources)
	}
}

// take removes the waiter that front has returned, because it was let in.
func (q *fairQueue) take(w *waiter) {
	s := q.sources[q.turn]
	if s.deficit -= w.bytes; len(q.sources) == 1 {
		s.deficit, s.begun = 0, false // nobody was kept waiting
	}
	q.remove(w)
}

// remove takes a waiter out.
func (q *fairQueue) remove(w *waiter) {
	at := slices.IndexFunc(q.sources, func(s *source) bool { return s.id == w.source })
	s := q.sources[at]
	s.waiters.Remove(w.place)
	w.place = nil
	q.waiting--
	if s.waiters.Len() > 0 {
		return
	}
	// What a source has left is not kept for later.
	q.sources = slices.Delete(q.sources, at, at+1)
	if at < q.turn {
		q.turn--
	}
	if q.turn >= len(q.sources) {
		q.turn = 0
	}
}
