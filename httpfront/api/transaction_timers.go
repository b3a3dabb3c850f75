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
		return nil, err
	}
	if schedules(ops) {
		if refusal := a.gate.Closed(); refusal != nil {
			return nil, refusal
		}
	}
	return a.planTimers(r, ops)
}

// failTimers answers the refusal of the timers of a transaction in the body of messaging 8.4; every other error is handed back.
func failTimers(r *httpfront.Request, answer *wire.TransactionAnswer, err error) error {
	refusal, ok := errors.AsType[*wire.Error](err)
	if !ok || refusal.Code != wire.CodeTimersBadRequest {
		return err
	}
	answer.Reason, answer.Error = string(wire.CodeBadRequest), refusal.Text
	if refusal.Reason == wire.TimersServerOwnedField {
		answer.Reason = refusal.Reason
	}
	status := 400
	if refusal.RollBack {
		status = 200
	}
	r.JSONOwned(status, wire.AppendTransaction(nil, answer))
	return nil
}

// transactionStatus is the status of an answer in the body of messaging 8.4: 200, and 403 where something must change before
// the bundle works (messaging 8.5). It is not a 503, so that nobody sends it again in a loop.
func transactionStatus(answer *wire.TransactionAnswer) int {
	if answer.Reason == string(httpfront.CodeTimersDisabled) {
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
