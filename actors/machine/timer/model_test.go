package timer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// timerName names a timer.
type timerName struct {
	tenant     uuid.UUID
	queue, key string
}

// modelTimer is a pending timer as state 3 has it.
type modelTimer struct {
	op       command.TimerOp
	deliver  int64
	notUntil uint64 // a schedule, or a pause
	created  uint64
	updated  uint64
	attempts uint32
	reason   string
}

func (t *modelTimer) due() uint64 { return uint64(max(t.deliver, int64(t.notUntil))) }

// model is a map of timers, with what has become of every message.
type model struct {
	timers map[timerName]modelTimer
	// ended are messages that may never be appended any more, and why.
	ended map[uuid.UUID]string
	// planned are plans that have not been carried out, with the timers as they were.
	planned []modelPlan
}

type modelPlan struct {
	timers []command.PlannedTimer
	were   []modelTimer
}

func (m *model) end(id uuid.UUID, why string) { m.ended[id] = why }

// fires notes an append, which must be the first and only end of a message.
func (m *model) fires(t failer, now uint64, timer *modelTimer) {
	t.Helper()
	id := timer.op.MessageID
	if why, over := m.ended[id]; over {
		t.Fatalf("message %s fires and was %s", id, why)
	}
	if int64(now) < timer.deliver {
		t.Fatalf("message %s fires %d µs early", id, timer.deliver-int64(now))
	}
	m.end(id, "fired")
}

// call says what the operations of a call answer and which of them fire.
func (m *model) call(t failer, now uint64, tenant uuid.UUID, ops []command.TimerOp, firing bool) (results []command.TimerOpResult, fired []int) {
	for i, op := range ops {
		name := timerName{tenant, op.Queue, op.Key}
		old, pending := m.timers[name]
		delete(m.timers, name)
		if op.Kind == command.TimerCancel {
			if !pending {
				results = append(results, command.TimerOpResult{Status: command.TimerAbsent, Txid: op.Txid, HasTxid: op.HasTxid})
				continue
			}
			m.end(old.op.MessageID, "cancelled")
			results = append(results, command.TimerOpResult{Status: command.TimerCancelled, Txid: old.op.Txid, HasTxid: true})
			continue
		}
		timer := modelTimer{op: op, deliver: int64(now) + op.DelayMicros, notUntil: now, created: now, updated: now}
		result := command.TimerOpResult{Status: command.TimerScheduled, DeliverMicros: timer.deliver}
		if pending {
			m.end(old.op.MessageID, "replaced")
			result.Status, timer.created = command.TimerRescheduled, old.created
		}
		if op.DelayMicros <= 0 && firing && (!op.Zstd || op.Inflated != nil) {
			result.Fired = true
			m.fires(t, now, &timer)
			fired = append(fired, i)
		} else {
			m.timers[name] = timer
		}
		results = append(results, result)
	}
	return results, fired
}

// pendingGrowth is how many more timers are pending after a call.
func (m *model) pendingGrowth(tenant uuid.UUID, ops []command.TimerOp, firing bool) (growth int) {
	for _, op := range ops {
		if _, pending := m.timers[timerName{tenant, op.Queue, op.Key}]; pending {
			growth--
		}
		if op.Kind == command.TimerSchedule && !(op.DelayMicros <= 0 && firing && (!op.Zstd || op.Inflated != nil)) {
			growth++
		}
	}
	return growth
}

// fire says what becomes of planned timers.
func (m *model) fire(t failer, now uint64, plan modelPlan, in *FireInput) (fates []command.TimerFate) {
	for i, planned := range plan.timers {
		name := timerName{planned.Tenant, planned.Queue, planned.Key}
		timer, pending := m.timers[name]
		were := plan.were[i]
		fate := command.TimerFired
		switch {
		case !in.Firing:
			fate = command.TimerPaused
		case !pending:
			fate = command.TimerGone
		case timer.op.MessageID != were.op.MessageID || timer.updated != were.updated:
			fate = command.TimerChanged
		case timer.due() > now:
			fate = command.TimerEarly
		case planned.Failure == command.TimerFires && in.Encrypts[i] && !planned.Encrypted:
			fate = command.TimerInClear
		case planned.Failure == command.TimerFires:
			m.fires(t, now, &timer)
			delete(m.timers, name)
		case planned.Failure == command.TimerPermanent && timer.attempts+1 >= testBackoff.MaxAttempts:
			fate = command.TimerDead
			m.end(timer.op.MessageID, "given up")
			delete(m.timers, name)
		default:
			fate = command.TimerPutOff
			pause := uint64(700)
			if planned.Failure == command.TimerPermanent {
				pause = min(60_000, uint64(1000)<<timer.attempts)
				timer.attempts++
			}
			timer.reason, timer.updated, timer.notUntil = planned.Reason, now, now+pause*millisecond
			m.timers[name] = timer
		}
		fates = append(fates, fate)
	}
	return fates
}

// inOrder lists the timers in the order of firing, as far as instants decide it.
func (m *model) inOrder() (names []timerName) {
	return slices.SortedFunc(maps.Keys(m.timers), func(a, b timerName) int {
		x, y := m.timers[a], m.timers[b]
		return cmp.Or(cmp.Compare(x.due(), y.due()), cmp.Compare(x.deliver, y.deliver), cmp.Compare(a.tenant.String()+a.queue+a.key, b.tenant.String()+b.queue+b.key))
	})
}
