package command

// The codecs of timer.go. An operation, a planned timer or a result is encoded as far as its kind goes; fields that its kind does
// not have are left out.

func (c Timers) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	return appendTimerOps(dst, c.Ops)
}

func appendTimerOps(dst []byte, ops []TimerOp) []byte {
	dst = appendNumber(dst, uint64(len(ops)))
	for i := range ops {
		dst = ops[i].appendTo(dst)
	}
	return dst
}

func (op *TimerOp) appendTo(dst []byte) []byte {
	dst = append(dst, byte(op.Kind))
	dst = appendString(dst, op.Queue)
	dst = appendString(dst, op.Key)
	if op.Kind == TimerCancel {
		dst = appendFlags(dst, op.HasTxid)
		if op.HasTxid {
			dst = appendString(dst, op.Txid)
		}
		return dst
	}
	inflated := len(op.Inflated) > 0
	dst = appendFlags(dst, op.Zstd, op.Encrypted, inflated)
	dst = appendString(dst, op.Txid)
	dst = appendString(dst, op.Partition)
	dst = appendSigned(dst, op.DelayMicros)
	dst = appendUUID(dst, op.MessageID)
	dst = appendString(dst, op.ProducerSub)
	dst = appendBytes(dst, op.Payload)
	if inflated {
		dst = appendBytes(dst, op.Inflated)
	}
	return dst
}

func (c TimerFire) appendTo(dst []byte) []byte {
	for _, n := range []uint32{c.Backoff.MinMs, c.Backoff.MaxMs, c.Backoff.TransientMs, c.Backoff.MaxAttempts} {
		dst = appendNumber(dst, uint64(n))
	}
	dst = appendNumber(dst, uint64(len(c.Timers)))
	for i := range c.Timers {
		timer := &c.Timers[i]
		dst = appendUUID(dst, timer.Tenant)
		dst = appendString(dst, timer.Queue)
		dst = appendString(dst, timer.Key)
		dst = appendNumber(dst, timer.Number)
		dst = append(dst, byte(timer.Failure))
		if timer.Failure != TimerFires {
			dst = appendString(dst, timer.Reason)
			continue
		}
		dst = appendFlags(dst, timer.Encrypted)
		dst = appendBytes(dst, timer.Payload)
	}
	return dst
}

func (r *TimersResult) appendTo(dst []byte) []byte { return appendTimerOpResults(dst, r.Ops) }

func appendTimerOpResults(dst []byte, ops []TimerOpResult) []byte {
	dst = appendCount(dst, len(ops))
	for i := range ops {
		op := &ops[i]
		dst = append(dst, byte(op.Status))
		switch op.Status {
		case TimerCancelled:
			dst = appendString(dst, op.Txid)
		case TimerAbsent:
			dst = appendFlags(dst, op.HasTxid)
			if op.HasTxid {
				dst = appendString(dst, op.Txid)
			}
		default:
			dst = appendSigned(dst, op.DeliverMicros)
			dst = appendFlags(dst, op.Fired)
		}
	}
	return dst
}

func (r *TimerFireResult) appendTo(dst []byte) []byte {
	dst = appendCount(dst, len(r.Timers))
	for _, timer := range r.Timers {
		dst = append(dst, byte(timer.Fate))
		if timer.Fate == TimerFired {
			dst = appendNumber(dst, timer.LagMicros)
		}
	}
	return dst
}

// The smallest encodings of list elements, for decoder.count.
const (
	// minTimerOpBytes: kind, two empty names, flags.
	minTimerOpBytes = 4
	// minPlannedTimerBytes: tenant, two empty names, number, failure, an empty reason.
	minPlannedTimerBytes = 16 + 5
	// minTimerOpResultBytes: status, an empty txid.
	minTimerOpResultBytes = 2
	minTimerFateBytes     = 1
)

func (d *decoder) timers() Timers { return Timers{Tenant: d.uuid(), Ops: d.timerOps()} }

func (d *decoder) timerOps() []TimerOp {
	ops := list[TimerOp](d.count(minTimerOpBytes))
	for i := range ops {
		d.timerOp(&ops[i])
		if d.err != nil {
			return nil
		}
	}
	return ops
}

func (d *decoder) timerOp(op *TimerOp) {
	op.Kind = TimerOpKind(d.byte("timer operation"))
	op.Queue, op.Key = d.name(), d.text()
	switch op.Kind {
	case TimerCancel:
		if op.HasTxid = d.flag(); op.HasTxid {
			op.Txid = d.text()
		}
	case TimerSchedule:
		flags := d.flags(3)
		op.Zstd, op.Encrypted = bit(flags, 0), bit(flags, 1)
		op.Txid, op.Partition = d.text(), d.name()
		op.DelayMicros, op.MessageID = d.signed(), d.uuid()
		op.ProducerSub, op.Payload = d.name(), d.bytes()
		if bit(flags, 2) {
			if op.Inflated = d.bytes(); op.Inflated == nil || !op.Zstd {
				d.fail("inflated payload")
			}
		}
	default:
		d.fail("timer operation")
	}
}

func (d *decoder) timerFire() TimerFire {
	c := TimerFire{Backoff: TimerBackoff{
		MinMs: d.number32(), MaxMs: d.number32(), TransientMs: d.number32(), MaxAttempts: d.number32(),
	}}
	c.Timers = list[PlannedTimer](d.count(minPlannedTimerBytes))
	for i := range c.Timers {
		timer := &c.Timers[i]
		timer.Tenant, timer.Queue, timer.Key, timer.Number = d.uuid(), d.name(), d.text(), d.number()
		switch timer.Failure = TimerFailure(d.byte("timer failure")); timer.Failure {
		case TimerFires:
			timer.Encrypted, timer.Payload = d.flag(), d.bytes()
		case TimerTransient, TimerPermanent:
			timer.Reason = d.name()
		default:
			d.fail("timer failure")
		}
		if d.err != nil {
			return TimerFire{}
		}
	}
	return c
}

func (d *decoder) timersResult() *TimersResult { return &TimersResult{Ops: d.timerOpResults()} }

func (d *decoder) timerOpResults() []TimerOpResult {
	ops := list[TimerOpResult](d.count(minTimerOpResultBytes))
	for i := range ops {
		op := &ops[i]
		switch op.Status = TimerStatus(d.byte("timer status")); op.Status {
		case TimerScheduled, TimerRescheduled:
			op.DeliverMicros, op.Fired = d.signed(), d.flag()
		case TimerCancelled:
			op.Txid, op.HasTxid = d.text(), true
		case TimerAbsent:
			if op.HasTxid = d.flag(); op.HasTxid {
				op.Txid = d.text()
			}
		default:
			d.fail("timer status")
		}
		if d.err != nil {
			return nil
		}
	}
	return ops
}

func (d *decoder) timerFireResult() *TimerFireResult {
	r := &TimerFireResult{Timers: list[TimerFireOutcome](d.count(minTimerFateBytes))}
	for i := range r.Timers {
		timer := &r.Timers[i]
		timer.Fate = TimerFate(d.byte("timer fate"))
		if timer.Fate < TimerFired || timer.Fate > TimerPaused {
			d.fail("timer fate")
		}
		if timer.Fate == TimerFired {
			timer.LagMicros = d.number()
		}
	}
	return r
}

// text returns a string that outlives the input and is unlikely to come again, as a key or a txid: names keeps others.
func (d *decoder) text() string { return string(d.bytes()) }
