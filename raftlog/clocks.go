package raftlog

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// peerClocks knows how far the wall clocks of the other members are off this node's, as measured while it led (cluster 10). Its owner
// holds the lock.
type peerClocks struct {
	clock  Clock
	bound  time.Duration
	logger zerolog.Logger
	skews  map[uint64]time.Duration
	// widest is the largest of the skews, for a look without the lock.
	widest atomic.Int64
	// warned is when a member's clock was last said to be off.
	warned map[uint64]time.Duration
}

// skewWarnEvery is how often a clock is said to be off.
const skewWarnEvery = time.Minute

func newPeerClocks(clock Clock, bound time.Duration, logger zerolog.Logger) *peerClocks {
	return &peerClocks{clock: clock, bound: bound, logger: logger, skews: map[uint64]time.Duration{}, warned: map[uint64]time.Duration{}}
}

// note takes in a measurement, give or take the error.
func (p *peerClocks) note(id uint64, skew, err time.Duration) {
	p.skews[id] = skew
	p.measure()
	if skew.Abs()-err <= p.bound {
		return
	}
	now := p.clock.Monotonic()
	if at, before := p.warned[id]; before && now-at < skewWarnEvery {
		return
	}
	p.warned[id] = now
	p.logger.Warn().Uint64("node", id).Msg(fmt.Sprintf("clock of node %d is off by %d ms", id, skew.Milliseconds()))
}

func (p *peerClocks) forget(id uint64) {
	delete(p.skews, id)
	delete(p.warned, id)
	p.measure()
}

func (p *peerClocks) measure() {
	var widest time.Duration
	for _, skew := range p.skews {
		widest = max(widest, skew.Abs())
	}
	p.widest.Store(int64(widest))
}

// holdMs is how long leases of earlier terms are held past their expiry: QUEEN_RAFT_MAX_CLOCK_SKEW_MS. When the time of this
// term rests on the wall clock of this node, it is at least what the other clocks were found to be off.
func (n *Node) holdMs() uint32 {
	hold := time.Duration(n.options.MaxClockSkewMs) * time.Millisecond
	if n.members != nil && n.time.fromWall() {
		// Rounded up: less would be too short.
		hold = max(hold, time.Duration(n.members.clocks.widest.Load())+time.Millisecond-1)
	}
	return uint32(min(hold.Milliseconds(), maxHoldMs))
}

// maxHoldMs bounds a hold: a clock that is off by more is broken, and would keep leases for as long.
const maxHoldMs = int64(time.Hour / time.Millisecond)
