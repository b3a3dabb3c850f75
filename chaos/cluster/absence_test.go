package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// shortLog makes a cluster forget its log soon, so that a short absence needs a snapshot.
func shortLog() map[string]string {
	return map[string]string{
		"QUEEN_RAFT_PURGE_HOLD_S": sized("20", "2"), "QUEEN_RAFT_LOG_KEEP": sized("200", "16"),
		"QUEEN_RAFT_DURABLE_EVERY_MS": sized("1000", "200"),
	}
}

// snapshotLine is the phrase of an installed snapshot (operations.md 3.6).
const snapshotLine = "raft: snapshot installed index="

const (
	// ballastBytes is one message that fills the log; the log is cut by whole files, so small writes alone take long to move its beginning.
	ballastBytes = 256 << 10
	// ballastAtOnce is how many are written between two looks at the log: a node that is asked asks all others, and waits for one that is
	// cut off.
	ballastAtOnce = 32
	// ballastMax bounds what is written for that.
	ballastMax = 1024
)

// purged fills the log until that of the leader begins behind an index. The ballast is not in the books.
func (s *scene) purged(behind uint64) {
	s.Helper()
	item := harness.Item{Queue: "ballast", Payload: strings.Repeat("x", ballastBytes)}
	written := 0
	s.must(Eventually(2*time.Minute, fmt.Sprintf("a log without entry %d", behind), func() error {
		leader, err := s.Leader()
		if err != nil {
			return err
		}
		for range ballastAtOnce {
			if reply := leader.Client().WithTimeout(giveUpAfter).Push(item); reply.Err != nil || reply.Status != 201 {
				break
			}
			written++
		}
		purged, err := leader.Purged()
		if err != nil {
			return err
		}
		if purged <= behind {
			err := fmt.Errorf("node %d has purged its log up to %d after %d KiB of ballast", leader.ID, purged, written*ballastBytes>>10)
			if written >= ballastMax {
				err = errors.Join(err, errFinal)
			}
			return err
		}
		return nil
	}))
}

// TestR02FollowerAway: a follower is away for longer than the log waits.
func TestR02FollowerAway(t *testing.T) {
	play(t, "R02", stage{env: shortLog(), every: 10 * time.Millisecond}, func(s *scene) {
		s.acked(100)
		away := s.follower()
		health, err := away.Health()
		s.must(err)
		away.Kill()
		from := s.now()
		s.passes(from + sized(70*time.Second, 4*time.Second))
		s.purged(health.Raft.Applied + 100)

		from = s.now()
		s.must(away.Launch())
		s.must(s.caughtUp(away)) // it may be ready before it hears that it needs a snapshot
		to := s.now()
		s.within("readyAfter", to-from, 10*time.Second, from, to)
		s.must(s.caughtUp(away)) // it may be ready before its leader has offered it the state
		s.snapshots(away, 1, 1)
		s.acked(50)

		// It serves everything with one peer: the leader goes, and if the other one was chosen, that one goes after it.
		other := s.Others(away.ID)[0]
		other.Kill()
		s.acked(100)
		s.start(other)
	})
}

// caughtUp waits until a node is ready and has applied all that the leader had committed when it began to wait: the load goes on.
func (s *scene) caughtUp(node *Node) error {
	s.Helper()
	leader, err := s.AwaitLeader(formsWithin, s.Others(node.ID)...)
	if err != nil {
		return err
	}
	there, err := leader.Health()
	if err != nil {
		return err
	}
	return Eventually(formsWithin, fmt.Sprintf("node %d level with %d", node.ID, there.Raft.Commit), func() error {
		health, err := node.Health()
		if err == nil && (!health.Healthy() || health.Raft.Applied < there.Raft.Commit) {
			return errors.New(health.String())
		}
		return err
	})
}

// snapshots checks how many snapshots a node has installed since its first start.
func (s *scene) snapshots(node *Node, atLeast, atMost int) {
	s.Helper()
	installed, err := node.Logged(snapshotLine)
	s.must(err)
	s.record.Set(fmt.Sprintf("snapshotsOfNode%d", node.ID), installed)
	if installed < atLeast || installed > atMost {
		s.Errorf("node %d installed %d snapshots, want %d to %d", node.ID, installed, atLeast, atMost)
	}
}

// TestR23LeaderIsolated: the leader is cut off with unanswered writes while the others purge their log.
func TestR23LeaderIsolated(t *testing.T) {
	play(t, "R23", stage{env: shortLog(), every: 10 * time.Millisecond}, func(s *scene) {
		s.acked(100)
		old := s.leading()
		others := s.Others(old.ID)
		health, err := old.Health()
		s.must(err)
		lost := s.history.Fault()
		s.Network.Isolate(old.ID)
		from := s.now()
		unanswered := s.push(old, 200)
		_, err = s.AwaitLeader(formsWithin, others...)
		s.must(err)
		s.ackedThrough(old, 50)
		to := s.now()
		s.within("gap", s.pulse.Gap(from, to), 2*time.Second, from, to)
		s.passes(from + sized(20*time.Second, 8*time.Second))
		s.purged(health.Raft.Applied + 300)
		if acknowledged := unanswered.wait(); acknowledged > 0 {
			s.Errorf("the isolated leader acknowledged %d writes", acknowledged)
		}

		s.Network.Heal()
		lost()
		from = s.now()
		s.must(s.caughtUp(old))
		to = s.now()
		s.within("levelAfter", to-from, 5*time.Second, from, to)
		s.snapshots(old, 0, 1)
		s.must(old.Stop())
		s.start(old)
		s.snapshots(old, 0, 1)
	})
}
