package contract

import (
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

func needDeleted(t *testing.T, client *harness.Client, queue string) {
	t.Helper()
	reply := client.DeleteQueue(queue)
	want := fmt.Sprintf(`{"deleted":true,"queue":%s,"existed":true}`, mustJSON(queue))
	if need(t, reply, 200); !sameJSON(reply.Body, []byte(want)) {
		t.Fatalf("want %s, got %v", want, reply)
	}
}

// TestDeleteOfAMissingQueue: 9.11, 200 and nothing was deleted; also on a repeat.
func TestDeleteOfAMissingQueue(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	needDeleted(t, s.client, s.queue)
	for range 2 {
		reply := s.client.DeleteQueue(s.queue)
		want := fmt.Sprintf(`{"deleted":false,"queue":%s,"existed":false,"message":"Queue not found, nothing was deleted"}`, mustJSON(s.queue))
		if need(t, reply, 200); !sameJSON(reply.Body, []byte(want)) {
			t.Fatalf("want %s, got %v", want, reply)
		}
	}
	needBody(t, s.client.Get(queuePath(s.queue)), 404, `{"error":"Queue not found"}`)
}

// TestDeletedQueueStartsFresh: 9.11, offset 0, new ids, no dedup memory, no options, no registrations, no cursors, no
// dead letters, no leases.
func TestDeletedQueueStartsFresh(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 9, "leaseTime": 77}, 3)
	s.group = uniqueName(t)
	batch := s.redelivered(0, 2, 1)
	needVerdicts(t, batch.ack(dlqed(0)), filed)
	leased := s.redelivered(1, 2, 1)
	detail := queueDetail(t, s.client, s.queue)
	oldPartition := s.partitionID
	needDeleted(t, s.client, s.queue)
	needVerdicts(t, leased.ack(completed(1)), refused("no partition "+oldPartition))
	needNotExtended(t, s.client.Extend(leased.lease, nil), leased.lease)
	s.needDeadLetters()
	needBody(t, s.client.Get("/api/v1/consumer-groups/"+s.group), 404, `{"error":"Consumer group not found"}`)

	s.pushed = 0
	s.push(3) // the same txids, from offset 0
	fresh := queueDetail(t, s.client, s.queue)
	needOptions(t, fresh.Options, withOptions(map[string]any{"leaseTime": 60.0}))
	if fresh.ID == detail.ID || fresh.Partitions[0].ID == detail.Partitions[0].ID {
		t.Errorf("want new ids, got %+v after %+v", fresh, detail)
	}
	s.redelivered(0, 2, 1)
	if s.partitionID == oldPartition {
		t.Errorf("want a new partition id, got %s again", oldPartition)
	}
	needVerdicts(t, leased.ack(completed(1)), badLease)
	// The registration is gone as well: a pop without a mode registers the group as new.
	needDeleted(t, s.client, s.queue)
	s.pushed = 0
	s.push(1)
	needEmpty(t, s.client.Pop(s.queue, "consumerGroup="+s.group))
}

// TestDeleteAndConfigureIsAReset: 9.11.
func TestDeleteAndConfigureIsAReset(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 9, "namespace": "n"}, 2)
	needDeleted(t, s.client, s.queue)
	need(t, s.client.Configure(s.queue, nil), 200)
	detail := queueDetail(t, s.client, s.queue)
	needOptions(t, detail.Options, configureDefaults())
	if detail.Namespace != "" || len(detail.Partitions) != 0 || detail.Totals != (counts{}) {
		t.Fatalf("got %+v", detail)
	}
	s.needNothing()
}

// TestParkedPopsSurviveTheDeletion: 9.11, they stay parked and do not re-create the queue; the push that re-creates it
// wakes them, and a wildcard pop registers its group with the instant of its own arrival.
func TestParkedPopsSurviveTheDeletion(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	needVerdicts(t, s.as("").redelivered(0, 0, 1).ack(completed(0)), released)
	queries := map[string]string{
		"queue mode":       "",
		"a new group":      "&consumerGroup=fresh",
		"a group from now": "&consumerGroup=now&subscriptionFrom=now",
	}
	replies := make(chan harness.PopReply, len(queries))
	for _, query := range queries {
		go func() { replies <- s.client.Pop(s.queue, "wait=true&"+waitFor(delivery)+query) }() // ends with its pop
	}
	needEmpty(t, s.client.Pop(s.queue, "wait=true&timeout=1000")) // parked after the others and gone: they are parked
	needDeleted(t, s.client, s.queue)
	needBody(t, s.client.Get(queuePath(s.queue)), 404, `{"error":"Queue not found"}`)
	s.pushed = 0
	s.push(1)
	for range queries {
		reply := <-replies
		needMessages(t, reply, "m0")
		if reply.Elapsed > delivery/2 {
			t.Errorf("want to be woken by the push, got %v", reply.Response)
		}
	}
}

// TestParkedPopOfADeletedQueueEnds: 9.11, at its deadline, empty, and without having made the queue again.
func TestParkedPopOfADeletedQueueEnds(t *testing.T) {
	t.Parallel()
	const timeout = 1500 * time.Millisecond
	s := newScene(t, nil, 1)
	needVerdicts(t, s.as("").redelivered(0, 0, 1).ack(completed(0)), released)
	pops := []func(query string) harness.PopReply{
		func(query string) harness.PopReply { return s.client.Pop(s.queue, query) },
		func(query string) harness.PopReply { return s.client.Pop(s.queue, query+"&consumerGroup=fresh") },
		func(query string) harness.PopReply { return s.client.PopPartition(s.queue, s.partition, query) },
	}
	replies := make(chan harness.PopReply, len(pops))
	for _, pop := range pops {
		go func() { replies <- pop("wait=true&" + waitFor(timeout)) }() // ends with its pop
	}
	needEmpty(t, s.client.Pop(s.queue, "wait=true&timeout=200")) // parked after the others and gone: they are parked
	needDeleted(t, s.client, s.queue)
	for range pops {
		if reply := <-replies; reply.Status != 204 || reply.Elapsed < timeout-stampSlack {
			t.Errorf("want nothing after %v, got %v", timeout, reply.Response)
		}
	}
	needBody(t, s.client.Get(queuePath(s.queue)), 404, `{"error":"Queue not found"}`)
}

// TestTracesSurviveTheDeletion: 9.11 and section 12.
func TestTracesSurviveTheDeletion(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	message := s.redelivered(0, 0, 1).messages[0]
	trace := map[string]any{"partitionId": message.PartitionID, "transactionId": message.TransactionID, "data": map[string]any{"text": "seen"}}
	need(t, s.client.Post("/api/v1/traces", trace), 201)
	needDeleted(t, s.client, s.queue)
	reply := s.client.Get("/api/v1/traces/" + message.PartitionID + "/" + message.TransactionID)
	need(t, reply, 200)
	if traces, _ := reply.Object()["traces"].([]any); len(traces) != 1 {
		t.Fatalf("want the trace, got %v", reply)
	}
}
