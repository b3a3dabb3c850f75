package raftlog

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Clock is where time comes from. Tests put their own in.
type Clock interface {
	// Wall returns the wall clock. It may jump.
	Wall() time.Time
	// Monotonic returns the time since some fixed instant. It never goes back, and it counts the time that the machine
	// was suspended (cluster 10).
	Monotonic() time.Duration
}

// SystemClock reads the clocks of the operating system.
type SystemClock struct{}

// Wall returns the wall clock.
func (SystemClock) Wall() time.Time { return time.Now() }

// Monotonic returns the time since boot, suspension included.
func (SystemClock) Monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(fmt.Sprintf("BUG: clock_gettime(CLOCK_BOOTTIME): %v", err))
	}
	return time.Duration(now.Nano())
}
