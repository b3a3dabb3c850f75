package membership

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"queen/raftlog/command"
)

// cluster makes a situation of node 1: voters and learners, all live and caught up, those in dead not live.
func cluster(voters, learners, dead []uint64) *Situation {
	s := &Situation{Self: 1, Index: 5, Committed: true, LastLog: 5000, MaxLag: 1000, NowMs: 1_000_000, State: &command.MembershipState{Index: 4, Format: 7}}
	for _, id := range slices.Sorted(slices.Values(slices.Concat(voters, learners))) {
		s.Nodes = append(s.Nodes, Node{
			ID: id, Voter: slices.Contains(voters, id), Raft: raftOf(id), Live: !slices.Contains(dead, id), Heard: true, LastLog: 5000,
		})
		s.State.Members = append(s.State.Members, command.Member{NodeID: id, Raft: raftOf(id), HTTP: httpOf(id), Incarnation: fmt.Sprint(id), Kinds: 7})
	}
	return s
}

func raftOf(id uint64) string { return fmt.Sprintf("n%d:7400", id) }
func httpOf(id uint64) string { return fmt.Sprintf("n%d:6632", id) }

func ids(list ...uint64) []uint64 { return list }

func promote(list ...uint64) Request {
	return Request{Call: CallChange, ID: 77, Kind: command.PlanPromote, Nodes: list}
}

func voters(list ...uint64) Request {
	return Request{Call: CallChange, ID: 77, Kind: command.PlanVoters, Nodes: list}
}

func remove(id uint64) Request {
	return Request{Call: CallChange, ID: 77, Kind: command.PlanRemove, Node: id}
}

func learner(id uint64) Request {
	return Request{Call: CallChange, ID: 77, Kind: command.PlanLearner, Node: id, Raft: raftOf(id), HTTP: httpOf(id)}
}

func address(id uint64, raft, http string) Request {
	return Request{Call: CallChange, ID: 77, Kind: command.PlanAddress, Node: id, Raft: raft, HTTP: http}
}

func forced(r Request) Request {
	r.Force = true
	return r
}

func pending(kind command.PlanKind, voters ...uint64) *command.Plan {
	return &command.Plan{ID: 5, Kind: kind, Voters: voters, Steps: []command.PlanStep{{Op: command.StepPromote, Node: 4}}}
}

// TestDecisions are the rules of cluster 4.2 and 4.3, one line each.
func TestDecisions(t *testing.T) {
	three := func(change func(*Situation)) *Situation {
		s := cluster(ids(1, 2, 3), ids(4, 5), nil)
		change(s)
		return s
	}
	behind := func(s *Situation) { s.Nodes[3].LastLog = 100 }
	full := func(s *Situation) { s.Nodes[3].Full, s.Nodes[3].DiskPercent = true, 91.5 }
	five := cluster(ids(1, 2, 3, 4, 5), ids(6), nil)
	for _, c := range []struct {
		name    string
		s       *Situation
		request Request
		want    string // a code, nothing, abort, await N, catch up [N], or the steps
	}{
		{"a learner is added", cluster(ids(1), nil, nil), learner(2), "add 2"},
		{"the same learner", cluster(ids(1), ids(2), nil), learner(2), "nothing"},
		{"a learner at another address", cluster(ids(1), ids(2), nil), Request{ID: 7, Kind: command.PlanLearner, Node: 2, Raft: "x:1", HTTP: httpOf(2)}, "address_mismatch"},
		{"a voter as a learner", cluster(ids(1, 2), nil, nil), learner(2), "already_voter"},
		{"a learner at the address of another member", cluster(ids(1), nil, nil), Request{ID: 7, Kind: command.PlanLearner, Node: 2, Raft: raftOf(1), HTTP: "x:1"}, "address_in_use"},
		{"a ninth member", cluster(ids(1, 2, 3, 4, 5), ids(6, 7, 8), nil), learner(9), "membership_invalid"},
		{"a learner without a majority", cluster(ids(1, 2, 3), nil, ids(2, 3)), learner(4), "no_quorum"},

		{"two learners", cluster(ids(1), ids(2, 3), nil), promote(2, 3), "promote 2, promote 3"},
		{"a voter is promoted", cluster(ids(1, 2), nil, nil), promote(2), "nothing"},
		{"a stranger is promoted", cluster(ids(1), nil, nil), promote(2), "not_a_learner"},
		{"a sixth voter", five, promote(6), "membership_invalid"},
		{"a learner that lags", three(behind), promote(4), "catch up [4]"},
		{"a learner that lags, by force", three(behind), forced(promote(4)), "promote 4"},
		{"a learner whose disk is full", three(full), promote(4), "learner_behind"},
		{"a learner whose disk is full, by force", three(full), forced(promote(4)), "promote 4"},
		{"another learner beside one whose disk is full", three(full), promote(5), "promote 5"},
		{"a voter whose disk is full", three(func(s *Situation) { s.Nodes[2].Full = true }), promote(4), "promote 4"},
		{"voters in exchange, one whose disk is full", three(full), voters(1, 4, 5), "learner_behind"},
		{"a learner that is not live", cluster(ids(1, 2, 3), ids(4), ids(4)), promote(4), "learner_behind"},
		{"a dead learner beside one voter", cluster(ids(1), ids(2), ids(2)), promote(2), "learner_behind"},
		{"a learner without a majority of voters", cluster(ids(1, 2, 3), ids(4), ids(2, 3, 4)), promote(4), "no_quorum"},
		// By force it may lack entries, but not the majority.
		{"a dead learner beside one voter, by force", cluster(ids(1), ids(2), ids(2)), forced(promote(2)), "no_quorum"},
		{"a dead learner beside three voters, by force", cluster(ids(1, 2, 3), ids(4), ids(4)), forced(promote(4)), "promote 4"},
		{"a learner where one of three voters is dead", cluster(ids(1, 2, 3), ids(4), ids(3)), promote(4), "promote 4"},
		{"a dead learner where one of three voters is dead", cluster(ids(1, 2, 3), ids(4), ids(3, 4)), forced(promote(4)), "no_quorum"},

		{"voters in exchange", three(func(*Situation) {}), voters(1, 4, 5), "promote 4, promote 5, remove 2, remove 3"},
		{"the leader goes last", three(func(*Situation) {}), voters(3, 4), "promote 4, remove 2, remove 1"},
		{"the present voters", three(func(*Situation) {}), voters(1, 2, 3), "nothing"},
		{"no voters", three(func(*Situation) {}), voters(), "membership_invalid"},
		{"six voters", five, voters(1, 2, 3, 4, 5, 6), "membership_invalid"},
		{"a stranger among the voters", three(func(*Situation) {}), voters(1, 9), "not_a_member"},
		{"one voter, the others are dead", cluster(ids(1, 2, 3), nil, ids(2, 3)), voters(1), "no_quorum"},
		{"one voter, one of the others is dead", cluster(ids(1, 2, 3), nil, ids(3)), voters(1), "remove 3, remove 2"},
		{"one voter of five, one of the others is dead", cluster(ids(1, 2, 3, 4, 5), nil, ids(4)), voters(1), "remove 4, remove 2, remove 3, remove 5"},
		{"a dead voter goes", cluster(ids(1, 2, 3), nil, ids(3)), voters(1, 2), "remove 3"},
		{"only a dead voter stays", cluster(ids(1, 2, 3), nil, ids(3)), voters(3), "no_quorum"},

		{"a learner is removed", three(func(*Situation) {}), remove(4), "remove 4"},
		{"a voter is removed", three(func(*Situation) {}), remove(2), "remove 2"},
		{"the leader is removed", three(func(*Situation) {}), remove(1), "remove 1"},
		{"a stranger is removed", three(func(*Situation) {}), remove(9), "nothing"},
		{"the only voter is removed", cluster(ids(1), ids(2), nil), remove(1), "last_voter"},
		{"a live voter is removed beside a dead one", cluster(ids(1, 2, 3), nil, ids(3)), remove(2), "no_quorum"},

		{"an address", three(func(*Situation) {}), address(2, "x:1", ""), "address 2"},
		{"an HTTP address", three(func(*Situation) {}), address(2, "", "x:1"), "address 2"},
		{"the present addresses", three(func(*Situation) {}), address(2, raftOf(2), httpOf(2)), "nothing"},
		{"the address of another one", three(func(*Situation) {}), address(2, raftOf(3), ""), "address_in_use"},
		{"the address of a stranger", three(func(*Situation) {}), address(9, "x:1", ""), "not_a_member"},

		{"beside another plan", three(func(s *Situation) { s.State.Plan = pending(command.PlanPromote, 1, 2, 3, 4) }), remove(2), "in_flight"},
		{"its own plan", three(func(s *Situation) { s.State.Plan = pending(command.PlanPromote, 1, 2, 3, 4) }), Request{ID: 5, Kind: command.PlanPromote, Nodes: ids(4)}, "await 5"},
		{"the same promotion again", three(func(s *Situation) { s.State.Plan = pending(command.PlanPromote, 1, 2, 3, 4) }), promote(4), "in_flight"},
		{"the target of the pending voters", three(func(s *Situation) { s.State.Plan = pending(command.PlanVoters, 1, 2, 3, 4) }), voters(1, 2, 3, 4), "await 5"},
		{"the target of a pending promotion", three(func(s *Situation) { s.State.Plan = pending(command.PlanPromote, 1, 2, 3, 4) }), voters(1, 2, 3, 4), "in_flight"},
		{"the present voters beside a plan", three(func(s *Situation) { s.State.Plan = pending(command.PlanPromote, 1, 2, 3, 4) }), voters(1, 2, 3), "abort"},
		{"beside a return", three(func(s *Situation) { s.State.Plan = pending(command.PlanRejoin) }), remove(2), "remove 2"},
		{"while leadership moves", three(func(s *Situation) { s.HandingOver = true }), remove(2), "busy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			decision, refusal := c.s.Decide(&c.request)
			if got := describeDecision(decision, refusal); got != c.want {
				t.Fatalf("%s, want %s", got, c.want)
			}
			if decision.Plan != nil && decision.Plan.ID != c.request.ID {
				t.Fatalf("the plan is %d, the request %d", decision.Plan.ID, c.request.ID)
			}
		})
	}
}

func describeDecision(d Decision, refusal *Refusal) string {
	switch {
	case refusal != nil:
		return string(refusal.Code)
	case d.Abort:
		return "abort"
	case d.Await != 0:
		return fmt.Sprintf("await %d", d.Await)
	case d.CatchUp != nil:
		return fmt.Sprintf("catch up %v", d.CatchUp)
	case d.Plan == nil:
		return "nothing"
	}
	return describeSteps(d.Plan.Steps)
}

func describeSteps(steps []command.PlanStep) string {
	text := ""
	for i, step := range steps {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %d", opName(step.Op), step.Node)
	}
	return text
}

func TestNextActionOfAPlan(t *testing.T) {
	plan := func(s *Situation, r Request) *Situation {
		d, refusal := s.Decide(&r)
		if d.Plan == nil {
			t.Fatalf("no plan: %v", refusal)
		}
		d.Plan.StartedMs = s.NowMs
		s.State.Plan = d.Plan
		return s
	}
	with := func(s *Situation, change func(*Situation)) *Situation {
		change(s)
		return s
	}
	silent := func(id uint64) func(*Situation) {
		return func(s *Situation) {
			for i := range s.Nodes {
				s.Nodes[i].Live = s.Nodes[i].Live && s.Nodes[i].ID != id
			}
		}
	}
	later := func(change func(*Situation)) func(*Situation) {
		return func(s *Situation) {
			change(s)
			s.NowMs += uint64(firstStepWithin.Milliseconds()) + 1
		}
	}
	one := func() *Situation { return plan(cluster(ids(1), ids(2, 3), nil), promote(2, 3)) }
	half := func(s *Situation) { s.Nodes[1].Voter = true }
	for _, c := range []struct {
		name string
		s    *Situation
		want Action
	}{
		{"no plan", cluster(ids(1), nil, nil), Action{}},
		{"the first step", one(), Action{Do: DoStep, Step: command.PlanStep{Op: command.StepPromote, Node: 2}}},
		{"the next step", with(one(), half), Action{Do: DoStep, Step: command.PlanStep{Op: command.StepPromote, Node: 3}}},
		{"the end", with(with(one(), half), func(s *Situation) { s.Nodes[2].Voter = true }), Action{Do: DoFinish}},
		{"a change that is not committed", with(one(), func(s *Situation) { s.Committed = false }), Action{}},
		{"one that cannot be", with(with(one(), half), func(s *Situation) { s.Committed = false; silent(2)(s) }), Action{Do: DoWait, Waiting: NoQuorum}},
		{"a learner that became silent", with(one(), silent(3)), Action{Do: DoWait, Waiting: LearnerUnreachable}},
		{"a learner that fell behind", with(one(), func(s *Situation) { s.Nodes[2].LastLog = 0 }), Action{Do: DoWait, Waiting: LearnerBehind}},
		{"a learner that has not answered yet", with(one(), func(s *Situation) { s.Nodes[1].Heard = false }), Action{Do: DoWait, Waiting: LearnerBehind}},
		{"before the first step, for too long", with(one(), later(silent(3))), Action{Do: DoDrop, Waiting: LearnerUnreachable}},
		{"after the first step, for ever", with(one(), later(func(s *Situation) { half(s); silent(3)(s) })), Action{Do: DoWait, Waiting: LearnerUnreachable}},
		{"no majority for the next set", with(one(), func(s *Situation) { half(s); silent(2)(s) }), Action{Do: DoWait, Waiting: NoQuorum}},
		{"the leader hands over", plan(cluster(ids(1, 2, 3), nil, nil), remove(1)), Action{Do: DoHandOver, Step: command.PlanStep{Op: command.StepRemove, Node: 1}}},
		{"the leader is another one by now", with(plan(cluster(ids(1, 2, 3), nil, nil), voters(1)), func(s *Situation) { s.Self = 2 }),
			Action{Do: DoStep, Step: command.PlanStep{Op: command.StepRemove, Node: 3}}},
		{"an address whose row is written", with(plan(cluster(ids(1, 2, 3), nil, nil), address(2, "x:1", "")), func(s *Situation) { s.State.Members[1].Raft = "x:1" }),
			Action{Do: DoStep, Step: command.PlanStep{Op: command.StepAddress, Node: 2}}},
		{"an address of the log whose row is not written", with(plan(cluster(ids(1, 2, 3), nil, nil), address(2, "x:1", "")), func(s *Situation) { s.Nodes[1].Raft = "x:1" }),
			Action{Do: DoStep, Step: command.PlanStep{Op: command.StepAddress, Node: 2}}},
		{"an address that is both", with(plan(cluster(ids(1, 2, 3), nil, nil), address(2, "x:1", "")), func(s *Situation) {
			s.Nodes[1].Raft, s.State.Members[1].Raft = "x:1", "x:1"
		}), Action{Do: DoFinish}},
		{"an HTTP address", with(plan(cluster(ids(1, 2, 3), nil, nil), address(2, "", "x:1")), func(s *Situation) { s.State.Members[1].HTTP = "x:1" }), Action{Do: DoFinish}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.s.Next(); got != c.want {
				t.Fatalf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// Whatever is asked for, and whoever is live: a plan that is made leads to what was asked for through sets with a live majority, never
// empties the voters, never has more than five, and the leader hands over before it is removed.
func TestPlansLeadThroughLiveMajorities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var voting, learning, dead []uint64
		for id := uint64(1); id <= 8; id++ {
			switch rapid.IntRange(0, 3).Draw(t, "suffrage") {
			case 0, 1:
				if len(voting) < MaxVoters {
					voting = append(voting, id)
				}
			case 2:
				learning = append(learning, id)
			}
			if rapid.IntRange(0, 4).Draw(t, "dead") == 0 {
				dead = append(dead, id)
			}
		}
		if len(voting) == 0 {
			voting = ids(1)
			learning = slices.DeleteFunc(learning, func(id uint64) bool { return id == 1 })
		}
		s := cluster(voting, learning, dead)
		s.Self = rapid.SampledFrom(voting).Draw(t, "leader")
		some := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 8), 0, 6, rapid.ID[uint64]).Draw(t, "nodes")
		slices.Sort(some)
		request := rapid.SampledFrom([]Request{promote(some...), voters(some...), remove(rapid.Uint64Range(1, 8).Draw(t, "node"))}).Draw(t, "request")
		request.Force = rapid.Bool().Draw(t, "force")
		decision, _ := s.Decide(&request)
		if decision.Plan == nil {
			return
		}
		s.State.Plan = decision.Plan
		seen := [][]uint64{s.voters()}
		for range 20 {
			action := s.Next()
			switch action.Do {
			case DoFinish:
				s.wantReached(t, &request, voting, learning)
				return
			case DoHandOver:
				if len(s.todo(s.State.Plan)) != 1 {
					t.Fatalf("the leader leaves with %v to do", s.todo(s.State.Plan))
				}
				for _, id := range s.voters() {
					if node, _ := s.node(id); id != s.Self && node.Live {
						s.Self = id
						break
					}
				}
			case DoStep:
				s.apply(action.Step)
				seen = append(seen, s.voters())
				if n := len(s.voters()); n == 0 || n > MaxVoters && request.Kind != command.PlanVoters || !s.quorum(s.voters()) {
					t.Fatalf("%v leads through %v, dead are %v", request.about(), seen, dead)
				}
			default:
				t.Fatalf("stuck: %+v after %v", action, seen)
			}
		}
		t.Fatalf("no end: %v", seen)
	})
}

// apply makes a step as the log would.
func (s *Situation) apply(step command.PlanStep) {
	at := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.ID == step.Node })
	switch step.Op {
	case command.StepPromote:
		s.Nodes[at].Voter = true
	case command.StepRemove:
		s.Nodes = slices.Delete(slices.Clone(s.Nodes), at, at+1)
	}
}

func (s *Situation) wantReached(t *rapid.T, request *Request, before, learning []uint64) {
	var want []uint64
	switch request.Kind {
	case command.PlanVoters:
		want = request.Nodes
	case command.PlanPromote:
		want = slices.Compact(slices.Sorted(slices.Values(slices.Concat(before, request.Nodes))))
	case command.PlanRemove:
		want = slices.DeleteFunc(slices.Clone(before), func(id uint64) bool { return id == request.Node })
		if _, member := s.node(request.Node); member {
			t.Fatalf("node %d is still there", request.Node)
		}
	}
	if !reflect.DeepEqual(s.voters(), want) {
		t.Fatalf("%s ends with the voters %v, want %v", request.about(), s.voters(), want)
	}
	for _, id := range learning {
		if _, member := s.node(id); !member && request.Node != id {
			t.Fatalf("learner %d is gone after %s", id, request.about())
		}
	}
}

func TestRequestsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		request Request
		refused bool
	}{
		"learner":                       {learner(4), false},
		"learner without an id":         {learner(0), true},
		"learner without an address":    {Request{Call: CallChange, Kind: command.PlanLearner, Node: 4, Raft: "a:1"}, true},
		"address without a port":        {address(2, "a", ""), true},
		"address without a host":        {address(2, ":1", ""), true},
		"address with port 0":           {address(2, "a:0", ""), true},
		"address with a name as port":   {address(2, "a:http", ""), true},
		"no address":                    {address(2, "", ""), true},
		"an IPv6 address":               {address(2, "[::1]:7400", ""), false},
		"no learners":                   {promote(), true},
		"learner zero":                  {promote(0), true},
		"a node twice":                  {voters(1, 2, 1), true},
		"an id of more than 32 bits":    {remove(1 << 32), true},
		"no voters are for the cluster": {voters(), false},
		"a transfer to anybody":         {Request{Call: CallTransfer}, false},
		"a transfer to an impossible":   {Request{Call: CallTransfer, Node: 1 << 32}, true},
	} {
		if refusal := c.request.Check(); (refusal != nil) != c.refused || refusal != nil && refusal.Code != BadRequest {
			t.Errorf("%s: %v", name, refusal)
		}
	}
}

// The statuses of cluster 4.2.
func TestCodesHaveTheirStatus(t *testing.T) {
	for status, codes := range map[int][]Code{
		400: {BadRequest, NotALearner, NotAMember},
		403: {Forbidden},
		409: {InFlight, NoQuorum, LastVoter, LearnerBehind, AlreadyVoter, AddressMismatch, AddressInUse, MembershipChanged, LeaderChanged, Busy, Invalid},
		503: {LeaderUnreachable, Retry, NoLeader},
		504: {Timeout},
	} {
		for _, code := range codes {
			if got := Refuse(code, "text").Answer(); got.Status != status || string(got.Body) != fmt.Sprintf(`{"ok":false,"code":%q,"error":"text"}`, code) {
				t.Errorf("%s: %d %s, want %d", code, got.Status, got.Body, status)
			}
		}
	}
}
