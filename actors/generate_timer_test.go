package actors

import (
	"bytes"
	"strconv"

	"queen/raftlog/command"
)

// timers schedules and cancels a few timers of a tenant.
func (g *generator) timers() command.Command {
	tenant := g.tenant()
	return command.Timers{Tenant: tenant, Ops: g.timerOps(tenant, 1+g.random.IntN(4))}
}

func (g *generator) timerOps(tenant command.Tenant, n int) (ops []command.TimerOp) {
	for range n {
		op := command.TimerOp{Queue: g.queue(), Key: pick(g, []string{"a", "a/b", "k-" + strconv.Itoa(g.random.IntN(12))})}
		if known := g.someTimer(); known != nil && known.tenant == tenant && g.oneIn(3) {
			op.Queue, op.Key = known.op.Queue, known.op.Key
		}
		if g.oneIn(3) {
			op.Kind = command.TimerCancel
			if op.HasTxid = g.oneIn(2); op.HasTxid {
				op.Txid = "mine"
			}
		} else {
			g.schedule(tenant, &op)
		}
		ops = append(ops, op)
	}
	return ops
}

func (g *generator) schedule(tenant command.Tenant, op *command.TimerOp) {
	op.Kind, op.Txid, op.Partition, op.MessageID = command.TimerSchedule, string(g.txid()), g.partitionName(), g.uuid()
	op.DelayMicros = pick(g, []int64{-5 * modelSecond, 0, 1, 1000, g.random.Int64N(modelSecond), g.random.Int64N(200 * modelSecond)})
	op.Payload = []byte(`"` + g.text(g.random.IntN(40)) + `"`)
	if g.oneIn(8) {
		op.Payload = bytes.Repeat([]byte{'7'}, 5000) // too large for its row
	}
	if g.oneIn(4) {
		op.ProducerSub = "producer"
	}
	if op.Zstd = g.oneIn(4); op.Zstd && g.oneIn(2) {
		op.Inflated = []byte("[1]")
	}
	op.Encrypted = g.oneIn(10) || g.model.encrypts(tenant, op.Queue) && !g.oneIn(20)
}

func (g *generator) someTimer() *modelTimer {
	if len(g.model.timers.pending) == 0 {
		return nil
	}
	return pick(g, g.model.timers.pending)
}

// timerFire plans timers, most of which are due, as a leader may that knows of everything before this entry.
func (g *generator) timerFire() command.Command {
	c := command.TimerFire{Backoff: command.TimerBackoff{MinMs: 100, MaxMs: 150, TransientMs: 50, MaxAttempts: 1 + g.random.Uint32N(3)}}
	for _, t := range g.model.timers.pending {
		if len(c.Timers) == 8 || t.due > g.now && !g.oneIn(20) {
			continue
		}
		planned := command.PlannedTimer{Tenant: t.tenant, Queue: t.op.Queue, Key: t.op.Key, Number: t.number}
		if g.oneIn(15) {
			planned.Number--
		}
		switch g.random.IntN(6) {
		case 0:
			planned.Failure, planned.Reason = command.TimerTransient, "no key"
		case 1, 2:
			planned.Failure, planned.Reason = command.TimerPermanent, "not zstd"
		default:
			planned.Payload = t.op.Payload
			planned.Encrypted = (t.op.Encrypted || g.model.encrypts(t.tenant, t.op.Queue)) && !g.oneIn(5)
		}
		c.Timers = append(c.Timers, planned)
	}
	if g.oneIn(8) {
		c.Timers = append(c.Timers, command.PlannedTimer{Tenant: g.tenant(), Queue: g.queue(), Key: "never", Payload: []byte("1")})
	}
	return c
}
