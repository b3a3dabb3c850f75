package raftlog

import (
	"sync"
	"time"
)

const (
	// slewPartsPerMillion is how much faster or slower than the monotonic clock leader time runs at most, 0.5 %
	// (cluster 10).
	slewPartsPerMillion = 5000
	// slewInterval is how often the direction of the slew is decided anew.
	slewInterval = 100 * time.Millisecond
)

// leaderTime turns a monotonic clock into Unix time that follows the wall clock slowly and never goes back. Its readings
// are a pure function of the readings of the two clocks.
//
// A reading is the anchor, plus the monotonic time since it, plus the slew. The slew of the first slewInterval after an
// anchor is decided when the anchor is set, so that a wall clock that jumps between two readings cannot turn time back.
// The first reading after that interval sets the next anchor.
type leaderTime struct {
	clock Clock

	mu sync.Mutex
	// anchor is the leader time, in Unix nanoseconds, at the monotonic instant anchorAt.
	anchor   int64
	anchorAt time.Duration
	// slew is what the reading gains over the monotonic clock during the slewInterval after anchorAt.
	slew time.Duration
	// told says that a leader has told its time since the start: then readings go on from there, and not from the wall clock
	// of this node.
	told bool
}

// newLeaderTime starts at the wall clock, or at floorMicros when the wall clock is behind it.
func newLeaderTime(clock Clock, floorMicros uint64) *leaderTime {
	return &leaderTime{
		clock:    clock,
		anchor:   max(clock.Wall().UnixNano(), int64(floorMicros)*int64(time.Microsecond)),
		anchorAt: clock.Monotonic(),
	}
}

// micros returns the leader time in Unix microseconds.
func (t *leaderTime) micros() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Monotonic()
	elapsed := now - t.anchorAt
	if elapsed < slewInterval {
		return uint64((t.anchor + int64(elapsed) + int64(t.slew*elapsed/slewInterval)) / int64(time.Microsecond))
	}
	reading := t.anchor + int64(elapsed) + int64(t.slew)
	behind := time.Duration(t.clock.Wall().UnixNano() - reading)
	reading += int64(boundedSlew(behind, elapsed-slewInterval))
	t.anchor, t.anchorAt = reading, now
	t.slew = boundedSlew(time.Duration(t.clock.Wall().UnixNano()-reading), slewInterval)
	return uint64(reading / int64(time.Microsecond))
}

// boundedSlew returns the part of behind that may be made up within elapsed.
func boundedSlew(behind, elapsed time.Duration) time.Duration {
	most := elapsed / (1e6 / slewPartsPerMillion)
	return min(max(behind, -most), most)
}

// advance makes later readings at least micros: the stamps of another leader may be ahead of this node's clocks.
func (t *leaderTime) advance(micros uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if floor := int64(micros) * int64(time.Microsecond); floor > t.anchor {
		// Set against the monotonic clock of now, the anchor may only rise.
		now := t.clock.Monotonic()
		elapsed := min(now-t.anchorAt, slewInterval)
		reading := t.anchor + int64(now-t.anchorAt) + int64(t.slew*elapsed/slewInterval)
		if floor > reading {
			t.anchor, t.anchorAt, t.slew = floor, now, 0
		}
	}
}

// adoptTolerance is how far the time of the leader may lie behind this node's estimate of it without being taken over: frames
// take their time to arrive.
const adoptTolerance = 50 * time.Millisecond

// adopt makes readings go on from what the leader says. Should this node lead next, time neither stands still nor leaps
// because its own clock differs (cluster 10).
func (t *leaderTime) adopt(micros uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = true
	now := t.clock.Monotonic()
	said := int64(micros) * int64(time.Microsecond)
	reading := t.anchor + int64(now-t.anchorAt) + int64(t.slew*min(now-t.anchorAt, slewInterval)/slewInterval)
	if said > reading || said < reading-int64(adoptTolerance) {
		t.anchor, t.anchorAt, t.slew = said, now, 0
	}
}

// fromWall tells whether readings rest on the wall clock of this node alone.
func (t *leaderTime) fromWall() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.told
}
