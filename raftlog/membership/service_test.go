package membership

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/raftlog/command"
	"queen/raftlog/peer"
)

func TestClusterGrowsFromOneToFiveAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for id := uint64(2); id <= 5; id++ {
			w.fresh(id)
			w.must(1, learner(id))
		}
		w.must(3, promote(2, 3))
		w.wantVoters(1, 2, 3)
		w.must(5, promote(4, 5))
		w.wantVoters(1, 2, 3, 4, 5)
		w.must(2, voters(1, 2, 3))
		w.wantVoters(1, 2, 3)
		if rows := w.table().Members; len(rows) != 3 {
			t.Fatalf("rows of whoever has left: %+v", rows)
		}
		for _, line := range []string{"raft: membership change requested by an operator", "raft: membership change committed"} {
			if !strings.Contains(w.logged(), line) {
				t.Errorf("no line %q", line)
			}
		}
		w.must(2, voters(3))
		w.wantVoters(3)
		if w.leader != 3 {
			t.Fatalf("node %d leads", w.leader)
		}
	})
}

func TestEveryChangeIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		w.fresh(4)
		for _, r := range []Request{learner(4), promote(4), voters(1, 2, 3), remove(4), address(2, "", "other:6632"), remove(3)} {
			w.must(1, r)
			entries := w.entries
			w.must(2, r)
			if w.entries != entries {
				t.Fatalf("%s wrote %d entries when repeated", r.about(), w.entries-entries)
			}
		}
		w.wantVoters(1, 2)
		for _, even := range []string{"4 voters", "2 voters"} {
			if count := strings.Count(w.logged(), even); count != 1 {
				t.Fatalf("warned %d times about %s", count, even)
			}
		}
	})
}

// A new cluster begins with the rows of all founders, and learns the rest from their handshakes (cluster 2.3, 3.2).
func TestTableFollowsWhatMembersSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		synctest.Wait()
		if rows := w.table().Members; len(rows) != 2 || rows[0].BootNonce == "" || rows[1].BootNonce != "" || rows[1].Incarnation != "dir2" {
			t.Fatalf("%+v", rows)
		}
		say := func(nonce string, kinds uint32, verdict peer.Verdict) command.Member {
			hello := w.hello(2, "cluster")
			hello.BootNonce, hello.Kinds = nonce, kinds
			w.nodes[1].Met(&hello, verdict)
			synctest.Wait()
			row, _ := w.table().Member(2)
			return row
		}
		if row := say("5-0011223344556677", 7, peer.OK); row.BootNonce != "5-0011223344556677" || row.Kinds != 7 {
			t.Fatalf("%+v", row)
		}
		if row := say("4-0011223344556677", 8, peer.OK); row.BootNonce != "5-0011223344556677" || row.Kinds != 7 {
			t.Fatalf("an older process is recorded: %+v", row)
		}
		if row := say("5-ffffffffffffffff", 8, peer.OK); row.BootNonce != "5-0011223344556677" {
			t.Fatalf("another process with the same counter is recorded: %+v", row)
		}
		if row := say("6-0011223344556677", 8, peer.RolledBack); row.BootNonce != "5-0011223344556677" {
			t.Fatalf("a process that was not accepted is recorded: %+v", row)
		}
		if row := say("6-0011223344556677", 8, peer.OK); row.BootNonce != "6-0011223344556677" || row.Kinds != 8 {
			t.Fatalf("%+v", row)
		}
	})
}

// The format rises to the lowest that all members read, also those that are silent (cluster 15.2).
func TestFormatRisesWhenAllMembersReadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		w.mu.Lock()
		own := w.hellos[raftOf(1)]
		own.Kinds = 9
		w.hellos[raftOf(1)] = own
		w.mu.Unlock()
		time.Sleep(5 * time.Second)
		if got := w.table().Format; got != 7 {
			t.Fatalf("format %d before node 2 was heard", got)
		}
		other := w.hello(2, "cluster")
		other.Kinds = 8
		w.nodes[1].Met(&other, peer.OK)
		w.mu.Lock()
		w.silent[2] = true
		w.mu.Unlock()
		time.Sleep(2 * time.Second)
		if got := w.table().Format; got != 8 {
			t.Fatalf("format %d", got)
		}
		w.mu.Lock()
		w.silent[2] = false
		w.hellos[raftOf(3)] = w.hello(3, "") // reads 7
		w.mu.Unlock()
		w.mustRefuse(1, learner(3), Invalid)
	})
}

func TestNodeToAddIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		foreign, old, groups := w.hello(2, "another"), w.hello(3, ""), w.hello(4, "")
		old.Kinds, groups.Groups = 6, 2
		w.mu.Lock()
		w.hellos[raftOf(2)], w.hellos[raftOf(3)], w.hellos[raftOf(4)] = foreign, old, groups
		w.mu.Unlock()
		for id := uint64(2); id <= 4; id++ {
			w.mustRefuse(1, learner(id), Invalid)
		}
		began := time.Now()
		w.mustRefuse(1, learner(5), Retry)
		if took := time.Since(began); took < helloWithin || took > helloWithin+time.Second {
			t.Fatalf("waited %v for a node that is not there", took)
		}
		w.wantVoters(1)
		// A node that was a member before may return as it is.
		w.mu.Lock()
		w.hellos[raftOf(2)] = w.hello(2, "cluster")
		w.mu.Unlock()
		w.must(1, learner(2))
	})
}

func TestPromotionWaitsForALearnerThatCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.fresh(2)
		w.must(1, learner(2))
		w.mu.Lock()
		w.behind[2] = 3000
		w.mu.Unlock()
		began := time.Now()
		w.mustRefuse(1, promote(2), LearnerBehind)
		if took := time.Since(began); took < catchUpWithin || took > catchUpWithin+time.Second {
			t.Fatalf("waited %v", took)
		}
		time.AfterFunc(4*time.Second, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.behind[2] = 10
		})
		w.must(1, promote(2))
		w.wantVoters(1, 2)
	})
}

func TestSilentLearnerIsRefusedAtOnceOnceItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.fresh(2)
		w.must(1, learner(2))
		w.mu.Lock()
		w.silent[2] = true
		w.mu.Unlock()
		time.Sleep(3 * time.Second) // being added counted as being heard
		began := time.Now()
		w.mustRefuse(1, promote(2), LearnerBehind)
		if took := time.Since(began); took > time.Second {
			t.Fatalf("waited %v for a learner that is not live", took)
		}
	})
}

// TestAnotherLeaderFinishesThePlan: cluster 4.4, at every crash point.
func TestAnotherLeaderFinishesThePlan(t *testing.T) {
	for _, point := range []string{"membership.plan_recorded", "membership.step_committed", "membership.learner_added", "membership.changed"} {
		for _, request := range []Request{learner(6), promote(4, 5), voters(2, 3, 4, 5), remove(1), address(3, "moved:7400", "moved:6632")} {
			t.Run(point+" "+KindName(request.Kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 1, 2, 3)
					for id := uint64(4); id <= 6; id++ {
						w.fresh(id)
					}
					w.must(1, learner(4))
					w.must(1, learner(5))
					moved := w.hello(3, "cluster")
					w.mu.Lock()
					w.hellos["moved:7400"] = moved
					w.at = func(passed string) {
						if passed == point {
							w.mu.Lock()
							w.at = func(string) {}
							w.mu.Unlock()
							w.lead(2)
						}
					}
					w.mu.Unlock()
					w.must(3, request)
					synctest.Wait()
					w.mu.Lock()
					w.at = func(string) {}
					w.mu.Unlock()
					situation := w.nodes[w.leader].situation()
					if _, refusal := situation.Decide(&request); refusal != nil || situation.State.Plan != nil {
						t.Fatalf("the plan is not done: %v, %+v", refusal, situation.State.Plan)
					}
					if d, _ := situation.Decide(&request); d.Plan != nil {
						t.Fatalf("left to do: %v", describeSteps(d.Plan.Steps))
					}
				})
			})
		}
	}
}

// The request of a former leader goes on at the next one, as the same plan.
func TestRequestIsOnePlanAcrossLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		w.fresh(4)
		w.must(1, learner(4))
		w.mu.Lock()
		w.frozen = true
		w.mu.Unlock()
		answers := make(chan Answer, 1)
		go func() { answers <- w.ask(3, promote(4)) }()
		time.Sleep(2 * time.Second)
		plan := w.table().Plan
		w.lead(0)
		time.Sleep(2 * time.Second)
		w.lead(2)
		time.Sleep(2 * time.Second)
		w.mu.Lock()
		w.frozen = false
		w.mu.Unlock()
		if answer := <-answers; answer.Status != 200 {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
		if ended := w.table().Ended; ended[len(ended)-1] != (command.EndedPlan{ID: plan.ID, End: command.PlanDone}) {
			t.Fatalf("%+v, want the end of %d", ended, plan.ID)
		}
		w.wantVoters(1, 2, 3, 4)
	})
}

func TestPlanThatWaits(t *testing.T) {
	// stuck begins to promote 4 and 5 and lets 5 become silent; afterFirst is when 4 is a voter.
	stuck := func(t *testing.T, afterFirst bool) *world {
		w := newWorld(t, 1, 2, 3)
		w.fresh(4)
		w.fresh(5)
		w.must(1, learner(4))
		w.must(1, learner(5))
		time.Sleep(3 * time.Second)
		w.mu.Lock()
		if afterFirst {
			w.at = func(passed string) {
				if passed == "membership.step_committed" {
					w.mu.Lock()
					w.silent[5] = true
					w.mu.Unlock()
				}
			}
		} else {
			w.planned = func() { w.silent[5] = true }
		}
		w.mu.Unlock()
		w.mustRefuse(1, promote(4, 5), Timeout)
		view := w.nodes[1].View()
		if view.Plan == nil || view.Plan.Waiting == nil || *view.Plan.Waiting != LearnerUnreachable || !view.ChangeInFlight {
			t.Fatalf("%+v", view.Plan)
		}
		if want := map[bool]string{false: "pending", true: "done"}[afterFirst]; view.Plan.Steps[0].State != want || view.Plan.Steps[1].State != "pending" {
			t.Fatalf("%+v", view.Plan.Steps)
		}
		return w
	}
	t.Run("lets nothing else happen", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := stuck(t, true)
			w.mustRefuse(1, remove(2), InFlight)
			w.mustRefuse(2, Request{Call: CallTransfer}, InFlight)
		})
	})
	t.Run("is aborted by the present voters", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := stuck(t, true)
			w.mustRefuse(1, voters(1, 2, 3), InFlight)
			w.must(1, voters(1, 2, 3, 4))
			w.wantVoters(1, 2, 3, 4)
		})
	})
	t.Run("goes on when the node returns", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := stuck(t, true)
			time.Sleep(time.Hour)
			w.mu.Lock()
			w.silent[5] = false
			w.mu.Unlock()
			time.Sleep(time.Second)
			w.wantVoters(1, 2, 3, 4, 5)
		})
	})
	t.Run("is dropped when nothing of it was possible", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := stuck(t, false)
			time.Sleep(firstStepWithin + time.Second)
			w.wantVoters(1, 2, 3)
			if !strings.Contains(w.logged(), "dropped") {
				t.Fatal("no line about it")
			}
		})
	})
}

func TestNodeThatVanishesBeforeItIsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.fresh(2)
		w.mu.Lock()
		w.planned = func() { delete(w.hellos, raftOf(2)) }
		w.mu.Unlock()
		w.mustRefuse(1, learner(2), Timeout)
		if view := w.nodes[1].View(); *view.Plan.Waiting != LearnerUnreachable {
			t.Fatalf("%+v", view.Plan)
		}
		time.Sleep(firstStepWithin)
		w.wantVoters(1)
		if rows := w.table().Members; len(rows) != 1 {
			t.Fatalf("rows %+v", rows)
		}
	})
}

func TestAddressIsRecordedWhereTheMemberAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		w.mustRefuse(1, address(2, "moved:7400", ""), AddressMismatch)
		w.mu.Lock()
		other := w.hello(2, "cluster")
		other.Incarnation = "another directory"
		w.hellos["moved:7400"] = other
		w.mu.Unlock()
		w.mustRefuse(1, address(2, "moved:7400", ""), AddressMismatch)
		w.mu.Lock()
		w.hellos["moved:7400"] = w.hello(2, "cluster")
		w.mu.Unlock()
		w.nodes[1].Reached(2, "moved:7400")
		w.nodes[1].Reached(2, "moved:7400")
		if line := "member 2 answers at moved:7400, the membership says n2:7400"; strings.Count(w.logged(), line) != 1 {
			t.Fatalf("not once: %s", line)
		}
		if seen := w.nodes[1].View().Members[1].SeenRaft; seen == nil || *seen != "moved:7400" {
			t.Fatalf("seenRaft %v", seen)
		}
		w.must(1, address(2, "moved:7400", ""))
		member := w.nodes[1].View().Members[1]
		if member.Raft != "moved:7400" || member.HTTP != httpOf(2) || member.SeenRaft != nil {
			t.Fatalf("%+v", member)
		}
		w.must(1, forced(address(2, "nowhere:7400", "nowhere:6632")))
		if member := w.nodes[1].View().Members[1]; member.Raft != "nowhere:7400" || member.HTTP != "nowhere:6632" {
			t.Fatalf("%+v", member)
		}
	})
}

// TestOnlyVoterMovesByItself: cluster 3.1.
func TestOnlyVoterMovesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		synctest.Wait()
		w.lead(0)
		synctest.Wait()
		w.mu.Lock()
		moved := w.hellos[raftOf(1)]
		moved.Raft, moved.HTTP = "moved:7400", "moved:6632"
		w.hellos[raftOf(1)] = moved
		w.mu.Unlock()
		w.lead(1)
		synctest.Wait()
		if member := w.nodes[1].View().Members[0]; member.Raft != "moved:7400" || member.HTTP != "moved:6632" {
			t.Fatalf("%+v", member)
		}
	})
}

func TestTransferAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		w.fresh(4)
		w.must(1, learner(4))
		transfer := func(to uint64) Request { return Request{Call: CallTransfer, Node: to} }
		if answer := w.ask(2, transfer(1)); answer.Status != 200 || string(answer.Body) != `{"ok":true,"from":1,"to":1,"term":3,"ms":0}` {
			t.Fatalf("to itself: %d %s", answer.Status, answer.Body)
		}
		w.mustRefuse(1, transfer(9), NotAMember)
		w.mustRefuse(1, transfer(4), LearnerBehind)
		w.mu.Lock()
		w.silent[3] = true
		w.mu.Unlock()
		w.mustRefuse(1, transfer(3), LearnerBehind)
		if answer := w.ask(3, transfer(2)); answer.Status != 200 || string(answer.Body) != `{"ok":true,"from":1,"to":2,"term":4,"ms":38}` {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
		w.mu.Lock()
		w.silent[1] = true
		w.mu.Unlock()
		w.mustRefuse(2, transfer(0), NoQuorum)
	})
}

func TestFollowerWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		synctest.Wait()
		w.lead(0)
		w.mustRefuse(2, remove(3), NoLeader)
		answer := w.ask(2, Request{Call: CallView})
		var view struct {
			Engine     string
			Membership View
		}
		if err := json.Unmarshal(answer.Body, &view); err != nil || answer.Status != 200 || view.Engine != "raft" ||
			view.Membership.Source != "follower" || view.Membership.Leader != nil || len(view.Membership.Members) != 3 {
			t.Fatalf("%v %s", err, answer.Body)
		}
		// The leader is known and does not answer.
		w.mu.Lock()
		w.leader = 1
		w.silent[1] = true
		w.mu.Unlock()
		w.mustRefuse(2, remove(3), LeaderUnreachable)
	})
}

// The names and the nulls of cluster 4.1.
func TestViewHasTheSpecifiedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		synctest.Wait()
		w.mu.Lock()
		w.silent[3] = true
		w.mu.Unlock()
		answer := w.ask(1, Request{Call: CallView})
		var got struct {
			Membership map[string]json.RawMessage `json:"membership"`
		}
		if err := json.Unmarshal(answer.Body, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"nodeId": "1", "source": `"leader"`, "viewAgeMs": "0", "leader": "1", "term": "3", "clusterId": `"cluster"`, "clusterEpoch": "1",
			"voters": "[1,2,3]", "learners": "[]", "joint": "null", "membershipIndex": "1", "membershipCommitted": "true", "changeInFlight": "false",
			"plan": "null", "lastLogIndex": "5000", "committedIndex": "5000", "liveWithinMs": "2000", "promoteMaxLag": "1000",
			"members": `[{"nodeId":1,"voter":true,"raft":"n1:7400","http":"n1:6632","matched":5000,"lag":0,"lastAckMs":0,"live":true,"identity":"ok","kinds":7,"diskPct":0,"seenRaft":null},` +
				`{"nodeId":2,"voter":true,"raft":"n2:7400","http":"n2:6632","matched":5000,"lag":0,"lastAckMs":0,"live":true,"identity":"ok","kinds":0,"diskPct":0,"seenRaft":null},` +
				`{"nodeId":3,"voter":true,"raft":"n3:7400","http":"n3:6632","matched":null,"lag":null,"lastAckMs":null,"live":false,"identity":"ok","kinds":0,"diskPct":null,"seenRaft":null}]`,
		}
		for name, value := range want {
			if string(got.Membership[name]) != value {
				t.Errorf("%s is %s, want %s", name, got.Membership[name], value)
			}
		}
		if len(got.Membership) != len(want) {
			t.Errorf("%d fields, want %d: %s", len(got.Membership), len(want), answer.Body)
		}
	})
}

func TestCrashPointsArePassedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.fresh(2)
		w.must(1, learner(2))
		w.must(1, promote(2))
		want := []string{
			"membership.plan_recorded", "membership.step_committed", "membership.learner_added", "membership.changed",
			"membership.plan_recorded", "membership.step_committed", "membership.changed",
		}
		if !slices.Equal(w.points, want) {
			t.Fatalf("%v", w.points)
		}
	})
}

func TestRequestEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		w.mu.Lock()
		w.frozen = true
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		r := remove(3)
		r.ID = Draw()
		if answer := w.nodes[2].Serve(ctx, r); answer.Status != 504 || time.Since(began) > 2*time.Second {
			t.Fatalf("%d %s after %v", answer.Status, answer.Body, time.Since(began))
		}
		w.mu.Lock()
		w.frozen = false
		w.mu.Unlock()
		time.Sleep(time.Second)
		w.wantVoters(1, 2) // it went on
	})
}
