package peer

import (
	"sync"
	"time"
)

const (
	// throttleInterval is the least time between two lines of one peer and reason (cluster 2.4).
	throttleInterval = 10 * time.Second
	// maxThrottled bounds the peers and reasons that are told apart: whoever reaches the port can invent peers.
	maxThrottled = 1024
)

// throttleKey is what one line per interval is allowed for. Host tells unknown callers apart.
type throttleKey struct {
	peer   uint64
	reason string
	host   string
}

// throttle counts events and says which of them are logged.
type throttle struct {
	clock Clock

	mu   sync.Mutex
	keys map[throttleKey]*throttled
}

type throttled struct {
	logged time.Duration
	// silent is how many events came since then.
	silent int
}

func newThrottle(clock Clock) *throttle {
	return &throttle{clock: clock, keys: map[throttleKey]*throttled{}}
}

// count notes an event. It returns whether to log it, and for how many events the line stands.
func (t *throttle) count(key throttleKey) (events int, log bool) {
	now := t.clock.Monotonic()
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.keys[key]
	if state == nil && len(t.keys) >= maxThrottled {
		t.forget(now)
		if len(t.keys) >= maxThrottled {
			key = throttleKey{reason: key.reason} // the shared one of all that find no room
			state = t.keys[key]
		}
	}
	if state == nil {
		t.keys[key] = &throttled{logged: now}
		return 1, true
	}
	state.silent++
	if now-state.logged < throttleInterval {
		return 0, false
	}
	events = state.silent
	state.logged, state.silent = now, 0
	return events, true
}

// forget drops the keys whose next event would be logged anyway.
func (t *throttle) forget(now time.Duration) {
	for key, state := range t.keys {
		if now-state.logged >= throttleInterval {
			delete(t.keys, key)
		}
	}
}
