package cluster

import (
	"slices"
	"testing"
	"time"
)

// TestR28Transfer: leadership moves on request, or the request is refused with its code (cluster.md 5.4).
func TestR28Transfer(t *testing.T) {
	play(t, "R28", stage{every: 10 * time.Millisecond}, func(s *scene) {
		s.acked(50)
		leader := s.leading()
		s.transferred(leader, leader.ID, leader.ID)
		if reply := leader.Transfer(leader.ID); reply.Ms != 0 {
			s.Errorf("a transfer to the leader itself took %d ms", reply.Ms)
		}
		s.notTransferred(leader, 9, "not_a_member")

		from := s.now()
		for range 10 {
			s.transferred(s.follower(), 0, 0)
			to := s.follower()
			s.transferred(s.follower(), to.ID, to.ID)
		}
		s.acked(50)
		to := s.now()
		s.within("slowestWrite", s.pulse.Slowest(from, to), 500*time.Millisecond, from, to)

		s.twiceAtOnce()

		dead := s.follower()
		dead.Kill()
		s.notTransferred(s.leading(), dead.ID, "learner_behind", "timeout", "leader_unreachable")
		s.start(dead)

		paused := s.follower()
		fault := s.history.Fault()
		s.must(paused.Pause())
		s.acked(50)
		s.notTransferred(s.leading(), paused.ID, "learner_behind", "timeout", "leader_unreachable")
		s.must(paused.Resume())
		fault()
		s.must(s.AwaitHealthy(formsWithin))
	})
}

// transferred asks a node to move leadership, and waits until somebody leads; want 0 is anybody but the present leader.
func (s *scene) transferred(through *Node, to, want uint64) {
	s.Helper()
	before := s.leading().ID
	reply := through.Transfer(to)
	if reply.Err != nil || reply.Status != 200 || !reply.OK || reply.From != before {
		s.Errorf("transfer from %d to %d through node %d: %v", before, to, through.ID, reply.Response)
		return
	}
	after := s.leading().ID
	if want == 0 && after == before || want != 0 && after != want || reply.To != after {
		s.Errorf("transfer from %d to %d: node %d leads, the answer was %v", before, to, after, reply.Response)
	}
}

// notTransferred asks a node for what cannot be, and compares the code.
func (s *scene) notTransferred(through *Node, to uint64, codes ...string) {
	s.Helper()
	reply := through.Transfer(to)
	if reply.Err != nil || reply.OK || !slices.Contains(codes, reply.Code) {
		s.Errorf("transfer to %d through node %d: want one of %v, got %v", to, through.ID, codes, reply.Response)
	}
}

// twiceAtOnce sends two transfers together: at least one happens, the other happens too or is told that it comes at a bad moment.
func (s *scene) twiceAtOnce() {
	s.Helper()
	leader := s.leading()
	targets := s.Others(leader.ID)
	replies := make(chan Transferred, len(targets))
	for _, target := range targets {
		go func() { replies <- leader.Transfer(target.ID) }()
	}
	moved := 0
	for range targets {
		switch reply := <-replies; {
		case reply.Err == nil && reply.OK:
			moved++
		case reply.Err != nil || !slices.Contains([]string{"busy", "in_flight", "leader_unreachable", "no_leader"}, reply.Code):
			s.Errorf("one of two transfers at once: %v", reply.Response)
		}
	}
	if moved == 0 {
		s.Error("neither of two transfers at once happened")
	}
	s.acked(50)
}
