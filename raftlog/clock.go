package raftlog

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Clock is where time comes from. Tests put their own in.
type Clock interface {
	// Wall returns the wall clock. It may jump.
	Wall() time.Time
	// Monotonic returns the time since some fixed instant. It never goes back, and it counts the time that the machine
	// was suspended (cluster 10), if a suspension may be noticed a little late.
	Monotonic() time.Duration
}

// SystemClock reads the clocks of the operating system.
type SystemClock struct{}

// Wall returns the wall clock.
func (SystemClock) Wall() time.Time { return time.Now() }

// suspensionCheckInterval is how late a suspension of the machine is noticed. The clock that counts suspensions costs a
// system call, the one of the Go runtime does not, and every command reads the time.
const suspensionCheckInterval = time.Millisecond

var (
	clockStart = time.Now()
	// suspended is by how much the clock of the system that counts suspensions is ahead of the time since clockStart, and
	// suspensionChecked when that was looked up; both nanoseconds.
	suspended, suspensionChecked atomic.Int64
)

func init() { lookForSuspension() }

// Monotonic returns the time since boot, suspension included.
func (SystemClock) Monotonic() time.Duration {
	running := int64(time.Since(clockStart))
	checked := suspensionChecked.Load()
	if running-checked >= int64(suspensionCheckInterval) {
		lookForSuspension()
		suspensionChecked.CompareAndSwap(checked, running)
	}
	return time.Duration(running + suspended.Load())
}

// MonotonicExact is Monotonic for whoever must notice a suspension at once.
func (c SystemClock) MonotonicExact() time.Duration {
	lookForSuspension()
	return c.Monotonic()
}

// exactly reads the monotonic time of a clock, with every suspension in it.
func exactly(c Clock) time.Duration {
	if exact, ok := c.(interface{ MonotonicExact() time.Duration }); ok {
		return exact.MonotonicExact()
	}
	return c.Monotonic()
}

// lookForSuspension raises suspended. The later of the two readings is subtracted, so what passes between them makes it
// too small and never too large, and time does not go back when it is corrected.
func lookForSuspension() {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		panic(fmt.Sprintf("BUG: clock_gettime(CLOCK_BOOTTIME): %v", err))
	}
	ahead := boot.Nano() - int64(time.Since(clockStart))
	for known := suspended.Load(); ahead > known; known = suspended.Load() {
		if suspended.CompareAndSwap(known, ahead) {
			return
		}
	}
}
