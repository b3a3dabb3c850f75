package contract

import (
	"fmt"
	"testing"

	"queen/chaos/contract/harness"
)

// claim is what one pop of a scene delivered and leased.
type claim struct {
	scene    *scene
	lease    string
	messages []harness.Message
}

// ack acks under the lease of the claim, in one call.
func (c claim) ack(marks ...mark) harness.AckReply {
	c.scene.t.Helper()
	return c.scene.client.AckBatch(c.scene.group, c.scene.items(c.lease, marks...)...)
}

// operations are the same acks as operations of a transaction (8.1).
func (c claim) operations(marks ...mark) []any {
	return ackOperations(c.scene, c.lease, marks...)
}

func ackOperations(s *scene, lease string, marks ...mark) []any {
	var operations []any
	for _, item := range s.items(lease, marks...) {
		operation := map[string]any{
			"type": "ack", "transactionId": item.TransactionID, "partitionId": item.PartitionID, "status": item.Status,
			"consumerGroup": s.groupName(),
		}
		if item.LeaseID != "" {
			operation["leaseId"] = item.LeaseID
		}
		if item.Error != "" {
			operation["error"] = item.Error
		}
		operations = append(operations, operation)
	}
	return operations
}

// mark is a status for some offsets of a scene.
type mark struct {
	status  string
	offsets []int
	reason  string
}

func completed(offsets ...int) mark { return mark{status: "completed", offsets: offsets} }
func failed(offsets ...int) mark    { return mark{status: "failed", offsets: offsets} }
func retried(offsets ...int) mark   { return mark{status: "retry", offsets: offsets} }
func dlqed(offsets ...int) mark     { return mark{status: "dlq", offsets: offsets} }

// because gives the items of the mark an error text.
func (m mark) because(reason string) mark {
	m.reason = reason
	return m
}

// verdict is the part of an ack's item that a rule decides (6.3).
type verdict struct {
	success, released, dlq, noop bool
	err                          string // "" is null
}

var (
	kept         = verdict{success: true}
	released     = verdict{success: true, released: true}
	filed        = verdict{success: true, released: true, dlq: true}
	noop         = verdict{success: true, noop: true}
	badLease     = verdict{err: errLease}
	unresolvable = verdict{err: errUnresolvable}
)

func refused(text string) verdict { return verdict{err: text} }

func verdictOf(item harness.Acked) verdict {
	got := verdict{success: item.Success, released: item.LeaseReleased, dlq: item.DLQ, noop: item.Noop}
	if item.Error != nil {
		got.err = *item.Error
	}
	return got
}

// needVerdicts ends the test unless the items of the ack have these verdicts, in request order; a single verdict
// stands for every item.
func needVerdicts(t *testing.T, reply harness.AckReply, want ...verdict) {
	t.Helper()
	need(t, reply.Response, 200)
	if len(want) == 1 {
		for len(want) < len(reply.Items) {
			want = append(want, want[0])
		}
	}
	if len(reply.Items) != len(want) {
		t.Fatalf("want %d verdicts, got %v", len(want), reply)
	}
	for i, item := range reply.Items {
		if item.Index != i {
			t.Fatalf("item %d: want index %d, got %+v", i, i, item)
		}
		if got := verdictOf(item); got != want[i] {
			t.Fatalf("item %d (%s): want %+v, got %+v", i, item.TransactionID, want[i], got)
		}
	}
}

// needCommitted ends the test unless the transaction committed, with the flat numbering of 8.3.
func needCommitted(t *testing.T, reply harness.TransactionReply) {
	t.Helper()
	need(t, reply.Response, 200)
	if !reply.Success || reply.Reason != "" {
		t.Fatalf("want a committed transaction, got %v", reply)
	}
	for i, result := range reply.Results {
		if result.Index != i || !result.Success {
			t.Fatalf("result %d: want index %d and success, got %v", i, i, reply)
		}
	}
}

// needRolledBack ends the test unless the transaction was rolled back for this reason (8.4).
func needRolledBack(t *testing.T, reply harness.TransactionReply, reason string) {
	t.Helper()
	need(t, reply.Response, 200)
	results, isArray := reply.Object()["results"].([]any)
	if reply.Success || reply.Reason != reason || reply.Error == "" || !isArray || len(results) != 0 {
		t.Fatalf("want a rollback with reason %q and no results, got %v", reason, reply)
	}
	if !uuidAny.MatchString(reply.TransactionID) {
		t.Fatalf("want a minted transactionId, got %v", reply)
	}
}

// needTransactionRefusal ends the test unless the answer has the body of 8.4 with this status and reason (8.5).
func needTransactionRefusal(t *testing.T, reply harness.TransactionReply, status int, reason string) {
	t.Helper()
	need(t, reply.Response, status)
	object := reply.Object()
	needExactKeys(t, object, "transactionId", "success", "reason", "error", "results")
	if !uuidAny.MatchString(reply.Text("transactionId")) {
		t.Fatalf("want a minted transactionId, got %v", reply)
	}
	if results, isArray := object["results"].([]any); object["success"] != false || object["reason"] != reason || reply.Text("error") == "" || !isArray || len(results) != 0 {
		t.Fatalf("want a refusal for %s, got %v", reason, reply.Response)
	}
	if after := reply.Header.Get("Retry-After"); (after != "") != (status == 503) {
		t.Fatalf("Retry-After is %q, got %v", after, reply.Response)
	}
}

// needRefusal ends the test unless the answer is a refusal of the state surfaces (state.md 1.3).
func needRefusal(t *testing.T, answer harness.Response, status int, code, reason string) {
	t.Helper()
	need(t, answer, status)
	needExactKeys(t, answer.Object(), "error", "reason", "detail")
	if answer.Text("error") != code || answer.Text("reason") != reason || answer.Text("detail") == "" {
		t.Fatalf("want error %q and reason %q, got %v", code, reason, answer)
	}
	if after := answer.Header.Get("Retry-After"); (after != "") != (status == 503 || status == 429) {
		t.Fatalf("Retry-After is %q, got %v", after, answer)
	}
}

// pushOperation is an inline push operation (8.1).
func pushOperation(queue, txid string) map[string]any {
	operation := map[string]any{"type": "push", "queue": queue, "payload": map[string]any{"text": txid}}
	if txid != "" {
		operation["transactionId"] = txid
	}
	return operation
}

// operations is the body of a transaction.
func operations(parts ...[]any) map[string]any {
	var all []any
	for _, part := range parts {
		all = append(all, part...)
	}
	return map[string]any{"operations": all}
}

// needStored ends the test unless a fresh reader of the queue finds exactly these txids, in order, in one partition.
func needStored(t *testing.T, client *harness.Client, queue string, txids ...string) {
	t.Helper()
	reader := uniqueName(t)
	reply := client.Pop(queue, fmt.Sprintf("batch=%d&partitions=64&consumerGroup=%s&subscriptionMode=all", wholeBacklog, reader))
	if len(txids) == 0 {
		needEmpty(t, reply)
		return
	}
	needMessages(t, reply, txids...)
}
