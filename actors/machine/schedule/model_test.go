package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive is a schedule as the package comment describes it: a map of what is known, looked through from end to end.
type naive struct {
	known map[uint64]*naiveSlot
	turn  int
	// scanning and dropped are what a scan must not bring back.
	scanning bool
	dropped  map[uint64]bool
}

func (n *naive) drop(partition uint64) {
	delete(n.known, partition)
	if n.scanning {
		n.dropped[partition] = true
	}
}

type naiveSlot struct {
	state   string // ready, held, reserved
	byLease bool
	again   bool
	until   uint64 // of one that is or was ready: since when
	turn    int
}

func (n *naive) put(partition, until, now uint64, byLease bool) {
	if until > now {
		n.known[partition] = &naiveSlot{state: "held", byLease: byLease, until: until}
		return
	}
	n.turn++
	n.known[partition] = &naiveSlot{state: "ready", turn: n.turn, until: now}
}

func (n *naive) state(partition uint64) string {
	if slot := n.known[partition]; slot != nil {
		return slot.state
	}
	return "absent"
}

// ready lists the ready partitions, longest ready first.
func (n *naive) ready() (list []uint64) {
	for partition, slot := range n.known {
		if slot.state == "ready" {
			list = append(list, partition)
		}
	}
	slices.SortFunc(list, func(a, b uint64) int { return cmp.Compare(n.known[a].turn, n.known[b].turn) })
	return list
}

func (n *naive) appended(partition, visible, now uint64, quiet bool) {
	slot := n.known[partition]
	switch {
	case slot == nil:
		n.put(partition, visible, now, false)
	case slot.state == "reserved":
		slot.again = true
	case quiet && slot.state == "ready" && visible > now:
		n.put(partition, visible, now, false)
	case quiet && slot.state == "held" && !slot.byLease && visible > slot.until:
		n.put(partition, visible, now, false)
	}
}

func (n *naive) missed(partition, next, now uint64, byLease bool) {
	slot := n.known[partition]
	switch {
	case next != 0:
		n.put(partition, next, now, byLease)
	case slot != nil && slot.state == "reserved" && slot.again:
		n.put(partition, now, now, false)
	default:
		n.drop(partition)
	}
}

func (n *naive) released(partition uint64, backlog bool, notBefore, now uint64) {
	switch {
	case !backlog:
		n.drop(partition)
	case n.state(partition) == "ready" && notBefore <= now:
	default:
		n.put(partition, notBefore, now, false)
	}
}

func (n *naive) reserve(partition uint64) {
	was := naiveSlot{}
	if slot := n.known[partition]; slot != nil {
		was = *slot
	}
	n.known[partition] = &naiveSlot{state: "reserved", turn: was.turn, until: was.until}
}

// returned gives a partition that was ready its turn back.
func (n *naive) returned(partition, now uint64) {
	switch slot := n.known[partition]; {
	case n.state(partition) != "reserved":
	case slot.turn == 0:
		n.put(partition, now, now, false)
	default:
		slot.state, slot.again = "ready", false
	}
}

func (n *naive) wake(now uint64) (next uint64) {
	var due []uint64
	for partition, slot := range n.known {
		switch {
		case slot.state != "held":
		case slot.until <= now:
			due = append(due, partition)
		case next == 0 || slot.until < next:
			next = slot.until
		}
	}
	slices.SortFunc(due, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(n.known[a].until, n.known[b].until), cmp.Compare(a, b))
	})
	for _, partition := range due {
		n.put(partition, now, now, false)
	}
	return next
}

// TestScheduleAgreesWithNaiveModel runs random calls against both.
func TestScheduleAgreesWithNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := New(), &naive{known: map[uint64]*naiveSlot{}, dropped: map[uint64]bool{}}
		now, mostReady, mostKnown := uint64(1000), 0, 0
		partition := rapid.Uint64Range(1, 12)
		ahead := rapid.Custom(func(t *rapid.T) uint64 {
			return rapid.SampledFrom([]uint64{0, 0, 1, 5, 20, 100}).Draw(t, "ahead")
		})
		for range rapid.IntRange(1, 120).Draw(t, "calls") {
			now += rapid.Uint64Range(0, 10).Draw(t, "passes")
			p, until := partition.Draw(t, "partition"), now+ahead.Draw(t, "until")
			flag := rapid.Bool().Draw(t, "flag")
			before := n.ready()
			call := rapid.IntRange(0, 13).Draw(t, "call")
			switch call {
			case 0:
				s.Appended(p, until, now, flag)
				n.appended(p, until, now, flag)
			case 1:
				s.Found(p, until, now, flag)
				if n.known[p] == nil && !n.dropped[p] {
					n.put(p, until, now, flag)
				}
			case 2:
				s.Claimed(p, until, now)
				n.put(p, until, now, true)
			case 3:
				if flag {
					until = 0
				}
				s.Missed(p, until, now, until > now)
				n.missed(p, until, now, until > now)
			case 4:
				s.Released(p, flag, until, now)
				n.released(p, flag, until, now)
			case 5:
				s.Drop(p)
				n.drop(p)
			case 6, 7:
				limit := rapid.IntRange(0, 4).Draw(t, "limit")
				want := n.ready()
				want = want[:min(limit, len(want))]
				for _, taken := range want {
					n.reserve(taken)
				}
				if got := s.Take(limit); !slices.Equal(got, want) {
					t.Fatalf("Take(%d) = %v, want %v", limit, got, want)
				}
			case 8:
				want := n.state(p) == "ready"
				if want {
					n.reserve(p)
				}
				if got := s.TakeOne(p); got != want {
					t.Fatalf("TakeOne(%d) = %t", p, got)
				}
			case 9:
				want := n.state(p) == "ready" || n.state(p) == "absent"
				if want {
					n.reserve(p)
				}
				if got := s.Reserve(p); got != want {
					t.Fatalf("Reserve(%d) = %t", p, got)
				}
			case 10:
				s.Return(p, now)
				n.returned(p, now)
			case 11:
				if want, got := n.wake(now), s.Wake(now); got != want {
					t.Fatalf("Wake(%d) = %d, want %d", now, got, want)
				}
			case 12:
				s.ScanBegins()
				n.scanning = true
			case 13:
				s.ScanEnded()
				n.scanning = false
				clear(n.dropped)
			}
			mostReady, mostKnown = max(mostReady, len(n.ready())), max(mostKnown, len(n.known))
			agree(t, s, n, mostReady, mostKnown)
			checkFresh(t, s, n, before)
		}
		// Whatever is left is delivered in the order in which it became ready.
		want := n.ready()
		if got := s.Take(len(want) + 1); !slices.Equal(got, want) {
			t.Fatalf("the rest is %v, want %v", got, want)
		}
	})
}

// agree compares all that both know, and checks that superseded entries stay few.
func agree(t *rapid.T, s *Schedule, n *naive, mostReady, mostKnown int) {
	var since []uint64
	for _, partition := range n.ready() {
		since = append(since, n.known[partition].until)
	}
	for limit := range len(since) + 2 {
		if got := s.ReadySince(nil, limit); !slices.Equal(got, since[:min(limit, len(since))]) {
			t.Fatalf("ready since %v, want %v up to %d", got, since, limit)
		}
	}
	if s.ReadyCount() != len(n.ready()) || s.Len() != len(n.known) {
		t.Fatalf("%d ready of %d, want %d of %d", s.ReadyCount(), s.Len(), len(n.ready()), len(n.known))
	}
	for partition, want := range n.known {
		got := s.slots[partition]
		names := map[state]string{ready: "ready", held: "held", reserved: "reserved"}
		if got == nil || names[got.state] != want.state || got.state == held && (got.untilMicros != want.until || got.byLease != want.byLease) {
			t.Fatalf("partition %d is %+v, want %+v", partition, got, want)
		}
	}
	longest := max(len(s.line.queue), len(s.line.returned))
	if longest > max(64, compactAfter*(mostReady+1)) || len(s.wakeup) > max(64, compactAfter*(mostKnown+1)) {
		t.Fatalf("%d and %d entries for %d partitions", longest, len(s.wakeup), mostKnown)
	}
}

// checkFresh demands that everything that has become ready is reported; some of what is reported may be gone again.
func checkFresh(t *rapid.T, s *Schedule, n *naive, before []uint64) {
	fresh := slices.Clone(s.Fresh())
	for _, partition := range n.ready() {
		if !slices.Contains(before, partition) && !slices.Contains(fresh, partition) {
			t.Fatalf("partition %d became ready and is not in %v", partition, fresh)
		}
	}
	if again := s.Fresh(); len(again) != 0 {
		t.Fatalf("%v is reported twice", again)
	}
}

// TestReconsiderEndsDelaysOnly: a change of options does not end a lease.
func TestReconsiderEndsDelaysOnly(t *testing.T) {
	s := New()
	s.Appended(1, 500, 100, false)
	s.Claimed(2, 500, 100)
	s.Appended(3, 0, 100, false)
	s.Reserve(4)
	s.Reconsider(100)
	ready := s.Take(10)
	slices.Sort(ready)
	if !slices.Equal(ready, []uint64{1, 3}) {
		t.Errorf("ready are %v", ready)
	}
}

// TestScheduleForgetsSupersededEntries keeps one partition busy for long: the queues must not grow.
func TestScheduleForgetsSupersededEntries(t *testing.T) {
	s := New()
	for now := uint64(1); now < 20_000; now++ {
		s.Claimed(1, now+1000, now)
		s.Claimed(1, now+1000, now)
		s.Released(1, true, 0, now)
		s.TakeOne(1)
		s.Return(1, now)
		s.TakeOne(1)
	}
	if len(s.line.queue) > 64 || len(s.line.returned) > 64 || len(s.wakeup) > 64 {
		t.Errorf("%d turns and %d wake-ups for one partition", len(s.line.queue), len(s.wakeup))
	}
}

// TestManyPartitionsAreDeliveredInTurn: longest ready first, also when turns are given up in between.
func TestManyPartitionsAreDeliveredInTurn(t *testing.T) {
	s := New()
	const partitions = 10_000
	for p := uint64(0); p < partitions; p++ {
		s.Appended(p, 0, 1, false)
	}
	want := map[uint64]bool{}
	for p := uint64(0); p < partitions; p += 3 {
		s.TakeOne(p)
		want[p] = true
	}
	previous := uint64(0)
	for {
		taken := s.Take(7)
		if len(taken) == 0 {
			break
		}
		for _, p := range taken {
			if p <= previous || want[p] {
				t.Fatalf("partition %d came after %d", p, previous)
			}
			previous, want[p] = p, true
		}
	}
	if len(want) != partitions {
		t.Errorf("%d of %d were delivered, such as %v", len(want), partitions, fmt.Sprint(slices.Sorted(maps.Keys(want))[:3]))
	}
}

func BenchmarkAppendClaimRelease(b *testing.B) {
	s := New()
	const partitions = 1000
	for i := 0; b.Loop(); i++ {
		p, now := uint64(i%partitions), uint64(i)
		s.Appended(p, 0, now, false)
		for _, taken := range s.Take(1) {
			s.Claimed(taken, now+60_000_000, now)
			s.Released(taken, false, 0, now)
		}
		s.Wake(now)
		s.Fresh()
	}
}
