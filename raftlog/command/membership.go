package command

import "slices"

// Membership changes the members table, the plan or the format of the cluster (cluster 2.3, 4.4, 15.2), all of what it holds
// or nothing. Proposed by the leader. What it changes is a MembershipState.
type Membership struct {
	// Expect is the MembershipState.Index that the leader has seen. After any other change the command is refused: what a
	// former leader had on its way does not undo what a later one has written.
	Expect uint64
	// Format raises the format that the cluster writes; a lower one, or 0, leaves it.
	Format uint32
	// Put writes rows of the members table, Delete removes them by their ids.
	Put    []Member
	Delete []uint64
	// End ends the pending plan. Begin makes another one pending; then there must be none any more.
	End   PlanEnd
	Begin *Plan
}

// Member is a row of the members table.
type Member struct {
	NodeID      uint64   `json:"nodeId"`
	Raft        string   `json:"raft"`
	HTTP        string   `json:"http"`
	Incarnation string   `json:"incarnation"`
	BootNonce   string   `json:"bootNonce"`
	Kinds       uint32   `json:"kinds"`
	KeyIDs      []string `json:"keyIds,omitempty"`
	// AddedIndex is the entry that wrote this incarnation into the table. Apply knows it: what a command says does not count.
	AddedIndex uint64 `json:"addedIndex"`
}

// PlanKind is what kind of change a plan makes.
type PlanKind uint8

// The kinds of cluster 4.4.
const (
	PlanLearner PlanKind = 1
	PlanPromote PlanKind = 2
	PlanVoters  PlanKind = 3
	PlanRemove  PlanKind = 4
	PlanAddress PlanKind = 5
	PlanRejoin  PlanKind = 6
)

// StepOp is what a step of a plan does to one node.
type StepOp uint8

// The steps.
const (
	StepAdd     StepOp = 1
	StepPromote StepOp = 2
	StepDemote  StepOp = 3
	StepRemove  StepOp = 4
	StepAddress StepOp = 5
	// StepReset has a member empty its directory, and takes the new one into the members table (cluster 2.6).
	StepReset StepOp = 6
)

// PlanEnd is how a plan ended.
type PlanEnd uint8

// The ends. Zero is a plan that goes on.
const (
	PlanGoesOn  PlanEnd = 0
	PlanDone    PlanEnd = 1
	PlanAborted PlanEnd = 2
	PlanDropped PlanEnd = 3
)

// Plan is a change of the membership in steps of one server each. Which steps are done shows in the membership of the log.
type Plan struct {
	// ID is drawn for the request that asked for the change: who asks again under it waits for the same plan.
	ID   uint64   `json:"id"`
	Kind PlanKind `json:"kind"`
	// Voters is the voter set in the end, ascending; empty when the plan leaves it as it is.
	Voters []uint64 `json:"voters,omitempty"`
	// Node is the node of a plan about one, with its new addresses where it has some.
	Node uint64 `json:"node,omitempty"`
	Raft string `json:"raft,omitempty"`
	HTTP string `json:"http,omitempty"`
	// Force lets learners be promoted that are not caught up.
	Force bool       `json:"force,omitempty"`
	Steps []PlanStep `json:"steps"`
	// StartedMs is the time of the entry that began the plan. Apply knows it: what a command says does not count.
	StartedMs uint64 `json:"startedMs"`
}

// PlanStep is one change of one server.
type PlanStep struct {
	Op   StepOp `json:"op"`
	Node uint64 `json:"node"`
}

// MembershipState is what the entries have made of the membership. Immutable: a change makes a new one.
type MembershipState struct {
	// Index is the entry that changed it last; 0 before the first.
	Index uint64
	// Format is the format that the cluster writes, clusterVersion in /health.
	Format uint32
	// Members is the members table, ascending by id.
	Members []Member
	// Plan is the pending plan, nil when there is none.
	Plan *Plan
	// Ended are the last plans that ended, the newest last.
	Ended []EndedPlan
}

// EndedPlan says how a plan ended.
type EndedPlan struct {
	ID  uint64  `json:"id"`
	End PlanEnd `json:"end"`
}

// Member returns the row of a node.
func (s *MembershipState) Member(id uint64) (Member, bool) {
	at := slices.IndexFunc(s.Members, func(m Member) bool { return m.NodeID == id })
	if at < 0 {
		return Member{}, false
	}
	return s.Members[at], true
}

// EndOf returns how a plan ended: PlanGoesOn when it has not, or is too long ago.
func (s *MembershipState) EndOf(id uint64) PlanEnd {
	for _, ended := range s.Ended {
		if ended.ID == id {
			return ended.End
		}
	}
	return PlanGoesOn
}

// Op implements Command.
func (Membership) Op() Opcode { return OpMembership }

func (c Membership) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, c.Expect)
	dst = appendNumber(dst, uint64(c.Format))
	dst = appendNumber(dst, uint64(len(c.Put)))
	for i := range c.Put {
		dst = c.Put[i].appendTo(dst)
	}
	dst = appendNumbers(dst, c.Delete)
	dst = append(dst, byte(c.End))
	dst = appendFlags(dst, c.Begin != nil)
	if c.Begin != nil {
		dst = c.Begin.appendTo(dst)
	}
	return dst
}

func (m *Member) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, m.NodeID)
	for _, text := range []string{m.Raft, m.HTTP, m.Incarnation, m.BootNonce} {
		dst = appendString(dst, text)
	}
	dst = appendNumber(dst, uint64(m.Kinds))
	dst = appendNumber(dst, uint64(len(m.KeyIDs)))
	for _, key := range m.KeyIDs {
		dst = appendString(dst, key)
	}
	return appendNumber(dst, m.AddedIndex)
}

func (p *Plan) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, p.ID)
	dst = append(dst, byte(p.Kind))
	dst = appendNumbers(dst, p.Voters)
	dst = appendNumber(dst, p.Node)
	dst = appendString(dst, p.Raft)
	dst = appendString(dst, p.HTTP)
	dst = appendFlags(dst, p.Force)
	dst = appendNumber(dst, uint64(len(p.Steps)))
	for _, step := range p.Steps {
		dst = appendNumber(append(dst, byte(step.Op)), step.Node)
	}
	return appendNumber(dst, p.StartedMs)
}

func appendNumbers(dst []byte, numbers []uint64) []byte {
	dst = appendNumber(dst, uint64(len(numbers)))
	for _, n := range numbers {
		dst = appendNumber(dst, n)
	}
	return dst
}

// The smallest encodings of list elements, for decoder.count.
const (
	minMemberBytes   = 8
	minKeyIDBytes    = 1
	minPlanStepBytes = 2
)

func (d *decoder) membership() Membership {
	c := Membership{Expect: d.number(), Format: d.number32()}
	c.Put = list[Member](d.count(minMemberBytes))
	for i := range c.Put {
		c.Put[i] = d.member()
	}
	c.Delete = d.numbers()
	if c.End = PlanEnd(d.byte("end of a plan")); c.End > PlanDropped {
		d.fail("end of a plan")
	}
	if d.flag() {
		c.Begin = d.plan()
	}
	return c
}

func (d *decoder) member() Member {
	m := Member{NodeID: d.number(), Raft: d.name(), HTTP: d.name(), Incarnation: d.name(), BootNonce: d.name(), Kinds: d.number32()}
	m.KeyIDs = list[string](d.count(minKeyIDBytes))
	for i := range m.KeyIDs {
		m.KeyIDs[i] = d.name()
	}
	m.AddedIndex = d.number()
	return m
}

func (d *decoder) plan() *Plan {
	p := &Plan{ID: d.number(), Kind: PlanKind(d.byte("kind of a plan"))}
	if p.Kind < PlanLearner || p.Kind > PlanRejoin {
		d.fail("kind of a plan")
	}
	p.Voters = d.numbers()
	p.Node, p.Raft, p.HTTP, p.Force = d.number(), d.name(), d.name(), d.flag()
	p.Steps = list[PlanStep](d.count(minPlanStepBytes))
	for i := range p.Steps {
		step := PlanStep{Op: StepOp(d.byte("step of a plan")), Node: d.number()}
		if step.Op < StepAdd || step.Op > StepReset {
			d.fail("step of a plan")
		}
		p.Steps[i] = step
	}
	p.StartedMs = d.number()
	return p
}

func (d *decoder) numbers() []uint64 {
	numbers := list[uint64](d.count(minNumberBytes))
	for i := range numbers {
		numbers[i] = d.number()
	}
	return numbers
}
