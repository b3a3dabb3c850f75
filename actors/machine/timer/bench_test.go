package timer

import (
	"fmt"
	"testing"

	"queen/raftlog/command"
)

// BenchmarkSchedule is a call of one timer that joins a hundred thousand others, over a real store.
func BenchmarkSchedule(b *testing.B) {
	r := crowded(b)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		r.call(r.schedule(fmt.Sprint("new ", i), 10*second))
		if i%100 == 0 {
			r.space.NextEntry()
		}
	}
}

// BenchmarkTimeout schedules and cancels the timer that is due first.
func BenchmarkTimeout(b *testing.B) {
	r := crowded(b)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		r.call(r.schedule("timeout", second))
		r.call(cancel("timeout"))
		if i%100 == 0 {
			r.space.NextEntry()
		}
	}
}

// BenchmarkFire256 plans and fires what one tick takes.
func BenchmarkFire256(b *testing.B) {
	r := crowded(b)
	r.now += 1000 * second
	b.ReportAllocs()
	for b.Loop() {
		planned := r.plan()
		if len(planned) < 256 {
			b.StopTimer()
			r = crowded(b)
			r.now += 1000 * second
			b.StartTimer()
			continue
		}
		r.fire(planned)
		r.space.NextEntry()
	}
}

// crowded has a hundred thousand timers pending.
func crowded(b *testing.B) *rig {
	b.Helper()
	r := newRig(b, newStored(b))
	const calls, each = 400, 250
	for i := range calls {
		ops := make([]command.TimerOp, each)
		for j := range ops {
			ops[j] = r.schedule(fmt.Sprint(i, "/", j), 100*second+int64(i*each+j)*millisecond)
		}
		r.call(ops...)
		r.space.NextEntry()
	}
	return r
}
