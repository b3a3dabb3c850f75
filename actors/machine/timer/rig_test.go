package timer

import (
	"fmt"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

var (
	tenantA = uuid.MustParse("00000000-0000-0000-0000-00000000000a")
	tenantB = uuid.MustParse("00000000-0000-0000-0000-00000000000b")
)

const (
	testStart   = 1_700_000_000_000_000
	millisecond = 1_000
	second      = 1_000_000
)

// testBackoff are the defaults of cluster 1.9, with a transient pause of its own.
var testBackoff = command.TimerBackoff{MinMs: 1000, MaxMs: 60_000, TransientMs: 700, MaxAttempts: 5}

func always(int, int, int) bool { return true }

func unchecked() error { return nil }

// failer is a test, drawn or not.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// rig is a machine over a space of its own.
type rig struct {
	t       failer
	space   space
	machine *Machine
	now     uint64
	serial  uint32
	// paused stops firing.
	paused bool
	quota  *uint64
	// front is how many places the machine remembers, if it is not to be the usual number.
	front int
}

func newRig(t failer, s space) *rig {
	r := &rig{t: t, space: s, now: testStart}
	r.load()
	return r
}

func (r *rig) load() {
	r.t.Helper()
	machine, err := Load(r.space)
	if err != nil {
		r.t.Fatal(err)
	}
	r.machine = machine
	if r.front > 0 {
		machine.front.most = r.front
	}
}

func (r *rig) id() uuid.UUID {
	r.serial++
	return uuid.UUID{0: 1, 12: byte(r.serial >> 24), 13: byte(r.serial >> 16), 14: byte(r.serial >> 8), 15: byte(r.serial)}
}

// schedule is an operation with the key as txid and payload.
func (r *rig) schedule(key string, delayMicros int64) command.TimerOp {
	return command.TimerOp{
		Kind: command.TimerSchedule, Queue: "q", Key: key, Txid: "t-" + key, Partition: "Default", DelayMicros: delayMicros,
		MessageID: r.id(), Payload: fmt.Appendf(nil, "%q", key),
	}
}

func cancel(key string) command.TimerOp {
	return command.TimerOp{Kind: command.TimerCancel, Queue: "q", Key: key}
}

// tryCall runs a call one microsecond after the command before.
func (r *rig) tryCall(tenant uuid.UUID, ops ...command.TimerOp) (CallOutput, *command.Refusal) {
	r.t.Helper()
	r.now++
	in := &CallInput{StampMicros: r.now, Tenant: tenant, Ops: ops, Firing: !r.paused}
	if r.quota != nil {
		in.HasQuota, in.MaxPending = true, *r.quota
	}
	out, refusal, err := r.machine.Call(r.space, r.space, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return out, refusal
}

func (r *rig) call(ops ...command.TimerOp) CallOutput {
	r.t.Helper()
	out, refusal := r.tryCall(tenantA, ops...)
	if refusal != nil {
		r.t.Fatal(refusal)
	}
	return out
}

// plan plans what is due, as the leader does when nothing is wrong with any payload.
func (r *rig) plan() (planned []command.PlannedTimer) {
	r.t.Helper()
	due, _, err := PlanDue(r.space, r.now, Limits{Timers: 256, Bytes: 4 << 20})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range due {
		timer := d.Planned()
		timer.Payload, timer.Encrypted = d.Stored, d.Encrypted
		planned = append(planned, timer)
	}
	return planned
}

func failing(planned []command.PlannedTimer, failure command.TimerFailure, reason string) []command.PlannedTimer {
	for i := range planned {
		planned[i] = command.PlannedTimer{Tenant: planned[i].Tenant, Queue: planned[i].Queue, Key: planned[i].Key,
			Number: planned[i].Number, Failure: failure, Reason: reason}
	}
	return planned
}

// fireWith runs a fire one microsecond after the command before.
func (r *rig) fireWith(in FireInput) FireOutput {
	r.t.Helper()
	r.now++
	in.StampMicros, in.Firing = r.now, !r.paused
	if in.Fits == nil {
		in.Fits = always
	}
	if in.Backoff == (command.TimerBackoff{}) {
		in.Backoff = testBackoff
	}
	out, err := r.machine.Fire(r.space, r.space, &in)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) fire(planned []command.PlannedTimer) FireOutput {
	r.t.Helper()
	return r.fireWith(FireInput{Timers: planned})
}

func (r *rig) reads() *Reads { return &Reads{Reader: r.space, Check: unchecked} }

func (r *rig) peek(tenant uuid.UUID, queue, key string) (*Row, []byte) {
	r.t.Helper()
	row, payload, err := r.reads().Peek(tenant, queue, key)
	if err != nil {
		r.t.Fatal(err)
	}
	return row, payload
}

func (r *rig) next() (uint64, bool) {
	r.t.Helper()
	due, pending, err := Next(r.space)
	if err != nil {
		r.t.Fatal(err)
	}
	return due, pending
}

func (r *rig) usage(tenant uuid.UUID) Usage {
	r.t.Helper()
	usage, err := UsageOf(r.space, tenant)
	if err != nil {
		r.t.Fatal(err)
	}
	return usage
}

// messages are the payloads of what is appended, in order.
func messages(t failer, appends []Append) (found []command.Message) {
	t.Helper()
	for _, a := range appends {
		rest := a.Group.Chunk
		for range a.Group.Count {
			var m command.Message
			var err error
			if rest, err = command.NextMessage(rest, &m); err != nil {
				t.Fatal(err)
			}
			found = append(found, m)
		}
		if len(rest) > 0 || len(a.Items) != int(a.Group.Count) {
			t.Fatalf("%d messages of %d timers, %d bytes are left", a.Group.Count, len(a.Items), len(rest))
		}
	}
	return found
}

// txids are the transaction ids of what is appended.
func txids(t failer, appends []Append) (found []string) {
	t.Helper()
	for _, m := range messages(t, appends) {
		found = append(found, string(m.Txid))
	}
	return found
}

// fates are what became of planned timers.
func fates(out FireOutput) (found []command.TimerFate) {
	for _, outcome := range out.Result.Timers {
		found = append(found, outcome.Fate)
	}
	return found
}
