package bench

import (
	"slices"
	"sync"
	"sync/atomic"
)

// ledger follows every message of a run from push to ack and counts what must not happen. Consumers and producers call it
// from their own goroutines.
//
// A message is delivered again rightly only when its ack is refused or its lease has run out at the client. Everything else
// that comes twice is a duplicate: a second copy in the log, a second holder of one lease, a message that came back after
// its ack.
type ledger struct {
	lanes   []laneState
	leaseUs int64
	// ordered is off for commit on delivery: without leases two consumers may hold neighbouring batches of a partition, and
	// which of the two answers arrives first says nothing.
	ordered bool

	acked       atomic.Int64 // distinct messages with a confirmed ack
	duplicates  atomic.Int64
	outOfOrder  atomic.Int64
	misplaced   atomic.Int64 // delivered from another partition than pushed to
	altered     atomic.Int64 // payload without the identity it was pushed with
	redelivered atomic.Int64
	foreign     atomic.Int64 // messages of other runs in the same queue
}

// laneState is the ledger of one lane, about 100 bytes, because there may be a million.
type laneState struct {
	mutex     sync.Mutex
	delivered sequenceSet
	acked     sequenceSet
	// claims holds what was delivered and is not acked yet, oldest claim first; as many as there are unsettled pops.
	claims []claimRange
	// suspects holds messages that came again while an older claim held them; the verdict on its ack decides. Nil almost always.
	suspects []suspect
	// returned holds delivered messages whose ack was refused; they come back. Nil almost always.
	returned map[uint32]struct{}
}

// claim is one answered pop.
type claim struct {
	number uint64
	// sentUs is when the pop was sent. The lease cannot end before sentUs plus its length, since it began later.
	sentUs int64
}

// suspect is a message that two claims hold at the same time.
type suspect struct {
	sequence uint32
	older    uint64 // number of the claim that had it first
}

// claimRange is what one claim took from a lane: the numbers from first up to, and not including, end.
type claimRange struct {
	claim
	first, end uint32
}

func newLedger(lanes int, options Options) *ledger {
	return &ledger{lanes: make([]laneState, lanes), leaseUs: int64(options.LeaseSeconds) * 1e6, ordered: !options.AutoAck}
}

// deliver records that a claim, answered at nowUs, delivered a message. It returns false when the message cannot be of
// this run, because its lane does not exist.
func (l *ledger) deliver(id identity, by claim, nowUs int64) bool {
	if int(id.lane) >= len(l.lanes) {
		return false
	}
	lane := &l.lanes[id.lane]
	lane.mutex.Lock()
	defer lane.mutex.Unlock()
	_, returned := lane.returned[id.sequence]
	switch {
	case lane.acked.has(id.sequence):
		l.duplicates.Add(1)
		return true
	case returned:
		delete(lane.returned, id.sequence)
		l.redelivered.Add(1)
	case lane.delivered.has(id.sequence):
		older, held := lane.holder(id.sequence)
		switch {
		case !held || older.number == by.number:
			l.duplicates.Add(1)
			return true
		case older.sentUs <= nowUs-l.leaseUs:
			l.redelivered.Add(1)
		default:
			// Its ack may have been refused with the answer still on the way.
			lane.suspects = append(lane.suspects, suspect{sequence: id.sequence, older: older.number})
		}
	default:
		if l.ordered && id.sequence != lane.delivered.next {
			l.outOfOrder.Add(1)
		}
		lane.delivered.add(id.sequence)
	}
	lane.hold(id.sequence, by)
	return true
}

// holder returns the newest unsettled claim on a message.
func (lane *laneState) holder(sequence uint32) (claim, bool) {
	for i := len(lane.claims) - 1; i >= 0; i-- {
		if held := lane.claims[i]; sequence >= held.first && sequence < held.end {
			return held.claim, true
		}
	}
	return claim{}, false
}

// hold notes the claim that delivered a message.
func (lane *laneState) hold(sequence uint32, by claim) {
	if last := len(lane.claims) - 1; last >= 0 && lane.claims[last].number == by.number && lane.claims[last].end == sequence {
		lane.claims[last].end++
		return
	}
	lane.claims = append(lane.claims, claimRange{claim: by, first: sequence, end: sequence + 1})
}

// forgetSettled drops the claims of which everything is acked.
func (lane *laneState) forgetSettled() {
	settled := 0
	for settled < len(lane.claims) && lane.claims[settled].end <= lane.acked.next {
		settled++
	}
	if settled > 0 {
		lane.claims = lane.claims[:copy(lane.claims, lane.claims[settled:])]
	}
}

// settle records the verdict on the ack of a message under the claim with that number.
func (l *ledger) settle(id identity, by uint64, acked bool) {
	lane := &l.lanes[id.lane]
	lane.mutex.Lock()
	defer lane.mutex.Unlock()
	cameAgain := l.resolveSuspects(lane, id.sequence, by, acked)
	switch {
	case lane.acked.has(id.sequence):
		// Settled under another claim.
	case acked:
		lane.acked.add(id.sequence)
		l.acked.Add(1)
		lane.forgetSettled()
	case !cameAgain:
		if lane.returned == nil {
			lane.returned = map[uint32]struct{}{}
		}
		lane.returned[id.sequence] = struct{}{}
	}
}

// resolveSuspects judges what came again while the claim with that number held it, and tells whether there was any.
func (l *ledger) resolveSuspects(lane *laneState, sequence uint32, by uint64, acked bool) bool {
	before := len(lane.suspects)
	lane.suspects = slices.DeleteFunc(lane.suspects, func(s suspect) bool { return s.sequence == sequence && s.older == by })
	came := int64(before - len(lane.suspects))
	if acked {
		l.duplicates.Add(came)
	} else {
		l.redelivered.Add(came)
	}
	return came > 0
}

// unresolved counts messages that two claims held until the end.
func (l *ledger) unresolved() int64 {
	var sum int64
	for i := range l.lanes {
		lane := &l.lanes[i]
		lane.mutex.Lock()
		sum += int64(len(lane.suspects))
		lane.mutex.Unlock()
	}
	return sum
}

// exclude takes a number out of the account that the broker said it has not stored: nobody waits for it.
func (l *ledger) exclude(id identity) {
	lane := &l.lanes[id.lane]
	lane.mutex.Lock()
	defer lane.mutex.Unlock()
	lane.delivered.add(id.sequence)
	lane.acked.add(id.sequence)
}

// hasAck tells whether a message has a confirmed ack.
func (l *ledger) hasAck(id identity) bool {
	lane := &l.lanes[id.lane]
	lane.mutex.Lock()
	defer lane.mutex.Unlock()
	return lane.acked.has(id.sequence)
}

// sequenceSet is a set of numbers that is dense from 0: everything below next, and the few in early.
type sequenceSet struct {
	next  uint32
	early map[uint32]struct{}
}

func (s *sequenceSet) has(number uint32) bool {
	if number < s.next {
		return true
	}
	_, found := s.early[number]
	return found
}

func (s *sequenceSet) add(number uint32) {
	if number != s.next {
		if number > s.next {
			if s.early == nil {
				s.early = map[uint32]struct{}{}
			}
			s.early[number] = struct{}{}
		}
		return
	}
	s.next++
	for len(s.early) > 0 {
		if _, found := s.early[s.next]; !found {
			return
		}
		delete(s.early, s.next)
		s.next++
	}
}
