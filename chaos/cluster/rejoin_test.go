package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"queen/chaos/contract/harness"
)

const (
	// returnsWithin is how long a member may take from its start with an empty directory until it is a voter again (R03).
	returnsWithin = 30 * time.Second
	// replacedWithin is how long an operator's replacement may take (R04).
	replacedWithin = 15 * time.Second
	// refusedWithin is how soon a client is refused.
	refusedWithin = 500 * time.Millisecond
	// rolledBackLine is the phrase of a node with an older directory (operations.md 3.6).
	rolledBackLine = "this node's directory is older than what"
)

// TestR03DirectoryGone: the directory of a follower is deleted, then that of the leader; each comes back without a command.
func TestR03DirectoryGone(t *testing.T) {
	play(t, "R03", stage{}, func(s *scene) {
		s.expected = []string{wipedLine}
		for _, lost := range []struct {
			name string
			node func() *Node
		}{{"follower", s.follower}, {"leader", s.leading}} {
			s.acked(50)
			node := lost.node()
			node.Kill()
			s.must(node.Wipe())
			s.comesBack(node, lost.name, "replaced", node.Launch)
		}
		s.acked(50)
	})
}

// comesBack starts a node whose directory is not the right one, and checks its way back to its vote.
func (s *scene) comesBack(node *Node, name, verdict string, start func() error) {
	s.Helper()
	from := s.now()
	s.must(start())
	s.must(s.AwaitHealthy(returnsWithin, node))
	to := s.now()
	s.within(name+"ReturnsAfter", to-from, returnsWithin, from, to)
	s.voters(s.Founders(), s.idsOf(s.Founders()))
	s.outUntilAccepted(node, verdict, from, to)
	for _, line := range []string{"rejoins with an empty directory", "is a voter again ms="} {
		line = fmt.Sprintf("raft: member %d %s", node.ID, line)
		logged := 0
		for _, other := range s.Others(node.ID) {
			count, err := other.Logged(line)
			s.must(err)
			logged += count
		}
		if logged == 0 {
			s.Errorf("nobody logged %q", line)
		}
	}
}

// outUntilAccepted checks that a node showed its verdict, and neither served nor led before it was accepted.
func (s *scene) outUntilAccepted(node *Node, verdict string, from, to time.Duration) {
	s.Helper()
	seen := 0
	for _, look := range s.watch.Looks(node.ID, from) {
		if look.At > to {
			break
		}
		health := look.Health
		if health.Raft.Identity != verdict {
			continue
		}
		seen++
		if health.Status != http.StatusServiceUnavailable || !slices.Contains(health.Reasons, "identity") || health.Leads() || health.Raft.Role == "candidate" {
			s.Errorf("at %v: %v", look.At.Round(time.Millisecond), health)
		}
	}
	s.record.Set(fmt.Sprintf("looksAtNode%d", node.ID), seen)
	if seen == 0 {
		s.Errorf("node %d never said that it is %s", node.ID, verdict)
	}
}

// TestR04DirectoryGoneWithoutAutoRejoin: nothing happens until an operator replaces the node.
func TestR04DirectoryGoneWithoutAutoRejoin(t *testing.T) {
	play(t, "R04", stage{env: map[string]string{"QUEEN_RAFT_AUTO_REJOIN": "false"}}, func(s *scene) {
		s.expected = []string{wipedLine}
		for _, choose := range []func() *Node{s.follower, s.leading} {
			s.acked(50)
			node := choose()
			node.Kill()
			s.must(node.Wipe())
			from := s.now()
			s.must(node.Launch())
			s.must(Eventually(formsWithin, "the verdict", func() error { return s.isOut(node, "replaced") }))
			s.passes(s.now() + sized(20*time.Second, 3*time.Second))
			s.must(s.isOut(node, "replaced"))
			s.refusesClients(node)
			s.outUntilAccepted(node, "replaced", from, s.now())

			s.replaced(node)
		}
		s.acked(50)
	})
}

// isOut returns why a node does not show a verdict.
func (s *scene) isOut(node *Node, verdict string) error {
	health, err := node.Health()
	if err == nil && (health.Raft.Identity != verdict || health.Status != http.StatusServiceUnavailable) {
		return errors.New(health.String())
	}
	return err
}

// refusesClients checks that a node that takes no part says so at once.
func (s *scene) refusesClients(node *Node) {
	s.Helper()
	from := s.now()
	reply := node.Client().WithTimeout(giveUpAfter).Push(harness.Item{Queue: "refused", Payload: "x"})
	to := s.now()
	if reply.Err != nil || reply.Status != http.StatusServiceUnavailable || !strings.Contains(string(reply.Body), `"retry"`) {
		s.Errorf("a push through node %d: %v", node.ID, reply)
	}
	s.within("refusedAfter", to-from, refusedWithin, from, to)
}

// TestR08OlderDirectory: a follower gets an older copy of its directory back.
func TestR08OlderDirectory(t *testing.T) {
	play(t, "R08", stage{}, func(s *scene) {
		s.expected = []string{rolledBackLine}
		s.acked(50)
		node := s.follower()
		s.must(node.Stop())
		s.must(node.Keep())
		s.start(node)
		s.acked(50)
		s.must(node.Stop())
		s.must(node.PutBack())
		s.comesBack(node, "follower", "rolled_back", node.Launch)
		s.acked(50)

		// A copy of a running process, put back when it has stopped: its boot nonce is the recorded one, only the log is too short.
		node = s.follower()
		over := s.history.Fault()
		s.must(node.Pause())
		s.must(node.Keep())
		s.must(node.Resume())
		over()
		s.acked(100)
		s.must(node.Stop())
		s.must(node.PutBack())
		s.comesBack(node, "copied", "rolled_back", node.Launch)
		s.acked(50)
	})
}

// TestR09ClonedDirectory: two processes run on copies of one directory. The one that the members table does not have stays out.
func TestR09ClonedDirectory(t *testing.T) {
	play(t, "R09", stage{}, func(s *scene) {
		s.acked(50)
		node := s.follower()
		s.must(node.Stop())
		s.must(node.Keep())
		s.start(node)
		s.acked(50)
		clone, err := node.Clone(brokerBinary)
		s.must(err)
		s.Cleanup(clone.Kill)
		from := s.now()
		s.must(clone.Launch())
		s.must(Eventually(formsWithin, "the verdict", func() error { return s.isOut(clone, "superseded") }))
		s.refusesClients(clone)
		s.passes(s.now() + sized(30*time.Second, 12*time.Second)) // it asks again every 10 s
		s.must(s.isOut(clone, "superseded"))
		s.acked(50)
		s.stayedReady(s.Founders(), from, s.now())
		s.voters(s.Founders(), s.idsOf(s.Founders()))
		for _, line := range []string{"rejoins with an empty directory", "this node was reset"} {
			for _, member := range s.Founders() {
				if logged, err := member.Logged(line); err != nil || logged > 0 {
					s.Errorf("node %d logged %q %d times: %v", member.ID, line, logged, err)
				}
			}
		}
		clone.Kill()
	})
}

// TestCrashDuringAReturn: whoever drives a return dies right after the demotion, and whoever returns dies while it empties its directory.
func TestCrashDuringAReturn(t *testing.T) {
	play(t, "TestCrashDuringAReturn", stage{}, func(s *scene) {
		s.expected = []string{wipedLine}
		s.acked(20)
		driver := s.follower()
		s.must(driver.Stop())
		s.must(driver.LaunchWith(map[string]string{"QUEEN_TEST_FAULTS": "rejoin.demoted"}))
		s.must(s.AwaitHealthy(formsWithin, driver))
		s.transferred(s.leading(), driver.ID, 0)
		lost := s.Others(driver.ID)[s.random.IntN(2)]
		lost.Kill()
		s.must(lost.Wipe())
		s.must(lost.Launch())
		s.dies(driver, "rejoin.demoted")
		s.must(driver.Launch())
		s.must(s.AwaitHealthy(returnsWithin))
		s.voters(s.Founders(), s.idsOf(s.Founders()))
		s.acked(20)

		lost = s.follower()
		lost.Kill()
		s.must(lost.Wipe())
		s.must(lost.LaunchWith(map[string]string{"QUEEN_TEST_FAULTS": "rejoin.reset"}))
		s.dies(lost, "rejoin.reset")
		s.must(lost.Launch())
		s.must(s.AwaitHealthy(returnsWithin))
		s.voters(s.Founders(), s.idsOf(s.Founders()))
		s.acked(20)
	})
}

// dies waits until a node has ended itself at a crash point.
func (s *scene) dies(node *Node, point string) {
	s.Helper()
	s.must(Eventually(formsWithin, fmt.Sprintf("node %d dies at %s", node.ID, point), func() error {
		if !node.broker.Exited() {
			return errTooFew
		}
		return nil
	}))
	if status, err := node.broker.Wait(stopsWithin); err != nil || status != -1 {
		s.Errorf("node %d ended with status %d at %s, want a signal: %v", node.ID, status, point, err)
	}
}

// TestReturnIsNotForgotten: soon after a return all nodes crash, and only the one that has returned and one more come back. The store of
// that one is from before the return, as a power cut between two durable points leaves it. Two of three are a majority all the same.
func TestReturnIsNotForgotten(t *testing.T) {
	play(t, "TestReturnIsNotForgotten", stage{}, func(s *scene) {
		s.expected = []string{wipedLine}
		s.acked(20)
		judge := s.follower()
		store, older := filepath.Join(judge.broker.DataDir(), "store"), filepath.Join(t.TempDir(), "store")
		s.must(judge.Stop())
		s.must(os.CopyFS(older, os.DirFS(store)))
		s.must(judge.Launch())
		s.must(s.AwaitHealthy(formsWithin, judge))

		lost := s.Others(judge.ID)[s.random.IntN(2)]
		lost.Kill()
		s.must(lost.Wipe())
		s.comesBack(lost, "lost", "replaced", lost.Launch)
		for _, node := range s.Founders() {
			node.Kill()
		}
		s.must(os.RemoveAll(store))
		s.must(os.CopyFS(store, os.DirFS(older)))
		s.must(judge.Launch())
		s.must(lost.Launch())
		s.must(s.AwaitHealthy(formsWithin, judge, lost))
		s.acked(20)
		for _, node := range s.Founders() {
			if !node.Running() {
				s.start(node)
			}
		}
	})
}

// TestStoppedNodeIsReplaced: a follower whose disk has failed stops, and an operator has it return in the running process.
func TestStoppedNodeIsReplaced(t *testing.T) {
	play(t, "TestStoppedNodeIsReplaced", stage{flushes: true}, func(s *scene) {
		s.expected = []string{"this node stops", wipedLine}
		s.acked(50)
		node := s.follower()
		node.Flushes().Fail(unix.EIO)
		s.must(Eventually(formsWithin, fmt.Sprintf("node %d stops", node.ID), func() error {
			return stopped(node)
		}))
		node.Flushes().Fail(0)
		s.replaced(node)
		s.acked(50)
	})
}

// replaced has an operator replace a member in place, and waits until it is a voter again.
func (s *scene) replaced(node *Node) {
	s.Helper()
	from := s.now()
	s.changed(s.Others(node.ID)[0], Replace(node.ID))
	s.must(s.AwaitHealthy(replacedWithin, node))
	to := s.now()
	s.within("replacedAfter", to-from, replacedWithin, from, to)
	s.voters(s.Founders(), s.idsOf(s.Founders()))
}
