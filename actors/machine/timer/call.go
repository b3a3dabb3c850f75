package timer

import (
	"fmt"
	"math"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// CallInput is a timer call, or the timers of a transaction (state 3.2, 3.7).
type CallInput struct {
	// StampMicros is that of the command; delays count from it.
	StampMicros uint64
	Tenant      uuid.UUID
	// Ops may be kept until the batch is committed.
	Ops []command.TimerOp
	// Firing tells whether timers fire at all (state 11.1). While they do not, what is due at once waits with the rest.
	Firing bool
	// MaxPending is the tenant's quota of pending timers, if HasQuota (state 11.3).
	MaxPending uint64
	HasQuota   bool
}

// Codes of refusals (state 3.2).
const (
	CodeBadOp         = "timers_bad_op"
	CodeQuotaExceeded = "timers_quota_exceeded"
)

// Plan is a call that has been judged and has changed nothing yet. It holds as long as the machine does nothing else.
type Plan struct {
	in *CallInput
	// found are the pending timers that the operations name; nil where there is none.
	found []*Row
}

// CallOutput says what a call has changed, and what is to be appended in the same entry.
type CallOutput struct {
	Result  *command.TimersResult
	Appends []Append
}

// Plan judges a call without changing anything: in a transaction it is the last guard (messaging 8.4). A refusal concerns all
// of it.
func (m *Machine) Plan(r Reader, in *CallInput) (*Plan, *command.Refusal, error) {
	p := &Plan{in: in, found: make([]*Row, len(in.Ops))}
	named := make(map[[2]string]struct{}, len(in.Ops))
	var before, after uint64
	for i := range in.Ops {
		op := &in.Ops[i]
		name := [2]string{op.Queue, op.Key}
		if _, repeated := named[name]; repeated {
			return nil, refuse(CodeBadOp, "the call names timer %q of queue %q twice", op.Key, op.Queue), nil
		}
		named[name] = struct{}{}
		row, err := find(r, in.Tenant, op.Queue, op.Key)
		if err != nil {
			return nil, nil, err
		}
		if p.found[i] = row; row != nil {
			before++
		}
		if op.Kind == command.TimerSchedule && !in.atOnce(op) {
			after++
		}
	}
	if !in.HasQuota || after <= before {
		return p, nil, nil
	}
	usage, err := UsageOf(r, in.Tenant)
	if err != nil {
		return nil, nil, err
	}
	if pending := usage.Pending - before + after; pending > in.MaxPending {
		return nil, refuse(CodeQuotaExceeded, "the tenant would have %d pending timers of %d", pending, in.MaxPending), nil
	}
	return p, nil, nil
}

func refuse(code, format string, args ...any) *command.Refusal {
	return &command.Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}

// atOnce tells whether a schedule fires in its own entry.
func (in *CallInput) atOnce(op *command.TimerOp) bool {
	return in.Firing && op.DelayMicros <= 0 && (!op.Zstd || len(op.Inflated) > 0)
}

// Call judges a call and carries it out.
func (m *Machine) Call(r Reader, w Writer, in *CallInput) (CallOutput, *command.Refusal, error) {
	p, refusal, err := m.Plan(r, in)
	if refusal != nil || err != nil {
		return CallOutput{}, refusal, err
	}
	out, err := m.Commit(r, w, p)
	return out, nil, err
}

// Commit carries out what has been planned. A call that finds nothing to change writes nothing.
func (m *Machine) Commit(r Reader, w Writer, p *Plan) (CallOutput, error) {
	out := CallOutput{Result: &command.TimersResult{Ops: make([]command.TimerOpResult, len(p.in.Ops))}}
	var t tally
	var fired appends
	changed := false
	for i := range p.in.Ops {
		op, row, result := &p.in.Ops[i], p.found[i], &out.Result.Ops[i]
		if op.Kind == command.TimerCancel {
			*result = m.cancel(w, &t, op, row)
		} else {
			*result = m.schedule(w, &t, &fired, p.in, i, row)
		}
		changed = changed || row != nil || op.Kind == command.TimerSchedule && !result.Fired
	}
	out.Appends = fired.list
	if !changed {
		return out, nil
	}
	return out, m.settle(r, w, &t)
}

func (m *Machine) cancel(w Writer, t *tally, op *command.TimerOp, row *Row) command.TimerOpResult {
	if row == nil {
		return command.TimerOpResult{Status: command.TimerAbsent, Txid: op.Txid, HasTxid: op.HasTxid}
	}
	m.remove(w, t, row)
	return command.TimerOpResult{Status: command.TimerCancelled, Txid: row.Txid, HasTxid: true}
}

// schedule replaces what is pending under the key entirely (state 3.1), except that it has been pending since it was first
// scheduled.
func (m *Machine) schedule(w Writer, t *tally, fired *appends, in *CallInput, item int, old *Row) command.TimerOpResult {
	op := &in.Ops[item]
	row := &Row{
		Tenant: in.Tenant, Queue: op.Queue, Key: op.Key, DeliverMicros: deliverAt(in.StampMicros, op.DelayMicros),
		CreatedMicros: in.StampMicros, UpdatedMicros: in.StampMicros, MessageID: op.MessageID, Partition: op.Partition,
		Txid: op.Txid, ProducerSub: op.ProducerSub, Zstd: op.Zstd, Encrypted: op.Encrypted,
	}
	result := command.TimerOpResult{Status: command.TimerScheduled, DeliverMicros: row.DeliverMicros}
	if old != nil {
		result.Status, row.CreatedMicros = command.TimerRescheduled, old.CreatedMicros
	}
	if in.atOnce(op) {
		if old != nil {
			m.remove(w, t, old)
		}
		payload := op.Payload
		if op.Zstd {
			payload = op.Inflated
		}
		fired.add(item, row, payload, op.Encrypted)
		result.Fired = true
		return result
	}
	if old != nil {
		m.unplace(w, old)
		old.release(w)
		t.count(old, -1)
	}
	row.Number, row.DueMicros = m.nextNumber(), in.StampMicros
	if row.DeliverMicros > 0 {
		row.DueMicros = max(in.StampMicros, uint64(row.DeliverMicros))
	}
	row.keep(w, op.Payload)
	m.write(w, row)
	t.count(row, 1)
	return result
}

// deliverAt is the stamp plus the delay.
func deliverAt(stampMicros uint64, delayMicros int64) int64 {
	stamp := int64(min(stampMicros, math.MaxInt64-centuryMicros))
	return stamp + max(-centuryMicros, min(delayMicros, centuryMicros))
}
