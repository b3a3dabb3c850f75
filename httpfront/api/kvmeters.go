package api

import (
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// kvMillisecondsBounds go from a read at a leader to the patience of a client.
var kvMillisecondsBounds = []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000}

// operationMeters count the operations of a surface, by operation and outcome, and how long its calls took.
type operationMeters struct {
	set              *metrics.Set
	counts, duration string
}

func (m *operationMeters) count(op, outcome string) {
	m.set.GetOrCreateCounter(fmt.Sprintf("%s{op=%q,outcome=%q}", m.counts, op, outcome)).Inc()
}

func (m *operationMeters) took(op string, took time.Duration) {
	name := fmt.Sprintf("%s{op=%q}", m.duration, op)
	m.set.GetOrCreatePrometheusHistogramExt(name, kvMillisecondsBounds).Update(float64(took.Microseconds()) / 1000)
}

// The outcomes of operations that have no reason of state 2.3 for one.
const (
	outcomeApplied = "applied"
	// outcomeCancelled is that of the operations beside one with required that lost its condition.
	outcomeCancelled = "cancelled"
	outcomeFound     = "found"
	outcomeMissing   = "missing"
	outcomeRead      = "read"
	// outcomeRefused is that of a call that was not executed, or of which nothing is known.
	outcomeRefused = "refused"
)

// countKV counts the operations of a call, and how long it took for each kind in it; done is nil for one that failed.
func (a *API) countKV(ops []command.KVOp, done *command.KVResult, took time.Duration) {
	meters := &a.meters.kv
	var timed [command.KVCheck + 1]bool
	for i := range ops {
		name := wire.KVOpName(ops[i].Kind)
		meters.count(name, kvOutcome(ops[i].Kind, i, done))
		if !timed[ops[i].Kind] {
			timed[ops[i].Kind] = true
			meters.took(name, took)
		}
	}
}

func kvOutcome(kind command.KVOpKind, at int, done *command.KVResult) string {
	switch {
	case done == nil:
		return outcomeRefused
	case done.Lost != nil && int(done.Lost.Op) == at:
		return done.Lost.Reason.String()
	case done.Lost != nil:
		return outcomeCancelled
	case kind == command.KVGet && done.Ops[at].Found:
		return outcomeFound
	case kind == command.KVGet:
		return outcomeMissing
	case kind.Reads():
		return outcomeRead
	case done.Ops[at].Reason != command.KVApplied:
		return done.Ops[at].Reason.String()
	default:
		return outcomeApplied
	}
}

// countLocks is countKV for a lock call.
func (a *API) countLocks(ops []command.LockOp, done *command.LockResult, took time.Duration) {
	meters := &a.meters.locks
	var timed [command.LockGet + 1]bool
	for i := range ops {
		name := wire.LockOpName(ops[i].Kind)
		outcome := outcomeRefused
		if done != nil {
			outcome = lockOutcome(ops[i].Kind, &done.Ops[i])
		}
		meters.count(name, outcome)
		if !timed[ops[i].Kind] {
			timed[ops[i].Kind] = true
			meters.took(name, took)
		}
	}
}

func lockOutcome(kind command.LockOpKind, r *command.LockOpResult) string {
	switch {
	case kind == command.LockGet && !r.Done:
		return "free"
	case kind == command.LockGet, kind == command.LockAcquire && !r.Done:
		return "held"
	case !r.Done:
		return "lost"
	default:
		return outcomeApplied
	}
}
