package timer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
	"queen/store"
)

func wantFates(t *testing.T, out FireOutput, want ...command.TimerFate) {
	t.Helper()
	if got := fates(out); !slices.Equal(got, want) {
		t.Errorf("fates are %v, want %v", got, want)
	}
}

func TestWhatIsDueFiresAndIsGone(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	op := r.schedule("k", second)
	op.ProducerSub, op.Payload = "alice", bytes.Repeat([]byte{'7'}, inlineBytes+1)
	r.call(op)
	r.now += second + 5
	planned := r.plan()
	out := r.fire(planned)
	wantFates(t, out, command.TimerFired)
	if lag := out.Result.Timers[0].LagMicros; lag != 6 {
		t.Errorf("lag %d", lag)
	}
	got := messages(t, out.Appends)[0]
	if got.ID != op.MessageID || string(got.Txid) != op.Txid || string(got.ProducerSub) != "alice" || got.Encrypted || !bytes.Equal(got.Payload, op.Payload) {
		t.Errorf("message %v %q", got.ID, got.Txid)
	}
	if row, _ := r.peek(tenantA, "q", "k"); row != nil || len(m.Chunks) != 0 || r.usage(tenantA) != (Usage{}) {
		t.Errorf("left %+v, %d chunks, %+v", row, len(m.Chunks), r.usage(tenantA))
	}
	// The same plan again, as after a change of the leader: the timer is gone and nothing is appended.
	again := r.fire(planned)
	wantFates(t, again, command.TimerGone)
	if len(again.Appends) != 0 {
		t.Error("fired twice")
	}
	if out := r.call(r.schedule("k", second)); out.Result.Ops[0].Status != command.TimerScheduled {
		t.Errorf("the key is %s", out.Result.Ops[0].Status)
	}
}

func TestAPlanThatNamesATimerTwiceFiresItOnce(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	r.call(r.schedule("k", second))
	r.now += second
	planned := r.plan()
	out := r.fire(append(planned, planned...))
	wantFates(t, out, command.TimerFired, command.TimerGone)
	if got := txids(t, out.Appends); len(got) != 1 {
		t.Errorf("appended %q", got)
	}
}

// What has happened between plan and fire decides: the log orders them.
func TestAFireFindsWhatHasHappenedSinceItsPlan(t *testing.T) {
	for name, c := range map[string]struct {
		between func(r *rig)
		want    command.TimerFate
		left    bool
	}{
		"nothing":     {func(*rig) {}, command.TimerFired, false},
		"a cancel":    {func(r *rig) { r.call(cancel("k")) }, command.TimerGone, false},
		"a later one": {func(r *rig) { r.call(r.schedule("k", second)) }, command.TimerChanged, true},
		"the same again": {func(r *rig) {
			r.paused = true
			r.call(r.schedule("k", 0))
			r.paused = false
		}, command.TimerChanged, true},
		"fired at once":      {func(r *rig) { r.call(r.schedule("k", 0)) }, command.TimerGone, false},
		"cancelled and new":  {func(r *rig) { r.call(cancel("k")); r.call(r.schedule("k", second)) }, command.TimerChanged, true},
		"another fire":       {func(r *rig) { r.fire(r.plan()) }, command.TimerGone, false},
		"a failed fire":      {func(r *rig) { r.fire(failing(r.plan(), command.TimerTransient, "no key")) }, command.TimerChanged, true},
		"another timer":      {func(r *rig) { r.call(r.schedule("other", second)) }, command.TimerFired, false},
		"a cancel elsewhere": {func(r *rig) { _, _ = r.tryCall(tenantB, cancel("k")) }, command.TimerFired, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rowtest.NewMemory())
			r.call(r.schedule("k", second))
			r.now += second
			planned := r.plan()
			c.between(r)
			out := r.fire(planned)
			wantFates(t, out, c.want)
			if fired := len(out.Appends) == 1; fired != (c.want == command.TimerFired) {
				t.Errorf("fired is %v", fired)
			}
			if row, _ := r.peek(tenantA, "q", "k"); (row != nil) != c.left {
				t.Errorf("left %+v", row)
			}
		})
	}
}

// A leader whose clock is ahead plans what is not due at the stamps of the log.
func TestNothingFiresBeforeItsDelay(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	r.call(r.schedule("k", second))
	scheduled := r.now
	r.now += 10 * second
	planned := r.plan()
	r.now = scheduled + second - 2
	wantFates(t, r.fire(planned), command.TimerEarly) // one microsecond before
	wantFates(t, r.fire(planned), command.TimerFired) // at the instant
}

func TestPausesDoubleUntilTheTimerIsDead(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	op := r.schedule("k", second)
	op.Payload, op.Zstd, op.Encrypted, op.ProducerSub = []byte("no \xff zstd"), true, true, "alice"
	r.call(op)
	created := r.now
	r.now += second
	for attempt, pause := range []uint64{1, 2, 4, 8} {
		out := r.fire(failing(r.plan(), command.TimerPermanent, fmt.Sprint("refused ", attempt)))
		wantFates(t, out, command.TimerPutOff)
		row, payload := r.peek(tenantA, "q", "k")
		if row.Attempts != uint32(attempt+1) || row.LastError != fmt.Sprint("refused ", attempt) || row.UpdatedMicros != r.now ||
			row.CreatedMicros != created || row.DeliverMicros != int64(created)+second || !bytes.Equal(payload, op.Payload) {
			t.Fatalf("after %d failures: %+v", attempt+1, row)
		}
		if due, _ := r.next(); due != r.now+pause*second {
			t.Fatalf("after %d failures due in %d µs", attempt+1, due-r.now)
		}
		r.now += pause*second - 1
		if planned := r.plan(); len(planned) != 0 {
			t.Fatal("planned before the pause has ended")
		}
		r.now++
	}
	out := r.fire(failing(r.plan(), command.TimerPermanent, "refused for good"))
	wantFates(t, out, command.TimerDead)
	if len(out.Letters) != 1 || len(out.Appends) != 0 {
		t.Fatalf("letters %+v", out.Letters)
	}
	letter := out.Letters[0]
	var message command.Message
	if rest, err := command.NextMessage(letter.Message, &message); err != nil || len(rest) > 0 {
		t.Fatal(err)
	}
	var text string
	if err := json.Unmarshal(message.Payload, &text); err != nil || text != base64.StdEncoding.EncodeToString(op.Payload) {
		t.Errorf("payload %q, %v", message.Payload, err)
	}
	if message.ID != op.MessageID || string(message.Txid) != op.Txid || string(message.ProducerSub) != "alice" || message.Encrypted {
		t.Errorf("message %+v", message)
	}
	letter.Message = nil
	want := Letter{Tenant: tenantA, Queue: "q", Partition: "Default", Offset: letter.Offset, Txid: op.Txid, Error: "refused for good",
		RetryCount: 5, CreatedMicros: created}
	if fmt.Sprint(letter) != fmt.Sprint(want) || letter.Offset < letterOffset {
		t.Errorf("letter %+v, want %+v", letter, want)
	}
	if row, _ := r.peek(tenantA, "q", "k"); row != nil || r.usage(tenantA) != (Usage{}) {
		t.Errorf("left %+v", row)
	}
}

// The dead letter of an encrypted timer is stored encrypted, as it was (state 8.2).
func TestALetterKeepsItsEnvelope(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	op := r.schedule("k", second)
	op.Encrypted, op.Payload = true, []byte(`{"encrypted":"AA=="}`)
	r.call(op)
	r.now += second
	policy := testBackoff
	policy.MaxAttempts = 1
	out := r.fireWith(FireInput{Timers: failing(r.plan(), command.TimerPermanent, "too large"), Backoff: policy})
	var message command.Message
	if _, err := command.NextMessage(out.Letters[0].Message, &message); err != nil || !message.Encrypted || !bytes.Equal(message.Payload, op.Payload) {
		t.Errorf("message %+v, %v", message, err)
	}
}

// The text of a letter has to fit the chunks of an entry, beside what an entry writes anyway.
func TestALetterFitsAnEntry(t *testing.T) {
	if text := base64.StdEncoding.EncodedLen(maxLetterBytes); text > store.MaxBlockBytes-4<<20 {
		t.Errorf("the text of a dead letter has %d bytes of %d", text, store.MaxBlockBytes)
	}
}

func TestPausesHaveABound(t *testing.T) {
	for attempts, want := range map[uint32]uint32{1: 1000, 2: 2000, 6: 32_000, 7: 60_000, 1000: 60_000, 1 << 31: 60_000} {
		if got := pauseAfter(attempts, testBackoff); got != want {
			t.Errorf("after %d attempts %d ms, want %d", attempts, got, want)
		}
	}
	if got := pauseAfter(3, command.TimerBackoff{MinMs: 5000, MaxMs: 1000}); got != 1000 {
		t.Errorf("a shortest pause above the longest: %d ms", got)
	}
}

func TestTransientFailuresDoNotCount(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	r.call(r.schedule("k", second))
	r.now += second
	for range 20 {
		wantFates(t, r.fire(failing(r.plan(), command.TimerTransient, "no key")), command.TimerPutOff)
		if due, _ := r.next(); due != r.now+700*millisecond {
			t.Fatalf("due in %d µs", due-r.now)
		}
		r.now += second
	}
	if row, _ := r.peek(tenantA, "q", "k"); row.Attempts != 0 || row.LastError != "no key" {
		t.Errorf("row %+v", row)
	}
	wantFates(t, r.fire(r.plan()), command.TimerFired)
}

func TestATimerInPauseCanBeCancelled(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	r.call(r.schedule("k", second))
	r.now += second
	r.fire(failing(r.plan(), command.TimerPermanent, "no"))
	if out := r.call(cancel("k")); out.Result.Ops[0].Status != command.TimerCancelled {
		t.Errorf("the cancel says %s", out.Result.Ops[0].Status)
	}
	if _, pending := r.next(); pending {
		t.Error("something is pending")
	}
}

// A queue that has begun to encrypt takes nothing in clear (cluster 15.3): the timer stays as it is, and is planned again.
func TestInClearForAQueueThatEncryptsFiresNothing(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	r.call(r.schedule("a", second), r.schedule("b", second), r.schedule("c", second))
	r.now += second
	planned := r.plan()
	planned[1].Encrypted, planned[1].Payload = true, []byte(`{"encrypted":"AA=="}`)
	out := r.fireWith(FireInput{Timers: planned, Encrypts: []bool{true, true, false}})
	wantFates(t, out, command.TimerInClear, command.TimerFired, command.TimerFired)
	if got := messages(t, out.Appends); len(got) != 2 || !got[0].Encrypted || got[1].Encrypted {
		t.Errorf("appended %+v", got)
	}
	again := r.plan()
	if len(again) != 1 || again[0].Number != planned[0].Number {
		t.Errorf("planned again %+v", again)
	}
}

func TestWhileFiringIsPausedNothingHappens(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	r.call(r.schedule("a", second), r.schedule("b", 2*second))
	r.now += 2 * second
	planned := r.plan()
	failing(planned[1:], command.TimerPermanent, "no")
	r.paused = true
	m.NextEntry()
	out := r.fire(planned)
	wantFates(t, out, command.TimerPaused, command.TimerPaused)
	if keys, _ := m.Writes(); keys != 0 || len(out.Appends) != 0 {
		t.Errorf("%d keys are written, appended %+v", keys, out.Appends)
	}
	// The backlog drains oldest first.
	r.paused = false
	if got := txids(t, r.fire(r.plan()).Appends); !slices.Equal(got, []string{"t-a", "t-b"}) {
		t.Errorf("fired %q", got)
	}
}

func TestWithoutRoomATimerStaysAsItIs(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	r.call(r.schedule("a", second), r.schedule("b", second))
	r.now += second
	planned := failing(r.plan(), command.TimerPermanent, "no")
	for _, most := range []uint32{5, 1} { // put off, and dead
		m.NextEntry()
		policy := testBackoff
		policy.MaxAttempts = most
		out := r.fireWith(FireInput{Timers: planned, Backoff: policy, Fits: func(int, int, int) bool { return false }})
		wantFates(t, out, command.TimerNoRoom, command.TimerNoRoom)
		if keys, _ := m.Writes(); keys != 0 || len(out.Letters) != 0 {
			t.Errorf("%d keys are written, letters %+v", keys, out.Letters)
		}
	}
	if again := r.plan(); len(again) != 2 || again[0].Number != planned[0].Number {
		t.Errorf("planned again %+v", again)
	}
}

func TestReasonsAreCut(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	r.call(r.schedule("k", second))
	r.now += second
	r.fire(failing(r.plan(), command.TimerTransient, "x"+strings.Repeat("é", maxReasonBytes)))
	if row, _ := r.peek(tenantA, "q", "k"); len(row.LastError) != maxReasonBytes-1 || !strings.HasSuffix(row.LastError, "é") {
		t.Errorf("%d bytes are kept", len(row.LastError))
	}
}

// Messages for one partition are one append, in their order; where a txid repeats another one begins, so that the window of the
// queue decides and nothing else (messaging 4.6).
func TestMessagesOfAPartitionAreAppendedTogether(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	for i, c := range []struct{ queue, partition, txid string }{
		{"q", "a", "1"}, {"q", "b", "1"}, {"q", "a", "2"}, {"q", "a", "1"}, {"q", "a", "2"}, {"p", "a", "1"}, {"q", "b", "3"}, {"q", "a", "2"},
	} {
		op := r.schedule(fmt.Sprint(i), second)
		op.Queue, op.Partition, op.Txid = c.queue, c.partition, c.txid
		r.call(op)
	}
	foreign := r.schedule("0", second)
	foreign.Partition, foreign.Txid = "a", "9"
	if _, refusal := r.tryCall(tenantB, foreign); refusal != nil {
		t.Fatal(refusal)
	}
	r.now += second
	var got []string
	for _, a := range r.fire(r.plan()).Appends {
		got = append(got, fmt.Sprint(a.Group.Queue, a.Group.Partition, a.Items, a.Tenant == tenantA))
	}
	want := []string{"qa[0 2] true", "qb[1 6] true", "qa[3 4] true", "pa[5] true", "qa[7] true", "qa[8] false"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
