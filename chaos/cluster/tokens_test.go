package cluster

import (
	"fmt"
	"testing"
	"time"
)

// TestR10Tokens: one node has another token; then the token of all changes under load by operations.md 6.3.
func TestR10Tokens(t *testing.T) {
	play(t, "R10", stage{every: 10 * time.Millisecond}, func(s *scene) {
		s.acked(50)
		odd := s.follower()
		s.must(odd.Stop())
		s.must(odd.LaunchWith(map[string]string{"QUEEN_RAFT_TOKEN": "another raft token of the chaos tests"}))
		for _, node := range s.Founders() {
			s.must(Eventually(formsWithin, fmt.Sprintf("node %d refuses a token", node.ID), func() error {
				logged, err := node.Logged(" WARN ", "refused", "QUEEN_RAFT_TOKEN")
				if err == nil && logged == 0 {
					return errTooFew
				}
				return err
			}))
			s.must(Eventually(formsWithin, fmt.Sprintf("node %d counts a refusal", node.ID), func() error {
				count, err := node.Metric("queen_raft_peer_refused_total", `reason="token"`)
				if err == nil && count == 0 {
					return errTooFew
				}
				return err
			}))
		}
		if health, err := odd.Health(); err != nil || health.Healthy() {
			s.Errorf("the node with another token: %v %v", health, err)
		}
		from := s.now()
		s.acked(100)
		s.stayedReady(s.Others(odd.ID), from, s.now())
		s.must(odd.Stop())
		s.start(odd)

		const fresh = "the new raft token of the chaos tests"
		from = s.now()
		s.roll(func(node *Node) {
			node.SetEnv("QUEEN_RAFT_TOKEN", fresh)
			node.SetEnv("QUEEN_RAFT_TOKEN_PREVIOUS", Token)
		})
		s.roll(func(node *Node) { node.SetEnv("QUEEN_RAFT_TOKEN_PREVIOUS", "") })
		s.acked(50)
		to := s.now()
		s.within("slowestWrite", s.pulse.Slowest(from, to), time.Second, from, to)
	})
}

// roll restarts the nodes in order, one by one, after a change to each.
func (s *scene) roll(change func(*Node)) {
	s.Helper()
	for _, node := range s.Founders() {
		s.must(node.Stop())
		change(node)
		s.start(node)
	}
}
