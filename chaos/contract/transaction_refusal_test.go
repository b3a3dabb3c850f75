package contract

import (
	"fmt"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// needRefused400 ends the test unless the answer is the envelope of 2.7 with one of the codes of 8.5.
func needRefused400(t *testing.T, response harness.Response) {
	t.Helper()
	need(t, response, 400)
	if code := response.Text("code"); code != "bad_body" && code != "bad_request" || response.Text("error") == "" {
		t.Fatalf("want the envelope with bad_body or bad_request, got %v", response)
	}
}

// TestTransactionAckMembers: 8.1 and 8.5, transactionId and partitionId are required, every member has its type, and
// absent and null are the same for the others.
func TestTransactionAckMembers(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	batch := s.claim(2, 0, 1, 1)
	out := s.queue + "-out"
	with := func(name string, value any) map[string]any {
		ack := batch.operations(completed(0))[0].(map[string]any)
		if ack[name] = value; value == "absent" {
			delete(ack, name)
		}
		return operations([]any{pushOperation(out, "t"), ack})
	}
	wrong := map[string][]any{
		"transactionId": {"absent", nil, 7, true}, "partitionId": {"absent", nil, 17, []any{}}, "status": {7, true, "", "done"},
		"leaseId": {7, []any{}}, "error": {7, map[string]any{}}, "consumerGroup": {7, true},
	}
	for name, values := range wrong {
		for _, value := range values {
			t.Run(fmt.Sprintf("8.5 %s is %v", name, value), func(t *testing.T) {
				needRefused400(t, s.client.Transaction(with(name, value)).Response)
			})
		}
	}
	needStored(t, s.client, out)
	s.needCursor(0)
	ack := batch.operations(completed(0, 1))
	for i, operation := range ack {
		members := operation.(map[string]any)
		members["status"], members["error"] = nil, nil
		if i == 1 {
			delete(members, "status")
			delete(members, "error")
		}
	}
	needCommitted(t, s.client.Transaction(operations(ack)))
	s.needCursor(2)
}

// TestTransactionIDIsMintedForEachCall: 8.3 and 8.4, committed or rolled back; the members of both answers are exact.
func TestTransactionIDIsMintedForEachCall(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	ids := map[string]bool{}
	take := func(reply harness.TransactionReply) {
		t.Helper()
		if !uuidAny.MatchString(reply.TransactionID) || ids[reply.TransactionID] {
			t.Fatalf("want an id of its own, got %v after %d others", reply.Response, len(ids))
		}
		ids[reply.TransactionID] = true
	}
	for range 3 {
		for _, reply := range race(8, func(i int) harness.TransactionReply {
			return suite.client.Transaction(operations([]any{pushOperation(queue, fmt.Sprint("t", i))}))
		}) {
			need(t, reply.Response, 200)
			take(reply)
			if reply.Success {
				needExactKeys(t, reply.Object(), "transactionId", "success", "results")
			} else {
				needRolledBack(t, reply, "duplicate")
				needExactKeys(t, reply.Object(), "transactionId", "success", "reason", "error", "results")
			}
		}
	}
	for _, body := range []string{`{}`, `{"operations":[{"type":"push"}]}`} {
		reply := suite.client.Transaction(body)
		needRolledBack(t, reply, "bad_request")
		take(reply)
	}
}

// TestTransactionWithoutAnEncryptionKey: 8.5, 503 in the body of 8.4 and nothing of the bundle takes effect.
func TestTransactionWithoutAnEncryptionKey(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	batch := s.redelivered(0, 1, 1)
	secret, plain := s.queue+"-secret", s.queue+"-plain"
	need(t, s.client.Configure(secret, map[string]any{"encryptionEnabled": true}), 200)
	body := operations(batch.operations(completed(0), dlqed(1)), []any{pushOperation(plain, "t"), pushOperation(secret, "t")})
	body["positions"] = position(s.as("other"), 1)["positions"]
	reply := s.client.Transaction(body)
	need(t, reply.Response, 503)
	object := reply.Object()
	needExactKeys(t, object, "transactionId", "success", "reason", "error", "results")
	results, isArray := object["results"].([]any)
	if object["success"] != false || object["reason"] != "encryption_unavailable" || reply.Text("error") == "" || !isArray || len(results) != 0 ||
		!uuidAny.MatchString(reply.Text("transactionId")) || reply.Header.Get("Retry-After") != "1" {
		t.Fatalf("want the body of 8.4 and Retry-After 1, got %v", reply.Response)
	}
	needStored(t, s.client, secret)
	needBody(t, s.client.Get(queuePath(plain)), 404, `{"error":"Queue not found"}`)
	s.needCursor(0)
	s.needDeadLetters()
	if _, moved := s.as("other").positionOf(); moved {
		t.Fatal("the position moved")
	}
	// Without the push the same bundle commits: nothing else was wrong with it, and the lease has survived.
	body["operations"] = body["operations"].([]any)[:3]
	needCommitted(t, s.client.Transaction(body))
}

// TestDiskGateJudgesTheWholeTransaction: 8.5 and 2.10, a bundle that pushes is refused with all that it carries; one
// that acks or writes positions only never is.
func TestDiskGateJudgesTheWholeTransaction(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	s := newSceneAt(t, broker.Client(), nil, 4)
	broker.SetEnv("QUEEN_RAFT_DISK_HIGH_PCT", "2")
	broker.SetEnv("QUEEN_RAFT_DISK_LOW_PCT", "1")
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	push := []any{pushOperation(s.queue, "m0")} // a duplicate: the gate is asked first
	eventually(t, promptly, func() (bool, string) {
		reply := s.client.Transaction(operations(push))
		return reply.Status == 507, reply.String()
	})
	batch := s.claim(2, 0, 1, 1)
	mixed := operations(batch.operations(completed(0)), push)
	placed := position(s.as("other"), 2)
	placed["operations"] = push
	for name, body := range map[string]map[string]any{"acks and a push": mixed, "a position and a push": placed} {
		t.Run("8.5 "+name, func(t *testing.T) {
			reply := s.client.Transaction(body).Response
			needEnvelope(t, reply, 507, "storage_full")
			if integer(reply.Object()["node"]) != 1 { // cluster 11.3
				t.Errorf("want the node whose volume is full, got %v", reply)
			}
		})
	}
	s.needCursor(0)
	if _, moved := s.as("other").positionOf(); moved {
		t.Fatal("the position of a refused bundle moved")
	}
	needCommitted(t, s.client.Transaction(operations(batch.operations(completed(0)))))
	needCommitted(t, s.client.Transaction(position(s.as("other"), 2)))
	both := position(s.as("third"), 3)
	both["operations"] = batch.operations(dlqed(1))
	needCommitted(t, s.client.Transaction(both))
	s.needCursor(2)
	s.as("other").needCursor(2)
	s.as("third").needCursor(3)
	s.needDeadLetters(1)
}

// TestTransactionPushMembers: 8.1 and 8.5, the messages of items have the members of an inline one; the longest txid is
// stored.
func TestTransactionPushMembers(t *testing.T) {
	t.Parallel()
	out := uniqueName(t)
	with := func(name string, value any) map[string]any {
		item := map[string]any{"queue": out, "payload": 1, "partition": "p"}
		if item[name] = value; value == "absent" {
			delete(item, name)
		}
		return operations([]any{pushOperation(out, "t")}, []any{map[string]any{"type": "push", "items": []any{item}}})
	}
	wrong := map[string][]any{"queue": {"absent", nil, 7}, "payload": {"absent"}, "partition": {7, true}, "transactionId": {7, []any{}}}
	for name, values := range wrong {
		for _, value := range values {
			t.Run(fmt.Sprintf("8.5 %s is %v", name, value), func(t *testing.T) {
				needRefused400(t, suite.client.Transaction(with(name, value)).Response)
			})
		}
	}
	for _, item := range []any{nil, "message", 7} {
		t.Run(fmt.Sprintf("8.5 an item that is %v", item), func(t *testing.T) {
			body := operations([]any{pushOperation(out, "t"), map[string]any{"type": "push", "items": []any{item}}})
			needRefused400(t, suite.client.Transaction(body).Response)
		})
	}
	needStored(t, suite.client, out)
	longest := strings.Repeat("t", 65_535)
	needCommitted(t, suite.client.Transaction(operations([]any{pushOperation(out, longest)})))
	needStored(t, suite.client, out, longest)
}
