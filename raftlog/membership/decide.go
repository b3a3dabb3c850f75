package membership

import (
	"slices"

	"queen/raftlog/command"
)

// Decision is what becomes of a request for a change. At most one field is set; none when everything is as it is asked for.
type Decision struct {
	// Plan is to be made.
	Plan *command.Plan
	// Await is the pending plan to wait for.
	Await uint64
	// Abort ends the pending plan.
	Abort bool
	// CatchUp are learners to wait for a moment before the request is decided again.
	CatchUp []uint64
}

// Decide checks a request against the situation (cluster 4.2, 4.3). It is a pure function. What takes asking other nodes is
// not looked at.
func (s *Situation) Decide(r *Request) (Decision, *Refusal) {
	pending := s.State.Plan
	if pending != nil && pending.ID == r.ID {
		return Decision{Await: pending.ID}, nil
	}
	if pending != nil && r.Kind == command.PlanRejoin && pending.Kind == r.Kind && pending.Node == r.Node && resets(pending) {
		return Decision{Await: pending.ID}, nil
	}
	if pending != nil && r.Kind == command.PlanVoters {
		switch {
		case slices.Equal(r.Nodes, s.voters()):
			return Decision{Abort: true}, nil
		case pending.Kind == command.PlanVoters && slices.Equal(r.Nodes, pending.Voters):
			return Decision{Await: pending.ID}, nil
		}
	}
	if pending != nil && pending.Kind != command.PlanRejoin {
		return Decision{}, Refuse(InFlight, "plan %d (%s) is pending", pending.ID, KindName(pending.Kind))
	}
	if s.HandingOver {
		return Decision{}, Refuse(Busy, "leadership is being handed over")
	}
	plan, refusal := s.plan(r)
	if refusal != nil || plan == nil {
		return Decision{}, refusal
	}
	plan.ID, plan.Kind, plan.Force = r.ID, r.Kind, r.Force
	if s.quorum(s.voters()) && !r.Force && r.Kind != command.PlanRejoin {
		for _, step := range plan.Steps {
			node, _ := s.node(step.Node)
			switch {
			case step.Op != command.StepPromote:
			case !node.Live:
				return Decision{}, Refuse(LearnerBehind, "learner %d is not live", step.Node)
			case node.Full: // as a voter it would close the disk gate at once (cluster 11.3)
				return Decision{}, Refuse(LearnerBehind, "the data volume of learner %d is %.1f%% full", step.Node, node.DiskPercent)
			}
		}
	}
	if !s.quorumThroughout(plan.Steps) || r.Kind == command.PlanRejoin && !s.quorumWithout(r.Node) {
		return Decision{}, Refuse(NoQuorum, "the voters that are live are no majority at every step from %v to %v", s.voters(), s.through(plan.Steps))
	}
	if behind := s.catchingUp(plan); len(behind) > 0 && r.Kind != command.PlanRejoin {
		return Decision{CatchUp: behind}, nil
	}
	return Decision{Plan: plan}, nil
}

// through returns the voters after all steps.
func (s *Situation) through(steps []command.PlanStep) []uint64 {
	voters := s.voters()
	for _, step := range steps {
		voters = after(voters, step)
	}
	return voters
}

// catchingUp lists the learners that a plan promotes and that are not there yet.
func (s *Situation) catchingUp(plan *command.Plan) []uint64 {
	var behind []uint64
	for _, step := range plan.Steps {
		node, _ := s.node(step.Node)
		if step.Op == command.StepPromote && !plan.Force && (!node.Heard || s.behind(&node) > s.MaxLag) {
			behind = append(behind, step.Node)
		}
	}
	return behind
}

// plan makes the steps of a request; nil when there is nothing to do.
func (s *Situation) plan(r *Request) (*command.Plan, *Refusal) {
	switch r.Kind {
	case command.PlanLearner:
		return s.planLearner(r)
	case command.PlanPromote:
		return s.planPromote(r)
	case command.PlanVoters:
		return s.planVoters(r)
	case command.PlanRemove:
		return s.planRemove(r)
	case command.PlanAddress:
		return s.planAddress(r)
	case command.PlanRejoin:
		return s.planReplace(r)
	}
	return nil, Refuse(BadRequest, "unknown change %d", r.Kind)
}

func (s *Situation) planLearner(r *Request) (*command.Plan, *Refusal) {
	node, member := s.node(r.Node)
	row, _ := s.State.Member(r.Node)
	switch {
	case node.Voter:
		return nil, Refuse(AlreadyVoter, "node %d is a voter", r.Node)
	case member && node.Raft == r.Raft && row.HTTP == r.HTTP:
		return nil, nil
	case member:
		return nil, Refuse(AddressMismatch, "node %d is a learner at %s and %s", r.Node, node.Raft, row.HTTP)
	case s.inUse(r) != 0:
		return nil, Refuse(AddressInUse, "node %d is at %s", s.inUse(r), r.Raft)
	case len(s.Nodes) >= MaxMembers:
		return nil, Refuse(Invalid, "a cluster has at most %d members", MaxMembers)
	}
	return &command.Plan{
		Node: r.Node, Raft: r.Raft, HTTP: r.HTTP, Steps: []command.PlanStep{{Op: command.StepAdd, Node: r.Node}},
	}, nil
}

// inUse returns the other member that has the raft address; 0 for none.
func (s *Situation) inUse(r *Request) uint64 {
	for _, node := range s.Nodes {
		if node.ID != r.Node && node.Raft == r.Raft {
			return node.ID
		}
	}
	return 0
}

func (s *Situation) planPromote(r *Request) (*command.Plan, *Refusal) {
	voters := s.voters()
	plan := &command.Plan{}
	for _, id := range r.Nodes {
		node, member := s.node(id)
		if !member {
			return nil, Refuse(NotALearner, "node %d is no learner", id)
		}
		if !node.Voter {
			plan.Steps = append(plan.Steps, command.PlanStep{Op: command.StepPromote, Node: id})
			voters = append(voters, id)
		}
	}
	if len(plan.Steps) == 0 {
		return nil, nil
	}
	if len(voters) > MaxVoters {
		return nil, Refuse(Invalid, "a cluster has at most %d voters", MaxVoters)
	}
	plan.Voters = slices.Sorted(slices.Values(voters))
	return plan, nil
}

func (s *Situation) planVoters(r *Request) (*command.Plan, *Refusal) {
	if len(r.Nodes) == 0 || len(r.Nodes) > MaxVoters {
		return nil, Refuse(Invalid, "a cluster has 1 to %d voters", MaxVoters)
	}
	plan := &command.Plan{Voters: slices.Clone(r.Nodes)}
	for _, id := range r.Nodes {
		node, member := s.node(id)
		if !member {
			return nil, Refuse(NotAMember, "node %d is no member", id)
		}
		if !node.Voter {
			plan.Steps = append(plan.Steps, command.PlanStep{Op: command.StepPromote, Node: id})
		}
	}
	plan.Steps = append(plan.Steps, s.removals(r.Nodes)...)
	if len(plan.Steps) == 0 {
		return nil, nil
	}
	return plan, nil
}

// removals are the steps that leave only these voters: first the voters that are not live, since each of them makes the sets
// that follow stronger, and the leader last.
func (s *Situation) removals(stay []uint64) []command.PlanStep {
	var silent, live, self []command.PlanStep
	for _, node := range s.Nodes {
		step := command.PlanStep{Op: command.StepRemove, Node: node.ID}
		switch {
		case !node.Voter || slices.Contains(stay, node.ID):
		case node.ID == s.Self:
			self = append(self, step)
		case node.Live:
			live = append(live, step)
		default:
			silent = append(silent, step)
		}
	}
	return slices.Concat(silent, live, self)
}

func (s *Situation) planRemove(r *Request) (*command.Plan, *Refusal) {
	node, member := s.node(r.Node)
	if !member {
		return nil, nil
	}
	plan := &command.Plan{Node: r.Node, Steps: []command.PlanStep{{Op: command.StepRemove, Node: r.Node}}}
	if voters := s.voters(); node.Voter {
		if len(voters) == 1 {
			return nil, Refuse(LastVoter, "node %d is the only voter", r.Node)
		}
		plan.Voters = after(voters, plan.Steps[0])
	}
	return plan, nil
}

func (s *Situation) planAddress(r *Request) (*command.Plan, *Refusal) {
	if _, member := s.node(r.Node); !member {
		return nil, Refuse(NotAMember, "node %d is no member", r.Node)
	}
	plan := &command.Plan{Node: r.Node, Raft: r.Raft, HTTP: r.HTTP, Steps: []command.PlanStep{{Op: command.StepAddress, Node: r.Node}}}
	if s.done(plan, plan.Steps[0]) {
		return nil, nil
	}
	if r.Raft != "" && s.inUse(r) != 0 {
		return nil, Refuse(AddressInUse, "node %d is at %s", s.inUse(r), r.Raft)
	}
	return plan, nil
}
