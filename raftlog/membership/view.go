package membership

import (
	"math"

	"queen/raftlog"
	"queen/raftlog/command"
	"queen/raftlog/peer"
)

// View is the membership as the routes show it (cluster 4.1).
type View struct {
	NodeID uint64 `json:"nodeId"`
	// Source is leader or follower: who describes it.
	Source              string       `json:"source"`
	ViewAgeMs           int64        `json:"viewAgeMs"`
	Leader              *uint64      `json:"leader"`
	Term                uint64       `json:"term"`
	ClusterID           string       `json:"clusterId"`
	ClusterEpoch        uint64       `json:"clusterEpoch"`
	Voters              []uint64     `json:"voters"`
	Learners            []uint64     `json:"learners"`
	Joint               *struct{}    `json:"joint"` // always null: one server is changed at a time
	MembershipIndex     uint64       `json:"membershipIndex"`
	MembershipCommitted bool         `json:"membershipCommitted"`
	ChangeInFlight      bool         `json:"changeInFlight"`
	Plan                *PlanView    `json:"plan"`
	LastLogIndex        uint64       `json:"lastLogIndex"`
	CommittedIndex      uint64       `json:"committedIndex"`
	LiveWithinMs        int64        `json:"liveWithinMs"`
	PromoteMaxLag       uint64       `json:"promoteMaxLag"`
	Members             []MemberView `json:"members"`
}

// MemberView is a member. What the describing node does not know is nil.
type MemberView struct {
	NodeID    uint64   `json:"nodeId"`
	Voter     bool     `json:"voter"`
	Raft      string   `json:"raft"`
	HTTP      string   `json:"http"`
	Matched   *uint64  `json:"matched"`
	Lag       *uint64  `json:"lag"` // entries
	LastAckMs *int64   `json:"lastAckMs"`
	Live      bool     `json:"live"`
	Identity  string   `json:"identity"`
	Kinds     uint32   `json:"kinds"`
	DiskPct   *float64 `json:"diskPct"`
	// SeenRaft is where the member was reached, while that is not where the membership says.
	SeenRaft *string `json:"seenRaft"`
}

// PlanView is the pending plan.
type PlanView struct {
	ID          uint64     `json:"id"`
	Kind        string     `json:"kind"`
	Target      any        `json:"target"`
	Steps       []StepView `json:"steps"`
	StartedAtMs uint64     `json:"startedAtMs"`
	Waiting     *Code      `json:"waiting"`
}

// StepView is a step of it.
type StepView struct {
	Op    string `json:"op"`
	ID    uint64 `json:"id"`
	State string `json:"state"` // pending, running or done
}

// View describes the membership as this node knows it.
func (s *Service) View() *View {
	status, self := s.Group.Status(), s.Self()
	now := s.situation()
	leads := s.Group.Leads()
	view := &View{
		NodeID: self.NodeID, Source: "follower", Term: status.Term, ClusterID: self.ClusterID, ClusterEpoch: self.ClusterEpoch,
		Voters: []uint64{}, Learners: []uint64{}, MembershipIndex: now.Index, MembershipCommitted: now.Committed,
		LastLogIndex: status.LastIndex, CommittedIndex: status.CommitIndex, LiveWithinMs: s.LiveWithin.Milliseconds(),
		PromoteMaxLag: s.PromoteMaxLag, Members: []MemberView{},
	}
	if leads {
		view.Source = "leader"
	} else {
		view.ViewAgeMs = s.Group.MembersAgeMs()
	}
	if status.LeaderID != 0 {
		view.Leader = &status.LeaderID
	}
	said := map[uint64]raftlog.MemberState{}
	for _, member := range s.Group.Members() {
		said[member.ID] = member
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range now.Nodes {
		if node.Voter {
			view.Voters = append(view.Voters, node.ID)
		} else {
			view.Learners = append(view.Learners, node.ID)
		}
		view.Members = append(view.Members, s.member(now, &node, said))
	}
	view.Plan = s.planLocked(now, leads)
	view.ChangeInFlight = view.Plan != nil || !now.Committed
	return view
}

// member describes a member; the caller holds the lock.
func (s *Service) member(now *Situation, node *Node, said map[uint64]raftlog.MemberState) MemberView {
	row, _ := now.State.Member(node.ID)
	view := MemberView{
		NodeID: node.ID, Voter: node.Voter, Raft: node.Raft, HTTP: row.HTTP, Live: node.Live, Kinds: row.Kinds, Identity: string(peer.OK),
	}
	if verdict := s.verdicts[node.ID]; verdict != "" && node.ID != now.Self {
		view.Identity = string(verdict)
	}
	if address := s.seen[node.ID]; address != "" && address != node.Raft {
		view.SeenRaft = &address
	}
	if heard, known := said[node.ID]; known && heard.LastAckMs >= 0 {
		matched := min(heard.LastLog, now.LastLog)
		lag := now.LastLog - matched
		percent := math.Trunc(heard.DiskPercent*10) / 10 // as /health shows it
		view.Matched, view.Lag, view.LastAckMs, view.DiskPct = &matched, &lag, &heard.LastAckMs, &percent
	}
	return view
}

// planLocked describes the pending plan.
func (s *Service) planLocked(now *Situation, leads bool) *PlanView {
	plan := now.State.Plan
	if plan == nil {
		return nil
	}
	view := &PlanView{ID: plan.ID, Kind: KindName(plan.Kind), Target: target(plan), StartedAtMs: plan.StartedMs, Steps: []StepView{}}
	if leads && s.waiting != "" {
		waiting := s.waiting
		view.Waiting = &waiting
	}
	running := leads && s.waiting == ""
	for _, step := range plan.Steps {
		shown := StepView{Op: opName(step.Op), ID: step.Node, State: "pending"}
		switch {
		case now.done(plan, step):
			shown.State = "done"
		case running:
			shown.State, running = "running", false
		}
		view.Steps = append(view.Steps, shown)
	}
	return view
}

// target is what a plan leads to: the voters, or a node with its addresses.
func target(plan *command.Plan) any {
	if plan.Kind == command.PlanPromote || plan.Kind == command.PlanVoters {
		return plan.Voters
	}
	return struct {
		ID   uint64 `json:"id"`
		Raft string `json:"raft,omitempty"`
		HTTP string `json:"http,omitempty"`
	}{plan.Node, plan.Raft, plan.HTTP}
}
