package cursor

import (
	"encoding/binary"
	"fmt"
)

const (
	// maxHolds bounds the remembered holds. Begin merges terms with equal holds as soon as that changes nothing, so only
	// elections in quick succession or holds that keep changing fill it; then the oldest term is forgotten, and leases
	// that are older than sixteen such terms get the hold of the next one.
	maxHolds = 16
	// holdsVersion is the format of the row that Holds.AppendTo writes.
	holdsVersion = 1
)

// TermHold is how long leases of earlier terms are held past their expiry, as the first command of a term says.
type TermHold struct {
	Term       uint64
	HoldMicros uint64
	// PriorMicros is the greatest stamp applied before the first entry of the term. A lease that had ended by then is over
	// for good.
	PriorMicros uint64
}

// Holds lists the holds of the terms begun so far, oldest first (cluster 10). A lease gets one hold: that of the first
// term after the one in which it was granted or last extended, provided that it was still live in the time before that
// term. Taking the hold of the newest term instead, or giving it to any lease, would let a lease that has ended, and was
// refused, come back to life when a term begins.
type Holds []TermHold

// Begin returns the holds with one more term. It does not change its receiver. A term that is not above the last one
// changes nothing.
func (h Holds) Begin(begun TermHold) Holds {
	if n := len(h); n > 0 && h[n-1].Term >= begun.Term {
		return h
	}
	next := make(Holds, 0, len(h)+1)
	for i := range h {
		if i+1 < len(h) && h[i].mergesInto(h[i+1], begun.PriorMicros) {
			continue
		}
		next = append(next, h[i])
	}
	if len(next) == maxHolds {
		next = append(next[:0], next[1:]...)
	}
	return append(next, begun)
}

// mergesInto tells whether the next term holds every lease that may still be live as this term does: those that the next
// one would let go had ended, hold included, by now.
func (t TermHold) mergesInto(next TermHold, now uint64) bool {
	return t.HoldMicros == next.HoldMicros && saturatingAdd(next.PriorMicros, next.HoldMicros) <= now
}

// end returns when a lease ends that was granted or last extended in a term.
func (h Holds) end(granted, expiresMicros uint64) uint64 {
	for i := range h {
		if h[i].Term <= granted {
			continue
		}
		if expiresMicros <= h[i].PriorMicros {
			return expiresMicros
		}
		return saturatingAdd(expiresMicros, h[i].HoldMicros)
	}
	return expiresMicros
}

// AppendTo appends the stored form of the holds.
func (h Holds) AppendTo(dst []byte) []byte {
	dst = append(dst, holdsVersion)
	for i := range h {
		dst = binary.AppendUvarint(dst, h[i].Term)
		dst = binary.AppendUvarint(dst, h[i].HoldMicros)
		dst = binary.AppendUvarint(dst, h[i].PriorMicros)
	}
	return dst
}

// DecodeHolds reads what Holds.AppendTo has written.
func DecodeHolds(row []byte) (Holds, error) {
	if len(row) == 0 || row[0] != holdsVersion {
		return nil, fmt.Errorf("read head of %d bytes of holds: %w", len(row), ErrBadRow)
	}
	r := rowReader{rest: row[1:]}
	var holds Holds
	for len(r.rest) > 0 {
		hold := TermHold{Term: r.number(), HoldMicros: r.number(), PriorMicros: r.number()}
		if n := len(holds); n == maxHolds || n > 0 && holds[n-1].Term >= hold.Term {
			r.fail("order of holds")
		}
		holds = append(holds, hold)
	}
	if r.err != nil {
		return nil, r.err
	}
	return holds, nil
}
