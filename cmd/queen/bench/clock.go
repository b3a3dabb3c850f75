package bench

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// clock counts microseconds since the start of a run, on the monotonic clock.
type clock struct{ start time.Time }

func (c clock) nowUs() int64 { return time.Since(c.start).Microseconds() }

// pacer hands out the scheduled instants of an open loop to whichever producer is free. When all are busy the instants keep
// their place in the schedule, so that the delay shows up in the latency (no coordinated omission).
type pacer struct {
	tickets   chan int64 // scheduled instants, microseconds since the start of the run
	firstUs   int64
	perSecond float64
	made      int64 // tickets put into the channel; read after stopped is closed
	stopped   chan struct{}
}

// pacerBacklog is how many due requests may wait for a producer before the pacer itself waits. Tickets keep their instants
// also then, so nothing is lost by waiting.
const pacerBacklog = 1 << 14

// startPacer makes instants 1/perSecond apart from firstUs on until ctx ends.
func startPacer(ctx context.Context, clock clock, firstUs int64, perSecond float64) *pacer {
	p := &pacer{tickets: make(chan int64, pacerBacklog), stopped: make(chan struct{}), firstUs: firstUs, perSecond: perSecond}
	go func() {
		defer close(p.stopped)
		defer close(p.tickets)
		// The thread sleeps in the kernel, which would hold up other goroutines on it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for sleepUntil(ctx, clock, p.due(p.made)) {
			select {
			case p.tickets <- p.due(p.made):
				p.made++
			case <-ctx.Done():
				return
			}
		}
	}()
	return p
}

func (p *pacer) due(number int64) int64 { return p.firstUs + int64(float64(number)*1e6/p.perSecond) }

// neverStarted calls each with the instant of every request that was due before endUs and that no producer took. It is
// called after the producers have stopped.
func (p *pacer) neverStarted(endUs int64, each func(dueUs int64)) {
	<-p.stopped
	for due := range p.tickets {
		if due < endUs {
			each(due)
		}
	}
	for number := p.made; p.due(number) < endUs; number++ {
		each(p.due(number))
	}
}

// timerSlackUs is how late a Go timer of an idle process may fire: it sleeps in whole milliseconds.
const timerSlackUs = 1500

// sleepUntil waits for an instant with the precision of the kernel's high-resolution timers, about 60 µs, which a
// time.Sleep of an idle process does not have. It returns false when ctx ends first.
func sleepUntil(ctx context.Context, clock clock, dueUs int64) bool {
	for {
		left := dueUs - clock.nowUs()
		if left <= 0 {
			return ctx.Err() == nil
		}
		if left > 2*timerSlackUs {
			timer := time.NewTimer(time.Duration(left-timerSlackUs) * time.Microsecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return false
			}
			continue
		}
		wait := unix.NsecToTimespec(left * 1000)
		// A signal may end the sleep early; the loop looks at the clock again.
		_ = unix.Nanosleep(&wait, nil)
	}
}
