package raftlog

import (
	"errors"
	"sync"
	"testing"
)

func TestForwardedCommandsAreCounted(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	follower := (leader + 1) % 3
	for i := uint64(1); i <= 20; i++ {
		mustPropose(t, c.nodes[follower], extend(i))
	}
	c.wantAll(t, 20)
	sent, served := c.nodes[follower].Status().Forwarded, c.nodes[leader].Status().Forwarded
	if sent.Sent < 20 || sent.StreamsOpened < uint64(c.options[follower].ForwardStreams) || sent.Served != 0 {
		t.Errorf("the follower counts %+v", sent)
	}
	if served.Served < 20 || served.Sent != 0 {
		t.Errorf("the leader counts %+v", served)
	}
}

// rooms counts what is let in and given back.
type rooms struct {
	mu          sync.Mutex
	full        bool
	taken, back int
	from        map[uint64]int
}

func (r *rooms) admit(c *Foreign, admitted func(release func(), refusal error)) {
	r.mu.Lock()
	full := r.full
	if !full {
		r.taken++
		r.from[c.From]++
	}
	r.mu.Unlock()
	if full {
		admitted(nil, ErrQueueFull)
		return
	}
	go admitted(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.back++
	}, nil)
}

func (r *rooms) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken > 0 && r.taken == r.back
}

// TestForwardedCommandsTakeRoomUntilTheyEnd: cluster 11.1, whether they are applied or the leader goes.
func TestForwardedCommandsTakeRoomUntilTheyEnd(t *testing.T) {
	all := &rooms{from: map[uint64]int{}}
	c := openClusterWith(t, newTestNetwork(t), func(o *Options) { o.Admit = all.admit })
	leader := c.leader(t, -1)
	number := uint64(0)
	for range 60 {
		number++
		mustPropose(t, c.nodes[number%3], extend(number))
	}
	c.wantAll(t, number)
	eventually(t, "all room to be given back", all.settled)
	all.mu.Lock()
	if all.from[uint64(leader+1)] > 0 || len(all.from) < 2 {
		t.Errorf("room was asked for by %v, the leader is node %d", all.from, leader+1)
	}
	all.mu.Unlock()

	for i := range 40 {
		number++
		mustPropose(t, c.nodes[(leader+1)%3], extend(number))
		if i == 20 {
			c.isolate(leader)
		}
	}
	c.leader(t, leader)
	c.connect(leader)
	c.wantAll(t, number)
	eventually(t, "all room to be given back after the leader has gone", all.settled)

	leader = c.leader(t, -1)
	follower := (leader + 1) % 3
	eventually(t, "the follower to know its leader", func() bool { return c.nodes[follower].OtherLeader() == uint64(leader+1) })
	all.mu.Lock()
	all.full = true
	all.mu.Unlock()
	reasons := make(chan error, 1)
	late := extend(number + 1)
	late.Dropped = func(reason error) { reasons <- reason }
	mustPropose(t, c.nodes[follower], late)
	select {
	case reason := <-reasons:
		if !errors.Is(reason, ErrQueueFull) || errors.Is(reason, ErrOutcomeUnknown) {
			t.Errorf("refused with %v", reason)
		}
	case <-testContext(t).Done():
		t.Error("the command was forgotten")
	}
}
