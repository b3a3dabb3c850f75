package cursor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// rowVersion is the format of the rows that AppendTo and SpillTo write. Other versions are refused.
const rowVersion = 1

// ErrBadRow is returned for bytes that are no row of this package.
var ErrBadRow = errors.New("not a cursor row")

// The optional parts of a row, in the order in which they stand.
const (
	partLease = 1 << iota
	partConflated
	partLeaseAttempt
	partLeaseAttemptStart
	partFailures
	partAttempt
	partAttemptStart
	partNotBefore
	partCeiling
	partUndo
	partUndoFailures
	partUndoAttempt
	partUndoAttemptStart
	partUndoCeiling
	partReleased
	partSpilled
)

func (s *State) parts() (parts uint16) {
	set := func(part uint16, present bool) {
		if present {
			parts |= part
		}
	}
	if s.Lease.ID != uuid.Nil {
		parts |= partLease
		set(partConflated, s.Lease.Conflated)
		set(partLeaseAttempt, s.Lease.Before.Count != 0)
		set(partLeaseAttemptStart, s.Lease.Before.HasStart)
	}
	set(partFailures, s.Failures != 0)
	set(partAttempt, s.Attempt != 0)
	set(partAttemptStart, s.HasAttemptStart)
	set(partNotBefore, s.NotBeforeMicros != 0)
	set(partCeiling, s.HasCeiling)
	if s.Undo.Valid {
		parts |= partUndo
		set(partUndoFailures, s.Undo.Failures != 0)
		set(partUndoAttempt, s.Undo.Attempts.Count != 0)
		set(partUndoAttemptStart, s.Undo.Attempts.HasStart)
		set(partUndoCeiling, s.Undo.HasCeiling)
	}
	if s.Released.Lease != uuid.Nil {
		parts |= partReleased
		set(partSpilled, s.Spilled())
	}
	return parts
}

// AppendTo appends the row of the state to dst. A row has at most about 800 bytes: when State.Spilled says so, the items
// of the last releasing call stand in a second row (SpillTo), which changes only when an ack releases a lease.
func (s State) AppendTo(dst []byte) []byte {
	parts := s.parts()
	dst = append(dst, rowVersion)
	dst = binary.LittleEndian.AppendUint16(dst, parts)
	dst = binary.AppendUvarint(dst, s.Cursor)
	dst = binary.AppendUvarint(dst, s.TotalConsumed)
	number := func(part uint16, value uint64) {
		if parts&part != 0 {
			dst = binary.AppendUvarint(dst, value)
		}
	}
	if parts&partLease != 0 {
		dst = append(dst, s.Lease.ID[:]...)
		dst = binary.AppendUvarint(dst, s.Lease.End)
		dst = binary.AppendUvarint(dst, s.Lease.ExpiresMicros)
		dst = binary.AppendUvarint(dst, s.Lease.GrantedTerm)
	}
	number(partLeaseAttempt, uint64(s.Lease.Before.Count))
	number(partLeaseAttemptStart, s.Lease.Before.Start)
	number(partFailures, uint64(s.Failures))
	number(partAttempt, uint64(s.Attempt))
	number(partAttemptStart, s.AttemptStart)
	number(partNotBefore, s.NotBeforeMicros)
	number(partCeiling, s.Ceiling)
	number(partUndo, s.Undo.First)
	number(partUndoFailures, uint64(s.Undo.Failures))
	number(partUndoAttempt, uint64(s.Undo.Attempts.Count))
	number(partUndoAttemptStart, s.Undo.Attempts.Start)
	number(partUndoCeiling, s.Undo.Ceiling)
	if parts&partReleased != 0 {
		dst = append(dst, s.Released.Lease[:]...)
		if parts&partSpilled == 0 {
			dst = append(dst, s.Released.runs...)
		}
	}
	return dst
}

// Spilled tells whether the items of the last releasing call stand in a row of their own. Compare it before and after an
// ack that releases a lease: true after means that SpillTo is to be stored, true only before that the row is to go.
func (s *State) Spilled() bool {
	return s.Released.spilled || len(s.Released.runs) > inlineReleasedBytes
}

// SpillTo appends the second row of a state that is Spilled.
func (s *State) SpillTo(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = append(dst, s.Released.Lease[:]...)
	return append(dst, s.Released.runs...)
}

// NeedsSpill tells whether an ack that names a lease can only be answered with the second row attached: Decode has read
// a row whose state is Spilled, and the lease is the one that the row remembers. The state still has to be asked
// whether the lease is live; it never is.
func (s *State) NeedsSpill(lease uuid.UUID) bool {
	return s.Released.spilled && lease == s.Released.Lease
}

// AttachSpill gives a decoded state the items of its second row. It keeps a copy of what it needs of row.
func (s *State) AttachSpill(row []byte) error {
	if !s.Released.spilled {
		return fmt.Errorf("attach released items to a row that has none: %w", ErrBadRow)
	}
	if len(row) < 1+len(uuid.UUID{}) || row[0] != rowVersion {
		return fmt.Errorf("read head of released items: %w", ErrBadRow)
	}
	lease, runs := row[1:1+len(uuid.UUID{})], row[1+len(uuid.UUID{}):]
	if uuid.UUID(lease) != s.Released.Lease {
		return fmt.Errorf("attach released items of another lease: %w", ErrBadRow)
	}
	if len(runs) <= inlineReleasedBytes {
		return fmt.Errorf("attach released items of %d bytes: %w", len(runs), ErrBadRow)
	}
	if err := checkRuns(runs); err != nil {
		return err
	}
	s.Released = Released{Lease: s.Released.Lease, runs: append([]byte(nil), runs...)}
	return nil
}

// Decode reads a row that AppendTo has written. It keeps nothing of row. It refuses every spelling that AppendTo would
// not choose, so that equal states have equal rows on every node.
func Decode(row []byte) (State, error) {
	var s State
	if len(row) < 3 || row[0] != rowVersion {
		return State{}, fmt.Errorf("read head of a row of %d bytes: %w", len(row), ErrBadRow)
	}
	parts := binary.LittleEndian.Uint16(row[1:])
	r := rowReader{rest: row[3:], parts: parts}
	s.Cursor = r.number()
	s.TotalConsumed = r.number()
	if parts&partLease != 0 {
		s.Lease.ID = r.id()
		s.Lease.End = r.number()
		s.Lease.ExpiresMicros = r.number()
		s.Lease.GrantedTerm = r.number()
	}
	s.Lease.Conflated = parts&partConflated != 0
	s.Lease.Before.Count = r.count(partLeaseAttempt)
	s.Lease.Before.Start, s.Lease.Before.HasStart = r.optional(partLeaseAttemptStart)
	s.Failures = r.count(partFailures)
	s.Attempt = r.count(partAttempt)
	s.AttemptStart, s.HasAttemptStart = r.optional(partAttemptStart)
	s.NotBeforeMicros, _ = r.optional(partNotBefore)
	s.Ceiling, s.HasCeiling = r.optional(partCeiling)
	s.Undo.First, s.Undo.Valid = r.optional(partUndo)
	s.Undo.Failures = r.count(partUndoFailures)
	s.Undo.Attempts.Count = r.count(partUndoAttempt)
	s.Undo.Attempts.Start, s.Undo.Attempts.HasStart = r.optional(partUndoAttemptStart)
	s.Undo.Ceiling, s.Undo.HasCeiling = r.optional(partUndoCeiling)
	if parts&partReleased != 0 {
		s.Released.Lease = r.id()
		s.Released.spilled = parts&partSpilled != 0
		if r.err == nil && !s.Released.spilled {
			s.Released.runs, r.err = r.inlineRuns()
		}
	}
	if r.err == nil && (len(r.rest) != 0 || s.parts() != parts) {
		r.fail("end of row")
	}
	if r.err != nil {
		return State{}, r.err
	}
	return s, nil
}

// rowReader reads the fields of a row; after the first error it returns zeros.
type rowReader struct {
	rest  []byte
	parts uint16
	err   error
}

func (r *rowReader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("read %s: %w", what, ErrBadRow)
	}
	r.rest = nil
}

func (r *rowReader) number() uint64 {
	value, n := binary.Uvarint(r.rest)
	// A last byte of zero would be a longer spelling of the same number.
	if n <= 0 || (n > 1 && r.rest[n-1] == 0) {
		r.fail("number")
		return 0
	}
	r.rest = r.rest[n:]
	return value
}

func (r *rowReader) optional(part uint16) (value uint64, present bool) {
	if r.parts&part == 0 {
		return 0, false
	}
	return r.number(), true
}

func (r *rowReader) count(part uint16) uint32 {
	value, _ := r.optional(part)
	if value > math.MaxUint32 {
		r.fail("count")
		return 0
	}
	return uint32(value)
}

func (r *rowReader) id() (id uuid.UUID) {
	if len(r.rest) < len(id) {
		r.fail("id")
		return uuid.Nil
	}
	copy(id[:], r.rest)
	r.rest = r.rest[len(id):]
	return id
}

// inlineRuns takes the rest of the row as remembered items.
func (r *rowReader) inlineRuns() ([]byte, error) {
	runs := r.rest
	r.rest = nil
	if len(runs) > inlineReleasedBytes {
		return nil, fmt.Errorf("read %d bytes of released items: %w", len(runs), ErrBadRow)
	}
	if err := checkRuns(runs); err != nil {
		return nil, err
	}
	return append([]byte(nil), runs...), nil
}

// checkRuns makes sure that remembered items can be visited, are within the bound and are spelled as remember spells
// them.
func checkRuns(runs []byte) error {
	items := 0
	previous := -1
	for rest := runs; len(rest) > 0; {
		if len(rest) < runHead {
			return fmt.Errorf("read head of released items: %w", ErrBadRow)
		}
		count := int(binary.LittleEndian.Uint16(rest[1:]))
		if count == 0 || int(rest[0]) == previous || !knownOutcome(rest[0]) {
			return fmt.Errorf("read run of %d released items: %w", count, ErrBadRow)
		}
		previous = int(rest[0])
		items += count
		if rest = rest[runHead:]; count*tagBytes > len(rest) || items > MaxReleasedItems {
			return fmt.Errorf("read %d released items: %w", items, ErrBadRow)
		}
		rest = rest[count*tagBytes:]
	}
	return nil
}

func knownOutcome(outcome byte) bool {
	_, verdict := unpacked(outcome)
	return verdict.Error <= command.AckUnknownOutcome
}
