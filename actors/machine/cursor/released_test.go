package cursor

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// releasedBatch is a state whose last releasing call was large.
type releasedBatch struct {
	state  State
	now    uint64
	policy Policy
	lease  uuid.UUID
	first  AckCall
	said   []command.AckVerdict
	repeat AckCall
}

// releasedBench completes a batch of so many messages in one call and prepares the same call once more, resolved as it
// is after the first.
func releasedBench(t testing.TB, messages uint64) *releasedBatch {
	b := &releasedBatch{now: startMicros, lease: uuid.UUID{15: 7}, policy: Policy{RetryLimit: 3}}
	_, ok := b.state.Claim(b.now, ClaimInput{
		Window: Window{VisibleEnd: messages}, Max: messages, MaxEnd: NoCap, Lease: b.lease, LeaseMicros: second,
	})
	if !ok {
		t.Fatal("nothing claimed")
	}
	b.first, b.repeat = AckCall{Lease: b.lease}, AckCall{Lease: b.lease}
	for offset := range messages {
		item := AckItem{Txid: txidHash(offset), Where: InRange, Offset: offset}
		b.first.Items = append(b.first.Items, item)
		item.Where, item.Offset = Below, 0
		b.repeat.Items = append(b.repeat.Items, item)
	}
	out := b.state.Ack(b.now, b.first, b.policy)
	if out.Released != b.lease {
		t.Fatalf("ack released %v", out.Released)
	}
	b.said = out.Verdicts
	return b
}

// wantAsFirst sends the call again, backwards, and expects the answers of the first time.
func (b *releasedBatch) wantAsFirst(t *testing.T) {
	t.Helper()
	backwards := AckCall{Lease: b.lease}
	for i := len(b.repeat.Items) - 1; i >= 0; i-- {
		backwards.Items = append(backwards.Items, b.repeat.Items[i])
	}
	out := b.state.Ack(b.now, backwards, b.policy)
	if out.Changed {
		t.Fatal("a repeat changed the state")
	}
	for i, got := range out.Verdicts {
		if want := b.said[len(b.said)-1-i]; got != want {
			t.Fatalf("item %d = %+v; the first time %+v", len(b.said)-1-i, got, want)
		}
	}
}

func TestRepeatIsAnsweredAsTheFirstTimeWhateverItsSize(t *testing.T) {
	for _, messages := range []uint64{1, 63, 74, 75, 500, MaxReleasedItems} {
		b := releasedBench(t, messages)
		b.wantAsFirst(t)
		b.state = decoded(t, b.state)
		b.wantAsFirst(t)
	}
}

func TestRepeatSurvivesClaimsExpiriesAndSeeksUntilTheNextRelease(t *testing.T) {
	b := newBench(t)
	old := b.claim(0, 4, 1)
	b.releasing(old, completed(0, 1, 2, 3, 4))
	b.tail = 10
	b.claim(5, 9, 1)
	b.verdicts(b.keeping(old, completed(1)), releasedOK)
	b.expire()
	b.state.Seek(0)
	b.verdicts(b.keeping(old, completed(1)), releasedOK)
	next := b.claim(0, 9, 1)
	b.releasing(next, retry(0))
	b.verdicts(b.keeping(old, completed(1)), badLease)
}

func TestRepeatWithAnotherStatusFails(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.releasing(lease, dlq(1), completed(3))
	b.unchangedBy(func() {
		b.verdicts(b.keeping(lease, dlq(1), failed(1), completed(3), dlq(3), failed(4)), filedOK, badLease, releasedOK, badLease, badLease)
	})
}

// Messaging 6.4.2: "An item with status completed that names this lease and whose message lies below the cursor is a
// no-op success, whichever call settled it."
func TestCompletedBelowTheCursorIsANoopUnderTheLastReleasedLease(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.keeping(lease, completed(0, 1))
	b.releasing(lease, retry(2))
	b.verdicts(b.keeping(lease, completed(0, 2)), noop, badLease)
	b.verdicts(b.keeping(uuid.UUID{15: 99}, completed(0)), badLease)
}

func TestRepeatAnswersFailedItemsOfTheReleasingCallAsWell(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.keeping(lease, completed(0))
	out := b.ack(lease, completed(0, 99), failed(0), completed(4))
	b.verdicts(out, noop, unresolved, unresolved, releasedOK)
	b.verdicts(b.keeping(lease, completed(0, 99), failed(0), completed(4)), noop, unresolved, unresolved, releasedOK)
}

// An ack without a lease id may release the batch of another worker; a repeat that names that lease is still a repeat.
func TestReleaseByAnUnfencedAckIsRememberedUnderTheLeaseItReleased(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	if out := b.releasing(uuid.Nil, completed(4)); out.Released != lease {
		t.Fatalf("released %v; want %v", out.Released, lease)
	}
	b.verdicts(b.keeping(lease, completed(4)), releasedOK)
}

func TestBeyondTheBoundTheItemsThatNoNoopAnswersAreKept(t *testing.T) {
	const above = 100
	b := &releasedBatch{now: startMicros, lease: uuid.UUID{15: 7}, policy: Policy{RetryLimit: 3}}
	messages := uint64(MaxReleasedItems + 50)
	b.state.Claim(b.now, ClaimInput{
		Window: Window{VisibleEnd: messages}, Max: messages, MaxEnd: NoCap, Lease: b.lease, LeaseMicros: second,
	})
	b.first = AckCall{Lease: b.lease}
	signal := messages - above
	for offset := range messages {
		item := AckItem{Txid: txidHash(offset), Where: InRange, Offset: offset}
		if offset == signal {
			item.Status = command.AckRetry
		}
		b.first.Items = append(b.first.Items, item)
	}
	b.said = b.state.Ack(b.now, b.first, b.policy).Verdicts
	if b.state.Cursor != signal {
		t.Fatalf("cursor %d; want %d", b.state.Cursor, signal)
	}
	b.state = decoded(t, b.state)
	again := AckCall{Lease: b.lease}
	for _, item := range b.first.Items {
		if item.Offset < signal {
			item.Where, item.Offset = Below, 0
		}
		again.Items = append(again.Items, item)
	}
	noops := 0
	for i, got := range b.state.Ack(b.now, again, b.policy).Verdicts {
		switch {
		case got == b.said[i]:
		case got == noop && uint64(i) < signal:
			noops++
		default:
			t.Fatalf("item %d = %+v; the first time %+v", i, got, b.said[i])
		}
	}
	if noops != 50 {
		t.Fatalf("%d items answered as no-ops; want 50", noops)
	}
}

func TestSecondRowIsRefusedWhenItIsNotTheOneOfTheState(t *testing.T) {
	b := releasedBench(t, 500)
	spill := b.state.SpillTo(nil)
	fresh := func() State {
		state, err := Decode(b.state.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	edit := func(at int, value byte) []byte {
		row := append([]byte(nil), spill...)
		row[at] = value
		return row
	}
	cases := map[string][]byte{
		"empty":           nil,
		"other version":   edit(0, 2),
		"other lease":     edit(1, 9),
		"short":           spill[:len(spill)-1],
		"too few":         spill[:1+16],
		"unknown outcome": edit(17, 0x1c),
	}
	for name, row := range cases {
		state := fresh()
		if err := state.AttachSpill(row); !errors.Is(err, ErrBadRow) {
			t.Errorf("%s: attach = %v", name, err)
		}
		if !state.NeedsSpill(b.lease) || state.NeedsSpill(uuid.UUID{15: 8}) {
			t.Errorf("%s: a refused row was attached", name)
		}
	}
	small := releasedBench(t, 3).state
	if err := small.AttachSpill(spill); !errors.Is(err, ErrBadRow) {
		t.Errorf("attach to a state without a second row = %v", err)
	}
}
