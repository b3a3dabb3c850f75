package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"queen/chaos/cluster"
	"queen/chaos/contract/harness"
)

// raftRoutes is the stem of the routes of cluster 4.1.
const raftRoutes = "/api/v1/system/raft"

// administer sends a request to a route of cluster 4.1 through a node; the empty body is none.
func administer(node *cluster.Node, method, path, body string) harness.Response {
	request := harness.Request{Method: method, Path: raftRoutes + path}
	if body != "" {
		request.Body = []byte(body)
	}
	return node.Client().Do(request)
}

// needChanged ends the test unless a change was answered as committed, and returns the membership after it.
func needChanged(t *testing.T, answer harness.Response) map[string]any {
	t.Helper()
	need(t, answer, 200)
	needExactKeys(t, answer.Object(), "ok", "membership")
	if answer.Object()["ok"] != true {
		t.Fatalf("got %v", answer)
	}
	return needMembership(t, answer)
}

// needMembership ends the test unless an answer has the view of cluster 4.1 in it, and returns that.
func needMembership(t *testing.T, answer harness.Response) map[string]any {
	t.Helper()
	view, _ := answer.Object()["membership"].(map[string]any)
	needExactKeys(t, view, "nodeId", "source", "viewAgeMs", "leader", "term", "clusterId", "clusterEpoch", "voters", "learners", "joint",
		"membershipIndex", "membershipCommitted", "changeInFlight", "plan", "lastLogIndex", "committedIndex", "liveWithinMs", "promoteMaxLag", "members")
	members, _ := view["members"].([]any)
	for _, member := range members {
		needExactKeys(t, member.(map[string]any), "nodeId", "voter", "raft", "http", "matched", "lag", "lastAckMs", "live", "identity", "kinds",
			"diskPct", "seenRaft")
	}
	return view
}

// number is how a whole number stands in an answer.
func number(value uint64) json.Number { return json.Number(fmt.Sprint(value)) }

// numbers is the same for a list.
func numbers(values ...uint64) string {
	var list []any
	for _, value := range values {
		list = append(list, number(value))
	}
	return fmt.Sprint(list)
}

// httpOf is where clients find a node.
func httpOf(nodes *cluster.Cluster, id uint64) string {
	return nodes.AddLearner(id).Body["http"].(string)
}

// cluster 4.1: any node shows the membership as its leader sees it; without one, as it does itself.
func TestMembershipIsShownByEveryNode_4_1(t *testing.T) {
	t.Parallel()
	nodes := patientCluster(t)
	leader, others := leaderOf(t, nodes)
	for _, node := range nodes.Nodes() {
		answer := administer(node, "GET", "/membership", "")
		need(t, answer, 200)
		needExactKeys(t, answer.Object(), "engine", "membership")
		view := needMembership(t, answer)
		if view["source"] != "leader" || view["nodeId"] != number(leader.ID) || view["leader"] != number(leader.ID) || view["viewAgeMs"] != number(0) ||
			view["joint"] != nil || view["plan"] != nil || view["membershipCommitted"] != true || view["changeInFlight"] != false {
			t.Errorf("through node %d: got %v", node.ID, answer)
		}
		if fmt.Sprint(view["voters"]) != numbers(1, 2, 3) || fmt.Sprint(view["learners"]) != "[]" || view["liveWithinMs"] != number(liveWithinMs) || view["promoteMaxLag"] != number(1000) {
			t.Errorf("through node %d: got %v", node.ID, answer)
		}
		for i, row := range view["members"].([]any) {
			member, id := row.(map[string]any), uint64(i+1)
			if member["nodeId"] != number(id) || member["voter"] != true || member["raft"] != nodes.Network.Address(id) || member["http"] != httpOf(nodes, id) ||
				member["matched"] == nil || member["live"] != true || member["identity"] != "ok" || member["seenRaft"] != nil {
				t.Errorf("member %d through node %d: %v", id, node.ID, member)
			}
		}
	}
	leader.Kill()
	others[1].Kill()
	eventually(t, delivery, func() (bool, string) {
		answer := administer(others[0], "GET", "/membership", "")
		need(t, answer, 200)
		view := needMembership(t, answer)
		age, _ := view["viewAgeMs"].(json.Number).Int64()
		live := view["members"].([]any)[leader.ID-1].(map[string]any)["live"]
		return view["source"] == "follower" && view["leader"] == nil && view["nodeId"] == number(others[0].ID) && age > 0 && live == false, answer.String()
	})
}

// cluster 4.2, 5.4: what is refused, with which status and code, and that nothing has changed.
func TestMembershipRefusals_4_2(t *testing.T) {
	t.Parallel()
	nodes := patientCluster(t)
	leader, others := leaderOf(t, nodes)
	learner := func(id uint64, raft, http string) string {
		return fmt.Sprintf(`{"id":%d,"raft":%q,"http":%q}`, id, raft, http)
	}
	silent, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	nobody := fmt.Sprint("127.0.0.1:", silent)
	before := needMembership(t, administer(leader, "GET", "/membership", ""))
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/membership/learners", `{"id":4}`, 400, "bad_request"},
		{"POST", "/membership/learners", learner(4, "127.0.0.1", "127.0.0.1:1"), 400, "bad_request"},
		{"POST", "/membership/learners", learner(0, nobody, nobody), 400, "bad_request"},
		{"POST", "/membership/learners", `[]`, 400, "bad_request"},
		{"POST", "/membership/learners", learner(2, nodes.Network.Address(2), httpOf(nodes, 2)), 409, "already_voter"},
		{"POST", "/membership/learners", learner(4, nodes.Network.Address(2), nobody), 409, "address_in_use"},
		{"POST", "/membership/learners?timeoutMs=1000", learner(4, nobody, nobody), 503, "retry"},
		{"POST", "/membership/promote", `{}`, 400, "bad_request"},
		{"POST", "/membership/promote", `{"id":4}`, 400, "not_a_learner"},
		{"POST", "/membership/promote?timeoutMs=0", `{"id":1}`, 400, "bad_request"},
		{"POST", "/membership/promote?timeoutMs=120001", `{"id":1}`, 400, "bad_request"},
		{"PUT", "/membership/voters", `{"voters":[]}`, 409, "membership_invalid"},
		{"PUT", "/membership/voters", `{"voters":[1,2,3,4,5,6]}`, 409, "membership_invalid"},
		{"PUT", "/membership/voters", `{"voters":[1,2,4]}`, 400, "not_a_member"},
		{"PUT", "/membership/members/4", fmt.Sprintf(`{"raft":%q}`, nobody), 400, "not_a_member"},
		{"PUT", "/membership/members/2", `{}`, 400, "bad_request"},
		{"PUT", "/membership/members/two", fmt.Sprintf(`{"raft":%q}`, nobody), 400, "bad_request"},
		{"PUT", "/membership/members/2", fmt.Sprintf(`{"raft":%q}`, nodes.Network.Address(3)), 409, "address_in_use"},
		{"PUT", "/membership/members/2", fmt.Sprintf(`{"raft":%q}`, nobody), 409, "address_mismatch"},
		{"POST", "/transfer", `{"to":4}`, 400, "not_a_member"},
		{"POST", "/transfer", `{"to":"2"}`, 400, "bad_request"},
		{"POST", "/transfer", `{"to":2,"group":1}`, 400, "bad_request"},
	} {
		for _, node := range []*cluster.Node{leader, others[0]} {
			answer := administer(node, c.method, c.path, c.body)
			if node != leader && c.code == "retry" { // both ends of the relay count, and the answer may be that of either
				continue
			}
			needEnvelope(t, answer, c.status, c.code)
			needExactKeys(t, answer.Object(), "ok", "code", "error")
			if answer.Object()["ok"] != false {
				t.Errorf("%s %s %s: got %v", c.method, c.path, c.body, answer)
			}
			if c.status == 503 {
				needRetryAfter1(t, answer)
			}
		}
	}
	for _, tenant := range []struct{ method, path string }{{"GET", "/membership"}, {"DELETE", "/membership/members/3"}, {"POST", "/transfer"}} {
		request := harness.Request{Method: tenant.method, Path: raftRoutes + tenant.path}
		needEnvelope(t, leader.Client().WithTenant("00000000-0000-0000-0000-000000000001").Do(request), 403, "forbidden")
	}
	// What is so already succeeds, and no refusal has left anything behind.
	for _, same := range []struct{ method, path, body string }{
		{"POST", "/membership/promote", `{"ids":[2,3]}`},
		{"PUT", "/membership/voters", `{"voters":[3,1,2]}`},
		{"PUT", "/membership/members/2", fmt.Sprintf(`{"raft":%q,"http":%q}`, nodes.Network.Address(2), httpOf(nodes, 2))},
		{"DELETE", "/membership/members/4", ""},
	} {
		after := needChanged(t, administer(others[1], same.method, same.path, same.body))
		if after["membershipIndex"] != before["membershipIndex"] || fmt.Sprint(after["voters"]) != numbers(1, 2, 3) || after["plan"] != nil {
			t.Errorf("%s %s: got %v after %v", same.method, same.path, after, before)
		}
	}
	if moved := others[0].Transfer(leader.ID); !moved.OK || moved.From != leader.ID || moved.To != leader.ID || moved.Ms != 0 {
		t.Errorf("a transfer to the leader: %v", moved.Response)
	}
	others[0].Kill()
	others[1].Kill()
	eventually(t, delivery, func() (bool, string) {
		answer := administer(leader, "POST", "/membership/promote?timeoutMs=500", `{"id":1}`)
		return answer.Status == 503 && answer.Text("code") == "no_leader" || answer.Status == 504 && answer.Text("code") == "timeout", answer.String()
	})
}

// awaitHealth waits until /health of a node says what is wanted, and returns it.
func awaitHealth(t *testing.T, node *cluster.Node, status int, wanted func(healthView) bool) healthView {
	t.Helper()
	var view healthView
	eventually(t, delivery, func() (bool, string) {
		answer := node.Client().Get("/health")
		if answer.Status != status {
			return false, answer.String()
		}
		view = needHealth(t, answer, status)
		return wanted(view), answer.String()
	})
	return view
}

// needNoMember ends the test unless a node says that it is no member, what it is, and in its log so many times why.
func needNoMember(t *testing.T, node *cluster.Node, identity, line string, lines int) {
	t.Helper()
	view := awaitHealth(t, node, 503, func(view healthView) bool { return view.Raft.Identity == identity && !view.Raft.Leader })
	if view.Raft.Role != "learner" || !slices.Contains(view.Reasons, "identity") {
		t.Errorf("node %d: %+v", node.ID, view)
	}
	eventually(t, delivery, func() (bool, string) { // it looks once a second
		logged, err := node.Logged(line)
		return err == nil && logged >= lines, fmt.Sprintf("%d lines %q, want %d: %v", logged, line, lines, err)
	})
	for _, answer := range []harness.Response{node.Client().Push(harness.Item{Queue: "q", Payload: 1}).Response, node.Client().Get("/api/v1/messages")} {
		needEnvelope(t, answer, 503, "no_leader")
		needRetryAfter1(t, answer)
	}
	eventually(t, delivery, func() (bool, string) { // a node that has just been started knows of no membership
		answer := administer(node, "GET", "/membership", "")
		return answer.Status == 200, answer.String()
	})
	for _, path := range []string{"/metrics", "/metrics/prometheus", "/api/v1/raft/status", "/api/v1/raft/members", "/api/v1/raft/liveness", "/"} {
		need(t, node.Client().Get(path), 200)
	}
}

// cluster 3.1, 4.3, 4.4: a fresh node is added, promoted and removed, and added again as it is. Any node takes the request.
func TestNodeJoinsAndLeaves_4(t *testing.T) {
	t.Parallel()
	nodes := privateClusterOf(t, cluster.Options{Spares: 1, Env: patience})
	leader, others := leaderOf(t, nodes)
	spare := nodes.Node(4)
	if err := spare.Launch(); err != nil {
		t.Fatal(err)
	}
	needNoMember(t, spare, "joining", "this fresh node joins an existing cluster", 1)
	if term := needHealth(t, spare.Client().Get("/health"), 503).Raft.Term; term != 0 {
		t.Errorf("a node that has joined nobody has term %d", term)
	}

	add := nodes.AddLearner(spare.ID)
	added := needChanged(t, others[0].Apply(add))
	if fmt.Sprint(added["voters"]) != numbers(1, 2, 3) || fmt.Sprint(added["learners"]) != numbers(4) || added["plan"] != nil || added["changeInFlight"] != false {
		t.Errorf("got %v", added)
	}
	awaitHealth(t, spare, 200, func(view healthView) bool {
		return view.Raft.Role == "learner" && slices.Equal(view.Raft.Learners, []int{4})
	})
	if again := needChanged(t, others[1].Apply(add)); again["membershipIndex"] != added["membershipIndex"] {
		t.Errorf("added again: %v after %v", again, added)
	}
	elsewhere := administer(leader, "POST", "/membership/learners", fmt.Sprintf(`{"id":4,"raft":%q,"http":"127.0.0.1:1"}`, nodes.Network.Address(4)))
	needEnvelope(t, elsewhere, 409, "address_mismatch")
	needEnvelope(t, administer(leader, "POST", "/transfer", `{"to":4}`), 409, "learner_behind")

	promoted := needChanged(t, spare.Apply(cluster.Promote(spare.ID)))
	if fmt.Sprint(promoted["voters"]) != numbers(1, 2, 3, 4) || fmt.Sprint(promoted["learners"]) != "[]" {
		t.Errorf("got %v", promoted)
	}
	awaitHealth(t, spare, 200, func(view healthView) bool { return slices.Contains(view.Raft.Voters, 4) })
	pushOne(t, spare.Client(), harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})

	removed := needChanged(t, spare.Apply(cluster.Remove(spare.ID)))
	if fmt.Sprint(removed["voters"]) != numbers(1, 2, 3) || fmt.Sprint(removed["learners"]) != "[]" || len(removed["members"].([]any)) != 3 {
		t.Errorf("got %v", removed)
	}
	const gone = "this node was removed from the cluster"
	needNoMember(t, spare, "removed", gone, 1)
	if err := spare.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := spare.Launch(); err != nil {
		t.Fatal(err)
	}
	needNoMember(t, spare, "removed", gone, 2)
	needChanged(t, leader.Apply(add))
	awaitHealth(t, spare, 200, func(view healthView) bool { return view.Raft.Role == "learner" && view.Raft.Identity == "ok" })
	repeat := spare.Client().Push(harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
	need(t, repeat.Response, 201)
	// One that was down when it was removed hears of it when it is back.
	if err := spare.Stop(); err != nil {
		t.Fatal(err)
	}
	needChanged(t, others[0].Apply(cluster.Remove(spare.ID)))
	if err := spare.Launch(); err != nil {
		t.Fatal(err)
	}
	needNoMember(t, spare, "removed", gone, 3)
	for _, line := range []string{"raft: membership change requested by an operator", "raft: membership change committed"} {
		if logged, err := leader.Logged(" WARN ", line); err != nil || logged < 3 {
			t.Errorf("%d lines %q at the leader, %v", logged, line, err)
		}
	}
}
