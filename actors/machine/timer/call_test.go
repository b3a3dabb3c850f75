package timer

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
)

// TestOperations goes through the table of state 3.2: what an operation answers, given what is pending under its key.
func TestOperations(t *testing.T) {
	for _, c := range []struct {
		name    string
		pending bool
		op      func(r *rig) command.TimerOp
		want    command.TimerOpResult // DeliverMicros counts from the stamp
		appends int
		left    bool
	}{
		{"schedule a new key", false, func(r *rig) command.TimerOp { return r.schedule("k", 5*second) },
			command.TimerOpResult{Status: command.TimerScheduled, DeliverMicros: 5 * second}, 0, true},
		{"schedule a pending key", true, func(r *rig) command.TimerOp { return r.schedule("k", 5*second) },
			command.TimerOpResult{Status: command.TimerRescheduled, DeliverMicros: 5 * second}, 0, true},
		{"schedule without delay", false, func(r *rig) command.TimerOp { return r.schedule("k", 0) },
			command.TimerOpResult{Status: command.TimerScheduled, Fired: true}, 1, false},
		{"schedule with a negative delay", false, func(r *rig) command.TimerOp { return r.schedule("k", -5*second) },
			command.TimerOpResult{Status: command.TimerScheduled, DeliverMicros: -5 * second, Fired: true}, 1, false},
		{"reschedule without delay", true, func(r *rig) command.TimerOp { return r.schedule("k", 0) },
			command.TimerOpResult{Status: command.TimerRescheduled, Fired: true}, 1, false},
		{"schedule with the shortest delay", false, func(r *rig) command.TimerOp { return r.schedule("k", 1) },
			command.TimerOpResult{Status: command.TimerScheduled, DeliverMicros: 1}, 0, true},
		{"cancel a pending key", true, func(*rig) command.TimerOp { return cancel("k") },
			command.TimerOpResult{Status: command.TimerCancelled, Txid: "t-k", HasTxid: true}, 0, false},
		{"cancel a pending key by another txid", true, func(*rig) command.TimerOp {
			op := cancel("k")
			op.Txid, op.HasTxid = "mine", true
			return op
		}, command.TimerOpResult{Status: command.TimerCancelled, Txid: "t-k", HasTxid: true}, 0, false},
		{"cancel nothing", false, func(*rig) command.TimerOp { return cancel("k") },
			command.TimerOpResult{Status: command.TimerAbsent}, 0, false},
		{"cancel nothing by a txid", false, func(*rig) command.TimerOp {
			op := cancel("k")
			op.Txid, op.HasTxid = "mine", true
			return op
		}, command.TimerOpResult{Status: command.TimerAbsent, Txid: "mine", HasTxid: true}, 0, false},
		{"cancel in another queue", true, func(*rig) command.TimerOp {
			op := cancel("k")
			op.Queue = "other"
			return op
		}, command.TimerOpResult{Status: command.TimerAbsent}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, rowtest.NewMemory())
			if c.pending {
				r.call(r.schedule("k", 60*second))
			}
			out := r.call(c.op(r))
			if c.want.Status == command.TimerScheduled || c.want.Status == command.TimerRescheduled {
				c.want.DeliverMicros += int64(r.now)
			}
			if got := out.Result.Ops[0]; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got := messages(t, out.Appends); len(got) != c.appends {
				t.Errorf("%d messages are appended, want %d", len(got), c.appends)
			}
			row, _ := r.peek(tenantA, "q", "k")
			if (row != nil) != c.left {
				t.Errorf("left is %+v, want %v", row, c.left)
			}
			if want := uint64(0); row != nil {
				want = 1
				if u := r.usage(tenantA); u.Pending != want {
					t.Errorf("%d are counted, want %d", u.Pending, want)
				}
			}
		})
	}
}

func TestWhatFiresAtOnceCarriesTheOperation(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	op := r.schedule("k", 0)
	op.ProducerSub, op.Encrypted, op.Payload = "alice", true, []byte(`{"encrypted":""}`)
	out := r.call(op)
	m := messages(t, out.Appends)[0]
	if m.ID != op.MessageID || string(m.Txid) != op.Txid || string(m.ProducerSub) != "alice" || !m.Encrypted || !bytes.Equal(m.Payload, op.Payload) {
		t.Errorf("message %+v", m)
	}
	a := out.Appends[0]
	if a.Tenant != tenantA || a.Group.Queue != "q" || a.Group.Partition != "Default" || !slices.Equal(a.Items, []int{0}) {
		t.Errorf("append %+v", a)
	}
}

// Apply cannot decompress: what is compressed and due at once fires with what the command brings along, or waits for the leader.
func TestACompressedTimerFiresAtOnceWithItsInflatedPayload(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	ready, broken := r.schedule("ready", 0), r.schedule("broken", 0)
	ready.Zstd, ready.Inflated, broken.Zstd = true, []byte(`[1]`), true
	out := r.call(ready, broken)
	if got := messages(t, out.Appends); len(got) != 1 || string(got[0].Payload) != "[1]" {
		t.Errorf("appended %v", got)
	}
	if !out.Result.Ops[0].Fired || out.Result.Ops[1].Fired {
		t.Errorf("results %+v", out.Result.Ops)
	}
	if due := r.plan(); len(due) != 1 || due[0].Key != "broken" {
		t.Errorf("due is %+v", due)
	}
}

func TestWhileFiringIsPausedNothingFiresAtOnce(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	r.paused = true
	out := r.call(r.schedule("late", -second), r.schedule("later", 0), r.schedule("latest", -9*second))
	if len(out.Appends) != 0 || out.Result.Ops[0].Fired {
		t.Errorf("appended %+v", out.Appends)
	}
	if row, _ := r.peek(tenantA, "q", "late"); row.DueMicros != r.now || row.DeliverMicros != int64(r.now)-second {
		t.Errorf("due at %d, delivered at %d, scheduled at %d", row.DueMicros, row.DeliverMicros, r.now)
	}
	// What is due at one instant fires in the order of deliverAt.
	r.paused = false
	if got := txids(t, r.fire(r.plan()).Appends); !slices.Equal(got, []string{"t-latest", "t-late", "t-later"}) {
		t.Errorf("fired %q", got)
	}
}

func TestDelaysAreClampedToAHundredYears(t *testing.T) {
	for delay, want := range map[int64]int64{
		math.MaxInt64: centuryMicros, math.MinInt64: -centuryMicros, centuryMicros + 1: centuryMicros, -centuryMicros - 1: -centuryMicros,
		centuryMicros: centuryMicros, 0: 0, 7: 7, -7: -7,
	} {
		if got := deliverAt(testStart, delay); got != testStart+want {
			t.Errorf("delay %d: %d after the stamp, want %d", delay, got-testStart, want)
		}
	}
	r := newRig(t, rowtest.NewMemory())
	r.paused = true
	r.call(r.schedule("past", math.MinInt64), r.schedule("future", math.MaxInt64))
	if due, pending := r.next(); !pending || due != r.now {
		t.Errorf("next is due at %d, %v", due, pending)
	}
}

func TestARescheduleReplacesTheTimer(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	first := r.schedule("k", second)
	first.Payload, first.Zstd, first.ProducerSub = bytes.Repeat([]byte{'1'}, inlineBytes+1), true, "alice"
	created := r.now + 1
	r.call(first)
	r.now += 2 * second
	r.fire(failing(r.plan(), command.TimerPermanent, "not zstd"))
	if row, payload := r.peek(tenantA, "q", "k"); row.Attempts != 1 || row.LastError != "not zstd" || !bytes.Equal(payload, first.Payload) {
		t.Fatalf("after a failure: %+v", row)
	}
	second := r.schedule("k", 3_000_000)
	second.Partition, second.Txid = "other", "t-new"
	out := r.call(second)
	row, payload := r.peek(tenantA, "q", "k")
	want := Row{
		Tenant: tenantA, Queue: "q", Key: "k", Number: row.Number, DueMicros: r.now + 3_000_000, DeliverMicros: int64(r.now) + 3_000_000,
		CreatedMicros: created, UpdatedMicros: r.now, MessageID: second.MessageID, Partition: "other", Txid: "t-new", Inline: row.Inline,
	}
	if fmt.Sprint(*row) != fmt.Sprint(want) || !bytes.Equal(payload, second.Payload) {
		t.Errorf("got %+v\nwant %+v", *row, want)
	}
	if out.Result.Ops[0].Status != command.TimerRescheduled || len(m.Chunks) != 0 {
		t.Errorf("result %+v, %d chunks", out.Result.Ops[0], len(m.Chunks))
	}
	if u := r.usage(tenantA); u != (Usage{1, uint64(len(second.Payload))}) {
		t.Errorf("counted %+v", u)
	}
}

func TestAQuotaRefusesGrowthAlone(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	quota := uint64(2)
	r.quota = &quota
	refused := func(want bool, ops ...command.TimerOp) {
		t.Helper()
		_, refusal := r.tryCall(tenantA, ops...)
		if (refusal != nil) != want || refusal != nil && refusal.Code != CodeQuotaExceeded {
			t.Errorf("refused with %v, want %v", refusal, want)
		}
	}
	refused(true, r.schedule("a", second), r.schedule("b", second), r.schedule("c", second))
	if u := r.usage(tenantA); u.Pending != 0 {
		t.Errorf("a refused call left %+v", u)
	}
	refused(false, r.schedule("a", second), r.schedule("b", second))
	refused(true, r.schedule("c", second))
	refused(false, r.schedule("a", 2*second))
	refused(false, cancel("a"), r.schedule("c", second))
	refused(false, r.schedule("now", 0))
	// A limit below the present use deletes nothing and refuses growth (state 11.3).
	quota = 0
	refused(false, r.schedule("b", 3*second))
	refused(false, cancel("b"), r.schedule("d", second))
	refused(true, r.schedule("e", second))
	refused(false, cancel("c"), cancel("d"))
	if _, refusal := r.tryCall(tenantB, r.schedule("a", second)); refusal == nil {
		t.Error("no quota of 0 for another tenant")
	}
	r.quota = nil
	refused(false, r.schedule("f", second), r.schedule("g", second), r.schedule("h", second))
}

func TestACallNamesATimerOnce(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	if _, refusal := r.tryCall(tenantA, r.schedule("k", second), cancel("k")); refusal == nil || refusal.Code != CodeBadOp {
		t.Errorf("refusal %v", refusal)
	}
	other := r.schedule("k", second)
	other.Queue = "other"
	r.call(r.schedule("k", second), other)
}

func TestAPlanChangesNothing(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	r.call(r.schedule("a", second))
	before := m.Len()
	m.NextEntry()
	in := &CallInput{StampMicros: r.now + 1, Tenant: tenantA, Ops: []command.TimerOp{cancel("a"), r.schedule("b", second)}, Firing: true}
	plan, refusal, err := r.machine.Plan(m, in)
	if refusal != nil || err != nil {
		t.Fatal(refusal, err)
	}
	if keys, _ := m.Writes(); keys != 0 || m.Len() != before {
		t.Fatalf("%d keys are written", keys)
	}
	if _, err := r.machine.Commit(m, m, plan); err != nil {
		t.Fatal(err)
	}
	if row, _ := r.peek(tenantA, "q", "a"); row != nil {
		t.Error("the cancelled timer is pending")
	}
}

func TestACallThatChangesNothingWritesNothing(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	r.call(cancel("a"), r.schedule("now", 0))
	if keys, _ := m.Writes(); keys != 0 {
		t.Errorf("%d keys are written", keys)
	}
}

func TestTenantsDoNotSeeEachOther(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	r.call(r.schedule("k", second))
	if out, _ := r.tryCall(tenantB, cancel("k")); out.Result.Ops[0].Status != command.TimerAbsent {
		t.Errorf("cancelled %+v", out.Result.Ops[0])
	}
	if row, _ := r.peek(tenantB, "q", "k"); row != nil {
		t.Errorf("peeked %+v", row)
	}
	if u := r.usage(tenantB); u != (Usage{}) {
		t.Errorf("counted %+v", u)
	}
}

// When all timers are gone nothing is left but the numbers.
func TestNothingIsLeftOfTimersThatAreGone(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	for i := range 10 {
		op := r.schedule(fmt.Sprint(i), int64(i+1)*millisecond)
		op.Payload = make([]byte, i*1000)
		r.call(op)
	}
	r.call(cancel("3"), cancel("7"))
	r.now += second
	r.fire(r.plan())
	if m.Len() != 1 || len(m.Chunks) != 0 || m.Row(countersKey) == nil {
		t.Errorf("%d rows and %d chunks are left", m.Len(), len(m.Chunks))
	}
	if _, pending := r.next(); pending {
		t.Error("something is pending")
	}
}

// What commands are weighed by must be what they write at most: a batch that is too large ends the node.
func TestWritesStayWithinTheirEstimates(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	const counterBytes = 128
	for _, size := range []int{10, inlineBytes, inlineBytes + 1} {
		var ops []command.TimerOp
		for i := range 50 {
			op := r.schedule(strings.Repeat(fmt.Sprint(i%10), 200)+fmt.Sprint(i), second)
			op.Queue = strings.Repeat("q", 270)
			op.Partition, op.Txid, op.ProducerSub = strings.Repeat("p", 400), strings.Repeat("t", 2000), strings.Repeat("s", 300)
			op.Payload = make([]byte, size)
			ops = append(ops, op)
		}
		for range 2 { // new, then rescheduled
			m.NextEntry()
			m.OpenBucket++
			r.call(ops...)
			keys, bytes := m.Writes()
			most := counterBytes
			for i := range ops {
				most += OpBytes(&ops[i])
			}
			if keys > Keys*len(ops)+1 || bytes > most {
				t.Errorf("payloads of %d bytes: wrote %d keys, %d bytes of %d", size, keys, bytes, most)
			}
		}
		r.now += 2 * second
		m.NextEntry()
		taken, room := 0, 0
		r.fireWith(FireInput{Timers: failing(r.plan(), command.TimerPermanent, strings.Repeat("x", 5000)),
			Fits: func(keys, bytes, chunkBytes int) bool { taken += keys; room += bytes; return true }})
		if keys, bytes := m.Writes(); keys > taken+1 || bytes > room+counterBytes {
			t.Errorf("putting off wrote %d keys of %d, %d bytes of %d", keys, taken, bytes, room)
		}
		r.now += 100 * second
		m.NextEntry()
		planned := r.plan()
		r.fire(planned)
		if keys, bytes := m.Writes(); keys > Keys*len(planned)+1 || bytes > RowBytes*len(planned)+counterBytes {
			t.Errorf("firing %d wrote %d keys, %d bytes", len(planned), keys, bytes)
		}
	}
}
