package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/raftlog/command"
	"queen/raftlog/peer"
)

// A member that has lost its directory, or has come back with an older one, returns with an empty one (cluster 2.6): it is demoted,
// ordered to reset, taken into the members table anew, fed and promoted. The plan is recorded together with a row of the member in
// which no incarnation stands, so that from then on nobody takes the old directory for a member, whatever its verdict was before.
//
// The order to reset names the directory that goes, and is sent only when the row names it as well, committed: a leader that is none
// any more cannot have a directory emptied that belongs to the cluster by now.

// awaitsReset tells whether a row says that its member is to reset.
func awaitsReset(incarnation string) bool {
	_, _, marked := peer.MarkedForReset(incarnation)
	return marked
}

// ResetOrder is what a leader orders a member to do. A node of another cluster never obeys.
type ResetOrder struct {
	ClusterID    string `json:"clusterId"`
	ClusterEpoch uint64 `json:"clusterEpoch"`
	// Incarnation is the directory that is to be emptied. A node with another one leaves it.
	Incarnation string `json:"incarnation"`
}

const (
	// returnsAnHour is how often a member returns by itself within returnsWithin (cluster 2.6).
	returnsAnHour = 3
	returnsWithin = time.Hour
)

// Return is what becomes of a member that has lost its directory.
type Return struct {
	// Plan is to be begun; nil when nothing is to be done.
	Plan *command.Plan
	// GivenUp is the member that has lost its directory too often; 0 for none. Then the plan only takes its vote.
	GivenUp uint64
}

// Return returns what is to be done about members that have lost their directories, without being asked. It is a pure function; the
// id of the plan is left to the caller.
func (s *Situation) Return() Return {
	if s.State.Plan != nil || !s.Committed || s.HandingOver {
		return Return{}
	}
	for _, node := range s.Nodes {
		_, known := s.State.Member(node.ID)
		lost := node.Verdict == peer.Replaced || node.Verdict == peer.RolledBack
		if node.ID == s.Self || !lost || !known || !node.Live || node.Serves || !s.quorumWithout(node.ID) {
			continue
		}
		if s.Returned[node.ID] < returnsAnHour {
			return Return{Plan: returnPlan(&node)}
		}
		given := Return{GivenUp: node.ID}
		if node.Voter {
			given.Plan = &command.Plan{Kind: command.PlanRejoin, Node: node.ID,
				Steps: []command.PlanStep{{Op: command.StepDemote, Node: node.ID}}}
		}
		return given
	}
	return Return{}
}

// returnPlan brings a member back with an empty directory, as the voter or the learner that it was.
func returnPlan(node *Node) *command.Plan {
	plan := &command.Plan{Kind: command.PlanRejoin, Node: node.ID}
	add := func(op command.StepOp) { plan.Steps = append(plan.Steps, command.PlanStep{Op: op, Node: node.ID}) }
	if node.Voter {
		add(command.StepDemote)
	}
	add(command.StepReset)
	if node.Voter {
		add(command.StepPromote)
	}
	return plan
}

// quorumWithout tells whether the voters have a live majority although a member counts nowhere, and the others have one among
// themselves.
func (s *Situation) quorumWithout(id uint64) bool {
	without := *s
	without.Nodes = append([]Node(nil), s.Nodes...)
	for i := range without.Nodes {
		if without.Nodes[i].ID == id {
			without.Nodes[i].Live = false
		}
	}
	voters := s.voters()
	return without.quorum(voters) && without.quorum(after(voters, command.PlanStep{Op: command.StepDemote, Node: id}))
}

// planReplace makes the plan of an operator who wants a member to return with an empty directory, as a voter.
func (s *Situation) planReplace(r *Request) (*command.Plan, *Refusal) {
	node, member := s.node(r.Node)
	switch {
	case !member:
		return nil, Refuse(NotAMember, "node %d is no member", r.Node)
	case node.Voter && len(s.voters()) == 1:
		return nil, Refuse(LastVoter, "node %d is the only voter", r.Node)
	case !node.Voter && len(s.voters()) >= MaxVoters:
		return nil, Refuse(Invalid, "a cluster has at most %d voters", MaxVoters)
	}
	plan := returnPlan(&node)
	if !node.Voter {
		plan.Steps = append(plan.Steps, command.PlanStep{Op: command.StepPromote, Node: node.ID})
	}
	return plan, nil
}

// begin is the command that records a plan. That of a return takes the directory of its member out of the table.
func (s *Situation) begin(plan *command.Plan) *command.Membership {
	record := &command.Membership{Expect: s.State.Index, Begin: plan}
	if s.State.Plan != nil {
		record.End = command.PlanAborted // a return that yields
	}
	if row, known := s.State.Member(plan.Node); known && resets(plan) && !awaitsReset(row.Incarnation) {
		node, _ := s.node(plan.Node)
		row.Incarnation, row.BootNonce = peer.ResetMark(node.Verdict, ""), ""
		record.Put = append(record.Put, row)
	}
	return record
}

// resets tells whether a plan empties a directory.
func resets(plan *command.Plan) bool {
	for _, step := range plan.Steps {
		if step.Op == command.StepReset {
			return true
		}
	}
	return false
}

// beginReturn records the plan of a return that nobody has asked for, if there is one to begin.
func (s *Service) beginReturn(ctx context.Context, now *Situation) (bool, error) {
	if !s.AutoRejoin || s.Peers == nil {
		return false, nil
	}
	found := now.Return()
	if found.GivenUp != 0 {
		s.mu.Lock()
		told := s.givenUp[found.GivenUp]
		s.givenUp[found.GivenUp] = true
		s.mu.Unlock()
		if !told {
			s.Logger.Error().Int("returns", now.Returned[found.GivenUp]).
				Msgf("raft: member %d keeps losing its directory: it stays a learner until `queen cluster replace %[1]d`", found.GivenUp)
		}
	}
	if found.Plan == nil {
		return false, nil
	}
	found.Plan.ID = Draw()
	if err := s.State.Change(ctx, now.begin(found.Plan)); err != nil {
		return false, err
	}
	s.Faults("membership.plan_recorded")
	return true, nil
}

// demoted is told that a voter has lost its vote.
func (s *Service) demoted(plan *command.Plan) {
	if plan.Kind != command.PlanRejoin {
		return
	}
	s.Faults("rejoin.demoted")
	if resets(plan) {
		s.Logger.Warn().Uint64("plan", plan.ID).Msgf("raft: member %d rejoins with an empty directory", plan.Node)
	}
}

// reset has a member empty its directory, and takes the new one into the table. Each call does one of the things that are left.
func (s *Service) reset(ctx context.Context, now *Situation, node *Node) error {
	row, _ := now.State.Member(node.ID)
	if s.Peers == nil {
		return errors.New("this node has no raft port")
	}
	address := row.Raft
	if address == "" {
		address = node.Raft
	}
	hello, err := s.Peers.Hello(ctx, node.ID, address)
	if err != nil {
		return s.unreachable(ctx, now, err)
	}
	verdict, directory, _ := peer.MarkedForReset(row.Incarnation)
	if directory != hello.Incarnation {
		row.Incarnation, row.BootNonce = peer.ResetMark(verdict, hello.Incarnation), ""
		return s.State.Change(ctx, &command.Membership{Expect: now.State.Index, Put: []command.Member{row}})
	}
	self := s.Self()
	order := ResetOrder{ClusterID: self.ClusterID, ClusterEpoch: self.ClusterEpoch, Incarnation: hello.Incarnation}
	empty, err := s.Peers.Reset(ctx, node.ID, address, order)
	if err != nil {
		return s.unreachable(ctx, now, fmt.Errorf("order node %d to reset: %w", node.ID, err))
	}
	row.Incarnation = empty.Incarnation
	describe(&row, &empty)
	if err := s.State.Change(ctx, &command.Membership{Expect: now.State.Index, Put: []command.Member{row}}); err != nil {
		return err
	}
	s.mu.Lock()
	s.added[node.ID], s.waiting = time.Now(), ""
	s.mu.Unlock()
	s.Logger.Warn().Uint64("node", node.ID).Str("incarnation", empty.Incarnation).
		Msgf("raft: membership change committed plan=%d", now.State.Plan.ID)
	return nil
}

// returning is the return that this node sees pending, and since when.
type returning struct {
	plan  *command.Plan
	since time.Time
}

// follow notices returns that are pending and done, on every node: whoever leads next knows how often a member has returned.
func (s *Service) follow(state *command.MembershipState) {
	leads := s.Group.Leads()
	s.mu.Lock()
	before := s.returning
	switch plan := state.Plan; {
	case plan == nil || plan.Kind != command.PlanRejoin || !resets(plan):
		s.returning = returning{}
	case before.plan == nil || before.plan.ID != plan.ID:
		s.returning = returning{plan: plan, since: time.Now()}
	}
	done := before.plan != nil && (s.returning.plan == nil || s.returning.plan.ID != before.plan.ID) &&
		state.EndOf(before.plan.ID) == command.PlanDone
	asked := done && s.replacing == before.plan.ID
	if done {
		s.returns[before.plan.Node] = append(s.returns[before.plan.Node], time.Now())
	}
	s.mu.Unlock()
	if !done || !leads {
		return
	}
	if !asked {
		s.Returned(before.plan.Node)
	}
	if last := before.plan.Steps[len(before.plan.Steps)-1]; last.Op == command.StepPromote {
		s.Logger.Info().Msgf("raft: member %d is a voter again ms=%d", before.plan.Node, time.Since(before.since).Milliseconds())
	}
}

// returnedLocked counts the returns of the last hour, and forgets older ones; the caller holds the lock.
func (s *Service) returnedLocked() map[uint64]int {
	counts := map[uint64]int{}
	for id, times := range s.returns {
		for len(times) > 0 && time.Since(times[0]) > returnsWithin {
			times = times[1:]
		}
		s.returns[id] = times
		if counts[id] = len(times); len(times) < returnsAnHour {
			delete(s.givenUp, id)
		}
	}
	return counts
}
