package kv

import (
	"fmt"

	"queen/store/layout"
)

const (
	// sweepRows bounds the rows of one step, whatever it asks for, and with them the chunks that it releases.
	sweepRows = 1024
	// sweepKeys and sweepBytes are what removing a row writes at most: the row, its places in the order of expiry and in its
	// bucket.
	sweepKeys  = 3
	sweepBytes = 3 * (MaxPlaceBytes + 32)
	// countKeys and countBytes are what each row adds to the counts, which are written at the end of the step: those of its
	// namespace and its tenant.
	countKeys  = 2
	countBytes = 2 * (maxNamespaceBytes + 48)
	// counterBytes is what the counters of the group take with their key.
	counterBytes = 64
	// sweptLagMicros is how far the place where sweeps begin may fall behind while nothing expires. Behind it lie the keys
	// that were deleted before their time, by writes that replaced a row.
	sweptLagMicros = 60 * microsPerSecond
)

// SweepInput bounds one step.
type SweepInput struct {
	// NowMicros is the stamp of the command.
	NowMicros uint64
	MaxRows   int
	// Fits tells whether the entry has room for so much.
	Fits func(keys, bytes int) bool
}

// spentRow is a row that has expired.
type spentRow struct {
	instant  uint64
	key, row []byte
}

// Sweep removes rows that have expired, those first that expired first. more tells that some were left for another step.
func Sweep(r Reader, w Writer, in SweepInput) (removed int, more bool, err error) {
	x := &writing{w: w}
	if x.counters, err = readCounters(r); err != nil {
		return 0, false, err
	}
	before := x.counters
	due, left, err := spentRows(r, before.sweptMicros, in)
	if err != nil {
		return 0, false, err
	}
	for _, spent := range due {
		if !in.Fits(sweepKeys+countKeys*(removed+1)+1, sweepBytes+countBytes*(removed+1)+counterBytes) {
			left = &spent
			break
		}
		if err := x.sweep(r, spent); err != nil {
			return 0, false, fmt.Errorf("sweep row %x: %w", spent.row, err)
		}
		removed++
	}
	if x.counters.sweptMicros = in.NowMicros + 1; left != nil {
		x.counters.sweptMicros = left.instant
	}
	x.counters.sweptMicros = max(x.counters.sweptMicros, before.sweptMicros)
	if x.counters == before {
		return 0, left != nil, nil
	}
	return removed, left != nil, x.account.write(r, w)
}

// spentRows lists the rows that go in a step; left is the first that has to wait for the next one, nil when there is none.
func spentRows(r Reader, fromMicros uint64, in SweepInput) (due []spentRow, left *spentRow, err error) {
	scanned := r.Scan([]byte{layout.FamilyKVExpiry}, layout.KVExpiryFrom(fromMicros), func(key, _ []byte) bool {
		instant, row, ok := layout.KVIndexed(key)
		if !ok {
			err = fmt.Errorf("read expiry %x: %w", key, ErrBadRow)
			return false
		}
		if instant > in.NowMicros {
			return false
		}
		spent := spentRow{instant, append([]byte(nil), key...), row}
		if len(due) == min(in.MaxRows, sweepRows) {
			left = &spent
			return false
		}
		due = append(due, spent)
		return true
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list rows that have expired: %w", scanned)
	}
	return due, left, err
}

func (x *writing) sweep(r Reader, spent spentRow) error {
	value, err := r.Get(spent.row)
	if err != nil {
		return err
	}
	tenant, namespace, key, ok := layout.KVPlace(spent.row)
	if !ok || value == nil {
		return fmt.Errorf("find row of an expiry: %w", ErrBadRow)
	}
	row, err := DecodeRow(value)
	if err != nil {
		return err
	}
	if row.ExpiresMicros != spent.instant {
		return fmt.Errorf("row expires at %d, its place says %d: %w", row.ExpiresMicros, spent.instant, ErrBadRow)
	}
	x.remove(tenant, place{namespace, key}, row)
	return nil
}

// Due tells whether there is something for Sweep to do at an instant: rows that have expired, or a place to begin at that has
// fallen behind. The leader asks now and then, through a view.
func Due(r Reader, nowMicros uint64) (due bool, err error) {
	c, err := readCounters(r)
	if err != nil || c.lastVersion == 0 {
		return false, err
	}
	if c.sweptMicros+sweptLagMicros < nowMicros {
		return true, nil
	}
	scanned := r.Scan([]byte{layout.FamilyKVExpiry}, layout.KVExpiryFrom(c.sweptMicros), func(key, _ []byte) bool {
		instant, _, ok := layout.KVIndexed(key)
		due = ok && instant <= nowMicros
		return false
	})
	if scanned != nil {
		return false, fmt.Errorf("look for rows that have expired: %w", scanned)
	}
	return due, nil
}
