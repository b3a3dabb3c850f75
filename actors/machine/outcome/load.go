package outcome

import (
	"encoding/binary"
	"fmt"

	"queen/store/layout"
)

// loadSlice is how many rows are read at a time.
const loadSlice = 256

// Load reads the window from the store. It takes the time that reading the rows does, and the memory of what they make the
// window remember: the rows of a window, at most Unanswered requests of each origin in them.
func Load(r Reader) (*Window, error) {
	w := &Window{origins: map[uint64]*origin{}}
	term, err := r.Get(termKey())
	if err != nil {
		return nil, fmt.Errorf("load start of the term: %w", err)
	}
	switch len(term) {
	case 0:
	case 8:
		w.termMicros = binary.BigEndian.Uint64(term)
	default:
		return nil, fmt.Errorf("load start of the term of %d bytes: %w", len(term), ErrBadRow)
	}
	for after := uint64(0); ; {
		rows, err := slice(r, after)
		if err != nil {
			return nil, fmt.Errorf("load outcomes: %w", err)
		}
		for _, s := range rows {
			if err := w.load(r, s.index, s.value); err != nil {
				return nil, fmt.Errorf("load outcomes of entry %d: %w", s.index, err)
			}
			after = s.index
		}
		if len(rows) < loadSlice {
			return w, nil
		}
	}
}

type storedRow struct {
	index uint64
	value []byte
}

// slice reads the rows behind an index.
func slice(r Reader, after uint64) (rows []storedRow, err error) {
	err = r.Scan([]byte{layout.FamilyOutcome}, layout.Outcome(after+1), func(key, value []byte) bool {
		rows = append(rows, storedRow{layout.LastNumber(key), value})
		return len(rows) < loadSlice
	})
	return rows, err
}

// load takes in the next row, as it was when its entry was finished.
func (w *Window) load(r Reader, index uint64, value []byte) error {
	stored, err := ReadRow(r, value)
	if err != nil {
		return err
	}
	of := &row{index: index, stampMicros: stored.StampMicros, chunk: stored.chunk, wanted: len(stored.Outcomes)}
	origins := make([]*origin, len(stored.Origins))
	for i, a := range stored.Origins {
		o := w.origin(a.Origin)
		if o == nil {
			o = w.add(a.Origin)
		}
		w.answered(o, a.Below)
		w.hold(o, of)
		origins[i] = o
	}
	for i := range stored.Outcomes {
		outcome := &stored.Outcomes[i]
		o := origins[outcome.origin]
		if outcome.Request.Sequence < o.below {
			return fmt.Errorf("request %d of origin %x was answered before its entry: %w", outcome.Request.Sequence, o.id, ErrBadRow)
		}
		o.put(outcome.Request.Sequence, slot{row: of, at: outcome.at})
	}
	w.link(of)
	return nil
}
