package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// state.md 3.7, messaging 8.3: timers ride, with results in the flat numbering behind the operations and before the positions.
func TestTimersRideInATransaction_3_7(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	out := queue + "-out"
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "m"})
	needScheduled(t, suite.client, scheduleOf(queue, "old", farAway).with(map[string]any{"txn": "stored"}))
	popped := suite.client.Pop(queue, "leaseSeconds=60")
	needMessages(t, popped, "m")
	reply := suite.client.Transaction(map[string]any{
		"operations": []any{pushOperation(out, "pushed"), map[string]any{"type": "ack", "transactionId": "m", "partitionId": popped.PartitionID, "leaseId": popped.LeaseID}},
		"timers": []timerOp{scheduleOf(queue, "new", farAway), cancelOf(queue, "old").with(map[string]any{"txn": "mine"}), cancelOf(queue, "none"),
			scheduleOf(out, "now", 0)},
		"positions": []any{map[string]any{"queue": queue, "consumerGroup": "g", "offset": 0}},
	})
	if need(t, reply.Response, 200); !reply.Success {
		t.Fatalf("got %v", reply)
	}
	var answer struct{ Results []map[string]any }
	if err := reply.Response.Decode(&answer); err != nil || len(answer.Results) != 7 {
		t.Fatalf("want 7 results, got %v", reply)
	}
	for i, want := range []string{"push ", "ack ", "timer 0 scheduled", "timer 1 cancelled", "timer 2 absent", "timer 3 scheduled", "position 0"} {
		result := answer.Results[i]
		if fmt.Sprint(result["index"]) != fmt.Sprint(i) {
			t.Errorf("result %d has index %v", i, result["index"])
		}
		got := fmt.Sprint(result["type"], " ")
		if index, has := result["opIndex"]; has {
			got += fmt.Sprint(index)
		}
		if status, has := result["status"]; has {
			got += fmt.Sprint(" ", status)
		}
		if got != want {
			t.Errorf("result %d is %q, want %q", i, got, want)
		}
	}
	common := []string{"index", "type", "opIndex", "ok", "status", "queue", "timerKey"}
	needExactKeys(t, answer.Results[2], append(common, "txn", "messageId", "deliverAt")...)
	needExactKeys(t, answer.Results[3], append(common, "txn")...)
	needExactKeys(t, answer.Results[4], common...)
	if answer.Results[3]["txn"] != "stored" || answer.Results[4]["ok"] != false || answer.Results[2]["messageId"] != peekTimer(t, suite.client, queue, "new").MessageID {
		t.Errorf("got %v", reply)
	}
	needMessages(t, suite.client.Pop(out, "batch=10"), "pushed", "now")
	if _, keys := listTimers(t, suite.client, queue, ""); fmt.Sprint(keys) != "[new]" {
		t.Errorf("pending are %v", keys)
	}
}

// A transaction may have nothing but timers (messaging 8.1), and one that rolls back leaves them as they were (8.6).
func TestTimersOfARolledBackTransaction_8_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	reply := suite.client.Transaction(map[string]any{"timers": []timerOp{scheduleOf(queue, "a", farAway)}})
	if need(t, reply.Response, 200); !reply.Success {
		t.Fatalf("got %v", reply)
	}
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "dup"})
	timers := []timerOp{cancelOf(queue, "a"), scheduleOf(queue, "b", farAway), scheduleOf(queue, "now", -1)}
	for reason, body := range map[string]map[string]any{
		"duplicate":       {"operations": []any{pushOperation(queue, "dup")}},
		"rejected_ack":    {"operations": []any{map[string]any{"type": "ack", "transactionId": "dup", "partitionId": noPartition}}},
		"queue_not_found": {"positions": []any{map[string]any{"queue": queue + "-none", "consumerGroup": "g", "offset": 0}}},
	} {
		body["timers"] = timers
		needRolledBack(t, suite.client.Transaction(body), reason)
	}
	if _, keys := listTimers(t, suite.client, queue, ""); fmt.Sprint(keys) != "[a]" {
		t.Errorf("pending are %v", keys)
	}
	needStored(t, suite.client, queue, "dup")
}

// state.md 3.7, messaging 8.5: bad operations are a 400 in the body of a transaction.
func TestBadTimersOfATransaction_3_7(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	good := scheduleOf(queue, "k", farAway)
	post := func(ops ...any) harness.TransactionReply {
		return suite.client.Transaction(map[string]any{"operations": []any{pushOperation(queue, "t")}, "timers": ops})
	}
	for _, bad := range []any{7, map[string]any{}, good.with(map[string]any{"queue": ""}), good.with(map[string]any{"timerKey": nil}), good.with(map[string]any{"txn": nil}),
		good.with(map[string]any{"delayMs": "1"}), good.with(map[string]any{"payload": "?"}), good.with(map[string]any{"payload": base64Of("no")}),
		good.with(map[string]any{"partition": ""}), good.with(map[string]any{"op": "fire"})} {
		needTransactionRefusal(t, post(good.with(map[string]any{"timerKey": "other"}), bad), 400, "bad_request")
	}
	needTransactionRefusal(t, post(good, cancelOf(queue, "k")), 400, "bad_request")
	needTransactionRefusal(t, post(good.with(map[string]any{"messageId": "x"})), 400, "timers_server_owned_field")
	needTransactionRefusal(t, post(cancelOf(queue, "k").with(map[string]any{"_x": "1"})), 400, "timers_server_owned_field")
	needEnvelope(t, post(good.with(map[string]any{"timerKey": strings.Repeat("k", 511)})).Response, 413, "name_too_long")
	needEnvelope(t, suite.client.Post("/api/v1/transaction", `{"timers":{}}`), 400, "bad_body")
	needStored(t, suite.client, queue)
	if _, keys := listTimers(t, suite.client, queue, ""); len(keys) != 0 {
		t.Errorf("pending are %v", keys)
	}
}

// state.md 3.7: neither the horizon nor the bound of 256 operations nor that of 1 MiB holds in a transaction.
func TestTransactionHasNoBoundsOfTimers_3_7(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	ops := []timerOp{scheduleOf(queue, "far", 91*86_400_000), scheduleOf(queue, "large", farAway).with(map[string]any{"payload": base64Of(`"` + strings.Repeat("x", 2<<20) + `"`)})}
	for i := range 298 {
		ops = append(ops, scheduleOf(queue, fmt.Sprint(i), farAway))
	}
	reply := suite.client.Transaction(map[string]any{"timers": ops})
	if need(t, reply.Response, 200); !reply.Success || len(reply.Results) != 300 {
		t.Fatalf("got %d results, %v", len(reply.Results), reply.Reason)
	}
	if large := suite.client.Get(timerPath(queue, "large")); len(large.Body) < 2<<20 {
		t.Errorf("the large payload: %.200s", large.Body)
	}
}

// state.md 11.1: the switches, which hold on after a restart.
func TestSwitches_11_1(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	const path = "/api/v1/system/kv-timers"
	shown := func(kv, schedule, fire bool) string {
		return fmt.Sprintf(`{"kvEnabled":%t,"timersScheduleEnabled":%t,"timersFireEnabled":%t,"quotaTenants":0,"quotaAgeMs":0,"quotaHot":0}`, kv, schedule, fire)
	}
	needBody(t, client.Get(path), 200, shown(true, true, true))
	needBody(t, client.Post(path, `{"timersSchedule":false}`), 200, shown(true, false, true))
	needBody(t, client.Post(path, `{"kv":false,"timersFire":null,"more":1}`), 200, shown(false, false, true))
	needBody(t, client.Post(path, `{"timersFire":false,"timersSchedule":true}`), 200, shown(false, true, false))
	if err := broker.Crash(); err != nil {
		t.Fatal(err)
	}
	needBody(t, client.Get(path), 200, shown(false, true, false))
	needBody(t, client.Post(path, `{"kv":true,"timersFire":true}`), 200, shown(true, true, true))
	for _, body := range []string{`{}`, `{"kv":null}`, `{"kvEnabled":true}`, `{"timersFire":"no"}`, `{"kv":1,"timersFire":true}`} {
		needEnvelope(t, client.Post(path, body), 400, "bad_request")
	}
	for _, body := range []string{``, `[]`, `{`} {
		needEnvelope(t, client.Post(path, body), 400, "bad_body")
	}
	needBody(t, client.Get(path), 200, shown(true, true, true))
}

// state.md 3.2, 3.7, 11.4: what a pause of scheduling refuses, and what it does not.
func TestPauseOfScheduling_11_4(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	needTimers(t, client, scheduleOf("q", "a", farAway), scheduleOf("q", "b", farAway), scheduleOf("q", "c", farAway), scheduleOf("q", "fires", 1000))
	need(t, client.Post("/api/v1/system/kv-timers", `{"timersSchedule":false}`), 200)
	for _, ops := range [][]timerOp{{scheduleOf("q", "new", farAway)}, {cancelOf("q", "a"), scheduleOf("q", "new", 0)}} {
		answer := postTimers(client, ops...)
		needTimerRefusal(t, answer, 503, "timers_disabled", "timers_disabled")
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
	need(t, client.Post("/api/v1/system/kv-timers", `{"timersSchedule":true}`), 200)
	needScheduled(t, client, scheduleOf("q", "new", farAway))
}

// state.md 3.6: a pause of firing stops delivery only; the backlog drains oldest first.
func TestPauseOfFiring_3_6(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	need(t, client.Post("/api/v1/system/kv-timers", `{"timersFire":false}`), 200)
	needTimers(t, client, scheduleOf("q", "3", 30), scheduleOf("q", "1", -10), scheduleOf("q", "2", 20), scheduleOf("q", "gone", 25), scheduleOf("q", "far", farAway))
	needEmpty(t, client.Pop("q", "wait=true&timeout=500"))
	needTimers(t, client, cancelOf("q", "gone"))
	if page, keys := listTimers(t, client, "q", ""); fmt.Sprint(keys) != "[1 2 3 far]" || page.Rows[0].Claimed {
		t.Errorf("pending are %v", keys)
	}
	need(t, client.Post("/api/v1/system/kv-timers", `{"timersFire":true}`), 200)
	for _, want := range []string{"1", "2", "3"} {
		if fired := awaitFired(t, client, "q", ""); fired.TransactionID != want {
			t.Errorf("want %s, fired %+v", want, fired)
		}
	}
	var switches map[string]any
	if err := json.Unmarshal(client.Get("/api/v1/system/kv-timers").Body, &switches); err != nil || switches["timersFireEnabled"] != true {
		t.Errorf("got %v, %v", switches, err)
	}
}
