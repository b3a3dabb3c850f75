package contract

import (
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
