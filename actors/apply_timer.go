package actors

import (
	"queen/actors/machine/catalog"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/moving"
	"queen/actors/machine/partition"
	"queen/actors/machine/switches"
	"queen/actors/machine/timer"
	"queen/raftlog/command"
	"queen/store/layout"
)

// timers schedules and cancels timers, and appends the messages of those that are due at once (state 3.2).
func (a *apply) runTimers(c *command.Timers) (command.Result, error) {
	in := &timer.CallInput{StampMicros: a.now, Tenant: c.Tenant, Ops: c.Ops}
	if refusal, err := a.admitTimers(in); refusal != nil || err != nil {
		return refusal, err
	}
	var out timer.CallOutput
	var refusal *command.Refusal
	err := a.inTimers(func(m *timer.Machine) (err error) {
		out, refusal, err = m.Call(a.batch, a.batch, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return refusal, nil
	}
	return out.Result, a.pushTimers(out.Appends)
}

// admitTimers looks at what every call and every transaction with timers is judged by, and completes its input: the switches
// of the operator, and whether a queue encrypts at this point of the log. The quota of the tenant belongs here too.
func (a *apply) admitTimers(in *timer.CallInput) (*command.Refusal, error) {
	off, err := switches.Off(a.batch)
	if err != nil {
		return nil, err
	}
	in.Firing = !off.Has(command.SwitchTimersFire)
	for i := range in.Ops {
		op := &in.Ops[i]
		if op.Kind != command.TimerSchedule {
			continue
		}
		if off.Has(command.SwitchTimersSchedule) {
			return switches.Refusal(command.SwitchTimersSchedule), nil
		}
		encrypts, err := a.queueEncrypts(in.Tenant, op.Queue)
		if err != nil {
			return nil, err
		}
		if encrypts && !op.Encrypted {
			return nil, errInClear
		}
	}
	return nil, nil
}

func (a *apply) queueEncrypts(tenant command.Tenant, name string) (encrypts bool, err error) {
	err = a.inCatalog(func(m *catalog.Machine) error {
		queue := m.Queue(tenant, name)
		encrypts = queue != nil && queue.Options.EncryptionEnabled
		return nil
	})
	return encrypts, err
}

// planTimers judges the timers of a transaction (guard 5).
func (a *apply) planTimers(pl *plan) (*command.TransactionResult, error) {
	if len(pl.Timers) == 0 {
		return nil, nil
	}
	in := &timer.CallInput{StampMicros: a.now, Tenant: pl.Tenant, Ops: pl.Timers}
	refusal, err := a.admitTimers(in)
	if refusal == nil && err == nil {
		err = a.inTimers(func(m *timer.Machine) (err error) {
			pl.timers, refusal, err = m.Plan(a.batch, in)
			return err
		})
	}
	return rolledBack(refusal), err
}

// commitTimers carries out the timers of a transaction.
func (a *apply) commitTimers(pl *plan) ([]command.TimerOpResult, error) {
	if pl.timers == nil {
		return nil, nil
	}
	var out timer.CallOutput
	err := a.inTimers(func(m *timer.Machine) (err error) {
		out, err = m.Commit(a.batch, a.batch, pl.timers)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out.Result.Ops, a.pushTimers(out.Appends)
}

// fireTimers appends the messages of timers that are due, and files those that are given up (state 3.6).
func (a *apply) fireTimers(c *command.TimerFire) (command.Result, error) {
	off, err := switches.Off(a.batch)
	if err != nil {
		return nil, err
	}
	in := &timer.FireInput{
		StampMicros: a.now, Backoff: c.Backoff, Timers: c.Timers, Firing: !off.Has(command.SwitchTimersFire),
		Encrypts: make([]bool, len(c.Timers)), Fits: a.fitsBeside(c),
	}
	for i := range c.Timers {
		if in.Encrypts[i], err = a.queueEncrypts(c.Timers[i].Tenant, c.Timers[i].Queue); err != nil {
			return nil, err
		}
	}
	var out timer.FireOutput
	err = a.inTimers(func(m *timer.Machine) (err error) {
		out, err = m.Fire(a.batch, a.batch, in)
		return err
	})
	if err == nil {
		err = a.pushTimers(out.Appends)
	}
	for i := range out.Letters {
		if err == nil {
			err = a.fileTimer(&out.Letters[i])
		}
	}
	return out.Result, err
}

// fitsBeside is fits for what a fire writes besides firing. What is fired, and what was granted before, is written after it has
// been asked, so it is counted here: a fire that overflows its entry would be refused again and again, and all timers with it.
func (a *apply) fitsBeside(c *command.TimerFire) func(keys, bytes, chunkBytes int) bool {
	keys, bytes := weigh(c)
	chunkBytes := 0
	for i := range c.Timers {
		chunkBytes += len(c.Timers[i].Payload) + fireOverheadBytes
	}
	return func(moreKeys, moreBytes, moreChunkBytes int) bool {
		if !a.fits(keys+moreKeys, bytes+moreBytes, chunkBytes+moreChunkBytes) {
			return false
		}
		keys, bytes, chunkBytes = keys+moreKeys, bytes+moreBytes, chunkBytes+moreChunkBytes
		return true
	}
}

// pushTimers appends what timers fire, as pushes do.
func (a *apply) pushTimers(appends []timer.Append) error {
	var pushed command.PushGroupResult
	for i := range appends {
		if err := a.pushGroup(appends[i].Tenant, &appends[i].Group, &pushed); err != nil {
			return err
		}
	}
	return nil
}

// fileTimer makes a dead letter of a timer that is given up. Its message has never been in the log of the partition, which is
// made where it is missing.
func (a *apply) fileTimer(letter *timer.Letter) error {
	at, err := a.ensurePartition(letter.Tenant, letter.Queue, letter.Partition)
	if err != nil {
		return err
	}
	a.announceCreated(&at)
	row := deadletter.Row{
		ID: a.mint(), QueueID: at.queue.ID, PartitionID: at.partition.ID, PartitionUUID: at.partition.UUID, Partition: at.partition.Name,
		Group: timer.Group, Offset: letter.Offset, Txid: []byte(letter.Txid), Error: letter.Error, HasError: true,
		RetryCount: letter.RetryCount, FailedMicros: a.now, CreatedMicros: letter.CreatedMicros,
	}
	return a.inDeadLetters(func() error { return deadletter.File(a.batch, a.batch, row, letter.Message) })
}

// announceCreated writes the head of a partition that was made without a message, and tells the groups of it.
func (a *apply) announceCreated(at *place) {
	if at.created {
		a.appended(at.queue, appendedPartition{id: at.partition.ID, name: at.partition.Name, created: true})
		a.batch.Put(layout.Head(at.queue.ID, at.partition.ID), new(partition.Head).AppendTo(nil))
	}
}

// movePayloads empties a bucket of payloads of timers.
func (a *apply) movePayloads(in moving.Input) (bytes uint64, more bool, err error) {
	err = a.inTimers(func(*timer.Machine) (err error) {
		bytes, more, err = timer.MoveChunks(a.batch, a.batch, in)
		return err
	})
	return bytes, more, err
}

// inTimers runs a step of the timers actor.
func (a *apply) inTimers(run func(m *timer.Machine) error) error {
	return inActor(a, a.timers, run)
}
