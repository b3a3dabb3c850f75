package actors

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	window "queen/actors/machine/outcome"
)

// TestAnsweredBelowIsTheLowestThatIsNotSettled compares the sliding bitmap with a set, in any order of settling.
func TestAnsweredBelowIsTheLowestThatIsNotSettled(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 4))
		i := newIssued()
		var open []uint64
		for range 20_000 {
			if len(open) == 0 || len(open) < 500 && random.IntN(2) == 0 {
				sequence, below, err := i.mint()
				if err != nil {
					t.Fatal(err)
				}
				if open = append(open, sequence); below != open[0] {
					t.Fatalf("seed %d: request %d says that those below %d are answered, but %d is the lowest", seed, sequence, below, open[0])
				}
				continue
			}
			at := random.IntN(1 + random.IntN(len(open)))
			i.settle(open[at])
			i.settle(open[at])
			open = append(open[:at], open[at+1:]...)
		}
		i.settle(0)
		i.settle(i.next)
		if len(open) > 0 && i.lowest != open[0] {
			t.Errorf("seed %d: the lowest is %d, want %d", seed, i.lowest, open[0])
		}
	}
}

// TestUnansweredRequestsAreBounded refuses what other nodes could not tell from an answered request.
func TestUnansweredRequestsAreBounded(t *testing.T) {
	i := newIssued()
	for sequence := uint64(1); sequence <= window.Unanswered; sequence++ {
		got, below, err := i.mint()
		if err != nil || got != sequence || below != 1 {
			t.Fatalf("request %d: %d, %d, %v", sequence, got, below, err)
		}
		if sequence > 1 {
			i.settle(sequence)
		}
	}
	if _, _, err := i.mint(); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("one too many: %v", err)
	}
	if open := i.open(); open != window.Unanswered {
		t.Errorf("%d are open", open)
	}
	i.settle(1) // and with it all that wait behind it
	got, below, err := i.mint()
	if err != nil || got != window.Unanswered+1 || below != got {
		t.Errorf("then %d, %d, %v", got, below, err)
	}
}

func TestConcurrentRequestsAreAllSettled(t *testing.T) {
	i := newIssued()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 5000 {
				sequence, below, err := i.mint()
				if err != nil || below > sequence {
					t.Errorf("request %d, answered below %d: %v", sequence, below, err)
					return
				}
				i.settle(sequence)
			}
		})
	}
	callers.Wait()
	if open := i.open(); open != 0 {
		t.Errorf("%d are open", open)
	}
}

func BenchmarkMintAndSettle(b *testing.B) {
	i := newIssued()
	for b.Loop() {
		sequence, _, _ := i.mint()
		i.settle(sequence)
	}
}
