package kv

import (
	"fmt"

	"queen/raftlog/command"
)

// change is what an operation does to a row when the plan is committed.
type change struct {
	at place
	// old is the row as it is stored, nil when there is none; it may have expired. Only a live row is removed.
	old    *Row
	remove bool
	// value and expiresMicros are those of the new row, and version is told which one it got.
	value         []byte
	expiresMicros uint64
	version       *uint64
	// counted tells that the value is a number that an incr made.
	counted bool
}

// inline is up to which size the value is kept in the row.
func (c *change) inline() int {
	if c.counted {
		return inlineNumberBytes
	}
	return inlineBytes
}

// op judges one operation that is no read: either it changes something, or it holds, or it says why not.
func (p *Plan) op(r Reader, i int) error {
	op, result := &p.ops[i], &p.results[i]
	at := place{op.Namespace, op.Key}
	row, err := readRow(r, p.tenant, at)
	if err != nil {
		return fmt.Errorf("judge kv operation %d: %w", i, err)
	}
	if op.Kind == command.KVIncr {
		return p.incr(r, i, row)
	}
	live := row.live(p.nowMicros)
	if live {
		result.Version = row.Version
	}
	if result.Reason = verdict(op, row, live); result.Reason != command.KVApplied {
		if live {
			result.Value, err = row.value(r)
		}
		return err
	}
	switch op.Kind {
	case command.KVDelete:
		p.changes = append(p.changes, change{at: at, old: row, remove: true})
	case command.KVPut, command.KVPutIfAbsent:
		p.changes = append(p.changes, change{
			at: at, old: row, value: op.Value, expiresMicros: expiry(p.nowMicros, op.TTLSeconds), version: &result.Version,
		})
	}
	return nil
}

// verdict is the table of state 2.3, without incr.
func verdict(op *command.KVOp, row *Row, live bool) command.KVReason {
	expect, conditional := op.Expect, op.HasExpect
	if op.Kind == command.KVPutIfAbsent {
		expect, conditional = 0, true
	}
	absent := conditional && expect == 0
	switch {
	case absent && live:
		return command.KVReasonExists
	case op.Kind == command.KVDelete && !live:
		return command.KVReasonAbsent // whatever was expected: there is nothing to delete
	case !conditional || absent:
		return command.KVApplied
	case !live:
		return command.KVReasonAbsent
	case row.Version != expect:
		return command.KVReasonVersion
	default:
		return command.KVApplied
	}
}

// incr counts on from the live row, or from 0 with a new window (state 2.3).
func (p *Plan) incr(r Reader, i int, row *Row) error {
	op, result := &p.ops[i], &p.results[i]
	n, ok := boundsOf(op)
	if !ok {
		p.refuse(codeBadRequest, "delta, min or max of an incr is not a number")
		return nil
	}
	value, expires := []byte("0"), expiry(p.nowMicros, op.TTLSeconds)
	if row.live(p.nowMicros) {
		result.Version, expires = row.Version, row.ExpiresMicros
		var err error
		if value, err = row.value(r); err != nil {
			return err
		}
	}
	next, reason := n.next(value, int64(p.limits.ValueBytes))
	if result.Reason = reason; reason != command.KVApplied {
		result.Value = value
		return nil
	}
	result.Value = next
	p.changes = append(p.changes, change{
		at: place{op.Namespace, op.Key}, old: row, value: next, expiresMicros: expires, version: &result.Version, counted: true,
	})
	return nil
}

// bounds are the numbers of an incr.
type bounds struct {
	delta decimal
	// low and high are nil where there is no bound.
	low, high *decimal
}

func boundsOf(op *command.KVOp) (n bounds, ok bool) {
	if n.delta, ok = parseDecimal(op.Delta); !ok {
		return n, false
	}
	for _, bound := range [...]struct {
		text string
		of   **decimal
	}{{op.Min, &n.low}, {op.Max, &n.high}} {
		if bound.text == "" {
			continue
		}
		d, ok := parseDecimal(bound.text)
		if !ok {
			return n, false
		}
		*bound.of = &d
	}
	return n, true
}

// next counts on from a value. Only the next number is held against the bounds; whatever would be longer than a value may be
// is beyond a limit too.
func (n *bounds) next(value []byte, most int64) ([]byte, command.KVReason) {
	current, ok := decimal{}, len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
	if ok {
		current, ok = parseDecimal(value)
	}
	if !ok || current.plainBytes() > most {
		return nil, command.KVReasonType
	}
	sum, ok := current.add(&n.delta, most)
	if !ok || n.high != nil && sum.compare(n.high) > 0 || n.low != nil && sum.compare(n.low) < 0 {
		return nil, command.KVReasonLimit
	}
	return sum.appendPlain(nil), command.KVApplied
}
