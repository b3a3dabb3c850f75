package api

import (
	"errors"
	"fmt"

	"queen/actors"
	"queen/actors/inflate"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// TimerLimits are the settings of timers (cluster 1.9).
type TimerLimits struct {
	// MaxOps is QUEEN_TIMERS_MAX_OPS_PER_CALL, MaxPayloadBytes is QUEEN_TIMERS_MAX_PAYLOAD_BYTES, HorizonSeconds is
	// QUEEN_TIMERS_MAX_HORIZON_S.
	MaxOps          int
	MaxPayloadBytes int
	HorizonSeconds  int64
	// InflatedBytes bounds what a compressed payload may hold, and those of one call together: a body, and a log entry.
	InflatedBytes int
}

const (
	// timerKeyBytes bounds 36 for the tenant + the queue + the key of a timer (state 3.1).
	timerKeyBytes = 511
	// timersHint is a header of the refusal while scheduling is paused: what is pending can still be cancelled.
	timersHint      = "x-queen-timers-hint"
	timersHintValue = "DELETE /api/v1/timers/:queue/*timerKey"

	reasonTimersHorizon         = "timers_horizon"
	reasonTimersPayloadTooLarge = "timers_payload_too_large"
	reasonTimersCallTooLarge    = "timers_call_too_large"
)

// changeTimers schedules and cancels timers (state 3.2).
func (a *API) changeTimers(r *httpfront.Request) error {
	ops, err := wire.DecodeTimers(r.Body(), a.config.Timers.MaxOps)
	if err == nil {
		err = a.admitTimers(r, ops)
	}
	var answer []wire.TimerResult
	if err == nil {
		answer, err = a.executeTimers(r, ops)
	}
	if err != nil {
		a.meters.timersRejected(err)
		return err
	}
	r.JSONOwned(200, wire.AppendTimers(nil, answer))
	return nil
}

// admitTimers holds a call against the limits and the state of the node. Only schedules grow anything: a call that cancels
// passes always. The grant, the quota and the rate of the tenant belong here.
func (a *API) admitTimers(r *httpfront.Request, ops []wire.TimerOp) error {
	limits := &a.config.Timers
	for i := range ops {
		op := &ops[i]
		switch {
		case op.Cancel:
		case op.DelayMicros > limits.HorizonSeconds*1_000_000:
			return refuseFor(httpfront.CodeTimerHorizonExceeded, reasonTimersHorizon,
				fmt.Sprintf("operations[%d].delayMs is beyond %d seconds", i, limits.HorizonSeconds))
		case len(op.Payload) > limits.MaxPayloadBytes:
			return refuseFor(httpfront.CodePayloadTooLarge, reasonTimersPayloadTooLarge,
				fmt.Sprintf("operations[%d].payload has more than %d bytes", i, limits.MaxPayloadBytes))
		}
	}
	if !schedules(ops) {
		return nil
	}
	if err := a.whileOn(r, command.SwitchTimersSchedule); err != nil {
		return a.timersRefusal(r, err)
	}
	if refusal := a.gate.Closed(); refusal != nil {
		return refusal
	}
	return r.Admit()
}

func schedules(ops []wire.TimerOp) bool {
	for i := range ops {
		if !ops[i].Cancel {
			return true
		}
	}
	return false
}

// executeTimers carries a call out.
func (a *API) executeTimers(r *httpfront.Request, ops []wire.TimerOp) ([]wire.TimerResult, error) {
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return nil, err
	}
	planned, err := a.planTimers(r, ops)
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	applied, err := a.broker().Execute(span, &command.Timers{Tenant: r.Tenant, Ops: planned})
	if err != nil {
		return nil, a.timersRefusal(r, err)
	}
	return timerResults(planned, applied.(*command.TimersResult).Ops), nil
}

// timersRefusal gives a refusal of the log the form that it has here, and adds the hint to that of a pause.
func (a *API) timersRefusal(r *httpfront.Request, err error) error {
	code := httpfront.CodeNone
	if refusal, ok := errors.AsType[*command.Refusal](err); ok {
		code = httpfront.Code(refusal.Code)
	} else if refusal, ok := errors.AsType[*httpfront.Error](err); ok {
		code = refusal.Code
	}
	switch {
	case code == httpfront.CodeTimersDisabled:
		r.Ctx.Response.Header.Set(timersHint, timersHintValue)
	case code == httpfront.CodePayloadTooLarge || errors.Is(err, actors.ErrTooLarge):
		return timersCallTooLarge("the call exceeds one log entry")
	}
	return err
}

// refuseFor is a refusal with a finer reason (state 1.3).
func refuseFor(code httpfront.Code, reason, text string) *httpfront.Error {
	return &httpfront.Error{Code: code, Reason: reason, Text: text}
}

func timersCallTooLarge(text string) *httpfront.Error {
	return refuseFor(httpfront.CodePayloadTooLarge, reasonTimersCallTooLarge, text)
}

// planTimers makes a command of operations: names are checked, ids minted, payloads encrypted where the queue asks for it.
func (a *API) planTimers(r *httpfront.Request, ops []wire.TimerOp) ([]command.TimerOp, error) {
	p := timersPlan{api: a, request: r, inflatable: a.config.Timers.InflatedBytes, encrypts: map[string]bool{}}
	for i := range ops {
		p.inflatable -= len(ops[i].Payload)
	}
	planned := make([]command.TimerOp, len(ops))
	for i := range ops {
		if err := checkTimerNames(ops[i].Queue, ops[i].Key, ops[i].Partition); err != nil {
			return nil, err
		}
		if ops[i].Cancel {
			planned[i] = command.TimerOp{Kind: command.TimerCancel, Queue: ops[i].Queue, Key: ops[i].Key, Txid: ops[i].Txid, HasTxid: ops[i].HasTxid}
		} else if err := p.schedule(&planned[i], &ops[i]); err != nil {
			return nil, err
		}
	}
	return planned, nil
}

// checkTimerNames refuses names beyond the key of a timer, or beyond that of the partition to which it fires.
func checkTimerNames(queue, key, partition string) error {
	if tenantBytes+len(queue)+len(key) > timerKeyBytes {
		return httpfront.Refuse(httpfront.CodeNameTooLong,
			fmt.Sprintf("the names of queue and timer exceed %d bytes", timerKeyBytes-tenantBytes))
	}
	return checkNames(queue, partition)
}

// timersPlan is a call on its way to become a command.
type timersPlan struct {
	api     *API
	request *httpfront.Request
	// inflatable is how many bytes may be decompressed, inflated how many were: what a call takes in work, in memory and in its
	// entry is bounded, whatever its payloads claim.
	inflatable, inflated int
	// encrypts remembers what has been asked of queues.
	encrypts map[string]bool
}

func (p *timersPlan) schedule(planned *command.TimerOp, op *wire.TimerOp) error {
	*planned = command.TimerOp{
		Kind: command.TimerSchedule, Queue: op.Queue, Key: op.Key, Txid: op.Txid, Partition: op.Partition, DelayMicros: op.DelayMicros,
		MessageID: newID(p.request.Arrived), ProducerSub: p.request.Subject, Payload: op.Payload, Zstd: op.Zstd, Encrypted: op.Encrypted,
	}
	encrypts, known := p.encrypts[op.Queue]
	if !known {
		var err error
		if encrypts, err = p.api.encrypts(p.request.Tenant, op.Queue); err != nil {
			if !op.Encrypted {
				return err
			}
			encrypts = true // and refuses the operation, with a key or without
		}
		p.encrypts[op.Queue] = encrypts
	}
	if encrypts {
		return p.seal(planned)
	}
	if op.Zstd && op.DelayMicros <= 0 {
		// It fires in the entry that schedules it, and apply cannot decompress. What cannot be decompressed here waits for the
		// tick, which finds out what is wrong.
		if plain, err := p.inflate(op.Payload); err == nil {
			planned.Inflated = plain
		}
	}
	return nil
}

// seal encrypts the payload of a timer for a queue that encrypts (state 8.2).
func (p *timersPlan) seal(planned *command.TimerOp) error {
	if planned.Encrypted {
		refusal := wire.TimerRefusal(wire.TimersBadOp, "timer %q says that it is encrypted, and its queue encrypts by itself", planned.Key)
		refusal.RollBack = true // in a transaction
		return refusal
	}
	if planned.Zstd {
		plain, err := p.inflate(planned.Payload)
		if errors.Is(err, errNoMoreInflating) {
			return timersCallTooLarge("the payloads of the call together expand beyond one log entry")
		}
		if err != nil {
			return wire.TimerRefusal(wire.TimersPayloadNotJSON, "timer %q: %s", planned.Key, err)
		}
		planned.Payload, planned.Zstd = plain, false
	}
	message := command.Message{Payload: planned.Payload}
	err := p.api.seal(&message)
	planned.Payload, planned.Encrypted = message.Payload, message.Encrypted
	return err
}

// errNoMoreInflating ends the decompression of a call whose payloads expand too far together.
var errNoMoreInflating = errors.New("the payloads of the call expand too far together")

func (p *timersPlan) inflate(payload []byte) ([]byte, error) {
	left := p.inflatable - p.inflated
	if left <= 0 {
		return nil, errNoMoreInflating
	}
	plain, err := inflate.JSON(payload, left)
	if err == nil {
		p.inflated += len(plain)
		return plain, nil
	}
	if errors.Is(err, inflate.ErrTooLarge) && p.inflated > 0 {
		err = errNoMoreInflating
	}
	// It may have taken all the work that was left before it failed: a call full of such payloads would keep the node busy for
	// minutes.
	p.inflated = p.inflatable
	return nil, err
}

func timerResults(ops []command.TimerOp, applied []command.TimerOpResult) []wire.TimerResult {
	results := make([]wire.TimerResult, len(ops))
	for i := range ops {
		op, became := &ops[i], &applied[i]
		results[i] = wire.TimerResult{
			Status: became.Status, Queue: op.Queue, Key: op.Key, Txid: became.Txid, HasTxid: became.HasTxid,
			MessageID: op.MessageID, DeliverMicros: became.DeliverMicros,
		}
		if op.Kind == command.TimerSchedule {
			results[i].Txid = op.Txid
		}
	}
	return results
}
