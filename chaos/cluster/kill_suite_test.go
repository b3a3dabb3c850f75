package cluster

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"queen/chaos/workload"
)

// suite is the load of the kill suite: every way to settle a batch, and a pulse that meters.
func suite(every time.Duration) stage {
	return stage{plan: workload.Leases(), every: every, env: map[string]string{"QUEEN_RAFT_DURABLE_EVERY_MS": "200"}}
}

// TestKillSuite does the faults of operations.md 10.4 that need no meter of their own, in one cluster under load.
func TestKillSuite(t *testing.T) {
	play(t, "TestKillSuite", suite(25*time.Millisecond), func(s *scene) {
		s.expected = []string{wipedLine}
		for range sized(5, 1) {
			for _, fault := range []string{"kill the leader", "kill a follower", "isolate the leader", "a deaf leader", "wipe a directory"} {
				s.torment(fault, 0)
				s.acked(20)
			}
		}
	})
}

// wipedLine is the phrase of a node whose directory was taken away (operations.md 3.6).
const wipedLine = "this node's directory is not the one"

// TestPausedLeaderAcknowledgesNothing: a leader that was stopped for 5 s answers nothing of its old term when it goes on.
func TestPausedLeaderAcknowledgesNothing(t *testing.T) {
	play(t, "TestPausedLeader", suite(10*time.Millisecond), func(s *scene) {
		for range sized(5, 1) {
			s.acked(50)
			old := s.leading()
			others := s.Others(old.ID)
			over := s.history.Fault()
			unanswered := s.push(old, 50) // under way when it stops
			s.must(old.Pause())
			from := s.now()
			_, err := s.AwaitLeader(formsWithin, others...)
			s.must(err)
			s.ackedThrough(old, 20)
			to := s.now()
			s.within("gap", s.pulse.Gap(from, to), 2*time.Second, from, to)
			s.passes(from + 5*time.Second)
			s.must(old.Resume())
			over()
			unanswered.wait() // the books judge whatever was acknowledged
			s.must(s.AwaitHealthy(formsWithin))
		}
	})
}

// TestMovedClockOfTheLeader: the clock of the leader jumps by 10 s, back and forth, and again while leadership moves. The books judge that
// no lease is shorter or longer for it.
func TestMovedClockOfTheLeader(t *testing.T) {
	play(t, "TestMovedClock", suite(25*time.Millisecond), func(s *scene) {
		for range sized(5, 1) {
			for _, by := range []time.Duration{-10 * time.Second, 10 * time.Second} {
				leader := s.leading()
				s.must(leader.MoveClock(by))
				from := s.now()
				s.passes(from + 1500*time.Millisecond) // longer than a lease
				s.acked(20)
				s.transferred(leader, 0, 0)
				s.passes(s.now() + 1500*time.Millisecond)
				s.acked(20)
				s.must(leader.MoveClock(0))
				s.stayedReady(s.Founders(), from, s.now())
			}
		}
	})
}

// TestR26ClockOff: one clock is off by 2 s, which is measured and told, and leadership changes ten times.
func TestR26ClockOff(t *testing.T) {
	play(t, "R26", suite(25*time.Millisecond), func(s *scene) {
		off := s.follower()
		s.must(off.MoveClock(2 * time.Second))
		leader := s.leading()
		warning := fmt.Sprintf("clock of node %d is off by", off.ID)
		s.must(Eventually(formsWithin, "the warning", func() error {
			logged, err := leader.Logged(" WARN ", warning)
			if err == nil && logged == 0 {
				return errTooFew
			}
			return err
		}))
		s.must(Eventually(formsWithin, "the metric", func() error {
			skew, err := leader.Metric("queen_raft_peer_clock_skew_seconds", fmt.Sprintf(`peer="%d"`, off.ID))
			if err == nil && math.Abs(math.Abs(skew)-2) > 0.5 {
				return fmt.Errorf("it says %v", skew)
			}
			return err
		}))
		for range 10 {
			s.transferred(s.follower(), 0, 0)
			s.acked(20)
		}
	})
}

// TestEachNodeStopped: every node is stopped in order, one by one, and no write is slow.
func TestEachNodeStopped(t *testing.T) {
	play(t, "TestEachNodeStopped", suite(10*time.Millisecond), func(s *scene) {
		for range sized(5, 1) {
			s.acked(50)
			from := s.now()
			s.roll(func(*Node) {})
			s.acked(20)
			to := s.now()
			s.within("slowestWrite", s.pulse.Slowest(from, to), 600*time.Millisecond, from, to)
		}
	})
}

// TestSlowFollowerDisk: 50 ms more for every flush of one follower cost the cluster less than a tenth of its throughput.
func TestSlowFollowerDisk(t *testing.T) {
	on := suite(10 * time.Millisecond)
	on.flushes = true
	play(t, "TestSlowFollowerDisk", on, func(s *scene) {
		s.acked(100)
		window := sized(20*time.Second, 4*time.Second)
		rate := func() int {
			before := s.pulse.Acknowledged()
			s.passes(s.now() + window)
			return s.pulse.Acknowledged() - before
		}
		quick := rate()
		slow := s.follower()
		slow.Flushes().Delay(50 * time.Millisecond)
		slowed := rate()
		slow.Flushes().Delay(0)
		s.record.Set("acknowledgedBefore", quick)
		s.record.Set("acknowledgedSlow", slowed)
		if slowed*10 < quick*9 {
			s.Errorf("%d writes in %v with one slow disk, %d before", slowed, window, quick)
		}
	})
}

// crashPoints are those of cluster.md 19 that load alone passes, on the node that passes them.
var crashPoints = []struct {
	point  string
	leader bool
}{
	{"batcher.drained", true}, {"planner.planned", true}, {"propose.sent", true},
	{"log.appended", true}, {"log.appended", false}, {"log.flushed", true}, {"log.flushed", false},
	{"commit.before_apply", true}, {"commit.before_apply", false}, {"apply.mid_entry", true}, {"apply.mid_entry", false},
	{"apply.store_committed", true}, {"apply.store_committed", false},
	{"durable.files_synced", true}, {"durable.files_synced", false}, {"durable.store_committed", true}, {"durable.store_committed", false},
	{"transfer.started", true},
}

// TestCrashPoints: a node ends by SIGKILL at each point of the write path and starts again; the short run takes some points at random.
func TestCrashPoints(t *testing.T) {
	play(t, "TestCrashPoints", suite(10*time.Millisecond), func(s *scene) {
		order := s.random.Perm(len(crashPoints))
		for _, i := range order[:sized(len(order), 4)] {
			at := crashPoints[i]
			node := s.leading()
			if !at.leader {
				node = s.follower()
			}
			s.crashAt(node, at.point, at.leader)
			s.acked(20)
		}
	})
}

// passages bounds at which passage of a point a node dies: some points are passed seldom.
func passages(point string) int {
	switch {
	case point == "transfer.started":
		return 1
	case strings.HasPrefix(point, "durable."):
		return 5
	default:
		return 50
	}
}

// crashAt starts a node again so that it dies at a point, has it pass there, and starts it as it was.
func (s *scene) crashAt(node *Node, point string, asLeader bool) {
	s.Helper()
	s.must(node.Stop())
	s.must(node.LaunchWith(map[string]string{"QUEEN_TEST_FAULTS": fmt.Sprintf("%s:%d", point, 1+s.random.IntN(passages(point)))}))
	s.must(Eventually(formsWithin, fmt.Sprintf("node %d dies at %s", node.ID, point), func() error {
		if node.broker.Exited() {
			return nil
		}
		// Only the leader passes some of them: leadership goes to the node until it is dead.
		if leader, err := s.Leader(); err == nil && asLeader && leader != node {
			leader.Transfer(node.ID)
		} else if point == "transfer.started" && err == nil {
			leader.Transfer(0)
		}
		return errTooFew
	}))
	status, err := node.broker.Wait(stopsWithin)
	if err != nil || status != -1 {
		s.Errorf("node %d ended with status %d at %s, want a signal: %v", node.ID, status, point, err)
	}
	s.start(node)
}
