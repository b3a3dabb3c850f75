package api

import (
	"errors"

	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// planTransactionTimers prepares the timers of a transaction. The horizon, the bound on payloads and the number of operations
// of a call do not hold here (state 3.7).
func (a *API) planTransactionTimers(r *httpfront.Request, body *wire.Transaction) ([]command.TimerOp, error) {
	if len(body.Timers) == 0 {
		return nil, nil
	}
	ops, err := wire.DecodeTimerOps(body.Timers, "timers")
	if err != nil {
		return nil, ofTransaction(err)
	}
	if schedules(ops) {
		if refusal := a.gate.Closed(); refusal != nil {
			return nil, refusal
		}
	}
	planned, err := a.planTimers(r, ops)
	return planned, ofTransaction(err)
}

// ofTransaction gives the refusal of timers the code that it has in a transaction: a 400 with one of two reasons, or, where the
// log has the last word, a rollback.
func ofTransaction(err error) error {
	refusal, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return err
	}
	within := &wire.Error{Code: wire.CodeTimersBadRequest, Reason: string(wire.CodeBadRequest), Text: refusal.Text}
	if refusal.Reason == wire.TimersServerOwnedField {
		within.Reason = refusal.Reason
	}
	if refusal.RollBack {
		within = &wire.Error{Code: wire.CodeBadRequest, Text: refusal.Text, RollBack: true}
	}
	return within
}

// rolledBackStatus is the status of a transaction that rolled back: 200, and 403 where something must change before the bundle
// works (messaging 8.5). It is not a 503, so that nobody sends it again in a loop. A reached quota of timers belongs here too.
func rolledBackStatus(reason string) int {
	if reason == string(httpfront.CodeTimersDisabled) {
		return 403
	}
	return 200
}

// appendTimerResults adds what became of the timers to the flat results.
func appendTimerResults(results []wire.TransactionResult, ops []command.TimerOp, applied []command.TimerOpResult) []wire.TransactionResult {
	timers := timerResults(ops, applied)
	for i := range timers {
		results = append(results, wire.TransactionResult{Kind: wire.ResultTimer, OpIndex: i, Timer: &timers[i]})
	}
	return results
}
