package httpfront

import (
	"testing"

	"pgregory.net/rapid"
)

func drain(q *fairQueue) (order []int64) {
	for w := q.front(); w != nil; w = q.front() {
		order = append(order, w.bytes)
		q.take(w)
	}
	return order
}

func TestOneSourceIsFirstComeFirstServed(t *testing.T) {
	var q fairQueue
	for _, bytes := range []int64{1 << 20, 3, 5 << 20, 1} {
		q.push(&waiter{bytes: bytes})
	}
	if got := drain(&q); len(got) != 4 || got[0] != 1<<20 || got[1] != 3 || got[2] != 5<<20 || got[3] != 1 {
		t.Errorf("got %v", got)
	}
}

func TestSourcesTakeTurns(t *testing.T) {
	var q fairQueue
	// Source 0 floods, the others come later with little.
	for range 100 {
		q.push(&waiter{bytes: quantumBytes, source: 0})
	}
	for i := range int64(3) {
		q.push(&waiter{bytes: 1000 + i, source: 2})
		q.push(&waiter{bytes: 2000 + i, source: 3})
	}
	order := drain(&q)
	last := 0
	for at, bytes := range order {
		if bytes < quantumBytes {
			last = at
		}
	}
	if len(order) != 106 || last > 8 {
		t.Errorf("the small ones were through after %d of %d", last+1, len(order))
	}
}

// TestSourcesThatWaitGetAsManyBytesEach: the property of deficit round robin, over any sizes.
func TestSourcesThatWaitGetAsManyBytesEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := rapid.IntRange(2, 5).Draw(t, "sources")
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 4*quantumBytes), 200, 200).Draw(t, "sizes")
		var q fairQueue
		waits, got := make([]int, sources), make([]int64, sources)
		for i, bytes := range sizes {
			source := i % sources
			q.push(&waiter{bytes: bytes, source: uint64(source)})
			waits[source]++
		}
		for w := q.front(); w != nil; w = q.front() {
			if q.front() != w {
				t.Fatal("front changes by being asked")
			}
			q.take(w)
			got[w.source] += w.bytes
			if waits[w.source]--; waits[w.source] == 0 {
				return // from here on it does not wait
			}
			for a := range got {
				for b := range got {
					if got[a]-got[b] > 2*quantumBytes+4*quantumBytes {
						t.Fatalf("source %d got %d bytes, source %d got %d", a, got[a], b, got[b])
					}
				}
			}
		}
	})
}

// TestQueueAgainstAList: waiters are neither lost nor served twice, whatever is removed.
func TestQueueAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q fairQueue
		present := map[*waiter]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				w := &waiter{bytes: rapid.Int64Range(1, 1<<20).Draw(t, "bytes"), source: rapid.Uint64Range(0, 4).Draw(t, "source")}
				q.push(w)
				present[w] = true
			},
			"take": func(t *rapid.T) {
				w := q.front()
				if (w == nil) != (len(present) == 0) || w != nil && !present[w] {
					t.Fatalf("front is %v with %d waiters", w, len(present))
				}
				if w != nil {
					q.take(w)
					delete(present, w)
				}
			},
			"remove": func(*rapid.T) {
				for w := range present {
					q.remove(w)
					delete(present, w)
					return
				}
			},
			"": func(t *rapid.T) {
				if q.Len() != len(present) {
					t.Fatalf("%d waiters, want %d", q.Len(), len(present))
				}
			},
		})
	})
}
