package membership

import (
	"slices"
	"time"

	"queen/raftlog/command"
	"queen/raftlog/peer"
)

// Node is a member as the leader sees it.
type Node struct {
	ID    uint64
	Voter bool
	// Raft is its address in the membership.
	Raft string
	// Live tells that it was heard lately (cluster 0). A node that was just added counts as heard.
	Live bool
	// Heard tells that it has answered this leader; then LastLog is how far its log reaches.
	Heard   bool
	LastLog uint64
	// Full tells that its data volume would close the disk gate, if it were a voter; then DiskPercent is in use.
	Full        bool
	DiskPercent float64
	// Verdict is what this leader thinks of it since it was met last; empty before. Who is bound by one counts nowhere (cluster 2.6).
	Verdict peer.Verdict
	// Serves tells that a process of it takes part in the group; the verdict is then about another one that runs under its id.
	Serves bool
}

// Situation is all that a leader looks at when it decides.
type Situation struct {
	Self uint64
	// Nodes are the newest membership in the log, ascending by id. Index is the entry that made it.
	Nodes     []Node
	Index     uint64
	Committed bool
	// LastLog is how far the log of the leader reaches, MaxLag how much of it a learner may lack when it is promoted.
	LastLog, MaxLag uint64
	// State is what is applied, NowMs the time of the group.
	State *command.MembershipState
	NowMs uint64
	// HandingOver tells that leadership is being handed over.
	HandingOver bool
	// Returned counts, for each member, its returns within the last hour.
	Returned map[uint64]int
}

// node returns a member.
func (s *Situation) node(id uint64) (Node, bool) {
	at := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.ID == id })
	if at < 0 {
		return Node{}, false
	}
	return s.Nodes[at], true
}

// voters lists the ids of the voters, ascending.
func (s *Situation) voters() []uint64 {
	var ids []uint64
	for _, node := range s.Nodes {
		if node.Voter {
			ids = append(ids, node.ID)
		}
	}
	return ids
}

// behind tells how many entries a member lacks.
func (s *Situation) behind(n *Node) uint64 {
	if n.LastLog >= s.LastLog {
		return 0
	}
	return s.LastLog - n.LastLog
}

// quorum tells whether a majority of a voter set is live.
func (s *Situation) quorum(voters []uint64) bool {
	live := 0
	for _, id := range voters {
		if node, member := s.node(id); member && node.Live && !node.Verdict.Binds() {
			live++
		}
	}
	return live > len(voters)/2
}

// after returns the voter set after a step.
func after(voters []uint64, step command.PlanStep) []uint64 {
	voters = slices.DeleteFunc(slices.Clone(voters), func(id uint64) bool {
		return id == step.Node && (step.Op == command.StepRemove || step.Op == command.StepDemote)
	})
	if step.Op == command.StepPromote && !slices.Contains(voters, step.Node) {
		voters = append(voters, step.Node)
		slices.Sort(voters)
	}
	return voters
}

// quorumThroughout tells whether every voter set from the present one to the end of the steps has a live majority.
func (s *Situation) quorumThroughout(steps []command.PlanStep) bool {
	voters := s.voters()
	for _, step := range steps {
		if !s.quorum(voters) {
			return false
		}
		voters = after(voters, step)
	}
	return s.quorum(voters)
}

// done tells whether a step shows in the membership.
func (s *Situation) done(plan *command.Plan, step command.PlanStep) bool {
	node, member := s.node(step.Node)
	if resets(plan) && step.Op != command.StepReset {
		// Whoever returns was a voter before, and is one in the end: the reset tells which.
		reset := s.done(plan, command.PlanStep{Op: command.StepReset, Node: step.Node})
		if reset == (step.Op == command.StepDemote) {
			return reset
		}
	}
	switch step.Op {
	case command.StepAdd:
		return member
	case command.StepPromote:
		return member && node.Voter
	case command.StepDemote:
		return !node.Voter
	case command.StepRemove:
		return !member
	case command.StepReset:
		row, known := s.State.Member(step.Node)
		return !member || known && !awaitsReset(row.Incarnation)
	}
	row, known := s.State.Member(step.Node)
	return !member || (plan.Raft == "" || node.Raft == plan.Raft && known && row.Raft == plan.Raft) &&
		(plan.HTTP == "" || known && row.HTTP == plan.HTTP)
}

// todo lists the steps of a plan that are not done, in their order; the leader removes itself last.
func (s *Situation) todo(plan *command.Plan) []command.PlanStep {
	var steps, self []command.PlanStep
	for _, step := range plan.Steps {
		switch {
		case s.done(plan, step):
		case step.Node == s.Self && step.Op == command.StepRemove:
			self = append(self, step)
		default:
			steps = append(steps, step)
		}
	}
	return append(steps, self...)
}

// firstStepWithin is how long a plan may wait for its first step.
const firstStepWithin = 10 * time.Minute

// Do is what a leader does next about the plan.
type Do int

// The things to do.
const (
	// DoNothing: no plan is pending, or a change is not committed yet.
	DoNothing Do = iota
	// DoWait: Action.Waiting says for what.
	DoWait
	// DoStep: Action.Step is to be made.
	DoStep
	// DoHandOver: leadership is to be handed over, since the leader is to be removed.
	DoHandOver
	// DoFinish: everything is done.
	DoFinish
	// DoDrop: the plan has waited for too long.
	DoDrop
)

// Action is the next thing to do, and what it is about.
type Action struct {
	Do      Do
	Step    command.PlanStep
	Waiting Code
}

// Next returns what a leader does next about the plan. It is a pure function of the situation.
func (s *Situation) Next() Action {
	plan := s.State.Plan
	if plan == nil {
		return Action{}
	}
	todo := s.todo(plan)
	waiting := s.obstacle(plan, todo)
	switch {
	case !s.Committed && !s.quorum(s.voters()):
		return Action{Do: DoWait, Waiting: NoQuorum}
	case !s.Committed:
		return Action{}
	case waiting != "":
		return s.wait(waiting)
	case len(todo) == 0:
		return Action{Do: DoFinish}
	case todo[0].Op == command.StepRemove && todo[0].Node == s.Self:
		return Action{Do: DoHandOver, Step: todo[0]}
	}
	return Action{Do: DoStep, Step: todo[0]}
}

// wait is the action of a plan that is held up.
func (s *Situation) wait(waiting Code) Action {
	plan := s.State.Plan
	if len(s.todo(plan)) == len(plan.Steps) && s.NowMs > plan.StartedMs+uint64(firstStepWithin.Milliseconds()) {
		return Action{Do: DoDrop, Waiting: waiting}
	}
	return Action{Do: DoWait, Waiting: waiting}
}

// obstacle returns what holds the next step up; empty for nothing.
func (s *Situation) obstacle(plan *command.Plan, todo []command.PlanStep) Code {
	if len(todo) == 0 {
		return ""
	}
	// Before the first step all of them must be possible, later the next one.
	ahead := todo
	if len(todo) < len(plan.Steps) || plan.Kind == command.PlanRejoin { // whoever returns lacks everything at first
		ahead = todo[:1]
	}
	if !s.quorum(s.voters()) {
		return NoQuorum
	}
	var learners Code
	for _, step := range ahead {
		node, member := s.node(step.Node)
		switch {
		case step.Op != command.StepPromote || plan.Force:
		case !member || !node.Live || node.Verdict.Binds():
			return LearnerUnreachable
		case !node.Heard || s.behind(&node) > s.MaxLag:
			learners = LearnerBehind
		}
	}
	if !s.quorumThroughout(ahead) {
		return NoQuorum
	}
	return learners
}
