package cursor

import (
	"math"
	"testing"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

func TestExpiredLeaseCannotAckOrExtend(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.now += leaseSeconds*second - 1
	b.live(true)
	b.now++
	b.live(false)
	b.unchangedBy(func() {
		b.verdicts(b.keeping(lease, completed(4)), badLease)
		if _, ok := b.state.Extend(b.now, lease, second, b.term, b.holds); ok {
			t.Fatal("extended an expired lease")
		}
	})
	b.verdicts(b.keeping(uuid.Nil, completed(4)), success)
	b.at(5, 0)
}

func TestExtendNeverShortens(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	for _, step := range []struct{ extend, want uint64 }{
		{second, leaseSeconds * second},
		{leaseSeconds * second, leaseSeconds * second},
		{90 * second, 90 * second},
		{math.MaxUint64, math.MaxUint64 - startMicros},
	} {
		got, ok := b.state.Extend(b.now, lease, step.extend, b.term, b.holds)
		if !ok || got != b.now+step.want {
			t.Fatalf("extend by %d = now + %d, %v; want now + %d", step.extend, got-b.now, ok, step.want)
		}
	}
	b.unchangedBy(func() {
		if _, ok := b.state.Extend(b.now, uuid.UUID{15: 9}, second, b.term, b.holds); ok {
			t.Fatal("extended a foreign lease")
		}
	})
}

func TestNoLeaseNamedIsNoLeaseHeld(t *testing.T) {
	b := newBench(t)
	if b.state.HoldsLease(b.now, uuid.Nil, b.holds) || b.state.UndoClaim(uuid.Nil) {
		t.Fatal("the zero lease is held")
	}
	if _, ok := b.state.LeaseEnd(b.holds); ok {
		t.Fatal("a lease that was never granted has an end")
	}
	if _, ok := b.state.Claim(b.now, ClaimInput{Window: b.window(), Max: 5, MaxEnd: NoCap}); ok {
		t.Fatal("claimed without a lease id")
	}
}

func TestClaimStaysInsideItsLimits(t *testing.T) {
	cases := []struct {
		name        string
		max, maxEnd uint64
		conflating  bool
		last        uint64
		ok          bool
	}{
		{"max", 2, NoCap, false, 1, true},
		{"max beyond any offset", math.MaxUint64, NoCap, false, 4, true},
		{"payload limit", 5, 3, false, 2, true},
		{"nothing left of batch", 0, NoCap, false, 0, false},
		{"nothing left of payload", 5, 0, false, 0, false},
		{"conflating takes all behind the newest", 1, 5, true, 4, true},
		{"conflating takes nothing when the newest does not fit", 1, 4, true, 0, false},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			out, ok := b.state.Claim(b.now, ClaimInput{
				Window: b.window(), Max: test.max, MaxEnd: test.maxEnd, Lease: b.nextLease(), LeaseMicros: second,
				Conflating: test.conflating,
			})
			if ok != test.ok || out.Last != test.last {
				t.Fatalf("claim = %+v, %v", out, ok)
			}
			if !ok && len(b.state.AppendTo(nil)) != len((&State{}).AppendTo(nil)) {
				t.Fatalf("a claim of nothing changed the state: %+v", b.state)
			}
		})
	}
}

func TestClaimResumesAtTheLogStartWithABudgetOfItsOwn(t *testing.T) {
	b := newBench(t)
	b.policy.RetryDelayMicros = 10 * second
	lease := b.claim(0, 4, 1)
	b.releasing(lease, failed(0))
	b.claimNothing()
	b.logStart = 2
	b.claim(2, 4, 1)
	b.at(2, 0)
}

func TestFailedAfterRetentionIsJudgedFromTheLogStart(t *testing.T) {
	b := newBench(t)
	b.policy.RetryLimit = 1
	b.releasing(b.claim(0, 4, 1), failed(0))
	lease := b.claim(0, 4, 2)
	b.logStart = 2
	b.filed(b.releasing(lease, failed(2)))
	b.at(2, 1)
	b.filed(b.releasing(b.claim(2, 4, 1), failed(2)), exhaustedAt(2, 1))
	if b.state.TotalConsumed != 1 {
		t.Fatalf("consumed %d; want 1: retention consumes nothing", b.state.TotalConsumed)
	}
}

// Retention may take a whole batch away under its lease (messaging 15). The partition must not wait for the expiry once
// the holder is done with it.
func TestAckOfABatchThatRetentionTookReleasesItsLease(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.logStart, b.tail = 6, 8
	b.unchangedBy(func() {
		b.verdicts(b.keeping(lease, failed(0)), unresolved)
		b.verdicts(b.keeping(uuid.Nil, completed(0)), noop)
	})
	b.verdicts(b.releasing(lease, completed(0, 1)), noop, noop)
	b.at(6, 0)
	b.claim(6, 7, 1)
}

func TestLeaseStaysWhileAnythingOfItsBatchIsRetained(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.logStart = 4
	b.unchangedBy(func() { b.verdicts(b.keeping(lease, completed(0, 3)), noop, noop) })
	b.verdicts(b.releasing(lease, completed(0, 4)), noop, releasedOK)
	b.at(5, 0)
}

func TestUndoneClaimTakesTheAttemptBack(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.releasing(lease, retry(0))
	before := string(b.state.AppendTo(nil))
	lease = b.claim(0, 4, 2)
	if !b.state.UndoClaim(lease) || b.state.UndoClaim(lease) {
		t.Fatal("a claim is undone once")
	}
	if string(b.state.AppendTo(nil)) != before {
		t.Fatalf("undone to %+v", b.state)
	}
	b.claim(0, 4, 2)
	if b.state.UndoClaim(lease) {
		t.Fatal("undid a claim that another one replaced")
	}
}

func (b *bench) deliver() ClaimOutput {
	b.t.Helper()
	out, ok := b.state.Claim(b.now, ClaimInput{Window: b.window(), Holds: b.holds, Max: 100, MaxEnd: NoCap, CommitOnDelivery: true})
	if !ok || out.Attempt != 1 {
		b.t.Fatalf("commit-on-delivery claim = %+v, %v", out, ok)
	}
	return out
}

func TestCommitOnDeliveryMovesTheCursorAndIsUndoneWhole(t *testing.T) {
	b := newBench(t)
	for attempt := uint32(1); attempt <= 3; attempt++ {
		b.releasing(b.claim(0, 4, attempt), failed(2))
	}
	b.releasing(b.claim(0, 4, 4), failed(2)) // exhausted below a ceiling of 2
	before := string(b.state.AppendTo(nil))
	out := b.deliver()
	b.at(2, 0)
	b.live(false)
	if b.state.HasCeiling || b.state.HasAttemptStart || b.state.TotalConsumed != 2 {
		t.Fatalf("after delivery %+v", b.state)
	}
	if b.state.UndoDelivery(b.now, 1, 1, b.holds) || b.state.UndoDelivery(b.now, 0, 4, b.holds) {
		t.Fatal("undid a delivery that never was")
	}
	if !b.state.UndoDelivery(b.now, out.First, out.Last, b.holds) {
		t.Fatal("a delivery that nobody received is not undone")
	}
	if string(b.state.AppendTo(nil)) != before {
		t.Fatalf("undone to %+v", b.state)
	}
	if b.state.UndoDelivery(b.now, out.First, out.Last, b.holds) {
		t.Fatal("a delivery is undone once")
	}
}

func TestDeliveryIsNotUndoneOnceTheGroupHasMovedOn(t *testing.T) {
	cases := map[string]func(b *bench){
		"another delivery": func(b *bench) { b.deliver() },
		"a live lease":     func(b *bench) { b.claim(5, 9, 1) },
		"a seek":           func(b *bench) { b.state.Seek(5) },
		"an ack":           func(b *bench) { b.keeping(uuid.Nil, completed(5)) },
	}
	for name, step := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			out := b.deliver()
			b.tail = 10
			step(b)
			b.unchangedBy(func() {
				if b.state.UndoDelivery(b.now, out.First, out.Last, b.holds) {
					t.Fatal("undone")
				}
			})
		})
	}
	b := newBench(t)
	out := b.deliver()
	b.tail = 10
	b.claim(5, 9, 1)
	b.expire()
	if !b.state.UndoDelivery(b.now, out.First, out.Last, b.holds) {
		t.Fatal("an expired lease on what follows keeps a delivery from being undone")
	}
	b.claim(0, 9, 1)
}

func TestConflatingBudgetSurvivesNewerArrivals(t *testing.T) {
	b := newBench(t)
	for attempt := uint32(1); attempt <= 4; attempt++ {
		lease := b.nextLease()
		out, ok := b.state.Claim(b.now, ClaimInput{
			Window: b.window(), Max: 1, MaxEnd: NoCap, Lease: lease, LeaseMicros: second, Conflating: true,
		})
		if !ok || out != (ClaimOutput{First: 0, Last: b.tail - 1, Attempt: attempt}) {
			t.Fatalf("claim = %+v, %v", out, ok)
		}
		acked := b.releasing(lease, failed(out.Last))
		if attempt < 4 {
			b.filed(acked)
			b.at(0, attempt)
			b.tail++
			continue
		}
		b.filed(acked, exhaustedAt(out.Last, 3))
		b.at(b.tail, 0)
	}
}

func TestRetryLimitZeroDeadLettersAtOnce(t *testing.T) {
	b := newBench(t)
	b.policy.RetryLimit = 0
	b.filed(b.releasing(b.claim(0, 4, 1), completed(0), failed(1), dlq(2)), exhaustedAt(1, 0), Filing{Offset: 2})
	b.at(3, 0)
	b.filed(b.releasing(b.claim(3, 4, 1), failed(4)))
	b.at(3, 0)
	b.claim(3, 3, 2)
}

// Messaging 6.5: what the client asks to dead-letter is filed wherever it stands, whatever becomes of the failed message.
func TestDLQItemsAboveAFailedOneAreFiledAndRedelivered(t *testing.T) {
	for name, limit := range map[string]uint32{"budget left": 3, "exhausted above unmentioned": 0} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.policy.RetryLimit = limit
			out := b.releasing(b.claim(0, 4, 1), failed(1), dlq(3))
			b.verdicts(out, releasedOK, filedOK)
			b.filed(out, Filing{Offset: 3})
			b.at(0, min(limit, 1))
		})
	}
}

func TestStrongestStatusWinsAtOneOffset(t *testing.T) {
	order := []command.AckStatus{command.AckCompleted, command.AckRetry, command.AckFailed, command.AckDeadLetter}
	for weak := range order {
		for strong := weak + 1; strong < len(order); strong++ {
			for _, pair := range [][2]int{{weak, strong}, {strong, weak}} {
				b, alone := newBench(t), newBench(t)
				b.releasing(b.claim(0, 4, 1), items(order[pair[0]], 1), items(order[pair[1]], 1))
				alone.releasing(alone.claim(0, 4, 1), items(order[strong], 1))
				got, want := b.state, alone.state
				got.Released, want.Released = Released{}, Released{}
				if string(got.AppendTo(nil)) != string(want.AppendTo(nil)) {
					t.Errorf("%v then %v = %+v; want %+v", order[pair[0]], order[pair[1]], got, want)
				}
			}
		}
	}
}

func TestReasonOfADeadLetter(t *testing.T) {
	text := func(status command.AckStatus, offset uint64, reason string) AckItem {
		return AckItem{Txid: txidHash(offset), Status: status, Where: InRange, Offset: offset, Error: reason, HasError: true}
	}
	bare := func(status command.AckStatus, offset uint64) AckItem {
		return AckItem{Txid: txidHash(offset), Status: status, Where: InRange, Offset: offset}
	}
	cases := []struct {
		name  string
		items []AckItem
		want  []Filing
	}{
		{"its own", []AckItem{text(command.AckCompleted, 0, "first"), text(command.AckDeadLetter, 1, "own")},
			[]Filing{{Offset: 1, Error: "own", HasError: true}}},
		{"its own, empty", []AckItem{text(command.AckCompleted, 0, "first"), text(command.AckDeadLetter, 1, "")},
			[]Filing{{Offset: 1, HasError: true}}},
		{"of its second item", []AckItem{bare(command.AckDeadLetter, 1), text(command.AckDeadLetter, 1, "second")},
			[]Filing{{Offset: 1, Error: "second", HasError: true}}},
		{"the first of the call", []AckItem{bare(command.AckFailed, 0), text(command.AckCompleted, 3, "first"), text(command.AckCompleted, 4, "last")},
			[]Filing{{Offset: 0, Error: "first", HasError: true}}},
		{"none for exhausted", []AckItem{bare(command.AckFailed, 0)}, []Filing{exhaustedAt(0, 0)}},
		{"none for dlq", []AckItem{bare(command.AckDeadLetter, 0)}, []Filing{{Offset: 0}}},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.policy.RetryLimit = 0
			lease := b.claim(0, 4, 1)
			out := b.state.Ack(b.now, AckCall{Lease: lease, Items: test.items}, b.policy)
			b.filed(out, test.want...)
		})
	}
}

// A signal below a completed message keeps it from being passed, with a lease or without one.
func TestUnleasedSignalBoundsTheCompletedMessages(t *testing.T) {
	b := newBench(t)
	b.verdicts(b.keeping(uuid.Nil, completed(0), failed(2), completed(4)), success, success, success)
	b.at(1, 0)
}

func TestUnleasedCompletionIsNoDeliveryAttempt(t *testing.T) {
	b := newBench(t)
	b.claim(0, 4, 1)
	b.expire()
	b.tail = 8
	b.verdicts(b.keeping(uuid.Nil, completed(0, 1, 2, 3, 4)), success, success, success, success, success)
	b.claim(5, 7, 1)
}

func TestMoveEndsARetryDelay(t *testing.T) {
	moves := map[string]func(b *bench){
		"seek": func(b *bench) { b.state.Seek(0) },
		"ack":  func(b *bench) { b.keeping(uuid.Nil, completed(0)) },
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.policy.RetryDelayMicros = 10 * second
			b.releasing(b.claim(0, 4, 1), failed(0))
			b.claimNothing()
			move(b)
			if _, _, ok := b.tryClaim(); !ok {
				t.Fatal("the delay still runs")
			}
		})
	}
}

func TestSeekReleasesTheLeaseAndForgetsCounters(t *testing.T) {
	b := newBench(t)
	b.releasing(b.claim(0, 4, 1), failed(0))
	lease := b.claim(0, 4, 2)
	b.state.Seek(0)
	b.live(false)
	b.verdicts(b.keeping(lease, completed(0)), badLease)
	b.at(0, 0)
	b.claim(0, 4, 1)
}

// A call may follow, in one entry, another one that moved the cursor: offsets that were in range are judged afresh.
func TestOffsetsOutsideTheRangeAreNotTakenAtTheirWord(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.keeping(lease, completed(2))
	stale := func(offset uint64, status command.AckStatus) AckItem {
		return AckItem{Status: status, Where: InRange, Offset: offset}
	}
	out := b.state.Ack(b.now, AckCall{Lease: lease, Items: []AckItem{
		stale(1, command.AckCompleted), stale(1, command.AckFailed), stale(5, command.AckCompleted), stale(3, 9),
	}}, b.policy)
	b.verdicts(out, noop, unresolved, unresolved, unresolved)
	b.logStart = 4
	for status, want := range map[command.AckStatus]command.AckError{
		command.AckCompleted: command.AckOK, command.AckFailed: command.AckUnresolvable,
	} {
		call := AckCall{Lease: lease, LogStart: b.logStart, Items: []AckItem{stale(3, status)}}
		if _, reason := b.state.Check(b.now, call); reason != want {
			t.Errorf("check of status %v below the log start = %v; want %v", status, reason, want)
		}
	}
}

func TestOutcomeTellsWhatTheCallerHasToDo(t *testing.T) {
	type flags struct{ changed, moved, charged, released bool }
	b := newBench(t)
	want := func(out AckOutcome, want flags) {
		t.Helper()
		if got := (flags{out.Changed, out.Moved, out.Charged, out.Released != uuid.Nil}); got != want {
			t.Fatalf("outcome %+v; want %+v", got, want)
		}
	}
	lease := b.claim(0, 4, 1)
	want(b.ack(lease, completed(99)), flags{})
	want(b.ack(lease, completed(0)), flags{changed: true, moved: true})
	want(b.ack(lease, completed(0)), flags{})
	want(b.ack(lease, failed(1)), flags{changed: true, charged: true, released: true})
	want(b.ack(lease, failed(1)), flags{})
	want(b.ack(b.claim(1, 4, 2), retry(1)), flags{changed: true, released: true})
	want(b.ack(uuid.Nil, failed(1)), flags{})
	lease = b.claim(1, 4, 3)
	b.logStart = 2
	want(b.ack(lease, retry(3)), flags{changed: true, moved: true, released: true})
	lease = b.claim(2, 4, 1)
	b.logStart = 5
	want(b.ack(lease, completed(3)), flags{changed: true, moved: true, released: true})
}

func TestLookupNamesTheRangeOfMessaging644(t *testing.T) {
	b := newBench(t)
	b.tail = 9
	look := func(lease uuid.UUID, want Lookup) {
		t.Helper()
		if got := b.state.Lookup(b.now, lease, b.logStart, b.tail, b.holds); got != want {
			t.Fatalf("lookup = %+v; want %+v", got, want)
		}
	}
	foreign := uuid.UUID{15: 99}
	look(uuid.Nil, Lookup{Needed: true, Low: 0, End: 9})
	look(foreign, Lookup{Needed: false, Low: 0, End: 0})
	out, _ := b.state.Claim(b.now, ClaimInput{Window: b.window(), Max: 5, MaxEnd: NoCap, Lease: foreign, LeaseMicros: second})
	look(foreign, Lookup{Needed: true, Low: 0, End: out.Last + 1, Leased: true})
	look(uuid.Nil, Lookup{Needed: true, Low: 0, End: out.Last + 1, Leased: true})
	look(uuid.UUID{15: 98}, Lookup{Needed: false, Low: 0, End: 0})
	b.logStart = 3
	look(foreign, Lookup{Needed: true, Low: 3, End: 5, Leased: true})
	b.logStart = 7
	look(foreign, Lookup{Needed: true, Low: 7, End: 7, Leased: true})
	b.logStart = 0
	b.releasing(foreign, completed(4))
	look(foreign, Lookup{Needed: true, Low: 5, End: 5})
	look(uuid.Nil, Lookup{Needed: true, Low: 5, End: 9})
}

func TestCountersStayAtTheirLargestNumber(t *testing.T) {
	b := newBench(t)
	b.policy.RetryLimit = math.MaxUint32
	lease := b.claim(0, 4, 1)
	b.state.Attempt, b.state.Failures = math.MaxUint32, math.MaxUint32-1
	b.releasing(lease, failed(0))
	b.at(0, math.MaxUint32)
	b.claim(0, 4, math.MaxUint32)
}

func TestNewGroupStartsWhereItIsTold(t *testing.T) {
	b := newBench(t)
	b.state = New(3)
	b.claim(3, 4, 1)
}
