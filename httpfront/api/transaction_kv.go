package api

import (
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// planKV reads the operations on rows that ride in a transaction (state 2.12).
func (a *API) planKV(r *httpfront.Request, plan *transactionPlan, body *wire.Transaction) (err error) {
	if len(body.KV) == 0 {
		return nil
	}
	plan.call.KVLimits = a.config.KV.limits()
	plan.call.KV, err = wire.DecodeKVOps(body.KV, "kv", &wire.KVBounds{
		Ops: wire.TransactionKVOps, Keys: wire.TransactionKVKeys, ValueBytes: int(a.config.KV.ValueBytes), InTransaction: true,
	})
	if err != nil {
		return err
	}
	use := useOfKV(plan.call.KV, plan.call.KVLimits)
	if err := a.admitKV(use); err != nil {
		return err
	}
	return r.ReserveAnswer(use.answerBytes)
}

// fillKV adds the results of the operations on rows, which stand behind those of the operations (messaging 8.3).
func (p *transactionPlan) fillKV(answer *wire.TransactionAnswer, result *command.TransactionResult) {
	for i := range p.call.KV {
		answer.Results = append(answer.Results, wire.TransactionResult{
			Kind: wire.ResultKV, OpIndex: i, KVOp: &p.call.KV[i], KV: &result.KV.Ops[i],
		})
	}
}

// ridersOf is what became of the operations on rows; nil when the transaction was rolled back for another reason.
func ridersOf(result *command.TransactionResult) *command.KVResult {
	if result.Reason != "" && result.KV.Lost == nil {
		return nil
	}
	return &result.KV
}

// lostKV says which operation has cancelled the transaction; nil when none has.
func lostKV(body *wire.Transaction, result *command.TransactionResult) *wire.LostGate {
	if result.KV.Lost == nil {
		return nil
	}
	return &wire.LostGate{KVLost: result.KV.Lost, FlatIndex: len(body.Operations) + int(result.KV.Lost.Op)}
}
