package timer

import (
	"fmt"
	"testing"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
)

// A client that schedules and cancels the timer that is due first must not make every call walk over all those that it has
// cancelled before.
func TestCancellingTheFirstTimerDoesNotLookForTheNext(t *testing.T) {
	for name, delay := range map[string]func(i int) int64{
		"ever later":   func(i int) int64 { return int64(1000+i) * millisecond },
		"ever earlier": func(i int) int64 { return int64(10_000-i) * millisecond },
	} {
		m := rowtest.NewMemory()
		r := newRig(t, m)
		r.call(r.schedule("stays", 100*second))
		r.load()
		m.Scans = 0
		for i := range 3 * frontMost {
			key := fmt.Sprint(i)
			r.call(r.schedule(key, delay(i)))
			r.call(cancel(key))
		}
		if m.Scans > 1 {
			t.Errorf("%s: %d scans for %d cancelled timers", name, m.Scans, 3*frontMost)
		}
		if due, pending := r.next(); !pending || due <= r.now {
			t.Errorf("%s: next at %d, %v", name, due, pending)
		}
	}
}

func TestFiringLooksForTheNextPlacesNowAndThen(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	const stored = 3*frontMost + 7
	for first := 0; first < stored; first += 100 {
		var ops []command.TimerOp
		for i := first; i < min(first+100, stored); i++ {
			ops = append(ops, r.schedule(fmt.Sprint(i), int64(i+1)))
		}
		r.call(ops...)
	}
	r.load()
	r.now += second
	fired, rounds := 0, 0
	m.Scans = 0
	for planned := r.plan(); len(planned) > 0; planned = r.plan() {
		fired += len(r.fire(planned).Result.Timers)
		rounds++
	}
	if looks := m.Scans - rounds; fired != stored || looks > stored/frontMost+2 {
		t.Errorf("%d fired in %d rounds, %d looks for the next places", fired, rounds, looks)
	}
	if _, pending := r.next(); pending {
		t.Error("something is left")
	}
}

func TestAFrontKeepsNoMoreThanItsBound(t *testing.T) {
	f := newFront(place{})
	for i := range uint64(2 * frontMost) {
		f.add(place{dueMicros: 1_000_000 - i, number: i + 1})
	}
	if len(f.places) != frontMost || f.complete || f.reached != f.places[frontMost-1] || f.places[0].number != 2*frontMost {
		t.Errorf("%d places up to %+v", len(f.places), f.reached)
	}
	// What lies behind what is known is not taken in: there may be others in front of it.
	f.add(place{dueMicros: 1_000_000, number: 9999})
	f.remove(place{dueMicros: 1_000_000, number: 9999})
	if len(f.places) != frontMost {
		t.Errorf("%d places", len(f.places))
	}
}
