package contract

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"queen/chaos/cluster"
	"queen/chaos/contract/harness"
)

// state.md 2.6, 2.7: a read through any node sees what was acknowledged through any other, and judges expiry by the leader's time:
// also a follower that hears late of everything.
func TestKVOfACluster_state2(t *testing.T) {
	t.Parallel()
	const late = 200 * time.Millisecond
	nodes := patientCluster(t)
	leader, others := leaderOf(t, nodes)
	at := func(node *cluster.Node) *harness.Client { return node.Client().WithDeadline(time.Minute) }
	s := newRowsAt(t, at(leader))
	far, near := s.through(at(others[0])), s.through(at(others[1]))
	far.value("k", "")
	nodes.Network.Set(cluster.Link{From: leader.ID, To: others[0].ID}, cluster.Rule{Delay: late})
	for i := range 3 {
		s.put("k", fmt.Sprint(i))
		began := time.Now()
		far.value("k", fmt.Sprint(i))
		if took := time.Since(began); took < late/2 { // or none of this shows anything
			t.Errorf("the read of the late node took %v", took)
		}
		near.value("k", fmt.Sprint(i))
	}
	far.put("k", `"far"`)
	s.value("k", `"far"`)
	near.value("k", `"far"`)
	if element := near.call(`{"op":"incr","key":"n","delta":1,"forever":true}`, `{"op":"get","key":"n"}`)[1]; element["value"] != json.Number("1") {
		t.Errorf("got %v", element)
	}
	s.call(`{"op":"put","key":"short","value":1,"ttlSeconds":1}`)
	time.Sleep(1500 * time.Millisecond) // the rule is about this time
	for _, through := range []*rows{s, far, near} {
		through.value("short", "")
	}

	reply := far.bundle(pushText("bundled", "t"), `{"op":"put","key":"bundled","value":1,"forever":true}`)
	if need(t, reply.Response, 200); !reply.Success {
		t.Fatalf("got %v", reply)
	}
	near.value("bundled", "1")
	needRolledBack(t, near.bundle(pushText("bundled", "u"), `{"op":"check","key":"bundled","expect":0,"required":true}`), "kv_precondition")

	listed := near.client.Get("/api/v1/resources/kv/namespaces")
	if want := fmt.Sprintf(`{"namespaces":[{"namespace":%q,"keys":4}]}`, s.ns); string(listed.Body) != want { // the short row is not swept, or just was
		if want = fmt.Sprintf(`{"namespaces":[{"namespace":%q,"keys":3}]}`, s.ns); string(listed.Body) != want {
			t.Errorf("got %v", listed)
		}
	}
	acquired := make(chan bool, 9)
	var all sync.WaitGroup
	for i := range cap(acquired) {
		client := []*rows{s, far, near}[i%3].client
		all.Go(func() {
			answer := client.Post("/api/v1/locks", fmt.Sprintf(`[{"op":"acquire","name":"one","ttlSeconds":60,"owner":"o%d"}]`, i))
			list, _ := answer.Object()["results"].([]any)
			acquired <- len(list) == 1 && list[0].(map[string]any)["acquired"] == true
		})
	}
	all.Wait()
	close(acquired)
	won := 0
	for won1 := range acquired {
		if won1 {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d of them hold one lock", won)
	}
	if answer := far.client.Post("/api/v1/locks", `[{"op":"get","name":"one"}]`); elementsOf(t, answer, 1)[0]["held"] != true {
		t.Errorf("got %v", answer)
	}
}

// state.md 2.5, cluster.md 8.3: without a majority a call waits for its deadline, and says so in the words of the family.
func TestKVWithoutAMajority_state2(t *testing.T) {
	t.Parallel()
	nodes := privateCluster(t, map[string]string{"QUEEN_STMT_TIMEOUT_MS": "1500"})
	leader, others := leaderOf(t, nodes)
	s := newRowsAt(t, leader.Client().WithoutResend())
	s.put("k", "1")
	for _, other := range others {
		other.Kill()
	}
	eventually(t, delivery, func() (bool, string) { // until then its lease holds (cluster.md 9)
		answer := s.post(`{"op":"get","key":"k"}`)
		return answer.Status == 503, answer.String()
	})
	for name, call := range map[string]func() harness.Response{
		"write": func() harness.Response { return s.post(`{"op":"put","key":"k","value":2,"forever":true}`) },
		"read":  func() harness.Response { return s.post(`{"op":"get","key":"k"}`) },
		"path":  func() harness.Response { return s.do("GET", "k", "") },
		"lock":  func() harness.Response { return s.client.Post("/api/v1/locks", acquireOne) },
		"list":  func() harness.Response { return s.client.Get("/api/v1/resources/kv/namespaces") },
	} {
		answer := call()
		if reason := answer.Text("reason"); answer.Status != 503 || answer.Text("error") != "kv_unavailable" || reason != "kv_timeout" && reason != "kv_no_leader" && reason != "kv_retry" {
			t.Errorf("%s: got %v", name, answer)
		}
		if answer.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: Retry-After is %q", name, answer.Header.Get("Retry-After"))
		}
	}
}
