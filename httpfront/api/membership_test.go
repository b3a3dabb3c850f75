package api

import (
	"bytes"
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	"queen/raftlog/command"
	"queen/raftlog/membership"
)

// TestMembershipRoutesSayWhatIsAskedFor: cluster 4.1, one line for every way to ask.
func TestMembershipRoutesSayWhatIsAskedFor(t *testing.T) {
	n := startNode(t, time.Hour)
	var asked []membership.Request
	var left time.Duration
	n.api.config.Membership = func(ctx context.Context, r membership.Request) membership.Answer {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		if r.ID == 0 {
			t.Error("a request without an id")
		}
		r.ID = 0
		asked = append(asked, r)
		return membership.Answer{Status: 200, Body: []byte(`{"ok":true}`)}
	}
	change := func(kind command.PlanKind, fill func(*membership.Request)) membership.Request {
		r := membership.Request{Call: membership.CallChange, Kind: kind}
		fill(&r)
		return r
	}
	const base = "/api/v1/system/raft"
	for _, c := range []struct {
		method, path, body string
		want               membership.Request
		ms                 int64
	}{
		{"GET", "/membership", "", membership.Request{Call: membership.CallView}, 30000},
		{"POST", "/membership/learners", `{"id":4,"raft":"a:1","http":"b:2"}`,
			change(command.PlanLearner, func(r *membership.Request) { r.Node, r.Raft, r.HTTP = 4, "a:1", "b:2" }), 30000},
		{"POST", "/membership/learners?timeoutMs=120000", `{"nodeId":4,"raft":"a:1","http":"b:2","timeoutMs":5}`,
			change(command.PlanLearner, func(r *membership.Request) { r.Node, r.Raft, r.HTTP = 4, "a:1", "b:2" }), 120000},
		{"POST", "/membership/promote", `{"ids":[4,5],"force":true,"timeoutMs":1000}`,
			change(command.PlanPromote, func(r *membership.Request) { r.Nodes, r.Force = []uint64{4, 5}, true }), 1000},
		{"POST", "/membership/promote?force=1", `{"id":4}`,
			change(command.PlanPromote, func(r *membership.Request) { r.Nodes, r.Force = []uint64{4}, true }), 30000},
		{"POST", "/membership/replace", `{"id":3}`, change(command.PlanRejoin, func(r *membership.Request) { r.Node = 3 }), 30000},
		{"PUT", "/membership/voters", `{"voters":[1,2]}`, change(command.PlanVoters, func(r *membership.Request) { r.Nodes = []uint64{1, 2} }), 30000},
		{"PUT", "/membership/voters", `{"voter":1}`, change(command.PlanVoters, func(r *membership.Request) { r.Nodes = []uint64{1} }), 30000},
		{"PUT", "/membership/members/2", `{"http":"b:2"}`, change(command.PlanAddress, func(r *membership.Request) { r.Node, r.HTTP = 2, "b:2" }), 30000},
		{"DELETE", "/membership/members/3", "", change(command.PlanRemove, func(r *membership.Request) { r.Node = 3 }), 30000},
		{"POST", "/transfer", `{"to":2,"group":0}`, membership.Request{Call: membership.CallTransfer, Node: 2}, 30000},
		{"POST", "/transfer", "", membership.Request{Call: membership.CallTransfer}, 30000},
	} {
		asked = nil
		if answer := n.call(c.method, base+c.path, c.body); string(answer) != `{"ok":true}` {
			t.Errorf("%s %s: %s", c.method, c.path, answer)
		}
		if len(asked) != 1 || !reflect.DeepEqual(asked[0], c.want) {
			t.Errorf("%s %s: asked for %+v, want %+v", c.method, c.path, asked, c.want)
		}
		if most := time.Duration(c.ms) * time.Millisecond; left > most || left < most-10*time.Second {
			t.Errorf("%s %s: %v left of %v", c.method, c.path, left, most)
		}
	}
	asked = nil
	for _, c := range [][3]string{
		{"POST", "/membership/learners", `{"raft":"a:1","http":"b:2"}`},
		{"POST", "/membership/learners", `{"id":"4"}`},
		{"POST", "/membership/learners", `{"id":-4}`},
		{"POST", "/membership/replace", ""},
		{"POST", "/membership/promote", `[4]`},
		{"POST", "/membership/promote", `{`},
		{"POST", "/membership/promote?force=perhaps", `{"id":4}`},
		{"PUT", "/membership/voters?timeoutMs=0", `{"voters":[1]}`},
		{"PUT", "/membership/voters", `{"voters":[1],"timeoutMs":120001}`},
		{"DELETE", "/membership/members/two", ""},
		{"POST", "/transfer", `{"group":1}`},
	} {
		status, answer := n.try(c[0], base+c[1], c[2])
		if status != 400 || !bytes.HasPrefix(answer, []byte(`{"ok":false,"code":"bad_request","error":"`)) || len(asked) > 0 {
			t.Errorf("%v: %d %s", c, status, answer)
		}
	}
}

func TestMembershipRoutesAreNotForTenants(t *testing.T) {
	n := startNode(t, time.Hour)
	request := must(http.NewRequest("GET", n.url+"/api/v1/system/raft/membership", nil))
	request.Header.Set("x-queen-tenant", "00000000-0000-0000-0000-000000000001")
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	var body bytes.Buffer
	must(body.ReadFrom(response.Body))
	if response.StatusCode != 403 || body.String() != `{"ok":false,"code":"forbidden","error":"administration routes are not for tenants"}` {
		t.Fatalf("%d %s", response.StatusCode, body.String())
	}
}

func TestUnavailableMembershipSaysWhenToAskAgain(t *testing.T) {
	n := startNode(t, time.Hour)
	n.api.config.Membership = func(context.Context, membership.Request) membership.Answer {
		return membership.Refuse(membership.NoLeader, "no leader is known").Answer()
	}
	response := must(http.Post(n.url+"/api/v1/system/raft/transfer", "application/json", nil))
	defer response.Body.Close()
	if response.StatusCode != 503 || response.Header.Get("Retry-After") != "1" {
		t.Fatalf("%d %v", response.StatusCode, response.Header)
	}
}
