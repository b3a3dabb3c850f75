package raftlog

import (
	"testing"
	"time"
)

func TestLagCountsFromTheLastMomentAtWhichTheNodeWasLevel(t *testing.T) {
	clock := newFakeClock()
	start := clock.Wall().UnixMilli()
	fresh := newLevel(clock, 0, 0)
	want := func(l *level, entries uint64, ms int64, caughtUp bool) {
		t.Helper()
		if e, m, c := l.lag(); e != entries || m != ms || c != caughtUp {
			t.Errorf("got %d entries, %d ms, %t; want %d, %d, %t", e, m, c, entries, ms, caughtUp)
		}
	}
	want(fresh, 0, start, false) // it has applied nothing, and counts from the epoch
	fresh.told(7)
	want(fresh, 7, start, false)
	fresh.advance(7)
	want(fresh, 0, 0, true)
	clock.advance(time.Second)
	want(fresh, 0, 0, true) // nothing new is known
	fresh.told(9)
	clock.advance(2 * time.Second)
	want(fresh, 2, 2000, true)
	fresh.committed(20)
	fresh.advance(19)
	clock.advance(time.Second)
	want(fresh, 1, 3000, true) // nearly is not level
	fresh.advance(20)
	want(fresh, 0, 0, true)
	clock.jumpWall(time.Hour)
	fresh.told(21)
	clock.advance(time.Millisecond)
	want(fresh, 1, 1, true) // no wall clock is asked
}

func TestRestartedNodeCountsFromItsNewestEntry(t *testing.T) {
	clock := newFakeClock()
	l := newLevel(clock, 100, uint64(clock.Wall().Add(-time.Minute).UnixMicro()))
	clock.advance(time.Second)
	if entries, ms, caughtUp := l.lag(); entries != 0 || ms != 61_000 || caughtUp {
		t.Errorf("before a leader is heard: %d entries, %d ms, %t", entries, ms, caughtUp)
	}
	l.committed(100) // what it finds in its own log is not a leader's word
	if _, _, caughtUp := l.lag(); caughtUp {
		t.Error("level without a leader")
	}
	l.told(100)
	if _, ms, caughtUp := l.lag(); ms != 0 || !caughtUp {
		t.Errorf("level: %d ms, %t", ms, caughtUp)
	}
}
