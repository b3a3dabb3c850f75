package actors

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"queen/raftlog/command"
)

// modelMembership is the members table and the plan, as the contract has them (cluster 2.3, 4.4, 15.2).
type modelMembership struct {
	index  uint64
	format uint32
	rows   map[uint64]command.Member
	plan   *command.Plan
	ended  []command.EndedPlan
}

func (m *modelMembership) change(c *command.Membership, index, now uint64) command.Result {
	if c.Expect != m.index {
		return &command.Refusal{Code: "membership_changed", Text: fmt.Sprintf(
			"the membership was changed by entry %d, the command was made after entry %d", m.index, c.Expect)}
	}
	if c.Begin != nil && m.plan != nil && c.End == command.PlanGoesOn {
		return &command.Refusal{Code: "in_flight", Text: fmt.Sprintf("plan %d is pending", m.plan.ID)}
	}
	m.index, m.format = index, max(m.format, c.Format)
	for _, id := range c.Delete {
		delete(m.rows, id)
	}
	for _, row := range c.Put {
		row.AddedIndex = index
		if old := m.rows[row.NodeID]; old.Incarnation == row.Incarnation {
			row.AddedIndex = old.AddedIndex
		}
		m.rows[row.NodeID] = row
	}
	if m.plan != nil && c.End != command.PlanGoesOn {
		m.ended, m.plan = append(m.ended, command.EndedPlan{ID: m.plan.ID, End: c.End}), nil
	}
	if c.Begin != nil {
		plan := *c.Begin
		plan.StartedMs = now / 1000
		m.plan = &plan
	}
	return command.Done{}
}

func (m *modelMembership) state() *command.MembershipState {
	state := &command.MembershipState{Index: m.index, Format: m.format, Plan: m.plan, Ended: m.ended[max(0, len(m.ended)-16):]}
	for _, id := range slices.Sorted(maps.Keys(m.rows)) {
		state.Members = append(state.Members, m.rows[id])
	}
	return state
}

func (d *dump) membership(s *command.MembershipState) {
	var text strings.Builder
	fmt.Fprintf(&text, "membership at=%d format=%d %+v ended=%v", s.Index, s.Format, s.Members, s.Ended)
	if s.Plan != nil {
		fmt.Fprintf(&text, " plan=%+v", *s.Plan)
	}
	d.add("%s", text.String())
}

// membership makes a change against the newest state, or against an older one: then nothing may happen.
func (g *generator) membership() command.Command {
	m := &g.model.membership
	c := command.Membership{Expect: m.index}
	if g.oneIn(8) {
		c.Expect = uint64(g.random.IntN(int(m.index) + 2))
	}
	for range g.random.IntN(3) {
		c.Put = append(c.Put, command.Member{
			NodeID: uint64(1 + g.random.IntN(6)), Raft: "q:7400", HTTP: "q:6632", Incarnation: pick(g, []string{"a", "b"}),
			BootNonce: fmt.Sprintf("%d-0011223344556677", g.random.IntN(100)), Kinds: 7, KeyIDs: pick(g, [][]string{nil, {"k"}}),
		})
	}
	if g.oneIn(4) {
		c.Delete = []uint64{uint64(1 + g.random.IntN(6))}
	}
	if g.oneIn(10) {
		c.Format = uint32(6 + g.random.IntN(4))
	}
	if g.oneIn(3) {
		c.End = pick(g, []command.PlanEnd{command.PlanDone, command.PlanAborted, command.PlanDropped})
	}
	if g.oneIn(2) {
		c.Begin = &command.Plan{ID: g.random.Uint64(), Kind: command.PlanVoters, Voters: []uint64{1, 2},
			Steps: []command.PlanStep{{Op: command.StepPromote, Node: 2}}}
	}
	return c
}
