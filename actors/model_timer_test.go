package actors

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// modelTimer is a pending timer as state 3 describes it.
type modelTimer struct {
	tenant           command.Tenant
	op               command.TimerOp
	number           uint64
	due              uint64
	deliver          int64
	created, updated uint64
	attempts         uint32
	reason           string
}

// modelTimers are what is pending, in any order.
type modelTimers struct {
	pending []*modelTimer
	last    uint64
}

func (t *modelTimers) find(tenant command.Tenant, queue, key string) *modelTimer {
	for _, timer := range t.pending {
		if timer.tenant == tenant && timer.op.Queue == queue && timer.op.Key == key {
			return timer
		}
	}
	return nil
}

func (t *modelTimers) remove(gone *modelTimer) {
	t.pending = slices.DeleteFunc(t.pending, func(timer *modelTimer) bool { return timer == gone })
}

func (m *model) encrypts(tenant command.Tenant, name string) bool {
	queue := m.queue(tenant, name)
	return queue != nil && queue.options.EncryptionEnabled
}

// refuseTimers is why a call may not be carried out; nil when it may.
func (m *model) refuseTimers(tenant command.Tenant, ops []command.TimerOp) *command.Refusal {
	for _, op := range ops {
		if op.Kind == command.TimerSchedule && m.off&command.SwitchTimersSchedule != 0 {
			return &command.Refusal{Code: "timers_disabled", Text: "the scheduling of timers is turned off; cancels work"}
		}
		if op.Kind == command.TimerSchedule && m.encrypts(tenant, op.Queue) && !op.Encrypted {
			return &command.Refusal{Code: "retry", Text: "the queue has begun to encrypt, and the node that took this had not heard of it"}
		}
	}
	for i, op := range ops {
		for _, earlier := range ops[:i] {
			if earlier.Queue == op.Queue && earlier.Key == op.Key {
				return &command.Refusal{Code: "timers_bad_op", Text: fmt.Sprintf("the call names timer %q of queue %q twice", op.Key, op.Queue)}
			}
		}
	}
	return nil
}

// modelFired are messages that timers append, in the order in which they fire.
type modelFired struct {
	tenants []command.Tenant
	groups  []command.PushGroup
	txids   []map[string]bool
}

// add puts a message to the newest of the appends to its partition, unless that has its txid already.
func (f *modelFired) add(t *modelTimer, payload []byte, encrypted bool) {
	at := -1
	for i, group := range f.groups {
		if f.tenants[i] == t.tenant && group.Queue == t.op.Queue && group.Partition == t.op.Partition {
			at = i
		}
	}
	if at < 0 || f.txids[at][t.op.Txid] {
		at = len(f.groups)
		f.tenants = append(f.tenants, t.tenant)
		f.groups = append(f.groups, command.PushGroup{Queue: t.op.Queue, Partition: t.op.Partition})
		f.txids = append(f.txids, map[string]bool{})
	}
	f.txids[at][t.op.Txid] = true
	f.groups[at].Count++
	f.groups[at].Chunk = command.AppendMessage(f.groups[at].Chunk, t.message(payload, encrypted))
}

func (t *modelTimer) message(payload []byte, encrypted bool) *command.Message {
	return &command.Message{ID: t.op.MessageID, Txid: []byte(t.op.Txid), ProducerSub: []byte(t.op.ProducerSub), Payload: payload, Encrypted: encrypted}
}

func (m *model) pushFired(f *modelFired) {
	for i := range f.groups {
		m.push(f.tenants[i], &f.groups[i])
	}
}

func (m *model) changeTimers(tenant command.Tenant, ops []command.TimerOp) (results []command.TimerOpResult) {
	var fired modelFired
	for _, op := range ops {
		old := m.timers.find(tenant, op.Queue, op.Key)
		m.timers.remove(old)
		if op.Kind == command.TimerCancel {
			if old == nil {
				results = append(results, command.TimerOpResult{Status: command.TimerAbsent, Txid: op.Txid, HasTxid: op.HasTxid})
			} else {
				results = append(results, command.TimerOpResult{Status: command.TimerCancelled, Txid: old.op.Txid, HasTxid: true})
			}
			continue
		}
		t := &modelTimer{tenant: tenant, op: op, deliver: int64(m.now) + op.DelayMicros, created: m.now, updated: m.now}
		t.due = max(m.now, uint64(t.deliver))
		result := command.TimerOpResult{Status: command.TimerScheduled, DeliverMicros: t.deliver}
		if old != nil {
			result.Status, t.created = command.TimerRescheduled, old.created
		}
		payload := op.Payload
		if op.Zstd {
			payload = op.Inflated
		}
		if result.Fired = op.DelayMicros <= 0 && payload != nil && m.off&command.SwitchTimersFire == 0; result.Fired {
			fired.add(t, payload, op.Encrypted)
		} else {
			m.timers.last++
			t.number = m.timers.last
			m.timers.pending = append(m.timers.pending, t)
		}
		results = append(results, result)
	}
	m.pushFired(&fired)
	return results
}

func (m *model) callTimers(c *command.Timers) command.Result {
	if refusal := m.refuseTimers(c.Tenant, c.Ops); refusal != nil {
		return refusal
	}
	return &command.TimersResult{Ops: m.changeTimers(c.Tenant, c.Ops)}
}

func (m *model) fireTimers(c *command.TimerFire) command.Result {
	result := &command.TimerFireResult{}
	var fired modelFired
	var dead []*modelTimer
	for i := range c.Timers {
		outcome := m.fireTimer(c, &c.Timers[i])
		planned := &c.Timers[i]
		t := m.timers.find(planned.Tenant, planned.Queue, planned.Key)
		switch outcome.Fate {
		case command.TimerFired:
			fired.add(t, planned.Payload, planned.Encrypted)
			m.timers.remove(t)
		case command.TimerDead:
			dead = append(dead, t)
			m.timers.remove(t)
		}
		result.Timers = append(result.Timers, outcome)
	}
	m.pushFired(&fired)
	for _, t := range dead {
		m.fileTimer(t)
	}
	return result
}

// fireTimer says what becomes of one planned timer, and puts it off if need be.
func (m *model) fireTimer(c *command.TimerFire, planned *command.PlannedTimer) command.TimerFireOutcome {
	t := m.timers.find(planned.Tenant, planned.Queue, planned.Key)
	fate := func(fate command.TimerFate) command.TimerFireOutcome { return command.TimerFireOutcome{Fate: fate} }
	fires := planned.Failure == command.TimerFires
	switch {
	case m.off&command.SwitchTimersFire != 0:
		return fate(command.TimerPaused)
	case t == nil:
		return fate(command.TimerGone)
	case t.number != planned.Number:
		return fate(command.TimerChanged)
	case t.due > m.now:
		return fate(command.TimerEarly)
	case fires && !planned.Encrypted && m.encrypts(planned.Tenant, planned.Queue):
		return fate(command.TimerInClear)
	case fires:
		return command.TimerFireOutcome{Fate: command.TimerFired, LagMicros: m.now - uint64(t.deliver)}
	}
	t.reason = planned.Reason
	pause := c.Backoff.TransientMs
	if planned.Failure == command.TimerPermanent {
		t.attempts++
		if t.attempts >= c.Backoff.MaxAttempts {
			return fate(command.TimerDead)
		}
		pause = min(c.Backoff.MaxMs, c.Backoff.MinMs<<(t.attempts-1))
	}
	m.timers.last++
	t.number, t.updated, t.due = m.timers.last, m.now, m.now+uint64(pause)*1000
	return fate(command.TimerPutOff)
}

// fileTimer makes a dead letter of a timer in the partition to which it would have fired.
func (m *model) fileTimer(t *modelTimer) {
	p := m.ensurePartition(m.ensureQueue(t.tenant, t.op.Queue), t.op.Partition)
	payload, encrypted := t.op.Payload, t.op.Encrypted
	if t.op.Zstd {
		payload, encrypted = fmt.Appendf(nil, "%q", base64.StdEncoding.EncodeToString(payload)), false
	}
	m.minted++
	m.letters = append(m.letters, &modelLetter{
		id: m.mint('d', m.minted), queue: p.queue.id, partition: p.id, partitionUUID: p.uuid, partitionName: p.name, group: "__timer__",
		offset: 1<<52 + t.number, reason: t.reason, hasReason: true, retries: t.attempts, failed: m.now,
		message: modelMessage{Message: *t.message(payload, encrypted), txid: t.op.Txid, stamp: t.created},
	})
}

func (d *dump) timer(tenant uuid.UUID, t *command.TimerOp, number, due uint64, deliver int64, created, updated uint64, attempts uint32, reason string) {
	d.add("timer %s %q %q number=%d due=%d deliver=%d created=%d updated=%d attempts=%d reason=%q %s to %q txid=%q sub=%q zstd=%t encrypted=%t %x", tenant,
		t.Queue, t.Key, number, due, deliver, created, updated, attempts, reason, t.MessageID, t.Partition, t.Txid, t.ProducerSub, t.Zstd, t.Encrypted, t.Payload)
}

func (d *dump) timers(m *modelTimers) {
	for _, t := range m.pending {
		d.timer(t.tenant, &t.op, t.number, t.due, t.deliver, t.created, t.updated, t.attempts, t.reason)
	}
}
