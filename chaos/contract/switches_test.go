package contract

import (
	"encoding/json"
	"fmt"
	"testing"

	"queen/chaos/cluster"
	"queen/chaos/contract/harness"
)

const switchesPath = "/api/v1/system/kv-timers"

// state.md 11.1: the switches, which hold on after a restart.
func TestSwitches_11_1(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	shown := func(kv, schedule, fire bool) string {
		return fmt.Sprintf(`{"kvEnabled":%t,"timersScheduleEnabled":%t,"timersFireEnabled":%t,"quotaTenants":0,"quotaAgeMs":0,"quotaHot":0}`, kv, schedule, fire)
	}
	needBody(t, client.Get(switchesPath), 200, shown(true, true, true))
	needBody(t, client.Post(switchesPath, `{"timersSchedule":false}`), 200, shown(true, false, true))
	needBody(t, client.Post(switchesPath, `{"kv":false,"timersFire":null,"more":1}`), 200, shown(false, false, true))
	needBody(t, client.Post(switchesPath, `{"timersFire":false,"timersSchedule":true}`), 200, shown(false, true, false))
	if err := broker.Crash(); err != nil {
		t.Fatal(err)
	}
	needBody(t, client.Get(switchesPath), 200, shown(false, true, false))
	needBody(t, client.Post(switchesPath, `{"kv":true,"timersFire":true}`), 200, shown(true, true, true))
	for _, body := range []string{`{}`, `{"kv":null}`, `{"kvEnabled":true}`, `{"timersFire":"no"}`, `{"kv":1,"timersFire":true}`} {
		needEnvelope(t, client.Post(switchesPath, body), 400, "bad_request")
	}
	for _, body := range []string{``, `[]`, `{`} {
		needEnvelope(t, client.Post(switchesPath, body), 400, "bad_body")
	}
	needBody(t, client.Get(switchesPath), 200, shown(true, true, true))
}

// pausedCalls are the calls that a pause of KV refuses (state.md 11.4). The permit is of the lock held.
func (s *rows) pausedCalls(permit map[string]any) map[string]func() harness.Response {
	call := func(op string) func() harness.Response { return func() harness.Response { return s.post(op) } }
	path := func(method, body string) func() harness.Response {
		return func() harness.Response { return s.do(method, "old", body) }
	}
	lock := func(op string) func() harness.Response {
		return func() harness.Response { return s.client.Post("/api/v1/locks", "["+op+"]") }
	}
	calls := map[string]func() harness.Response{
		"get": call(`{"op":"get","key":"old"}`), "getMany": call(`{"op":"getMany","keys":["old"]}`), "getPrefix": call(`{"op":"getPrefix","prefix":"o"}`),
		"check": call(`{"op":"check","key":"old","expect":0}`), "delete": call(`{"op":"delete","key":"old"}`),
		"GET": path("GET", ""), "DELETE": path("DELETE", ""), "PUT": path("PUT", `{"value":2,"forever":true}`),
		"namespaces": func() harness.Response { return s.client.Get("/api/v1/resources/kv/namespaces") },
		"list": func() harness.Response {
			return s.client.Post("/api/v1/resources/kv/list", `{"namespace":"queen-locks"}`)
		},
		"lock get": lock(`{"op":"get","name":"held"}`),
		"renew":    lock(fmt.Sprintf(`{"op":"renew","name":"held","token":%s,"ttlSeconds":60}`, tokenOf(permit))),
		"release":  lock(fmt.Sprintf(`{"op":"release","name":"held","token":%s}`, tokenOf(permit))),
	}
	for name, grows := range s.growingCalls() {
		calls[name] = grows
	}
	return calls
}

// state.md 2.5, 2.12, 11.4: a pause of KV refuses rows, locks, console routes and transactions with rows, and nothing else. Nothing
// changes until KV is on again, and the pause outlives the process.
func TestPauseOfKV_11_4(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	s := newRowsAt(t, broker.Client())
	permit := s.prepare()
	need(t, s.client.Post(switchesPath, `{"kv":false}`), 200)
	if err := broker.Crash(); err != nil {
		t.Fatal(err)
	}
	for name, call := range s.pausedCalls(permit) {
		t.Run(name, func(t *testing.T) { needRefusal(t, call(), 503, "kv_disabled", "kv_disabled") })
	}
	for _, op := range []string{putRow, `{"op":"get","key":"old"}`, `{"op":"check","key":"old","expect":1,"required":true}`} {
		needTransactionRefusal(t, s.bundle(pushText("q", "t"), op), 403, "kv_disabled")
	}
	needRefusal(t, s.post(`{"op":"no"}`), 400, "kv_bad_request", "kv_unknown_op")
	ack := fmt.Sprintf(`{"type":"ack","transactionId":"t","partitionId":%q,"status":"completed"}`, noPartition)
	needRolledBack(t, s.bundle(ack, putRow), "rejected_ack") // the guards before it are asked first
	needStored(t, s.client, "q")

	if reply := s.client.Transaction(map[string]any{"operations": []any{pushOperation("q", "served")}, "kv": []any{}, "timers": []timerOp{scheduleOf("q", "k", farAway)}}); !reply.Success {
		t.Errorf("a transaction without rows: got %v", reply)
	}
	needTimers(t, s.client, scheduleOf("q", "other", farAway), cancelOf("q", "k"))
	needStored(t, s.client, "q", "served")

	need(t, s.client.Post(switchesPath, `{"kv":true}`), 200)
	s.value("old", "1")
	s.value("new", "")
	if reply := s.bundle(pushText("q", "t"), putRow); !reply.Success {
		t.Errorf("got %v", reply)
	}
	keepsWorking(s, permit)
}

// state.md 11.2: the switches hold on every node, as soon as the change is answered.
func TestPauseOfKVHoldsOnEveryNode_11_2(t *testing.T) {
	t.Parallel()
	nodes := patientCluster(t)
	leader, others := leaderOf(t, nodes)
	s := newRowsAt(t, leader.Client())
	permit := s.prepare()
	for range 3 {
		need(t, others[0].Client().Post(switchesPath, `{"kv":false}`), 200)
		for _, node := range []*cluster.Node{leader, others[1], others[0]} {
			at := s.through(node.Client())
			for name, call := range at.pausedCalls(permit) {
				t.Run(name, func(t *testing.T) { needRefusal(t, call(), 503, "kv_disabled", "kv_disabled") })
			}
			needTransactionRefusal(t, at.bundle("", putRow), 403, "kv_disabled")
		}
		need(t, leader.Client().Post(switchesPath, `{"kv":true}`), 200)
		for _, node := range []*cluster.Node{others[1], leader, others[0]} {
			at := s.through(node.Client())
			at.value("old", "1")
			at.put("written", "1")
		}
	}
}

// state.md 3.2, 3.7, 11.4: what a pause of scheduling refuses, and what it does not.
func TestPauseOfScheduling_11_4(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	needTimers(t, client, scheduleOf("q", "a", farAway), scheduleOf("q", "b", farAway), scheduleOf("q", "c", farAway), scheduleOf("q", "fires", 1000))
	need(t, client.Post(switchesPath, `{"timersSchedule":false}`), 200)
	for _, ops := range [][]timerOp{{scheduleOf("q", "new", farAway)}, {cancelOf("q", "a"), scheduleOf("q", "new", 0)}} {
		answer := postTimers(client, ops...)
		needRefusal(t, answer, 503, "timers_disabled", "timers_disabled")
		if hint := answer.Header.Get("x-queen-timers-hint"); hint != "DELETE /api/v1/timers/:queue/*timerKey" {
			t.Errorf("the hint is %q", hint)
		}
	}
	needTransactionRefusal(t, client.Transaction(map[string]any{"operations": []any{pushOperation("q", "t")}, "timers": []timerOp{cancelOf("q", "a"), scheduleOf("q", "new", farAway)}}), 403, "timers_disabled")
	if answer := postTimers(client, cancelOf("q", "a"), cancelOf("q", "none")); answer.Status != 200 || answer.Header.Get("x-queen-timers-hint") != "" {
		t.Errorf("a call that cancels: %v", answer)
	}
	need(t, client.Delete(timerPath("q", "b")), 200)
	if reply := client.Transaction(map[string]any{"timers": []timerOp{cancelOf("q", "c")}}); reply.Status != 200 || !reply.Success {
		t.Errorf("a transaction that cancels: %v", reply)
	}
	if fired := awaitFired(t, client, "q", ""); fired.TransactionID != "fires" {
		t.Errorf("fired %+v", fired)
	}
	needBody(t, client.Get(timersPath("q")), 200, `{"rows":[],"truncated":false,"nextAfter":null}`)
	need(t, client.Post(switchesPath, `{"timersSchedule":true}`), 200)
	needScheduled(t, client, scheduleOf("q", "new", farAway))
}

// state.md 3.6: a pause of firing stops delivery only; the backlog drains oldest first.
func TestPauseOfFiring_3_6(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	need(t, client.Post(switchesPath, `{"timersFire":false}`), 200)
	needTimers(t, client, scheduleOf("q", "3", 30), scheduleOf("q", "1", -10), scheduleOf("q", "2", 20), scheduleOf("q", "gone", 25), scheduleOf("q", "far", farAway))
	needEmpty(t, client.Pop("q", "wait=true&timeout=500"))
	needTimers(t, client, cancelOf("q", "gone"))
	if page, keys := listTimers(t, client, "q", ""); fmt.Sprint(keys) != "[1 2 3 far]" || page.Rows[0].Claimed {
		t.Errorf("pending are %v", keys)
	}
	need(t, client.Post(switchesPath, `{"timersFire":true}`), 200)
	for _, want := range []string{"1", "2", "3"} {
		if fired := awaitFired(t, client, "q", ""); fired.TransactionID != want {
			t.Errorf("want %s, fired %+v", want, fired)
		}
	}
	var switches map[string]any
	if err := json.Unmarshal(client.Get(switchesPath).Body, &switches); err != nil || switches["timersFireEnabled"] != true {
		t.Errorf("got %v, %v", switches, err)
	}
}
