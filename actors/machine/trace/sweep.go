package trace

import (
	"fmt"

	"queen/store/layout"
)

const (
	// sweepKeys and sweepNameKeys are what removing a trace writes at most: the counters aside, its row, its address, the
	// number of names of the tenant; and for each name its id, row and place in the order, the trace and the message under it.
	sweepKeys     = 3
	sweepNameKeys = 5
	// sweepBytes and sweepNameBytes are what that takes, with names of the greatest length.
	sweepBytes     = 128
	sweepNameBytes = 640
	// sweepTraces bounds the traces of one step, and with them the chunks that it releases.
	sweepTraces = 512
)

// SweepInput bounds one step.
type SweepInput struct {
	// BeforeMicros is the time from which on traces are kept.
	BeforeMicros uint64
	// MaxKeys bounds the keys written, except that the first trace may take more.
	MaxKeys int
	// Fits tells whether the entry has room for so much.
	Fits func(keys, bytes int) bool
}

// Sweep removes the oldest traces that are due. more tells that some of those were left for another step.
func (m *Machine) Sweep(r Reader, w Writer, in SweepInput) (removed int, more bool, err error) {
	due, more, err := m.due(r, in)
	if err != nil {
		return 0, false, err
	}
	for _, row := range due {
		if !in.Fits(sweepKeys+sweepNameKeys*len(row.Names), sweepBytes+sweepNameBytes*len(row.Names)) {
			more = true
			break
		}
		if err := m.remove(r, w, row); err != nil {
			return 0, false, fmt.Errorf("remove trace %d: %w", row.Number, err)
		}
		removed++
	}
	if removed > 0 {
		m.counters.put(w)
	}
	return removed, more, nil
}

// due lists the oldest traces that may go, as many as the step may remove.
func (m *Machine) due(r Reader, in SweepInput) (due []*Row, more bool, err error) {
	keys := 0
	scanned := r.Scan([]byte{layout.FamilyTrace}, layout.Trace(m.counters.oldest), func(key, value []byte) bool {
		var row *Row
		if row, err = DecodeRow(layout.LastNumber(key), value); err != nil {
			return false
		}
		if row.StampMicros >= in.BeforeMicros {
			return false
		}
		keys += sweepKeys + sweepNameKeys*len(row.Names)
		if more = len(due) > 0 && keys > in.MaxKeys || len(due) == sweepTraces; more {
			return false
		}
		due = append(due, row)
		return true
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list oldest traces: %w", scanned)
	}
	return due, more, err
}

func (m *Machine) remove(r Reader, w Writer, row *Row) error {
	gone := int64(0)
	for _, id := range row.Names {
		last, err := unname(r, w, row, id)
		if err != nil {
			return err
		}
		if last {
			gone++
		}
	}
	if gone > 0 {
		if _, err := count(r, w, layout.TraceNameCount(row.Tenant), -gone); err != nil {
			return err
		}
	}
	if row.Chunk != nil {
		w.ReleaseChunk(*row.Chunk)
	}
	w.Delete(layout.TraceAt(row.Address, row.Number))
	w.Delete(layout.Trace(row.Number))
	m.counters.oldest = row.Number + 1
	m.counters.stored--
	return nil
}

// unname takes a trace out of one of its names; last tells that the name had no other.
func unname(r Reader, w Writer, row *Row, id uint64) (last bool, err error) {
	name, err := readName(r, id)
	if err != nil {
		return false, err
	}
	w.Delete(layout.TraceNamed(id, row.Number))
	left, err := count(r, w, layout.TraceNameMessage(id, row.Address), -1)
	if err != nil {
		return false, err
	}
	if name.traces--; name.traces == 0 {
		w.Delete(layout.TraceNameRow(id))
		w.Delete(layout.TraceName(row.Tenant, name.name))
		w.Delete(layout.TraceNameSeen(row.Tenant, name.minute(), id))
		return true, nil
	}
	if left == 0 {
		name.messages--
	}
	w.Put(layout.TraceNameRow(id), appendNameRow(nil, name))
	return false, nil
}
