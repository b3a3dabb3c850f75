package actors

import (
	"errors"
	"sync"
	"time"
)

// tenures ends the wait of pops at a node that leads no more.
type tenures struct {
	mu   sync.Mutex
	ends chan struct{}
}

// present returns a channel that is closed when the present tenure ends. It says nothing about whether this node leads:
// take it first and ask then, so that an end in between is not missed.
func (t *tenures) present() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends == nil {
		t.ends = make(chan struct{})
	}
	return t.ends
}

func (t *tenures) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends != nil {
		close(t.ends)
		t.ends = nil
	}
}

// LeadershipLost tells every pop that is parked here to ask the new leader; those of other nodes are told to ask again. The
// node calls it when the log does not lead any more, after Leads has begun to say so, and also when it leads in another
// term than before.
func (b *Broker) LeadershipLost() { b.tenures.end() }

const (
	// noLeaderAfterDefault is Config.NoLeaderAfter where nobody sets it.
	noLeaderAfterDefault = 5 * time.Second
	// leaderPause is how long a pop waits before it asks again, twice as long each time up to leaderPauseMax: a transfer takes
	// little more than the first, an election some of the last, and thousands of pops that wait for one cost next to nothing.
	leaderPause    = 10 * time.Millisecond
	leaderPauseMax = 160 * time.Millisecond
	// leaderHeld is how long a call must have lasted for the leader to have held it. A broken link is noticed sooner, and
	// nobody waits longer for a leader in one call and says that it has found one.
	leaderHeld = time.Second
)

// wantsLeader tells whether an attempt failed only because it met no leader, or one that leads no more.
func wantsLeader(err error) bool { return errors.Is(err, ErrRetry) || errors.Is(err, ErrNoLeader) }

// patient tells whether a pop that has met no leader in an attempt goes on asking: as long as its time lasts, with the second
// that every claim has, and not longer than a node may be without leader (cluster 8.3).
func (c *popCall) patient(err error, began time.Time) bool {
	now := time.Now()
	switch {
	case errors.Is(err, ErrNoLeader):
		if c.leaderless.IsZero() {
			c.leaderless = began
		}
	case c.leaderless.IsZero() || now.Sub(began) > leaderHeld:
		c.leaderless = now
	}
	return now.Sub(c.leaderless) < c.b.config.NoLeaderAfter && now.Before(c.Deadline.Add(claimAttemptMin))
}

// pause waits a moment before the next attempt; false when the client has gone or the node stops.
func (c *popCall) pause() bool {
	c.pauses = min(max(2*c.pauses, leaderPause), leaderPauseMax)
	timer := time.NewTimer(c.pauses)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.Gone:
	case <-c.b.stopped.Done():
	}
	return false
}
