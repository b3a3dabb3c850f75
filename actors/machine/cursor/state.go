package cursor

import (
	"math"

	"github.com/google/uuid"
)

// State is the durable row of one (partition, group), messaging 17.1. The zero value is a group that starts at offset 0.
type State struct {
	// Cursor is the offset of the next message to deliver; everything below it is committed for the group.
	Cursor uint64
	// Lease is the last claim that was neither released nor replaced; it may have expired.
	Lease Lease
	// Failures counts the charged failures at the cursor.
	Failures uint32
	// Attempt is the deliveryAttempt of the last claim; it counts while claims begin at AttemptStart.
	Attempt         uint32
	AttemptStart    uint64
	HasAttemptStart bool
	// NotBeforeMicros ends a retry delay (messaging 9.3); 0 when there is none.
	NotBeforeMicros uint64
	// Ceiling is the offset that claims stay below until the cursor reaches it (messaging 6.5, exhausted budget).
	Ceiling    uint64
	HasCeiling bool
	// Undo remembers the last commit-on-delivery claim until the cursor moves again.
	Undo Undo
	// Released is the memory of the repeat rule (messaging 6.4.2).
	Released Released
	// TotalConsumed counts the messages that acks and commit-on-delivery claims have passed (messaging 10.3). Seeks and
	// retention do not count.
	TotalConsumed uint64
}

// Lease is a time-limited hold on the offsets from the cursor to End. The zero value is no lease.
type Lease struct {
	ID uuid.UUID
	// End is the last offset of the batch.
	End uint64
	// ExpiresMicros is when the lease ends, before the hold of a later term (cluster 10).
	ExpiresMicros uint64
	// GrantedTerm is the term in which the lease was granted or last prolonged.
	GrantedTerm uint64
	// Conflated marks a lease of a conflating group: only End was delivered, the older messages count as mentioned.
	Conflated bool
	// Before is the attempt counter as it stood before the claim, for the hand-back (messaging 5.5.9).
	Before Attempts
}

// Attempts is the attempt counter of a group at one position.
type Attempts struct {
	Count    uint32
	Start    uint64
	HasStart bool
}

// Undo is what a commit-on-delivery claim changed, so that it can be taken back whole (messaging 5.5.9). The claim ended
// at State.Cursor.
type Undo struct {
	// Valid tells whether there is such a claim.
	Valid bool
	// First is the first offset of the claim.
	First      uint64
	Failures   uint32
	Attempts   Attempts
	Ceiling    uint64
	HasCeiling bool
}

// New returns the state of a group whose first message is at offset cursor (messaging 5.8, 10.5).
func New(cursor uint64) State { return State{Cursor: cursor} }

// Seek puts the cursor to an offset, releases the lease and forgets attempts, failures and a retry delay. It serves seeks
// (messaging 10.5) and position writes (8.1).
func (s *State) Seek(offset uint64) {
	s.move(offset)
	s.Lease = Lease{}
	s.clearAttempts()
}

// move is the only place that changes the cursor of a state in use (messaging 17.1).
func (s *State) move(offset uint64) {
	s.Cursor = offset
	s.Failures = 0
	s.NotBeforeMicros = 0
	s.Undo = Undo{}
	if s.HasCeiling && offset >= s.Ceiling {
		s.Ceiling, s.HasCeiling = 0, false
	}
}

// resume takes a cursor that retention has overtaken to the log start; failures charged below it are forgotten with it.
func (s *State) resume(logStart uint64) {
	if s.Cursor < logStart {
		s.move(logStart)
	}
}

func (s *State) attempts() Attempts {
	return Attempts{Count: s.Attempt, Start: s.AttemptStart, HasStart: s.HasAttemptStart}
}

func (s *State) setAttempts(a Attempts) {
	s.Attempt, s.AttemptStart, s.HasAttemptStart = a.Count, a.Start, a.HasStart
}

func (s *State) clearAttempts() { s.setAttempts(Attempts{}) }

// saturatingAdd adds to an instant or an offset and stays at the largest number when the sum does not fit.
func saturatingAdd(a, b uint64) uint64 {
	if b > math.MaxUint64-a {
		return math.MaxUint64
	}
	return a + b
}

// increment counts on and stays at the largest number.
func increment(count uint32) uint32 {
	if count == math.MaxUint32 {
		return count
	}
	return count + 1
}
