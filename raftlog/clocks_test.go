package raftlog

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestClockThatIsOffIsSaidOnceAMinute(t *testing.T) {
	const ms = time.Millisecond
	var lines lineBuffer
	clock := newFakeClock()
	p := newPeerClocks(clock, 500*ms, zerolog.New(&lines))
	p.note(2, 400*ms, 0)
	p.note(2, 500*ms, 0)
	p.note(2, 700*ms, 250*ms) // a slow answer proves nothing
	if len(lines.lines) > 0 {
		t.Fatalf("got %s", lines.lines)
	}
	p.note(2, -501*ms, 0)
	p.note(2, -502*ms, 0)
	p.note(3, 60_000*ms, 80*ms)
	clock.advance(skewWarnEvery - 1)
	p.note(2, 503*ms, 0)
	clock.advance(1)
	p.note(2, 504*ms, 0)
	for phrase, times := range map[string]int{
		`"level":"warn"`: 3, "clock of node 2 is off by -501 ms": 1, "clock of node 3 is off by 60000 ms": 1, "clock of node 2 is off by 504 ms": 1,
	} {
		if got := len(lines.with(phrase)); got != times {
			t.Errorf("%q came %d times, want %d", phrase, got, times)
		}
	}
}

// TestHoldIsTheMeasuredSkewWhereTheTimeIsThisNodesOwn: cluster 10.
func TestHoldIsTheMeasuredSkewWhereTheTimeIsThisNodesOwn(t *testing.T) {
	m, clock := leaseRig()
	n := m.node
	n.options.MaxClockSkewMs, n.members = 500, m
	n.time = newLeaderTime(clock, 0)
	if got := n.holdMs(); got != 500 {
		t.Errorf("nothing is measured: %d", got)
	}
	measure := func(id uint64, skew time.Duration) {
		asked := m.ask()
		m.heard(5, id, &MemberFrame{WallMicros: uint64(asked.wall.Add(skew).UnixMicro())}, asked)
	}
	measure(2, 300*time.Millisecond)
	if got := n.holdMs(); got != 500 {
		t.Errorf("a small skew: %d", got)
	}
	measure(3, -1500*time.Millisecond)
	m.lead(6) // what is measured outlives its term
	if got := n.holdMs(); got != 1500 {
		t.Errorf("a large one: %d", got)
	}
	m.forget(3)
	if got := n.holdMs(); got != 500 {
		t.Errorf("of a node that is gone: %d", got)
	}
	measureAgain := 26 * time.Hour
	m.lead(5)
	measure(3, measureAgain)
	if got := n.holdMs(); got != uint32(maxHoldMs) {
		t.Errorf("a broken clock: %d", got)
	}
	n.time.adopt(uint64(clock.Wall().UnixMicro()))
	if got := n.holdMs(); got != 500 {
		t.Errorf("after another leader told its time: %d", got)
	}
}
