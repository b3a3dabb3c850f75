package partition

import (
	"fmt"
	"testing"
)

func TestLeasedMessageResolvesWhateverItsAge(t *testing.T) {
	r := newRig(t)
	for i := range 400 {
		r.push(fmt.Sprint("t", i))
	}
	r.now += 2 * hour
	r.push("new")
	for _, offset := range []uint64{10, 100, 399} {
		txid := fmt.Sprint("t", offset)
		if got := r.resolve(10, 400, true, txid); got != (Resolution{Kind: InRange, Offset: offset}) {
			t.Errorf("%s under a lease: %+v", txid, got)
		}
		if got := r.resolve(10, 401, false, txid); got.Kind != Unknown {
			t.Errorf("%s without a lease: %+v", txid, got)
		}
	}
	if got := r.resolve(10, 400, true, "new"); got.Kind != Unknown {
		t.Errorf("above the batch: %+v", got)
	}
	if got := r.resolve(10, 401, false, "new"); got != (Resolution{Kind: InRange, Offset: 400}) {
		t.Errorf("in the window: %+v", got)
	}
}

// TestConsumedMessagesAreKnownForAWhile: below the cursor a message is known by its age or by its distance (6.7).
func TestConsumedMessagesAreKnownForAWhile(t *testing.T) {
	const messages = consumedMessages + 1000
	r := newRig(t)
	for base := 0; base < messages; base += 500 {
		txids := make([]string, 500)
		for i := range txids {
			txids[i] = fmt.Sprint("t", base+i)
		}
		r.push(txids...)
	}
	tail := r.machine.Tail()
	check := func(offset uint64, want ResolutionKind) {
		t.Helper()
		if got := r.resolve(tail, tail, false, fmt.Sprint("t", offset)); got.Kind != want || (want == Below && got.Offset != offset) {
			t.Errorf("offset %d: %+v", offset, got)
		}
	}
	check(0, Below)
	check(tail-1, Below)
	r.now += 2 * hour
	for range 2 {
		check(tail-1, Below)
		check(tail-consumedMessages, Below)
		check(tail-consumedMessages-1, Unknown)
		r.load()
	}
	r.retain(Retention{EvictMicros: second})
	check(tail-1, Unknown)
}

// TestRepeatedItemsOfAnAckDoNotHideOthers: a txid that a call names twice counts once.
func TestRepeatedItemsOfAnAckDoNotHideOthers(t *testing.T) {
	r := newRig(t)
	for i := range 500 {
		r.push(fmt.Sprint("t", i))
	}
	in := ResolveInput{From: 10, End: 480, Leased: true, NowMicros: r.now, HashWindowMicros: r.hashes}
	want := []uint64{10, 300, 300, 300, 400, 5}
	for _, offset := range want {
		in.Hashes = append(in.Hashes, HashTxid(fmt.Appendf(nil, "t%d", offset)))
	}
	answers, err := r.machine.Resolve(r.store, in)
	if err != nil {
		t.Fatal(err)
	}
	for i, answer := range answers {
		kind := InRange
		if want[i] < in.From {
			kind = Below
		}
		if answer != (Resolution{Kind: kind, Offset: want[i]}) {
			t.Errorf("item %d: %+v in place of %v at %d", i, answer, kind, want[i])
		}
	}
}
