package membership

import (
	"context"
	"reflect"
	"slices"
	"time"

	"queen/raftlog"
	"queen/raftlog/command"
	"queen/raftlog/identity"
	"queen/raftlog/peer"
)

// upkeep returns what the state should know and does not: the first rows of the table, what members have said of themselves
// since, the format that all of them read. Nil when there is nothing.
func (s *Service) upkeep(now *Situation) *command.Membership {
	if !now.Committed {
		return nil
	}
	change := &command.Membership{Expect: now.State.Index}
	for _, node := range now.Nodes {
		if row, changed := s.row(now, &node); changed {
			change.Put = append(change.Put, row)
		}
	}
	if len(change.Put) == 0 {
		if change.Format = s.format(now); change.Format == 0 {
			return nil
		}
		s.Logger.Info().Uint32("from", now.State.Format).Uint32("to", change.Format).Msg("raft: cluster version raised")
	}
	return change
}

// row returns the row that a member should have, and whether it differs from the one it has.
func (s *Service) row(now *Situation, node *Node) (row command.Member, changed bool) {
	row, known := now.State.Member(node.ID)
	hello, met := s.lastMet(now.Self, node.ID)
	if !known {
		founder := slices.IndexFunc(s.Founders, func(m command.Member) bool { return m.NodeID == node.ID })
		switch {
		case len(now.State.Members) == 0 && founder >= 0:
			row = s.Founders[founder]
		case met:
			row = command.Member{NodeID: node.ID, Raft: node.Raft, HTTP: hello.HTTP, Incarnation: hello.Incarnation}
		default:
			return row, false
		}
	}
	if met && hello.Incarnation == row.Incarnation && !older(hello.BootNonce, row.BootNonce) {
		describe(&row, &hello)
	}
	old, _ := now.State.Member(node.ID)
	return row, !known || !reflect.DeepEqual(row, old)
}

// describe takes over what a node says of itself; its addresses are what an operator has said.
func describe(row *command.Member, hello *peer.Hello) {
	row.BootNonce, row.Kinds = hello.BootNonce, hello.Kinds
	row.KeyIDs = slices.Clone(hello.KeyIDs)
	if len(row.KeyIDs) == 0 {
		row.KeyIDs = nil
	}
}

// older tells whether a boot nonce must not replace the recorded one: the counter of the newer one is higher, and at equal
// counters the recorded one counts (cluster 2.6).
func older(nonce, recorded string) bool {
	if recorded == "" || nonce == recorded {
		return false
	}
	counter, ok := identity.NonceCounter(nonce)
	before, beforeOK := identity.NonceCounter(recorded)
	return !ok || beforeOK && counter <= before
}

// lastMet returns how a member has described itself last.
func (s *Service) lastMet(self, id uint64) (peer.Hello, bool) {
	if id == self {
		return s.Self(), true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	hello, met := s.met[id]
	return hello, met
}

// format returns the format to raise the cluster to: the lowest of what the members read, unreachable ones included (cluster 15.2).
// 0 is to leave it.
func (s *Service) format(now *Situation) uint32 {
	s.mu.Lock()
	due := s.FormatEvery > 0 && time.Since(s.formatAt) >= s.FormatEvery
	if due {
		s.formatAt = time.Now()
	}
	s.mu.Unlock()
	if !due {
		return 0
	}
	return commonFormat(now)
}

// commonFormat returns the lowest format that every member reads, if that is more than the present one; else 0.
func commonFormat(now *Situation) uint32 {
	lowest := ^uint32(0)
	for _, node := range now.Nodes {
		row, _ := now.State.Member(node.ID)
		lowest = min(lowest, row.Kinds) // 0 while it is not known
	}
	if len(now.Nodes) == 0 || lowest <= now.State.Format {
		return 0
	}
	return lowest
}

// recordOwnAddress makes the only voter known under the address it has now (cluster 3.1): nobody else could say where it is.
func (s *Service) recordOwnAddress(ctx context.Context, now *Situation) (moved bool, err error) {
	s.mu.Lock()
	placed := s.placed
	s.mu.Unlock()
	if placed || !now.Committed || now.State.Plan != nil {
		return false, nil
	}
	self := s.Self()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.placed = !moved && err == nil
	}()
	if self.Raft == "" || !slices.Equal(now.voters(), []uint64{now.Self}) {
		return false, nil
	}
	row, known := now.State.Member(now.Self)
	if known && (row.Raft != self.Raft || row.HTTP != self.HTTP) {
		row.Raft, row.HTTP = self.Raft, self.HTTP
		return true, s.State.Change(ctx, &command.Membership{Expect: now.State.Index, Put: []command.Member{row}})
	}
	node, _ := now.node(now.Self)
	if node.Raft == self.Raft {
		return false, nil
	}
	s.Logger.Warn().Str("before", node.Raft).Str("now", self.Raft).Msg("raft: the only voter has another address")
	return true, s.Group.ChangeMembership(ctx, raftlog.MembershipChange{
		Op: raftlog.AddVoter, ID: now.Self, Address: self.Raft, Against: now.Index,
	})
}
