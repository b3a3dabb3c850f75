package timer

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"queen/store/layout"
)

// Usage is what is pending: of a tenant, or in all.
type Usage struct {
	Pending uint64
	// PayloadBytes is the size of the payloads as stored.
	PayloadBytes uint64
}

// counters are the row of what is not about one timer.
type counters struct {
	// lastNumber is the newest number of a row.
	lastNumber uint64
	Usage
	// first is the first place in the order of firing.
	first place
}

var countersKey = layout.Meta("timers")

const countersBytes = 6 * 8

func readCounters(r Reader) (c counters, err error) {
	value, err := r.Get(countersKey)
	if err != nil {
		return c, fmt.Errorf("read timer counters: %w", err)
	}
	if value == nil {
		return c, nil
	}
	if len(value) != countersBytes {
		return c, fmt.Errorf("decode timer counters of %d bytes: %w", len(value), ErrBadRow)
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(value[8*i:]) }
	return counters{lastNumber: n(0), Usage: Usage{n(1), n(2)}, first: place{n(3), int64(n(4)), n(5)}}, nil
}

func (c *counters) put(w Writer) {
	value := make([]byte, 0, countersBytes)
	for _, n := range []uint64{c.lastNumber, c.Pending, c.PayloadBytes, c.first.dueMicros, uint64(c.first.deliverMicros), c.first.number} {
		value = binary.BigEndian.AppendUint64(value, n)
	}
	w.Put(countersKey, value)
}

// UsageOf is what a tenant has pending, for its quota (state 11.3).
func UsageOf(r Reader, tenant uuid.UUID) (u Usage, err error) {
	value, err := r.Get(layout.TimerCount(tenant))
	if err != nil {
		return u, fmt.Errorf("count timers of a tenant: %w", err)
	}
	if value == nil {
		return u, nil
	}
	if len(value) != 16 {
		return u, fmt.Errorf("decode timer count of %d bytes: %w", len(value), ErrBadRow)
	}
	return Usage{binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])}, nil
}

// Total is what is pending in all.
func Total(r Reader) (Usage, error) {
	c, err := readCounters(r)
	return c.Usage, err
}

// change is what a command adds to a Usage and takes from it.
type change struct{ pending, payloadBytes int64 }

func (u *Usage) add(c change) error {
	pending, payloadBytes := int64(u.Pending)+c.pending, int64(u.PayloadBytes)+c.payloadBytes
	if pending < 0 || payloadBytes < 0 || pending == 0 && payloadBytes > 0 {
		return fmt.Errorf("change count of timers %+v by %+v: %w", *u, c, ErrBadRow)
	}
	*u = Usage{uint64(pending), uint64(payloadBytes)}
	return nil
}

// tally gathers the changes of a command, the tenants in the order in which it meets them.
type tally struct {
	tenants []uuid.UUID
	changes map[uuid.UUID]*change
}

func (t *tally) count(row *Row, sign int64) {
	c := t.changes[row.Tenant]
	if c == nil {
		if t.changes == nil {
			t.changes = map[uuid.UUID]*change{}
		}
		c = &change{}
		t.changes[row.Tenant] = c
		t.tenants = append(t.tenants, row.Tenant)
	}
	c.pending += sign
	c.payloadBytes += sign * int64(row.PayloadBytes())
}

// settle writes what a command has changed of the counts and of the first place.
func (m *Machine) settle(r Reader, w Writer, t *tally) error {
	for _, tenant := range t.tenants {
		c := *t.changes[tenant]
		if c == (change{}) {
			continue
		}
		usage, err := UsageOf(r, tenant)
		if err == nil {
			err = usage.add(c)
		}
		if err == nil {
			err = m.counters.add(c)
		}
		if err != nil {
			return err
		}
		if usage.Pending == 0 {
			w.Delete(layout.TimerCount(tenant))
			continue
		}
		w.Put(layout.TimerCount(tenant), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, usage.Pending), usage.PayloadBytes))
	}
	first, err := m.front.first(r)
	if err != nil {
		return err
	}
	m.counters.first = first
	m.counters.put(w)
	return nil
}
