package timer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
)

// TestALoadedMachineWritesLikeOneThatNeverStopped runs random commands on two machines, one of which forgets its memory with
// every command and remembers hardly anything in between: all rows are the same, byte by byte (I1).
func TestALoadedMachineWritesLikeOneThatNeverStopped(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 3))
		a, b := rowtest.NewMemory(), rowtest.NewMemory()
		steady, loaded := newRig(t, a), newRig(t, b)
		loaded.front = 1
		for step := range 400 {
			loaded.load()
			switch random.IntN(8) {
			case 0:
				steady.now += random.Uint64N(5 * second)
				loaded.now = steady.now
			case 1, 2:
				planned := steady.plan()
				for i := range planned {
					if random.IntN(3) == 0 {
						failing(planned[i:i+1], command.TimerFailure(1+random.IntN(2)), "no")
					}
				}
				want, got := steady.fire(planned), loaded.fire(planned)
				if fmt.Sprint(fates(want)) != fmt.Sprint(fates(got)) || fmt.Sprint(want.Appends, want.Letters) != fmt.Sprint(got.Appends, got.Letters) {
					t.Fatalf("seed %d, step %d: %v and %v", seed, step, fates(want), fates(got))
				}
			default:
				var ops []command.TimerOp
				for key := range random.IntN(6) {
					op := cancel(fmt.Sprint(key*10 + random.IntN(10)))
					if random.IntN(3) > 0 {
						op = steady.schedule(op.Key, random.Int64N(10*second)-second)
						op.Payload = make([]byte, random.IntN(2*inlineBytes))
					}
					ops = append(ops, op)
				}
				if want, got := steady.call(ops...), loaded.call(ops...); fmt.Sprint(want.Result.Ops) != fmt.Sprint(got.Result.Ops) {
					t.Fatalf("seed %d, step %d: %v and %v", seed, step, want.Result.Ops, got.Result.Ops)
				}
			}
			a.NextEntry()
			b.NextEntry()
			if !a.Equal(b) {
				t.Fatalf("seed %d, step %d: the rows differ", seed, step)
			}
		}
	}
}
