package actors

import (
	"fmt"

	"queen/actors/machine/kv"
	"queen/actors/machine/moving"
	"queen/actors/machine/switches"
	"queen/raftlog/command"
)

// runKV executes a call of the KV store that writes (state 2).
func (a *apply) runKV(c *command.KV) (result command.Result, err error) {
	if refusal, err := a.kvPaused(); refusal != nil || err != nil {
		return refusal, err
	}
	if err := a.refuseForTest(c.Ops); err != nil {
		return nil, err
	}
	err = a.inKV(func() (err error) {
		result, err = kv.Execute(a.batch, a.batch, c, a.kvMoment(c.Tenant))
		return err
	})
	return result, err
}

// runLock executes a lock call that writes (state 4).
func (a *apply) runLock(c *command.Lock) (result command.Result, err error) {
	if refusal, err := a.kvPaused(); refusal != nil || err != nil {
		return refusal, err
	}
	err = a.inKV(func() (err error) {
		result, err = kv.ExecuteLock(a.batch, a.batch, c, a.kvMoment(c.Tenant))
		return err
	})
	return result, err
}

// kvPaused is the refusal of calls while an operator has turned KV off; sweeps and moves go on (state 11.1, 11.4).
func (a *apply) kvPaused() (*command.Refusal, error) {
	return switches.Refuse(a.batch, command.SwitchKV)
}

// kvMoment is what a call of a tenant is executed under. Quotas (state 11.3) are read here once there are any.
func (a *apply) kvMoment(command.Tenant) kv.Moment {
	return kv.Moment{NowMicros: a.now, Quota: kv.Quota{Rows: kv.NoLimit, Bytes: kv.NoLimit}}
}

// sweepKV removes rows that have expired (state 2.7). Where the entry has no room left, the leader asks again.
func (a *apply) sweepKV(c *command.KVSweep) (command.Result, error) {
	result := &command.KVSweepResult{}
	err := a.inKV(func() (err error) {
		result.Removed, result.More, err = kv.Sweep(a.batch, a.batch, kv.SweepInput{
			NowMicros: a.now, MaxRows: int(c.MaxRows), Fits: func(keys, bytes int) bool { return a.fits(keys, bytes, 0) },
		})
		return err
	})
	return result, err
}

// moveValues empties a bucket of values of the KV store.
func (a *apply) moveValues(in moving.Input) (bytes uint64, more bool, err error) {
	err = a.inKV(func() (err error) {
		bytes, more, err = kv.MoveChunks(a.batch, a.batch, in)
		return err
	})
	return bytes, more, err
}

// inKV runs a step of the KV actor.
func (a *apply) inKV(run func() error) error {
	return inActor(a, a.kv, func(struct{}) error { return run() })
}

// kvPlace names a row of any tenant.
type kvPlace struct{ namespace, key string }

// refuseForTest is the apply failure that QUEEN_TEST_REFUSE_APPLY_KV asks for (cluster 1.13).
func (a *apply) refuseForTest(ops []command.KVOp) error {
	if a.refusedKV == (kvPlace{}) {
		return nil
	}
	for i := range ops {
		if (kvPlace{ops[i].Namespace, ops[i].Key}) == a.refusedKV && ops[i].Kind.Writes() {
			return fmt.Errorf("row %s/%s refuses to apply, as a test asked", ops[i].Namespace, ops[i].Key)
		}
	}
	return nil
}
