package timer

import (
	"cmp"
	"fmt"
	"slices"

	"queen/store/layout"
)

// place is where a pending timer stands in the order of firing.
type place struct {
	// dueMicros is the instant from which it may fire.
	dueMicros     uint64
	deliverMicros int64
	// number is that of its row; 0 is no place.
	number uint64
}

func (p place) key() []byte { return layout.TimerDue(p.dueMicros, p.deliverMicros, p.number) }

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.dueMicros, other.dueMicros), cmp.Compare(p.deliverMicros, other.deliverMicros),
		cmp.Compare(p.number, other.number))
}

func placeOf(key []byte) (p place, err error) {
	var ok bool
	if p.dueMicros, p.deliverMicros, p.number, ok = layout.SplitTimerDue(key); !ok {
		return p, fmt.Errorf("decode place of a timer of %d bytes: %w", len(key), ErrBadRow)
	}
	return p, nil
}

// frontMost bounds the places that are remembered: 24 KiB, and four fires of the usual size until the next look.
const frontMost = 1024

// front remembers the first places of the order, so that taking the first away does not mean to look for the next one in the
// store: in front of that may be the keys of any number of timers that are gone, and a client that schedules and cancels
// would walk across them with every call. It looks once in frontMost removals, and behind all that it has known.
type front struct {
	// places are in order. They are all pending ones up to reached, or all there are when complete.
	places   []place
	reached  place
	complete bool
	// most is how many are remembered: frontMost, less in tests.
	most int
}

// newFront knows the first place and nothing behind it.
func newFront(first place) front {
	if first.number == 0 {
		return front{complete: true, most: frontMost}
	}
	return front{places: []place{first}, reached: first, most: frontMost}
}

func (f *front) add(p place) {
	if !f.complete && p.compare(f.reached) > 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(f.places, p, place.compare)
	f.places = slices.Insert(f.places, at, p)
	if len(f.places) > f.most {
		f.places = f.places[:f.most]
		f.reached, f.complete = f.places[f.most-1], false
	}
}

func (f *front) remove(p place) {
	if at, found := slices.BinarySearchFunc(f.places, p, place.compare); found {
		f.places = slices.Delete(f.places, at, at+1)
	}
}

// first is the first place; that without a number when nothing is pending. It reads on when it has to: then r shows what has
// been added and removed.
func (f *front) first(r Reader) (place, error) {
	if len(f.places) == 0 && !f.complete {
		if err := f.read(r); err != nil {
			return place{}, err
		}
	}
	if len(f.places) == 0 {
		return place{}, nil
	}
	return f.places[0], nil
}

// read takes in the places behind those that were known.
func (f *front) read(r Reader) (err error) {
	scanned := r.Scan(layout.TimersDue(), append(f.reached.key(), 0), func(key, _ []byte) bool {
		var p place
		if p, err = placeOf(key); err != nil {
			return false
		}
		f.places = append(f.places, p)
		return len(f.places) < f.most
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list timers that are due next: %w", scanned)
	}
	if f.complete = len(f.places) < f.most; !f.complete {
		f.reached = f.places[f.most-1]
	}
	return err
}
