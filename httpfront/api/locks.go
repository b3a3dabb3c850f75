package api

import (
	"queen/actors/machine/kv"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

func useOfLocks(ops []command.LockOp) (use kvUse) {
	for i := range ops {
		use.writes = use.writes || ops[i].Kind != command.LockGet
		use.grows = use.grows || ops[i].Kind == command.LockAcquire
	}
	return use
}

// locks runs operations on locks and semaphores (state 4).
func (a *API) locks(r *httpfront.Request) error {
	ops, err := wire.DecodeLock(r.Body())
	if err != nil {
		return err
	}
	result, err := a.callLocks(r, ops)
	if err != nil {
		return err
	}
	r.Answer(200, func(dst []byte) []byte { return wire.AppendLock(dst, ops, result, kv.Guard) })
	return nil
}

// callLocks is callKV for locks.
func (a *API) callLocks(r *httpfront.Request, ops []command.LockOp) (*command.LockResult, error) {
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return nil, err
	}
	use := useOfLocks(ops)
	if err := a.admitKV(use); err != nil {
		return nil, err
	}
	call := &command.Lock{Tenant: r.Tenant, Ops: ops}
	if !use.writes {
		ctx, cancel := contextUntil(span.Deadline)
		defer cancel()
		return a.broker().ReadLock(ctx, call)
	}
	if use.grows {
		if err := r.Admit(); err != nil {
			return nil, err
		}
	}
	applied, err := a.broker().Execute(span, call)
	if err != nil {
		return nil, err
	}
	return applied.(*command.LockResult), nil
}
