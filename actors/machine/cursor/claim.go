package cursor

import (
	"math"

	"github.com/google/uuid"
)

// NoCap is the MaxEnd of a claim that no payload limit ends.
const NoCap = math.MaxUint64

// Window says which part of the partition may be delivered at an instant (messaging 5.11, 15).
type Window struct {
	// LogStart is the lowest offset that may still be delivered: the log start, or the offset above it from which on
	// retention by age hides nothing.
	LogStart uint64
	// VisibleEnd is the first offset above the visible ones: the tail when nothing is hidden.
	VisibleEnd uint64
}

// ClaimInput is what a claim wants of one partition.
type ClaimInput struct {
	Window Window
	Holds  Holds
	// Max is the most messages to take. A conflating claim delivers one and ignores it.
	Max uint64
	// MaxEnd is the first offset that the payload limit of the call leaves out; NoCap when there is no limit. A
	// conflating claim takes all that is visible or nothing.
	MaxEnd uint64
	// Lease is the id that all partitions of the pop share; not used by a commit-on-delivery claim.
	Lease       uuid.UUID
	LeaseMicros uint64
	// Term is the term of the entry that carries the claim.
	Term             uint64
	CommitOnDelivery bool
	Conflating       bool
}

// ClaimOutput is a batch. Offsets are inclusive; of a conflating claim only Last is delivered.
type ClaimOutput struct {
	First   uint64
	Last    uint64
	Attempt uint32
}

// Deliverable returns the offsets from first to end (exclusive) that the group may claim now. ready is false when there
// are none, because nothing is visible, a lease is live or a retry delay runs (messaging 5.5.2).
func (s *State) Deliverable(now uint64, w Window, holds Holds) (first, end uint64, ready bool) {
	first = max(s.Cursor, w.LogStart)
	end = w.VisibleEnd
	if s.HasCeiling && first < s.Ceiling {
		end = min(end, s.Ceiling)
	}
	if first >= end || s.LeaseLive(now, holds) {
		return first, first, false
	}
	if first == s.Cursor && now < s.NotBeforeMicros {
		return first, first, false
	}
	return first, end, true
}

// Ready tells whether a claim would get a message now.
func (s *State) Ready(now uint64, w Window, holds Holds) bool {
	_, _, ready := s.Deliverable(now, w, holds)
	return ready
}

// BlockedUntil returns the instant from which neither the lease nor a retry delay keeps the partition from being ready;
// 0 when nothing does. The group is to be woken then (messaging 5.7).
func (s *State) BlockedUntil(holds Holds) (instantMicros uint64) {
	end, _ := s.LeaseEnd(holds)
	return max(end, s.NotBeforeMicros)
}

// Claim reserves a batch for the group (messaging 5.5, 17.1). ok is false, and nothing changes, when the partition is not
// ready or the limits leave no message.
func (s *State) Claim(now uint64, in ClaimInput) (out ClaimOutput, ok bool) {
	first, end, ready := s.Deliverable(now, in.Window, in.Holds)
	if !ready || (in.Lease == uuid.Nil && !in.CommitOnDelivery) {
		return ClaimOutput{}, false
	}
	if in.Conflating && in.MaxEnd < end {
		return ClaimOutput{}, false
	}
	if !in.Conflating {
		end = min(end, in.MaxEnd, saturatingAdd(first, in.Max))
		if end <= first {
			return ClaimOutput{}, false
		}
	}
	s.resume(first)
	s.NotBeforeMicros = 0
	before := s.attempts()
	if in.CommitOnDelivery {
		s.commitDelivery(first, end, before)
		return ClaimOutput{First: first, Last: end - 1, Attempt: 1}, true
	}
	if s.HasAttemptStart && s.AttemptStart == first {
		s.Attempt = increment(s.Attempt)
	} else {
		s.Attempt = 1
	}
	s.AttemptStart, s.HasAttemptStart = first, true
	s.Lease = Lease{
		ID:            in.Lease,
		End:           end - 1,
		ExpiresMicros: saturatingAdd(now, in.LeaseMicros),
		GrantedTerm:   in.Term,
		Conflated:     in.Conflating,
		Before:        before,
	}
	return ClaimOutput{First: first, Last: end - 1, Attempt: s.Attempt}, true
}

// commitDelivery moves the cursor past a batch in the claim itself (messaging 5.6).
func (s *State) commitDelivery(first, end uint64, before Attempts) {
	undo := Undo{
		Valid:      true,
		First:      first,
		Failures:   s.Failures,
		Attempts:   before,
		Ceiling:    s.Ceiling,
		HasCeiling: s.HasCeiling,
	}
	s.TotalConsumed += end - first
	s.move(end)
	s.clearAttempts()
	s.Lease = Lease{}
	s.Undo = undo
}

// UndoClaim hands back a leased claim that nobody received: the lease is released and the attempt taken back (messaging
// 5.5.9). It returns false, and changes nothing, when the row holds another lease or none.
func (s *State) UndoClaim(lease uuid.UUID) bool {
	if lease == uuid.Nil || s.Lease.ID != lease {
		return false
	}
	s.setAttempts(s.Lease.Before)
	s.Lease = Lease{}
	return true
}

// UndoDelivery takes back a commit-on-delivery claim of the offsets first to last that nobody received (messaging 5.5.9).
// It returns false, and changes nothing, when the group has moved on: the cursor does not stand where the claim left it,
// was put there by something else, or somebody works on what follows. An expired lease on what follows is dropped.
func (s *State) UndoDelivery(now, first, last uint64, holds Holds) bool {
	if !s.Undo.Valid || s.Undo.First != first || s.Cursor == 0 || s.Cursor-1 != last || s.LeaseLive(now, holds) {
		return false
	}
	undo := s.Undo
	s.TotalConsumed -= s.Cursor - first
	s.move(first)
	s.Lease = Lease{}
	s.Failures = undo.Failures
	s.setAttempts(undo.Attempts)
	if undo.HasCeiling {
		s.Ceiling, s.HasCeiling = undo.Ceiling, true
	}
	return true
}
