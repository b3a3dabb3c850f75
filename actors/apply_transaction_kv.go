package actors

import (
	"queen/actors/machine/kv"
	"queen/raftlog/command"
)

// reasonKVPrecondition is the reason of a transaction that an operation with required has cancelled (state 2.12).
const reasonKVPrecondition = "kv_precondition"

// planKV judges the operations on rows (guard 4). A refusal has its own code for a reason.
func (a *apply) planKV(pl *plan) (refused *command.TransactionResult, err error) {
	if len(pl.KV) == 0 {
		return nil, nil
	}
	if refusal, err := a.kvPaused(); refusal != nil || err != nil {
		return rolledBack(refusal), err
	}
	if err := a.refuseForTest(pl.KV); err != nil {
		return nil, err
	}
	call := &command.KV{Tenant: pl.Tenant, Limits: pl.KVLimits, Ops: pl.KV}
	err = a.inKV(func() (err error) {
		pl.kv, err = kv.Judge(a.batch, call, a.kvMoment(pl.Tenant))
		return err
	})
	if err != nil {
		return nil, err
	}
	if refusal := pl.kv.Refusal(); refusal != nil {
		return rolledBack(refusal), nil
	}
	if lost := pl.kv.Lost(); lost != nil {
		return &command.TransactionResult{
			Reason: reasonKVPrecondition, Text: "a required kv operation lost its precondition; the transaction rolled back",
			KV: command.KVResult{Lost: lost},
		}, nil
	}
	return nil, nil
}

// commitKV writes the rows and evaluates the reads.
func (a *apply) commitKV(pl *plan, result *command.TransactionResult) error {
	if pl.kv == nil {
		return nil
	}
	return a.inKV(func() error {
		done, err := pl.kv.Commit(a.batch, a.batch)
		if err == nil {
			result.KV = *done
		}
		return err
	})
}
