package cursor

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"queen/actors/machine/rowtest"
)

func TestLeaseOfAnEarlierTermIsHeldPastItsExpiry(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.holds = b.holds.Begin(TermHold{Term: 2, HoldMicros: 5 * second, PriorMicros: b.now})
	b.term = 2
	b.expire()
	b.live(true)
	b.claimNothing()
	b.verdicts(b.keeping(lease, completed(1)), success)
	if got, ok := b.state.Extend(b.now, lease, second, b.term, b.holds); !ok || got != b.now+5*second {
		t.Fatalf("extend during the hold = now + %d, %v; want what the hold gave", got-b.now, ok)
	}
	b.now += 5 * second
	b.live(false)
}

func TestLeaseIsHeldOnceHoweverManyTermsFollow(t *testing.T) {
	b := newBench(t)
	b.claim(0, 4, 1)
	for term := uint64(2); term <= 5; term++ {
		b.holds = b.holds.Begin(TermHold{Term: term, HoldMicros: term * second, PriorMicros: b.now + term})
	}
	if end, _ := b.state.LeaseEnd(b.holds); end != b.now+(leaseSeconds+2)*second {
		t.Fatalf("lease ends %d after now", end-b.now)
	}
}

func TestLeaseThatHasEndedStaysEndedWhenATermBegins(t *testing.T) {
	b := newBench(t)
	lease := b.claim(0, 4, 1)
	b.expire()
	b.live(false)
	b.holds = b.holds.Begin(TermHold{Term: 2, HoldMicros: 5 * second, PriorMicros: b.now})
	b.live(false)
	b.verdicts(b.keeping(lease, completed(1)), badLease)
}

func TestLeaseOfTheRunningTermIsNotHeld(t *testing.T) {
	b := newBench(t)
	b.term = 2
	b.holds = Holds{{Term: 2, HoldMicros: 5 * second, PriorMicros: b.now}}
	b.claim(0, 4, 1)
	b.expire()
	b.live(false)
}

func TestHoldsAreBoundedAndRefuseOldTerms(t *testing.T) {
	var holds Holds
	for term := range uint64(100) {
		holds = holds.Begin(TermHold{Term: term + 1, HoldMicros: term % 2, PriorMicros: 1})
	}
	if len(holds) != maxHolds || holds[maxHolds-1].Term != 100 {
		t.Fatalf("holds %+v", holds)
	}
	if again := holds.Begin(TermHold{Term: 100, HoldMicros: 9}); len(again) != maxHolds || again[maxHolds-1].HoldMicros == 9 {
		t.Fatalf("a term that had begun began again: %+v", again)
	}
	holds = nil
	for term := range uint64(100) {
		holds = holds.Begin(TermHold{Term: term + 1, HoldMicros: second, PriorMicros: term * 10 * second})
	}
	if len(holds) > 3 {
		t.Fatalf("equal holds are not merged: %+v", holds)
	}
}

// TestMergedHoldsEndLeasesAsAllHoldsDo compares the bounded list with the list of all terms.
func TestMergedHoldsEndLeasesAsAllHoldsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all, merged Holds
		now := uint64(1)
		for term := uint64(1); term <= maxHolds; term++ {
			now += rapid.Uint64Range(0, 12).Draw(t, "step")
			begun := TermHold{Term: term, HoldMicros: rapid.SampledFrom([]uint64{0, 5, 5, 9}).Draw(t, "hold"), PriorMicros: now}
			all, merged = append(all, begun), merged.Begin(begun)
			for granted := range term {
				for expires := uint64(0); expires < now+10; expires++ {
					want, got := all.end(granted, expires), merged.end(granted, expires)
					if want != got && (want > now || got > now) {
						t.Fatalf("lease of term %d that expires at %d ends at %d; all %d holds say %d at %d", granted, expires, got, len(all), want, now)
					}
				}
			}
		}
	})
}

func TestHoldsKeepTheirRow(t *testing.T) {
	holds := Holds{{Term: 3, HoldMicros: 1_000_000, PriorMicros: startMicros}, {Term: 7, PriorMicros: startMicros + 1}}
	row := holds.AppendTo(nil)
	rowtest.Golden(t, "holds", row)
	got, err := DecodeHolds(row)
	if err != nil || len(got) != 2 || got[0] != holds[0] || got[1] != holds[1] {
		t.Fatalf("decode = %+v, %v", got, err)
	}
	long := Holds{}
	for term := range uint64(maxHolds + 1) {
		long = append(long, TermHold{Term: term + 1})
	}
	for name, bad := range map[string][]byte{
		"empty":         nil,
		"other version": {2},
		"cut":           row[:len(row)-1],
		"padded number": {1, 0x81, 0, 1, 1},
		"out of order":  Holds{{Term: 2}, {Term: 2}}.AppendTo(nil),
		"too many":      long.AppendTo(nil),
	} {
		if _, err := DecodeHolds(bad); !errors.Is(err, ErrBadRow) {
			t.Errorf("%s: decode = %v", name, err)
		}
	}
}
