package raftlog

import (
	"sync"
	"time"
)

// level knows since when this node is behind the leader (cluster 7.1). It is told when an index becomes known or applied, so
// what it says is exact whenever it is asked.
type level struct {
	clock Clock

	mu sync.Mutex
	// known is the highest index that is known to be committed; applied the one up to which this node has applied.
	known, applied uint64
	// heard says that known is of a leader, and not only what this node remembers.
	heard bool
	// caughtUp says that this node has been level since its start; behindAt is then the monotonic instant at which it was
	// last, while it is not.
	caughtUp bool
	behindAt time.Duration
	behind   bool
	// beforeMs is when this node was level before its start, in Unix milliseconds: when its newest entry was made; 0 for a node
	// that has none.
	beforeMs int64
}

func newLevel(clock Clock, applied, lastStampMicros uint64) *level {
	return &level{clock: clock, known: applied, applied: applied, behind: true, beforeMs: int64(lastStampMicros / 1000)}
}

// told takes in the commit index of a leader, this node or another one.
func (l *level) told(commit uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = true
	l.commitLocked(commit)
}

// committed takes in an index that is committed.
func (l *level) committed(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commitLocked(index)
}

func (l *level) commitLocked(index uint64) {
	l.known = max(l.known, index)
	l.judgeLocked()
}

// advance takes in that this node has applied up to an index.
func (l *level) advance(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applied = max(l.applied, index)
	l.judgeLocked()
}

func (l *level) judgeLocked() {
	isLevel := l.heard && l.applied > 0 && l.applied >= l.known
	switch {
	case isLevel:
		l.caughtUp, l.behind = true, false
	case l.caughtUp && !l.behind:
		l.behind, l.behindAt = true, l.clock.Monotonic()
	}
}

// lag returns how many committed entries are not applied here, and the milliseconds since there were none. caughtUp tells
// whether there ever was such a moment since the start; before it the time counts from the newest entry of this node, and from
// the Unix epoch when it has none.
func (l *level) lag() (entries uint64, ms int64, caughtUp bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries = l.known - min(l.applied, l.known)
	switch {
	case !l.behind:
		return entries, 0, true
	case l.caughtUp:
		return entries, (l.clock.Monotonic() - l.behindAt).Milliseconds(), true
	}
	return entries, max(l.clock.Wall().UnixMilli()-l.beforeMs, 0), false
}
