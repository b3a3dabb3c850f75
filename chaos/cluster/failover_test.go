package cluster

import (
	"testing"
	"time"
)

// TestR01Failover: the leader is killed, a follower is killed, the leader is stopped in order, all under load.
func TestR01Failover(t *testing.T) {
	play(t, "R01", stage{every: 5 * time.Millisecond}, func(s *scene) {
		s.acked(200)

		leader := s.leading()
		from := s.now()
		leader.Kill()
		_, err := s.AwaitLeader(formsWithin)
		s.must(err)
		s.acked(100)
		to := s.now()
		s.within("killedLeaderGap", s.pulse.Gap(from, to), 2*time.Second, from, to)
		s.stayedReady(s.Others(leader.ID), from, to)
		s.start(leader)

		follower := s.follower()
		from = s.now()
		follower.Kill()
		s.acked(100)
		to = s.now()
		s.record.Set("killedFollowerGap", s.pulse.Gap(from, to))
		s.stayedReady(s.Others(follower.ID), from, to)
		s.start(follower)

		s.acked(200)
		s.stopLeader("stoppedLeader")

		if rest := 3300 - s.pulse.Acknowledged(); rest > 0 {
			s.acked(rest)
		}
	})
}

// stopLeader ends the leader with SIGTERM, judges the hand-off, and starts it again.
func (s *scene) stopLeader(name string) {
	s.Helper()
	leader := s.leading()
	from := s.now()
	s.must(leader.Stop())
	s.acked(100)
	to := s.now()
	s.within(name+"Gap", s.pulse.Gap(from, to), 120*time.Millisecond, from, to)
	// A write that was due shortly before may have met the stop.
	begin := from - 500*time.Millisecond
	s.within(name+"SlowestWrite", s.pulse.Slowest(begin, to), 600*time.Millisecond, begin, to)
	s.stayedReady(s.Others(leader.ID), from, to)
	s.start(leader)
}

// TestR13EverythingKilled: all nodes are killed at once under load and started again.
func TestR13EverythingKilled(t *testing.T) {
	play(t, "R13", stage{every: 5 * time.Millisecond}, func(s *scene) {
		for range 2 {
			s.acked(200)
			for _, node := range s.Founders() {
				node.Kill()
			}
			from := s.now()
			for _, node := range s.Founders() {
				s.must(node.Launch())
			}
			s.must(s.AwaitHealthy(formsWithin))
			to := s.now()
			s.within("healthyAfter", to-from, 5*time.Second, from, to)
		}
		s.acked(200)
	})
}
