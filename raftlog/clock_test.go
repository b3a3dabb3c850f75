package raftlog

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// fakeClock stands still until it is told otherwise.
type fakeClock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

func newFakeClock() *fakeClock {
	return &fakeClock{wall: time.Unix(1_700_000_000, 0), mono: time.Hour}
}

func (c *fakeClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

func (c *fakeClock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono += d
	c.wall = c.wall.Add(d)
}

func (c *fakeClock) jumpWall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

func TestLeaderTimeStartsAtTheWallOrTheLastStamp(t *testing.T) {
	clock := newFakeClock()
	wall := uint64(clock.wall.UnixMicro())
	if got := newLeaderTime(clock, 0).micros(); got != wall {
		t.Fatalf("starts at %d, the wall is %d", got, wall)
	}
	if got := newLeaderTime(clock, wall+5e6).micros(); got != wall+5e6 {
		t.Fatalf("starts at %d, the last stamp is %d", got, wall+5e6)
	}
}

func TestWallClockJumpMovesLeaderTimeByHalfAPercentAtMost(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		clock := newFakeClock()
		leader := newLeaderTime(clock, 0)
		before := leader.micros()
		clock.jumpWall(jump)
		if got := leader.micros(); got != before {
			t.Fatalf("jump of %v moved leader time by %d µs at once", jump, int64(got-before))
		}
		for range 1000 {
			clock.advance(10 * time.Millisecond)
			leader.micros()
		}
		gained := int64(leader.micros()-before) - (10 * time.Second).Microseconds()
		if gained < -50_000 || gained > 50_000 || gained == 0 {
			t.Fatalf("jump of %v: leader time gained %d µs in 10 s", jump, gained)
		}
		if (gained > 0) != (jump > 0) {
			t.Fatalf("jump of %v: leader time gained %d µs", jump, gained)
		}
	}
}

func TestLeaderTimeReachesTheWallAgain(t *testing.T) {
	clock := newFakeClock()
	leader := newLeaderTime(clock, 0)
	clock.jumpWall(100 * time.Millisecond)
	for range 300 {
		clock.advance(100 * time.Millisecond)
		leader.micros()
	}
	if off := clock.Wall().UnixMicro() - int64(leader.micros()); off < -1 || off > 1 {
		t.Fatalf("leader time is off by %d µs", off)
	}
}

func TestLeaderTimeNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newFakeClock()
		leader := newLeaderTime(clock, 0)
		last, lastMono := leader.micros(), clock.Monotonic()
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			clock.advance(time.Duration(rapid.Int64Range(0, 500_000_000).Draw(t, "elapsed")))
			clock.jumpWall(time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "jump")))
			floor := uint64(0)
			if rapid.Bool().Draw(t, "stamped") {
				floor = last + rapid.Uint64Range(0, 10000).Draw(t, "ahead")
				leader.advance(floor)
			}
			now, mono := leader.micros(), clock.Monotonic()
			if now < last || now < floor {
				t.Fatalf("leader time went from %d to %d, floor %d", last, now, floor)
			}
			elapsed := (mono - lastMono).Microseconds()
			if most := max(last+uint64(elapsed+elapsed/200+2), floor+2); now > most {
				t.Fatalf("leader time went from %d to %d in %d µs", last, now, elapsed)
			}
			last, lastMono = now, mono
		}
	})
}

func TestSystemClockFollowsTheClockThatCountsSuspensions(t *testing.T) {
	boot := func() time.Duration {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
			t.Fatal(err)
		}
		return time.Duration(now.Nano())
	}
	const checks = 20
	last := SystemClock{}.Monotonic()
	for end := last + checks*suspensionCheckInterval; last < end; {
		now := SystemClock{}.Monotonic()
		if after := boot(); now < last || now > after {
			t.Fatalf("went from %v to %v at %v", last, now, after)
		}
		last = now
	}
	// Something may come between the two readings of one check, hardly ever between those of twenty.
	if behind := boot() - (SystemClock{}).Monotonic(); behind > time.Second {
		t.Errorf("behind by %v", behind)
	}
}
