package outcome

import (
	"math/rand/v2"
	"testing"

	"queen/raftlog/command"
)

// TestLoadedWindowDecidesLikeOneThatNeverStopped feeds random entries to two windows, one of which is loaded anew now and then:
// fates and rows are the same after every entry (I1). Origins lag, jump, repeat, restart, and say nonsense.
func TestLoadedWindowDecidesLikeOneThatNeverStopped(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		steady, loaded := newRig(t), newRig(t)
		next := map[uint64]uint64{}
		origins := uint64(4)
		for entry := range 600 {
			items := make([]command.Item, random.IntN(6))
			for i := range items {
				origin := origins - random.Uint64N(4)
				sequence := next[origin]
				if random.IntN(3) > 0 {
					next[origin]++
				} else {
					sequence -= min(sequence, random.Uint64N(40))
				}
				below := sequence - min(sequence, random.Uint64N(1+random.Uint64N(300)))
				if random.IntN(50) == 0 {
					below = random.Uint64()
				}
				items[i] = call(origin, sequence, below)
			}
			switch roll := random.IntN(200); {
			case roll == 0:
				origins++
			case roll == 1:
				steady.startTerm()
				loaded.startTerm()
			case roll < 4:
				steady.now += 40 * microsPerSecond
			case roll == 4:
				next[origins] += random.Uint64N(2 * Unanswered)
			}
			loaded.now = steady.now
			want, got := steady.entry(items...), loaded.entry(items...)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("seed %d, entry %d: request %+v was %s, without restarts %s", seed, entry, items[i].Request, got[i], want[i])
				}
			}
			if !steady.memory.Equal(loaded.memory.Memory) {
				t.Fatalf("seed %d, entry %d: other rows %v, without restarts %v", seed, entry, loaded.stored(), steady.stored())
			}
			if random.IntN(10) == 0 {
				loaded.reload()
			}
		}
	}
}

// TestRequestIsExecutedOnceInItsTime keeps what origins keep to: a request is sent again, with what it said first, until it is
// answered or the window has passed. None is ever executed twice.
func TestRequestIsExecutedOnceInItsTime(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		r := newRig(t)
		var sent []command.Item
		executions := map[command.RequestID]int{}
		next, lowest := uint64(1), uint64(1)
		for range 800 {
			items := make([]command.Item, 1+random.IntN(5))
			for i := range items {
				if len(sent) > 0 && random.IntN(2) == 0 {
					items[i] = sent[random.IntN(len(sent))]
					continue
				}
				items[i] = call(1, next, lowest)
				sent = append(sent, items[i])
				next++
			}
			for i, fate := range r.entry(items...) {
				id := items[i].Request
				if fate == executed {
					executions[id]++
				}
				if executions[id] > 1 {
					t.Fatalf("seed %d: request %d was executed twice", seed, id.Sequence)
				}
				if fate == answered && id.Sequence >= lowest {
					t.Fatalf("seed %d: request %d was not answered, the outcomes below %d are", seed, id.Sequence, lowest)
				}
			}
			if random.IntN(4) == 0 {
				lowest += random.Uint64N(next - lowest + 1)
			}
			if len(sent) > 200 {
				sent = sent[100:]
			}
			if random.IntN(10) == 0 {
				r.reload()
			}
		}
	}
}
