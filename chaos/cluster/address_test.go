package cluster

import (
	"fmt"
	"testing"
	"time"
)

// TestR19AddressesChange: every node comes to another raft address, one by one and then all at once, as operations.md 5.10 says.
func TestR19AddressesChange(t *testing.T) {
	play(t, "R19", stage{}, func(s *scene) {
		s.acked(50)
		from := s.now()
		for _, node := range s.Founders() {
			s.must(node.Stop())
			s.must(s.Move(node))
			s.must(node.Launch())
			s.recorded(node)
			s.must(s.AwaitHealthy(formsWithin, node)) // nobody reaches it before
		}
		s.acked(20)
		to := s.now()
		s.within("stall", s.pulse.Gap(from, to), time.Second, from, to)

		for _, node := range s.Founders() {
			s.must(node.Stop())
		}
		s.gate.Close()
		for _, node := range s.Founders() {
			s.must(s.Network.Move(node.ID, node.listen))
		}
		for _, node := range s.Founders() { // the new list names all new addresses
			node.SetEnv("QUEEN_RAFT_PEERS", s.peers(node))
			s.must(node.Launch())
		}
		from = s.now()
		s.leading()
		to = s.now()
		s.within("leaderAfter", to-from, 5*time.Second, from, to)
		s.must(s.AwaitHealthy(formsWithin))
		s.gate.Open()
		for _, node := range s.Founders() {
			s.recorded(node)
		}
		s.acked(50)
	})
}

// recorded records the address of a node, and waits until nobody sees it elsewhere than the membership says.
func (s *scene) recorded(node *Node) {
	s.Helper()
	s.must(Eventually(formsWithin, fmt.Sprintf("the address of node %d is taken", node.ID), func() error {
		leader, err := s.Leader()
		if err != nil {
			return err
		}
		if reply := leader.Apply(s.SetRaft(node.ID)); reply.Err != nil || reply.Status != 200 { // it is looked for at that address
			return fmt.Errorf("through node %d: %v", leader.ID, reply)
		}
		return nil
	}))
	for _, through := range s.Founders() {
		s.must(Eventually(formsWithin, fmt.Sprintf("the address of node %d on node %d", node.ID, through.ID), func() error {
			view, err := through.Membership()
			if err != nil {
				return err
			}
			for _, member := range view.Members {
				if member.NodeID == node.ID && (member.Raft != s.Network.Address(node.ID) || member.SeenRaft != "") {
					return fmt.Errorf("it is %s, and it was seen at %q", member.Raft, member.SeenRaft)
				}
			}
			return nil
		}))
	}
}
