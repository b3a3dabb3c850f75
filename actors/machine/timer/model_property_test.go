package timer

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
	"queen/store/layout"
)

var (
	drawnTenants = []uuid.UUID{tenantA, tenantB}
	drawnQueues  = []string{"q", "qa"}
	drawnKeys    = []string{"k", "a", "a/1", "\x00", "é"}
	drawnDelays  = []int64{-5 * second, 0, 1, 2, 300 * millisecond, 300 * millisecond, second, 5 * second, 70 * second}
)

func (r *rig) drawOps(t *rapid.T) (ops []command.TimerOp) {
	names := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) [2]string {
		return [2]string{rapid.SampledFrom(drawnQueues).Draw(t, "queue"), rapid.SampledFrom(drawnKeys).Draw(t, "key")}
	}), 1, 3, rapid.ID).Draw(t, "timers")
	for _, name := range names {
		op := command.TimerOp{Kind: command.TimerCancel, Queue: name[0], Key: name[1]}
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			if op.HasTxid = rapid.Bool().Draw(t, "has txid"); op.HasTxid {
				op.Txid = "mine"
			}
		} else {
			op.Kind, op.MessageID = command.TimerSchedule, r.id()
			op.DelayMicros = rapid.SampledFrom(drawnDelays).Draw(t, "delay")
			op.Txid = rapid.SampledFrom([]string{"t", "u"}).Draw(t, "txid")
			op.Partition = rapid.SampledFrom([]string{"Default", "p"}).Draw(t, "partition")
			op.Zstd, op.Encrypted = rapid.Bool().Draw(t, "zstd"), rapid.Bool().Draw(t, "encrypted")
			op.Payload = bytes.Repeat([]byte{'p'}, rapid.SampledFrom([]int{1, 30, inlineBytes, inlineBytes + 1}).Draw(t, "bytes"))
			if op.Zstd && op.DelayMicros <= 0 && rapid.Bool().Draw(t, "inflated") {
				op.Inflated = []byte("[1]")
			}
		}
		ops = append(ops, op)
	}
	return ops
}

// trial is a machine and the model beside it.
type trial struct {
	*rig
	m *model
}

func (tr *trial) doCall(t *rapid.T) {
	tenant := rapid.SampledFrom(drawnTenants).Draw(t, "tenant")
	ops := tr.drawOps(t)
	tr.paused = rapid.IntRange(0, 3).Draw(t, "paused") == 0
	var pending uint64
	for name := range tr.m.timers {
		if name.tenant == tenant {
			pending++
		}
	}
	growth := tr.m.pendingGrowth(tenant, ops, !tr.paused)
	tr.quota = nil
	if rapid.Bool().Draw(t, "quota") {
		most := rapid.Uint64Range(0, 8).Draw(t, "most")
		tr.quota = &most
	}
	out, refusal := tr.tryCall(tenant, ops...)
	if refused := tr.quota != nil && growth > 0 && pending+uint64(growth) > *tr.quota; refused != (refusal != nil) {
		t.Fatalf("refused with %v: %d pending and %d more, quota %v", refusal, pending, growth, tr.quota)
	}
	if refusal != nil {
		return
	}
	want, fired := tr.m.call(t, tr.now, tenant, ops, !tr.paused)
	if !slices.Equal(out.Result.Ops, want) {
		t.Fatalf("call answers %+v\nwant %+v", out.Result.Ops, want)
	}
	var wantMessages []command.Message
	for _, i := range fired {
		op := ops[i]
		payload := op.Payload
		if op.Zstd {
			payload = op.Inflated
		}
		wantMessages = append(wantMessages, command.Message{ID: op.MessageID, Txid: []byte(op.Txid), Payload: payload, Encrypted: op.Encrypted})
	}
	sameMessages(t, out.Appends, wantMessages)
}

// sameMessages compares what is appended, whatever the partitions are that it is grouped by.
func sameMessages(t *rapid.T, appends []Append, want []command.Message) {
	text := func(all []command.Message) (texts []string) {
		for _, m := range all {
			texts = append(texts, fmt.Sprintf("%s %s %q %v", m.ID, m.Txid, m.Payload, m.Encrypted))
		}
		slices.Sort(texts)
		return texts
	}
	if got, want := text(messages(t, appends)), text(want); !slices.Equal(got, want) {
		t.Fatalf("appended %q\nwant %q", got, want)
	}
	for _, a := range appends {
		if got := txids(t, []Append{a}); len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) || !slices.IsSorted(a.Items) {
			t.Fatalf("one append of %q, items %v", got, a.Items)
		}
	}
}

// doPlan plans what is due at an instant that may be ahead of the log, and keeps the plan.
func (tr *trial) doPlan(t *rapid.T) {
	at := tr.now + rapid.SampledFrom([]uint64{0, 0, 0, 400 * millisecond}).Draw(t, "ahead")
	limits := Limits{Timers: rapid.IntRange(1, 6).Draw(t, "timers"), Bytes: 1 << 20}
	due, more, err := PlanDue(tr.space, at, limits)
	if err != nil {
		t.Fatal(err)
	}
	var want []timerName
	for _, name := range tr.m.inOrder() {
		if timer := tr.m.timers[name]; timer.due() <= at {
			want = append(want, name)
		}
	}
	if len(due) != min(len(want), limits.Timers) || more != (len(want) > limits.Timers) {
		t.Fatalf("%d are due, more %v, want %d", len(due), more, len(want))
	}
	var plan modelPlan
	for i, d := range due {
		timer := tr.m.timers[timerName{d.Tenant, d.Queue, d.Key}]
		expected := tr.m.timers[want[i]]
		if timer.due() != expected.due() || timer.deliver != expected.deliver || !bytes.Equal(d.Stored, timer.op.Payload) {
			t.Fatalf("due timer %d is %+v, want one like %+v", i, d.Row, expected)
		}
		planned := d.Planned()
		switch rapid.IntRange(0, 5).Draw(t, "outcome") {
		case 0:
			planned.Failure, planned.Reason = command.TimerTransient, "no key"
		case 1, 2:
			planned.Failure, planned.Reason = command.TimerPermanent, "not zstd"
		default:
			planned.Payload, planned.Encrypted = d.Stored, d.Encrypted
		}
		plan.timers, plan.were = append(plan.timers, planned), append(plan.were, timer)
	}
	if len(plan.timers) > 0 {
		tr.m.planned = append(tr.m.planned, plan)
	}
}

// doFire carries out a plan, which may be an old one, or one that was carried out before.
func (tr *trial) doFire(t *rapid.T) {
	if len(tr.m.planned) == 0 {
		return
	}
	at := rapid.IntRange(0, len(tr.m.planned)-1).Draw(t, "plan")
	plan := tr.m.planned[at]
	in := FireInput{Timers: plan.timers, Encrypts: make([]bool, len(plan.timers))}
	for i := range in.Encrypts {
		in.Encrypts[i] = rapid.IntRange(0, 4).Draw(t, "encrypts") == 0
	}
	tr.paused = rapid.IntRange(0, 5).Draw(t, "paused") == 0
	in.Firing = !tr.paused
	out := tr.fireWith(in)
	want := tr.m.fire(t, tr.now, plan, &in)
	if got := fates(out); !slices.Equal(got, want) {
		t.Fatalf("fates %v, want %v", got, want)
	}
	var wantMessages []command.Message
	dead := 0
	for i, fate := range want {
		planned, were := plan.timers[i], plan.were[i]
		switch fate {
		case command.TimerFired:
			if lag := out.Result.Timers[i].LagMicros; lag != uint64(int64(tr.now)-were.deliver) {
				t.Fatalf("lag %d", lag)
			}
			wantMessages = append(wantMessages, command.Message{ID: were.op.MessageID, Txid: []byte(were.op.Txid), Payload: planned.Payload, Encrypted: planned.Encrypted})
		case command.TimerDead:
			letter := out.Letters[dead]
			if letter.Queue != planned.Queue || letter.Tenant != planned.Tenant || letter.RetryCount != 5 || letter.Txid != were.op.Txid {
				t.Fatalf("letter %+v", letter)
			}
			dead++
		}
	}
	if dead != len(out.Letters) {
		t.Fatalf("%d letters, want %d", len(out.Letters), dead)
	}
	sameMessages(t, out.Appends, wantMessages)
	if !rapid.Bool().Draw(t, "again") {
		tr.m.planned = slices.Delete(tr.m.planned, at, at+1)
	}
}

// doMove begins a bucket and empties another one, in part.
func (tr *trial) doMove(t *rapid.T) {
	tr.space.NextEntry()
	if memory, ok := tr.space.(*rowtest.Memory); ok && rapid.Bool().Draw(t, "new bucket") {
		memory.OpenBucket++
	}
	in := MoveInput{Bucket: rapid.Uint32Range(1, 4).Draw(t, "bucket"), MaxBytes: rapid.Uint64Range(0, 3*inlineBytes).Draw(t, "most"), Fits: always}
	if _, _, err := MoveChunks(tr.space, tr.space, in); err != nil {
		t.Fatal(err)
	}
}

// copied is the model as it is, for what is rolled back.
func (m *model) copied() *model {
	return &model{timers: maps.Clone(m.timers), ended: maps.Clone(m.ended), planned: slices.Clone(m.planned)}
}

func (tr *trial) run(t *rapid.T) {
	// A small number of remembered places, so that the machine has to look for the next ones.
	tr.front = rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "front")
	tr.load()
	actions := map[string]func(*rapid.T){
		"call":  tr.doCall,
		"call2": tr.doCall,
		"plan":  tr.doPlan,
		"fire":  tr.doFire,
		"time": func(t *rapid.T) {
			tr.now += rapid.SampledFrom([]uint64{1, millisecond, 299 * millisecond, second, 3 * second, 70 * second}).Draw(t, "passes")
		},
		"entry":   func(*rapid.T) { tr.space.NextEntry() },
		"move":    tr.doMove,
		"restart": func(*rapid.T) { tr.load() },
		// A command that is taken back leaves nothing: the actor forgets its memory.
		"rollback": func(t *rapid.T) {
			kept, now, rollback := tr.m.copied(), tr.now, tr.space.Mark()
			for range rapid.IntRange(1, 3).Draw(t, "commands") {
				if rapid.Bool().Draw(t, "fires") {
					tr.doFire(t)
				} else {
					tr.doCall(t)
				}
			}
			rollback()
			tr.m, tr.now = kept, now
			tr.load()
		},
		"": tr.compare,
	}
	t.Repeat(actions)
	tr.drain(t)
}

// drain fires everything that is left: nothing is forgotten.
func (tr *trial) drain(t *rapid.T) {
	tr.paused = false
	for round := 0; len(tr.m.timers) > 0; round++ {
		if round > 100 {
			t.Fatalf("%d timers never fire", len(tr.m.timers))
		}
		due, pending := tr.next()
		if !pending {
			t.Fatal("nothing is due, and something pending")
		}
		tr.now = max(tr.now, due)
		planned := tr.plan()
		plan := modelPlan{timers: planned}
		for _, p := range planned {
			plan.were = append(plan.were, tr.m.timers[timerName{p.Tenant, p.Queue, p.Key}])
		}
		in := FireInput{Timers: planned, Firing: true, Encrypts: make([]bool, len(planned))}
		out := tr.fireWith(in)
		if got, want := fates(out), tr.m.fire(t, tr.now, plan, &in); !slices.Equal(got, want) || slices.ContainsFunc(got, func(f command.TimerFate) bool { return f != command.TimerFired }) {
			t.Fatalf("fates %v, want %v", got, want)
		}
	}
	tr.compare(t)
}

// TestTimersEqualAModel runs random calls, plans that grow old, fires, time and taken back commands beside a map of timers. Over
// maps, which see a key that is deleted twice and a chunk that is lost.
func TestTimersEqualAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rowtest.NewMemory()
		tr := &trial{newRig(t, m), &model{timers: map[timerName]modelTimer{}, ended: map[uuid.UUID]string{}}}
		tr.run(t)
		if len(m.Chunks) != 0 || m.Len() > 1 {
			t.Fatalf("%d rows and %d chunks are left", m.Len(), len(m.Chunks))
		}
	})
}

// TestTimersEqualAModelOverTheStore is the same over a real store and its batches.
func TestTimersEqualAModelOverTheStore(t *testing.T) {
	s := newStored(t)
	rapid.Check(t, func(t *rapid.T) {
		s.wipe([]byte{layout.FamilyTimer}, layout.TimersDue(), []byte{layout.FamilyTimerCount}, []byte{layout.FamilyTimerChunk}, countersKey)
		tr := &trial{newRig(t, s), &model{timers: map[timerName]modelTimer{}, ended: map[uuid.UUID]string{}}}
		tr.run(t)
	})
}
