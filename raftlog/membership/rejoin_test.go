package membership

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/raftlog/command"
	"queen/raftlog/peer"
)

func replace(id uint64) Request {
	return Request{Call: CallChange, ID: 77, Kind: command.PlanRejoin, Node: id}
}

// judged is a situation in which the leader thinks this of nodes.
func judged(s *Situation, verdict peer.Verdict, ids ...uint64) *Situation {
	for i := range s.Nodes {
		for _, id := range ids {
			if s.Nodes[i].ID == id {
				s.Nodes[i].Verdict = verdict
			}
		}
	}
	return s
}

// TestWhoReturns are the rules of cluster 2.6, one line each.
func TestWhoReturns(t *testing.T) {
	three := func() *Situation { return judged(cluster(ids(1, 2, 3), ids(4), nil), peer.Replaced, 3) }
	with := func(s *Situation, change func(*Situation)) *Situation {
		change(s)
		return s
	}
	for _, c := range []struct {
		name string
		s    *Situation
		want string // nothing, the steps, and "gives N up"
	}{
		{"all are well", cluster(ids(1, 2, 3), nil, nil), "nothing"},
		{"one has another directory", three(), "demote 3, reset 3, promote 3"},
		{"one has an older directory", judged(cluster(ids(1, 2, 3), nil, nil), peer.RolledBack, 2), "demote 2, reset 2, promote 2"},
		{"two of five", judged(cluster(ids(1, 2, 3, 4, 5), nil, nil), peer.Replaced, 4, 5), "demote 4, reset 4, promote 4"},
		{"a learner", judged(cluster(ids(1, 2, 3), ids(4), nil), peer.Replaced, 4), "reset 4"},
		{"one of another cluster", judged(cluster(ids(1, 2, 3), nil, nil), peer.Foreign, 3), "nothing"},
		{"one that another process supersedes", judged(cluster(ids(1, 2, 3), nil, nil), peer.Superseded, 3), "nothing"},
		{"an old build", judged(cluster(ids(1, 2, 3), nil, nil), peer.TooOld, 3), "nothing"},
		{"one whose own process serves", with(three(), func(s *Situation) { s.Nodes[2].Serves = true }), "nothing"},
		{"one that is gone again", judged(cluster(ids(1, 2, 3), nil, ids(3)), peer.Replaced, 3), "nothing"},
		{"two of three", judged(cluster(ids(1, 2, 3), nil, nil), peer.Replaced, 2, 3), "nothing"},
		{"one of three beside a dead one", judged(cluster(ids(1, 2, 3), nil, ids(2)), peer.Replaced, 3), "nothing"},
		{"one of two", judged(cluster(ids(1, 2), nil, nil), peer.Replaced, 2), "nothing"},
		{"one of four beside a dead one", judged(cluster(ids(1, 2, 3, 4), nil, ids(2)), peer.Replaced, 3), "nothing"},
		{"one of five beside a dead one", judged(cluster(ids(1, 2, 3, 4, 5), nil, ids(2)), peer.Replaced, 3), "demote 3, reset 3, promote 3"},
		{"beside a plan", with(three(), func(s *Situation) { s.State.Plan = pending(command.PlanPromote, 1, 2, 3, 4) }), "nothing"},
		{"beside a change that is not committed", with(three(), func(s *Situation) { s.Committed = false }), "nothing"},
		{"while leadership moves", with(three(), func(s *Situation) { s.HandingOver = true }), "nothing"},
		{"for the third time in an hour", with(three(), func(s *Situation) { s.Returned = map[uint64]int{3: 2} }), "demote 3, reset 3, promote 3"},
		{"for the fourth time in an hour", with(three(), func(s *Situation) { s.Returned = map[uint64]int{3: 3} }), "demote 3, gives 3 up"},
		{"once it has been given up", with(judged(cluster(ids(1, 2), ids(3), nil), peer.Replaced, 3), func(s *Situation) { s.Returned = map[uint64]int{3: 3} }), "nothing, gives 3 up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := c.s.Return()
			got := "nothing"
			if found.Plan != nil {
				got = describeSteps(found.Plan.Steps)
				if found.Plan.Kind != command.PlanRejoin {
					t.Errorf("kind %d", found.Plan.Kind)
				}
			}
			if found.GivenUp != 0 {
				got += fmt.Sprintf(", gives %d up", found.GivenUp)
			}
			if got != c.want {
				t.Fatalf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestReplacing are the rules for an operator who replaces a member.
func TestReplacing(t *testing.T) {
	three := func(change func(*Situation)) *Situation {
		s := cluster(ids(1, 2, 3), ids(4), nil)
		change(s)
		return s
	}
	rejoins := func(s *Situation) {
		s.State.Plan = returnPlan(&s.Nodes[2])
		s.State.Plan.ID = 5
	}
	for _, c := range []struct {
		name    string
		s       *Situation
		request Request
		want    string
	}{
		{"a voter", three(func(*Situation) {}), replace(2), "demote 2, reset 2, promote 2"},
		{"a dead voter", cluster(ids(1, 2, 3), nil, ids(2)), replace(2), "demote 2, reset 2, promote 2"},
		{"one that has lost its directory", judged(cluster(ids(1, 2, 3), nil, nil), peer.Replaced, 3), replace(3), "demote 3, reset 3, promote 3"},
		{"a learner", three(func(*Situation) {}), replace(4), "reset 4, promote 4"},
		{"a learner beside five voters", cluster(ids(1, 2, 3, 4, 5), ids(6), nil), replace(6), "membership_invalid"},
		{"a stranger", three(func(*Situation) {}), replace(9), "not_a_member"},
		{"the only voter", cluster(ids(1), ids(2), nil), replace(1), "last_voter"},
		{"one of two", cluster(ids(1, 2), nil, nil), replace(2), "no_quorum"},
		{"beside a dead one", cluster(ids(1, 2, 3), nil, ids(3)), replace(2), "no_quorum"},
		{"one that returns", three(rejoins), replace(3), "await 5"},
		{"beside one that returns", three(rejoins), replace(2), "demote 2, reset 2, promote 2"},
		{"one that was given up, while it loses its vote", three(func(s *Situation) {
			rejoins(s)
			s.State.Plan.Steps = s.State.Plan.Steps[:1]
		}), replace(3), "demote 3, reset 3, promote 3"},
		{"beside another plan", three(func(s *Situation) { s.State.Plan = pending(command.PlanPromote, 1, 2, 3, 4) }), replace(2), "in_flight"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describeDecision(c.s.Decide(&c.request)); got != c.want {
				t.Fatalf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestNextActionOfAReturn: who returns lacks everything until it is reset, and is no voter again before it has caught up.
func TestNextActionOfAReturn(t *testing.T) {
	step := func(op command.StepOp) Action { return Action{Do: DoStep, Step: command.PlanStep{Op: op, Node: 3}} }
	demoted := func(s *Situation) { s.Nodes[2].Voter = false }
	reset := func(s *Situation) {
		demoted(s)
		s.State.Members[2].Incarnation, s.Nodes[2].Verdict = "new", peer.OK
	}
	for _, c := range []struct {
		name   string
		change []func(*Situation)
		want   Action
	}{
		{"it has no log", []func(*Situation){func(s *Situation) { s.Nodes[2].LastLog = 0 }}, step(command.StepDemote)},
		{"the others have no majority", []func(*Situation){func(s *Situation) { s.Nodes[1].Live = false }}, Action{Do: DoWait, Waiting: NoQuorum}},
		{"for too long", []func(*Situation){func(s *Situation) { s.Nodes[1].Live, s.NowMs = false, 2*s.NowMs }}, Action{Do: DoDrop, Waiting: NoQuorum}},
		{"it is demoted", []func(*Situation){demoted}, step(command.StepReset)},
		{"it is demoted and gone", []func(*Situation){demoted, func(s *Situation) { s.Nodes[2].Live = false }}, step(command.StepReset)},
		{"it is reset", []func(*Situation){reset}, step(command.StepPromote)},
		{"it is reset and not met since", []func(*Situation){reset, func(s *Situation) { s.Nodes[2].Verdict = peer.Replaced }}, Action{Do: DoWait, Waiting: LearnerUnreachable}},
		{"it is being fed", []func(*Situation){reset, func(s *Situation) { s.Nodes[2].LastLog = 10 }}, Action{Do: DoWait, Waiting: LearnerBehind}},
		{"it is a voter", []func(*Situation){reset, func(s *Situation) { s.Nodes[2].Voter = true }}, Action{Do: DoFinish}},
		{"it was removed", []func(*Situation){func(s *Situation) { s.Nodes = s.Nodes[:2] }}, Action{Do: DoWait, Waiting: LearnerUnreachable}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := judged(cluster(ids(1, 2, 3), nil, nil), peer.Replaced, 3)
			plan := returnPlan(&s.Nodes[2])
			plan.StartedMs = s.NowMs
			record := s.begin(plan)
			if len(record.Put) != 1 || !awaitsReset(record.Put[0].Incarnation) || record.Put[0].BootNonce != "" {
				t.Fatalf("begins with %+v", record)
			}
			s.State.Members[2], s.State.Plan = record.Put[0], plan
			for _, change := range c.change {
				change(s)
			}
			if got := s.Next(); got != c.want {
				t.Fatalf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMemberThatLostItsDirectoryReturns(t *testing.T) {
	for _, verdict := range []peer.Verdict{peer.Replaced, peer.RolledBack} {
		t.Run(string(verdict), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 2, 3)
				w.meets(2)
				w.meets(3)
				time.Sleep(3 * time.Second)
				if verdict == peer.Replaced {
					w.wiped(3, "another directory")
				} else {
					w.mu.Lock()
					older := w.hello(3, "cluster")
					older.BootNonce = "1-ffffffffffffffff"
					w.hellos[raftOf(3)] = older
					w.mu.Unlock()
				}
				if got := w.judge(3); got != verdict {
					t.Fatalf("the verdict is %s", got)
				}
				time.Sleep(3 * time.Second)
				w.wantVoters(1, 2, 3)
				row, _ := w.table().Member(3)
				now := w.at1(raftOf(3))
				if row.Incarnation != now.Incarnation || row.BootNonce != now.BootNonce || now.ClusterID != "cluster" || w.resets != 1 {
					t.Fatalf("row %+v, process %+v, %d resets", row, now, w.resets)
				}
				if len(w.returned) != 1 || w.returned[0] != 3 {
					t.Fatalf("returned: %v", w.returned)
				}
				for _, line := range []string{"raft: member 3 rejoins with an empty directory", "raft: member 3 is a voter again ms="} {
					if strings.Count(w.logged(), line) != 1 {
						t.Errorf("not one line %q in\n%s", line, w.logged())
					}
				}
			})
		})
	}
}

func TestNobodyReturnsUnaskedWithoutAutoRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldWith(t, false, 1, 2, 3)
		w.meets(2)
		w.meets(3)
		time.Sleep(3 * time.Second)
		w.wiped(3, "another directory")
		time.Sleep(time.Minute)
		if w.resets != 0 || w.judge(3) != peer.Replaced {
			t.Fatal("it returned")
		}
		w.must(2, replace(3))
		w.wantVoters(1, 2, 3)
		if w.resets != 1 || w.judge(3) != peer.OK || len(w.returned) != 0 {
			t.Fatalf("%d resets, %s, returned %v", w.resets, w.judge(3), w.returned)
		}
	})
}

// An operator may replace any member, the leader too, which hands over first.
func TestLeaderIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		for id := uint64(1); id <= 3; id++ {
			w.meets(id)
		}
		time.Sleep(3 * time.Second)
		w.must(3, replace(1))
		w.wantVoters(1, 2, 3)
		if w.leader == 1 || w.resets != 1 {
			t.Fatalf("node %d leads, %d resets", w.leader, w.resets)
		}
	})
}

// TestAnotherLeaderFinishesTheReturn: cluster 2.6, the plan goes on at every crash point of it.
func TestAnotherLeaderFinishesTheReturn(t *testing.T) {
	for _, point := range []string{"membership.plan_recorded", "membership.step_committed", "rejoin.demoted", "rejoin.reset", "membership.changed"} {
		t.Run(point, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 2, 3)
				for id := uint64(1); id <= 3; id++ {
					w.meets(id)
				}
				time.Sleep(3 * time.Second)
				passed := false
				w.mu.Lock()
				w.at = func(at string) {
					if at == point && !passed {
						passed = true
						w.lead(2)
					}
				}
				w.mu.Unlock()
				w.wiped(3, "another directory")
				time.Sleep(5 * time.Second)
				w.wantVoters(1, 2, 3)
				if !passed || w.leader != 2 {
					t.Fatalf("the point was not passed, node %d leads", w.leader)
				}
				if row, _ := w.table().Member(3); row.Incarnation != w.at1(raftOf(3)).Incarnation {
					t.Fatalf("%+v", row)
				}
			})
		})
	}
}

// After three returns within an hour a member stays a learner (cluster 2.6), whoever leads.
func TestMemberThatKeepsLosingItsDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		for id := uint64(1); id <= 3; id++ {
			w.meets(id)
		}
		time.Sleep(3 * time.Second)
		for loss := range 4 {
			w.wiped(3, fmt.Sprint("directory ", loss))
			time.Sleep(5 * time.Second)
			w.lead(uint64(1 + loss%2))
			time.Sleep(2 * time.Second)
		}
		w.wantVoters(1, 2)
		if w.resets != 3 {
			t.Fatalf("%d resets", w.resets)
		}
		const line = "raft: member 3 keeps losing its directory"
		if !strings.Contains(w.logged(), line) {
			t.Fatalf("no line %q", line)
		}
		w.must(1, replace(3))
		w.wantVoters(1, 2, 3)
		time.Sleep(2 * time.Hour)
		w.wiped(3, "the last directory")
		time.Sleep(5 * time.Second)
		w.wantVoters(1, 2, 3)
		if w.resets != 5 {
			t.Fatalf("%d resets", w.resets)
		}
	})
}

// A return yields to any operator (cluster 4.4); what is left of it is taken up again.
func TestReturnYieldsToAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		w.meets(2)
		w.meets(3)
		time.Sleep(3 * time.Second)
		w.wiped(3, "another directory")
		w.mu.Lock()
		w.behind[3] = 5000
		w.mu.Unlock()
		time.Sleep(3 * time.Second)
		if plan := w.table().Plan; plan == nil || plan.Kind != command.PlanRejoin || len(w.voters()) != 2 {
			t.Fatalf("plan %+v, voters %v", plan, w.voters())
		}
		w.must(1, address(2, "", "moved:6632"))
		w.wantVoters(1, 2)
		w.mu.Lock()
		w.behind[3] = 0
		w.mu.Unlock()
		w.must(1, promote(3))
		w.wantVoters(1, 2, 3)
	})
}
