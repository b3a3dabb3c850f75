// Package schedule is the leader's advisory memory of one consumer group: which partitions are worth a claim, in which
// order, and when the others will be. Nothing in it is state: the log decides whether a claim holds (architecture 6), so
// a wrong entry here costs one empty claim and a lost one costs a reload.
//
// A partition is in one of four states: absent (nothing to deliver), ready (in the queue of ready partitions), held (by a
// lease, a delay, a window buffer or a retry delay, until an instant) or reserved (offered to a pop whose claim is on its
// way).
package schedule

import (
	"cmp"
	"container/heap"
	"slices"
)

type state uint8

const (
	ready state = iota + 1
	held
	reserved
)

// slot is what is known of one partition.
type slot struct {
	state state
	// byLease tells a hold by a lease, which only a release or its expiry ends, from a hold by a delay.
	byLease bool
	// again remembers that messages arrived while the partition was reserved.
	again bool
	// untilMicros is the end of a hold; of a ready or reserved partition it is since when it has been ready.
	untilMicros uint64
	// turn is the position in the ready queue, kept while the partition is reserved; other turns in the queue are stale.
	turn uint64
}

type turn struct {
	partition uint64
	number    uint64
}

// line holds the ready partitions, longest ready first. A turn whose number is not its slot's is stale.
type line struct {
	queue []turn
	// returned are turns that were given back, in order: few, and most of them come before what is in queue.
	returned []turn
}

// pop takes the lowest turn out, which may be stale.
func (l *line) pop() (first turn, ok bool) {
	from := &l.queue
	switch {
	case len(l.queue)+len(l.returned) == 0:
		return turn{}, false
	case len(l.queue) == 0 || len(l.returned) > 0 && l.returned[0].number <= l.queue[0].number:
		from = &l.returned
	}
	first = (*from)[0]
	*from = (*from)[1:]
	return first, true
}

// putBack puts a turn where it was.
func (l *line) putBack(t turn) {
	at, present := slices.BinarySearchFunc(l.returned, t, func(a, b turn) int { return cmp.Compare(a.number, b.number) })
	if !present {
		l.returned = slices.Insert(l.returned, at, t)
	}
}

// Schedule belongs to one group actor. Times are Unix microseconds of leader time.
type Schedule struct {
	slots  map[uint64]*slot
	line   line
	next   uint64
	ready  int
	fresh  []uint64 // what has become ready since Fresh was asked
	wakeup wakeups
	// gone are the partitions that were dropped since a scan of the store began, nil while there is none: what the scan brings of them is
	// older. About 40 bytes each, for as long as the scan lasts.
	gone map[uint64]struct{}
}

// New returns an empty schedule.
func New() *Schedule { return &Schedule{slots: map[uint64]*slot{}} }

// ReadyCount is the number of partitions that wait for a pop.
func (s *Schedule) ReadyCount() int { return s.ready }

// Fresh returns the partitions that have become ready since it was called last. Some of them may not be any more.
func (s *Schedule) Fresh() []uint64 {
	fresh := s.fresh
	s.fresh = s.fresh[:0]
	return fresh
}

// Len is the number of partitions that the schedule remembers.
func (s *Schedule) Len() int { return len(s.slots) }

// Appended notes that messages were stored in a partition that become visible at an instant. quiet is set when the queue
// has a window buffer, so that every append moves the instant on.
func (s *Schedule) Appended(partition, visibleMicros, nowMicros uint64, quiet bool) {
	known := s.slots[partition]
	if known == nil {
		s.hold(partition, visibleMicros, nowMicros, false)
		return
	}
	switch known.state {
	case ready:
		if quiet && visibleMicros > nowMicros {
			s.hold(partition, visibleMicros, nowMicros, false)
		}
	case reserved:
		known.again = true
	case held:
		if !known.byLease && quiet && visibleMicros > known.untilMicros {
			s.hold(partition, visibleMicros, nowMicros, false)
		}
	}
}

// ScanBegins is called before a scan opens its view of the store: whatever happens from here on is newer than what it finds.
func (s *Schedule) ScanBegins() {
	if s.gone == nil {
		s.gone = map[uint64]struct{}{}
	}
}

// ScanEnded is called when a scan has brought everything, or has failed, and no other is under way.
func (s *Schedule) ScanEnded() { s.gone = nil }

// Found notes a partition that a scan of the store found worth a claim; what is known already wins. Without that a lease that was
// released in the meantime would hide what comes after it until the lease would have expired.
func (s *Schedule) Found(partition, visibleMicros, nowMicros uint64, byLease bool) {
	if _, gone := s.gone[partition]; !gone && s.slots[partition] == nil {
		s.hold(partition, visibleMicros, nowMicros, byLease)
	}
}

// Claimed notes that a lease now holds the partition until an instant.
func (s *Schedule) Claimed(partition, expiresMicros, nowMicros uint64) {
	s.hold(partition, expiresMicros, nowMicros, true)
}

// Missed notes that a claim got nothing: the partition is worth another look at nextMicros, or not at all when that is 0.
func (s *Schedule) Missed(partition, nextMicros, nowMicros uint64, byLease bool) {
	known := s.slots[partition]
	if nextMicros != 0 {
		s.hold(partition, nextMicros, nowMicros, byLease)
		return
	}
	if known != nil && known.state == reserved && known.again {
		s.hold(partition, nowMicros, nowMicros, false)
		return
	}
	s.Drop(partition)
}

// Released notes that nothing holds the partition any more. backlog tells whether messages are left for the group, and
// notBeforeMicros when the first of them may be delivered (0 for now).
func (s *Schedule) Released(partition uint64, backlog bool, notBeforeMicros, nowMicros uint64) {
	if !backlog {
		s.Drop(partition)
		return
	}
	if known := s.slots[partition]; known != nil && known.state == ready && notBeforeMicros <= nowMicros {
		return
	}
	s.hold(partition, notBeforeMicros, nowMicros, false)
}

// Drop forgets a partition.
func (s *Schedule) Drop(partition uint64) {
	if s.gone != nil {
		s.gone[partition] = struct{}{}
	}
	if known := s.slots[partition]; known != nil {
		if known.state == ready {
			s.ready--
		}
		delete(s.slots, partition)
	}
}

// Take reserves up to limit ready partitions, longest ready first.
func (s *Schedule) Take(limit int) []uint64 {
	var taken []uint64
	for len(taken) < limit {
		first, ok := s.line.pop()
		if !ok {
			break
		}
		if known := s.live(first); known != nil {
			s.reserve(known)
			taken = append(taken, first.partition)
		}
	}
	return taken
}

// live returns the slot whose turn it is, nil when the turn is stale.
func (s *Schedule) live(t turn) *slot {
	if known := s.slots[t.partition]; known != nil && known.state == ready && known.turn == t.number {
		return known
	}
	return nil
}

// ReadySince appends since when the partitions that Take would reserve have been ready, longest first.
func (s *Schedule) ReadySince(sinceMicros []uint64, limit int) []uint64 {
	rest, last := s.line, uint64(0) // a copy: nothing is taken
	for left := min(limit, s.ready); left > 0; {
		first, ok := rest.pop()
		if !ok {
			break
		}
		// A turn that was given back may stand in both parts of the line.
		if known := s.live(first); known != nil && first.number != last {
			sinceMicros = append(sinceMicros, known.untilMicros)
			last = first.number
			left--
		}
	}
	return sinceMicros
}

// TakeOne reserves one given partition if it is ready.
func (s *Schedule) TakeOne(partition uint64) bool {
	known := s.slots[partition]
	if known == nil || known.state != ready {
		return false
	}
	s.reserve(known)
	return true
}

// Reserve reserves a partition that nothing is known against: absent or ready. A push uses it to let a parked pop ride
// in its own entry.
func (s *Schedule) Reserve(partition uint64) bool {
	known := s.slots[partition]
	if known == nil {
		s.slots[partition] = &slot{state: reserved}
		return true
	}
	return s.TakeOne(partition)
}

// Return gives a reservation back that led to no claim: the partition has the turn again that it had.
func (s *Schedule) Return(partition, nowMicros uint64) {
	known := s.slots[partition]
	switch {
	case known == nil || known.state != reserved:
	case known.turn == 0: // it was absent before
		s.hold(partition, nowMicros, nowMicros, false)
	default:
		known.state, known.again = ready, false
		s.ready++
		s.fresh = append(s.fresh, partition)
		s.line.putBack(turn{partition, known.turn})
		s.compact()
	}
}

// Reconsider makes every partition that a delay holds ready: the options of the queue changed.
func (s *Schedule) Reconsider(nowMicros uint64) {
	var delayed []uint64
	for partition, known := range s.slots {
		if known.state == held && !known.byLease {
			delayed = append(delayed, partition)
		}
	}
	for _, partition := range delayed {
		s.hold(partition, nowMicros, nowMicros, false)
	}
}

// Wake makes ready what was held until now and returns the next instant at which there will be something to wake, 0 when
// there is none.
func (s *Schedule) Wake(nowMicros uint64) (nextMicros uint64) {
	for len(s.wakeup) > 0 {
		first := s.wakeup[0]
		known := s.slots[first.partition]
		if known == nil || known.state != held || known.untilMicros != first.atMicros {
			heap.Pop(&s.wakeup) // superseded
			continue
		}
		if first.atMicros > nowMicros {
			return first.atMicros
		}
		heap.Pop(&s.wakeup)
		s.hold(first.partition, nowMicros, nowMicros, false)
	}
	return 0
}

func (s *Schedule) reserve(known *slot) {
	s.ready--
	known.state = reserved
	known.again = false
}

// hold puts a partition into the held state, or into the ready queue when the instant has passed.
func (s *Schedule) hold(partition, untilMicros, nowMicros uint64, byLease bool) {
	known := s.slots[partition]
	if known == nil {
		known = &slot{}
		s.slots[partition] = known
	}
	if known.state == ready {
		s.ready--
	}
	known.again = false
	if untilMicros <= nowMicros {
		s.next++
		*known = slot{state: ready, turn: s.next, untilMicros: nowMicros}
		s.ready++
		s.line.queue = append(s.line.queue, turn{partition, s.next})
		s.fresh = append(s.fresh, partition)
		s.compact()
		return
	}
	known.state, known.byLease, known.untilMicros = held, byLease, untilMicros
	heap.Push(&s.wakeup, wakeup{atMicros: untilMicros, partition: partition})
	s.compactWakeups()
}

// compactAfter is how many stale entries per live one the two queues may carry before they are rebuilt.
const compactAfter = 4

func (s *Schedule) compact() {
	for _, turns := range []*[]turn{&s.line.queue, &s.line.returned} {
		if len(*turns) < 64 || len(*turns) < compactAfter*s.ready {
			continue
		}
		live := make([]turn, 0, s.ready)
		for _, t := range *turns {
			if s.live(t) != nil {
				live = append(live, t)
			}
		}
		*turns = live
	}
}

func (s *Schedule) compactWakeups() {
	if len(s.wakeup) < 64 || len(s.wakeup) < compactAfter*len(s.slots) {
		return
	}
	live := s.wakeup[:0]
	for _, w := range s.wakeup {
		if known := s.slots[w.partition]; known != nil && known.state == held && known.untilMicros == w.atMicros {
			live = append(live, w)
		}
	}
	s.wakeup = live
	heap.Init(&s.wakeup)
}

type wakeup struct {
	atMicros  uint64
	partition uint64
}

// wakeups is a heap of the ends of holds, earliest first.
type wakeups []wakeup

func (w wakeups) Len() int { return len(w) }
func (w wakeups) Less(i, j int) bool {
	if w[i].atMicros != w[j].atMicros {
		return w[i].atMicros < w[j].atMicros
	}
	return w[i].partition < w[j].partition
}
func (w wakeups) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *wakeups) Push(x any)   { *w = append(*w, x.(wakeup)) }
func (w *wakeups) Pop() any {
	old := *w
	last := old[len(old)-1]
	*w = old[:len(old)-1]
	return last
}
