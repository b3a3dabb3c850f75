package timer

import (
	"fmt"

	"queen/store/layout"
)

// Next is the instant from which the first of all timers may fire; pending is false when there is none. It reads one row.
func Next(r Reader) (dueMicros uint64, pending bool, err error) {
	c, err := readCounters(r)
	return c.first.dueMicros, c.first.number != 0, err
}

// Limits bound what the leader plans at a time (state 3.6).
type Limits struct {
	Timers int
	// Bytes counts payloads as stored and the texts beside them. The first timer may be larger.
	Bytes int
}

// Due is a timer that may fire, with its payload as stored: JSON, an envelope, or compressed. Valid as long as what the reader
// gives.
type Due struct {
	*Row
	Stored []byte
}

// PlanDue reads the timers that may fire at an instant, in the order of firing; more tells that limits have left some out. It
// walks neither over timers that are gone nor over those that are not due.
func PlanDue(r Reader, atMicros uint64, limits Limits) (due []Due, more bool, err error) {
	c, err := readCounters(r)
	if err != nil || c.first.number == 0 || c.first.dueMicros > atMicros {
		return nil, false, err
	}
	found, more, err := placed(r, c.first, atMicros, limits.Timers)
	if err != nil {
		return nil, false, err
	}
	bytes := 0
	for _, f := range found {
		row, err := f.row(r)
		if err != nil {
			return nil, false, err
		}
		bytes += row.PayloadBytes() + len(row.Partition) + len(row.Txid) + len(row.ProducerSub)
		if bytes > limits.Bytes && len(due) > 0 {
			return due, true, nil
		}
		payload, err := row.Payload(r)
		if err != nil {
			return nil, false, err
		}
		due = append(due, Due{Row: row, Stored: payload})
	}
	return due, more, nil
}

// placedTimer is a place and the key of the row that has it.
type placedTimer struct {
	place
	of []byte
}

// placed lists the places that are due, from the first one on.
func placed(r Reader, first place, atMicros uint64, most int) (found []placedTimer, more bool, err error) {
	scanned := r.Scan(layout.TimersDue(), first.key(), func(key, value []byte) bool {
		var p place
		if p, err = placeOf(key); err != nil || p.dueMicros > atMicros {
			return false
		}
		if more = len(found) >= max(1, most); more {
			return false
		}
		found = append(found, placedTimer{p, value})
		return true
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list timers that are due: %w", scanned)
	}
	return found, more, err
}

// row reads the timer that has the place.
func (p *placedTimer) row(r Reader) (*Row, error) {
	value, err := r.Get(p.of)
	if err != nil {
		return nil, fmt.Errorf("read timer that is due: %w", err)
	}
	row, err := DecodeRow(p.of, value)
	if err == nil && row.place() != p.place {
		err = fmt.Errorf("timer %q is not where it is due: %w", row.Key, ErrBadRow)
	}
	return row, err
}
