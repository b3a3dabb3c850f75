package cluster

import (
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// TestR12LostMajority: two of three nodes are gone for a while, then one comes back.
func TestR12LostMajority(t *testing.T) {
	for name, example := range map[string]struct {
		env   map[string]string
		code  string
		after time.Duration
	}{
		"until the deadline": {nil, "timeout", writeDeadline},
		"until it is told":   {map[string]string{"QUEEN_RAFT_NO_QUORUM_FAIL_MS": "2000"}, "no_quorum", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, "R12", stage{env: example.env}, func(s *scene) {
				s.acked(50)
				left := s.Founders()[s.random.IntN(3)]
				gone := s.Others(left.ID)
				gone[0].Kill()
				gone[1].Kill()
				from := s.now()
				writes := s.push(left, 20)
				if acknowledged := writes.wait(); acknowledged > 0 {
					s.Errorf("%d writes were acknowledged without a majority", acknowledged)
				}
				for range 20 {
					s.refused(<-writes.replies, example.code, example.after)
				}
				s.passes(from + sized(30*time.Second, 6*time.Second))
				unready, ever := s.watch.FirstWith(left.ID, 503, from)
				if !ever {
					s.Errorf("node %d stayed ready without a majority", left.ID)
				}
				s.within("unreadyAfter", unready, 5200*time.Millisecond, from, from+unready)

				from = s.now()
				s.must(gone[0].Launch())
				s.ackedThrough(gone[1], 1)
				to := s.now()
				s.within("commitAfter", to-from, 2*time.Second, from, to)
				s.must(s.AwaitHealthy(formsWithin, left, gone[0]))
				ready := s.now()
				s.within("readyAfterCommit", ready-to, 2*time.Second, to, ready)
				s.start(gone[1])
			})
		})
	}
}

// refused checks the answer to a write that found no majority (cluster.md 8.3).
func (s *scene) refused(reply harness.PushReply, code string, after time.Duration) {
	s.Helper()
	const text = `{"error":"the request deadline elapsed","code":"timeout"}`
	switch {
	case reply.Status != 503 || reply.Text("code") != code || reply.Header.Get("Retry-After") != "1":
		s.Errorf("want 503 %s with retry-after 1, got %v", code, reply)
	case code == "timeout" && strings.TrimSpace(string(reply.Body)) != text:
		s.Errorf("want the body %s, got %s", text, reply.Body)
	case reply.Elapsed < after-100*time.Millisecond && code == "timeout", reply.Elapsed > giveUpAfter:
		s.Errorf("want the answer after %v, got it after %v", after, reply.Elapsed)
	}
}

// TestR30NoClusterOfAMinority: a first start lacks one of three nodes; later two of three directories are gone while the third is down.
func TestR30NoClusterOfAMinority(t *testing.T) {
	s := apart(t)
	for _, node := range s.Founders()[:2] {
		s.must(node.Launch())
	}
	s.neverFormed(s.Founders()[:2], "first start waits for every peer in QUEEN_RAFT_PEERS", "missing=3")

	s.must(s.Node(3).Launch())
	s.must(s.AwaitHealthy(formsWithin))
	for _, node := range s.Founders() {
		s.must(node.Stop())
	}
	for _, node := range s.Founders()[:2] {
		s.must(node.Wipe())
		s.must(node.Launch())
	}
	s.neverFormed(s.Founders()[:2], "first start waits for every peer in QUEEN_RAFT_PEERS", "missing=3")
	if err := s.CheckLogs(); err != nil {
		t.Error(err)
	}
}

// apart prepares a cluster without load.
func apart(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t}
	var err error
	s.Cluster, err = Prepare(Options{Binary: brokerBinary, Dir: directory(t), Nodes: 3})
	s.must(err)
	t.Cleanup(s.close)
	return s
}

// neverFormed waits until each of the nodes has logged twice that it waits, which takes some ten seconds, and checks that none of them
// took part in a cluster meanwhile.
func (s *scene) neverFormed(nodes []*Node, phrases ...string) {
	s.Helper()
	before := make([]int, len(nodes))
	for i, node := range nodes {
		logged, err := node.Logged(phrases...)
		s.must(err)
		before[i] = logged
	}
	for i, node := range nodes {
		s.must(Eventually(formsWithin, "the warning of a first start that waits", func() error {
			health, err := node.Health()
			if err != nil {
				return err
			}
			if health.Healthy() || health.Raft.LeaderID != 0 {
				s.Fatalf("node %d takes part in a cluster: %v", node.ID, health)
			}
			logged, err := node.Logged(phrases...)
			if err == nil && logged < before[i]+2 {
				return errTooFew
			}
			return err
		}))
	}
}
