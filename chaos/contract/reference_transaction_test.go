package contract

import (
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// TestReferenceModelLeaseOverTwoPartitions is the row "lease over partitions a and b, failed in a" of 17.2.
func TestReferenceModelLeaseOverTwoPartitions(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 3}, 0)
	pushAll(t, s.client, append(numbered(s.queue, "a", "a", 3), numbered(s.queue, "b", "b", 3)...)...)
	reply := s.pop(wholeBacklog, "partitions=2")
	need(t, reply.Response, 200)
	if reply.PartitionsClaimed != 2 || len(reply.Messages) != 6 {
		t.Fatalf("want both partitions under one lease, got %v", reply)
	}
	byTxid := map[string]harness.Message{}
	for _, message := range reply.Messages {
		if message.LeaseID != reply.LeaseID {
			t.Fatalf("want one lease id, got %v", reply)
		}
		byTxid[message.TransactionID] = message
	}
	needVerdicts(t, s.client.AckMessages("failed", byTxid["a0"]), released)
	again := s.pop(wholeBacklog, "partitions=2")
	needMessages(t, again, "a0", "a1", "a2") // b stays leased
	needVerdicts(t, s.client.AckMessages("completed", byTxid["b0"], byTxid["b1"], byTxid["b2"]), released)
	needVerdicts(t, s.client.AckMessages("completed", again.Messages...), released)
	s.needNothing()
}

// TestReferenceModelTransactions plays the transaction rows of 17.2.
func TestReferenceModelTransactions(t *testing.T) {
	t.Parallel()
	rows := map[string]func(s *scene, out string){
		"completed 0-4 under the lease, sent twice": func(s *scene, out string) {
			batch := s.claim(5, 0, 4, 1)
			body := operations(batch.operations(completed(0, 1, 2, 3, 4)), []any{pushOperation(out, "")})
			needCommitted(s.t, s.client.Transaction(body))
			needRolledBack(s.t, s.client.Transaction(body), "rejected_ack")
			s.needCursor(5)
			reply := s.client.Pop(out, "batch=10&consumerGroup=check&subscriptionMode=all")
			if need(s.t, reply.Response, 200); len(reply.Messages) != 1 {
				s.t.Fatalf("want the push of the first call alone, got %v", reply)
			}
		},
		"completed 0 unfenced, cursor 5": func(s *scene, out string) {
			needVerdicts(s.t, s.claim(5, 0, 4, 1).ack(completed(4)), released)
			body := operations(ackOperations(s, "", completed(0)), []any{pushOperation(out, "t")})
			needCommitted(s.t, s.client.Transaction(body))
			s.needCursor(5)
			needStored(s.t, s.client, out, "t")
		},
		"completed 0 under the live lease, cursor 2": func(s *scene, out string) {
			batch := s.claim(5, 0, 4, 1)
			needVerdicts(s.t, batch.ack(completed(1)), kept)
			body := operations(batch.operations(completed(0)), []any{pushOperation(out, "t")})
			needCommitted(s.t, s.client.Transaction(body))
			s.needCursor(2)
			s.needNothing() // the lease is still live
			needStored(s.t, s.client, out, "t")
		},
		"acks under two leases, one expired": func(s *scene, out string) {
			s.leaseTime = 1
			old := s.claim(5, 0, 4, 1)
			s.leaseTime = 0
			live := s.as("other")
			batch := live.claim(5, 0, 4, 1)
			needVerdicts(s.t, s.awaited(0, 4, 2).ack(retried(0)), released)
			body := operations(batch.operations(completed(0, 1, 2, 3, 4)), old.operations(completed(0, 1)), []any{pushOperation(out, "t")})
			reply := s.client.Transaction(body)
			needRolledBack(s.t, reply, "rejected_ack")
			if !strings.Contains(reply.Error, "rolled back") {
				s.t.Fatalf("want an error that says rolled back, got %v", reply)
			}
			live.needCursor(0)
			s.needCursor(0)
			needStored(s.t, s.client, out)
			needVerdicts(s.t, batch.ack(completed(0, 1, 2, 3, 4)), released)
		},
		"unknown txid among the acks": func(s *scene, out string) {
			s.leaseTime = 2
			batch := s.claim(5, 0, 4, 1)
			s.leaseTime = 0
			body := operations(batch.operations(completed(0, 99)), []any{pushOperation(out, "t")})
			needRolledBack(s.t, s.client.Transaction(body), "rejected_ack")
			needStored(s.t, s.client, out)
			s.needCursor(0)
			s.awaited(0, 4, 2)
		},
	}
	for name, run := range rows {
		t.Run("17.2 transaction: "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryLimit": 3}, 5)
			run(s, s.queue+"-out")
		})
	}
}
