package node

import (
	"testing"

	"queen/raftlog"
	"queen/raftlog/command"
	"queen/raftlog/identity"
	"queen/raftlog/membership"
	"queen/raftlog/peer"
)

// TestWhoseOrderToResetIsObeyed: cluster 2.6.
func TestWhoseOrderToResetIsObeyed(t *testing.T) {
	type setup struct {
		current identity.Identity
		remote  peer.Hello
		verdict peer.Verdict
		order   membership.ResetOrder
	}
	for name, row := range map[string]struct {
		change func(*setup)
		obeys  bool
	}{
		"the leader of its cluster":              {func(*setup) {}, true},
		"of an empty directory":                  {func(s *setup) { s.current.ClusterID = "" }, true},
		"of an older directory":                  {func(s *setup) { s.verdict = peer.RolledBack }, true},
		"the leader of another cluster":          {func(s *setup) { s.remote.ClusterID, s.order.ClusterID = "other", "other" }, false},
		"somebody for another cluster":           {func(s *setup) { s.remote.ClusterID = "other" }, false},
		"somebody of another epoch":              {func(s *setup) { s.remote.ClusterEpoch = 1 }, false},
		"somebody without a cluster":             {func(s *setup) { s.remote.ClusterID, s.order.ClusterID = "", "" }, false},
		"somebody who accepts it":                {func(s *setup) { s.verdict = peer.OK }, false},
		"somebody who does not know it":          {func(s *setup) { s.verdict = peer.Unknown }, false},
		"somebody who knows a newer process":     {func(s *setup) { s.verdict = peer.Superseded }, false},
		"an order for the directory before this": {func(s *setup) { s.order.Incarnation = "former" }, false},
	} {
		s := setup{
			current: identity.Identity{ClusterID: "c", ClusterEpoch: 2, NodeID: 3, Incarnation: "i"},
			remote:  peer.Hello{ClusterID: "c", ClusterEpoch: 2, NodeID: 1}, verdict: peer.Replaced,
			order: membership.ResetOrder{ClusterID: "c", ClusterEpoch: 2, Incarnation: "i"},
		}
		row.change(&s)
		if err := obeys(&s.current, &s.remote, s.verdict, &s.order); (err == nil) != row.obeys {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhenAReturnIsOver(t *testing.T) {
	type setup struct {
		state  command.MembershipState
		status raftlog.Status
	}
	for name, row := range map[string]struct {
		change func(*setup)
		want   bool
	}{
		"a voter":                        {func(s *setup) { s.status.Voters = []uint64{1, 2, 3} }, true},
		"a learner that will be a voter": {func(*setup) {}, false},
		"a learner, and no plan":         {func(s *setup) { s.state.Plan = nil }, true},
		"a learner, another one returns": {func(s *setup) { s.state.Plan.Node = 2 }, true},
		"nothing is applied":             {func(s *setup) { s.state, s.status = command.MembershipState{}, raftlog.Status{} }, false},
		"its row is the former one":      {func(s *setup) { s.state.Members[0].Incarnation, s.status.Voters = "former", []uint64{3} }, false},
		"it was removed meanwhile":       {func(s *setup) { s.state.Plan, s.status.Member = nil, false }, false},
	} {
		s := setup{
			state: command.MembershipState{
				Members: []command.Member{{NodeID: 3, Incarnation: "i"}}, Plan: &command.Plan{Kind: command.PlanRejoin, Node: 3},
			},
			status: raftlog.Status{Voters: []uint64{1, 2}, Learners: []uint64{3}, Member: true},
		}
		row.change(&s)
		if got := returned(&identity.Identity{NodeID: 3, Incarnation: "i"}, &s.state, &s.status); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
