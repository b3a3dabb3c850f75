package api

import (
	"errors"

	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// planTransactionTimers reads the timers that ride in a transaction. The horizon, the bound on payloads and the number of operations
// of a call do not hold here (state 3.7).
func (a *API) planTransactionTimers(r *httpfront.Request, plan *transactionPlan, body *wire.Transaction) error {
	if len(body.Timers) == 0 {
		return nil
	}
	ops, err := wire.DecodeTimerOps(body.Timers, "timers")
	if err != nil {
		return ofTransaction(err)
	}
	if schedules(ops) {
		if refusal := a.gate.Closed(); refusal != nil {
			return refusal
		}
	}
	plan.call.Timers, err = a.planTimers(r, ops)
	return ofTransaction(err)
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

// fillTimers adds what became of the timers, which stands behind the operations on rows (messaging 8.3).
func (p *transactionPlan) fillTimers(answer *wire.TransactionAnswer, result *command.TransactionResult) {
	timers := timerResults(p.call.Timers, result.Timers)
	for i := range timers {
		answer.Results = append(answer.Results, wire.TransactionResult{Kind: wire.ResultTimer, OpIndex: i, Timer: &timers[i]})
	}
}
