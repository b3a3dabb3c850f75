package api

import (
	"context"
	"time"

	"queen/actors/machine/kv"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

func useOfLocks(ops []command.LockOp) (use kvUse) {
	for i := range ops {
		holders := int64(1)
		switch ops[i].Kind {
		case command.LockGet:
			holders = kv.MaxSlots
		case command.LockAcquire:
			holders, use.grows = int64(ops[i].Limit), true
		}
		use.writes = use.writes || ops[i].Kind != command.LockGet
		use.answerBytes += holders * rowAnswerBytes
	}
	return use
}

// locks runs operations on locks and semaphores (state 4).
func (a *API) locks(r *httpfront.Request) error {
	ops, err := wire.DecodeLock(r.Body())
	if err != nil {
		return err
	}
	call := &command.Lock{Tenant: r.Tenant, Ops: ops}
	result, err := callRows(a, r, useOfLocks(ops), call, func(ctx context.Context) (*command.LockResult, error) {
		return a.broker().ReadLock(ctx, call)
	})
	a.countLocks(ops, result, time.Since(r.Arrived))
	if err != nil {
		return err
	}
	r.Answer(200, func(dst []byte) []byte { return wire.AppendLock(dst, ops, result, kv.Guard) })
	return nil
}
