package contract

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

const deadLease = "018f2f60-0000-7000-8000-000000000000"

// TestTransactionFence: 8.2. Two groups hold a lease each on the same messages; the acks are of message 0 and 1. The
// table says what each ack names, what requiredLeases holds, and whether the bundle commits.
func TestTransactionFence(t *testing.T) {
	t.Parallel()
	const g, h = "lease of g", "lease of h" // replaced by the two live leases
	absent := "absent"
	cases := []struct {
		name     string
		gLease   string // leaseId of g's ack
		hLease   string // leaseId of h's ack; "no ack" leaves h's ack out
		required []any
		commits  bool
	}{
		{"own live leaseId", g, h, nil, true},
		{"own dead leaseId", deadLease, h, nil, false},
		{"the lease of another group", h, h, nil, false},
		{"unfenced without any lease in the set", absent, "no ack", nil, true},
		{"no leaseId and one required lease, live", absent, "no ack", []any{g}, true},
		{"no leaseId and one required lease, dead", absent, "no ack", []any{deadLease}, false},
		{"no leaseId and one required lease, live for another group", absent, "no ack", []any{h}, false},
		{"no leaseId and the one lease of the other ack, which is not its own", absent, h, nil, false},
		{"no leaseId and the same lease twice in the set", absent, "no ack", []any{g, g}, true},
		{"no leaseId and two distinct members: unfenced", absent, h, []any{g}, true},
		{"null and empty are not members", absent, "no ack", []any{nil, "", g}, true},
		{"null and empty are not members, dead", absent, "no ack", []any{nil, deadLease, ""}, false},
		{"a leaseId of null falls back to the set", "null", "no ack", []any{deadLease}, false},
		{"a leaseId of empty falls back to the set", "", "no ack", []any{deadLease}, false},
		{"a required lease that fences no ack must live: it does", g, "no ack", []any{h}, true},
		{"a required lease that fences no ack must live: it does not", g, "no ack", []any{g, deadLease}, false},
	}
	for _, c := range cases {
		t.Run("8.2 "+c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 3)
			other := s.as("h")
			mine, theirs := s.redelivered(0, 2, 1), other.redelivered(0, 2, 1)
			live := map[any]any{g: mine.lease, h: theirs.lease}
			resolve := func(lease any) any {
				if value, known := live[lease]; known {
					return value
				}
				return lease
			}
			withLease := func(operation any, lease string) map[string]any {
				changed := maps.Clone(operation.(map[string]any))
				switch lease {
				case absent:
					delete(changed, "leaseId")
				case "null":
					changed["leaseId"] = nil
				default:
					changed["leaseId"] = resolve(lease)
				}
				return changed
			}
			out := s.queue + "-out"
			all := []any{withLease(mine.operations(completed(0))[0], c.gLease), pushOperation(out, "t")}
			if c.hLease != "no ack" {
				all = append(all, withLease(theirs.operations(completed(1))[0], c.hLease))
			}
			body := map[string]any{"operations": all}
			if c.required != nil {
				required := make([]any, len(c.required))
				for i, lease := range c.required {
					required[i] = resolve(lease)
				}
				body["requiredLeases"] = required
			}
			reply := s.client.Transaction(body)
			if c.commits {
				needCommitted(t, reply)
				s.needCursor(1)
				needStored(t, s.client, out, "t")
				return
			}
			needRolledBack(t, reply, "rejected_ack")
			s.needCursor(0)
			other.needCursor(0)
			needStored(t, s.client, out)
			needVerdicts(t, mine.ack(completed(0, 1, 2)), released)
			needVerdicts(t, theirs.ack(completed(0, 1, 2)), released)
		})
	}
}

// TestTransactionRequiredLeaseWithoutAcks: 8.2, it must be a live lease although nothing is acked.
func TestTransactionRequiredLeaseWithoutAcks(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	batch := s.redelivered(0, 0, 1)
	out := s.queue + "-out"
	body := operations([]any{pushOperation(out, "t")})
	body["requiredLeases"] = []any{deadLease}
	needRolledBack(t, s.client.Transaction(body), "rejected_ack")
	body["requiredLeases"] = []any{batch.lease}
	needCommitted(t, s.client.Transaction(body))
	needVerdicts(t, batch.ack(completed(0)), released)
	body = operations([]any{pushOperation(out, "t2")})
	body["requiredLeases"] = []any{batch.lease}
	needRolledBack(t, s.client.Transaction(body), "rejected_ack")
	needStored(t, s.client, out, "t")
}

// TestTransactionRejectedAck: 8.4, what rejected_ack covers; the error names the item's error and the rollback.
func TestTransactionRejectedAck(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		operation func(s *scene, batch claim) []any
		text      string
	}{
		"wrong lease":                {func(s *scene, _ claim) []any { return ackOperations(s, deadLease, completed(1)) }, errLease},
		"outside the leased batch":   {func(_ *scene, batch claim) []any { return batch.operations(completed(4)) }, errUnresolvable},
		"unknown txid":               {func(_ *scene, batch claim) []any { return batch.operations(completed(99)) }, errUnresolvable},
		"failed below the cursor":    {func(_ *scene, batch claim) []any { return batch.operations(failed(0)) }, errUnresolvable},
		"retry below the cursor":     {func(_ *scene, batch claim) []any { return batch.operations(retried(0)) }, errUnresolvable},
		"dlq below the cursor":       {func(_ *scene, batch claim) []any { return batch.operations(dlqed(0)) }, errUnresolvable},
		"failed below it, unfenced":  {func(s *scene, _ claim) []any { return ackOperations(s, "", failed(0)) }, errUnresolvable},
		"unknown partition":          {elsewhere(noPartition), "no partition " + noPartition},
		"one bad among several good": {func(_ *scene, batch claim) []any { return batch.operations(completed(1, 2, 99, 3)) }, errUnresolvable},
	}
	for name, c := range cases {
		t.Run("8.4 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 5)
			batch := s.claim(4, 0, 3, 1)
			needVerdicts(t, batch.ack(completed(0)), kept)
			out := s.queue + "-out"
			reply := s.client.Transaction(operations([]any{pushOperation(out, "t")}, c.operation(s, batch)))
			needRolledBack(t, reply, "rejected_ack")
			if !strings.HasPrefix(reply.Error, "QTXN ") || !strings.Contains(reply.Error, c.text) || !strings.Contains(reply.Error, "rolled back") {
				t.Errorf("want QTXN … %s … rolled back, got %q", c.text, reply.Error)
			}
			needStored(t, s.client, out)
			s.needDeadLetters()
			s.needCursor(1)
			needVerdicts(t, batch.ack(completed(1, 2, 3)), released)
		})
	}
}

// elsewhere is an ack of a message in another partition.
func elsewhere(partitionID string) func(*scene, claim) []any {
	return func(s *scene, _ claim) []any {
		return []any{map[string]any{"type": "ack", "transactionId": "m1", "partitionId": partitionID, "consumerGroup": s.groupName()}}
	}
}

// TestTransactionPartitionIDThatIsNoNumber: 8.4, reason bad_request.
func TestTransactionPartitionIDThatIsNoNumber(t *testing.T) {
	t.Parallel()
	out := uniqueName(t)
	ack := map[string]any{"type": "ack", "transactionId": "m0", "partitionId": "seventeen"}
	needRolledBack(t, suite.client.Transaction(operations([]any{pushOperation(out, "t"), ack})), "bad_request")
	needStored(t, suite.client, out)
}

// TestTransactionCompletedBelowTheCursor: 8.4, the fence is checked first; an ack that is unfenced or whose lease is
// live is a no-op. The repeat rule of 6.4 does not apply.
func TestTransactionCompletedBelowTheCursor(t *testing.T) {
	t.Parallel()
	released3 := func(t *testing.T) (*scene, claim) {
		s := newScene(t, nil, 3)
		batch := s.redelivered(0, 2, 1)
		needVerdicts(t, batch.ack(completed(0, 1, 2)), released)
		return s, batch
	}
	t.Run("8.4 under a released lease it is rejected", func(t *testing.T) {
		t.Parallel()
		s, batch := released3(t)
		needRolledBack(t, s.client.Transaction(operations(batch.operations(completed(0, 1, 2)))), "rejected_ack")
	})
	t.Run("8.4 under a released lease by the rule of 8.2 it is rejected", func(t *testing.T) {
		t.Parallel()
		s, batch := released3(t)
		body := operations(ackOperations(s, "", completed(0)))
		body["requiredLeases"] = []any{batch.lease}
		needRolledBack(t, s.client.Transaction(body), "rejected_ack")
	})
	t.Run("8.4 unfenced it is a no-op", func(t *testing.T) {
		t.Parallel()
		s, _ := released3(t)
		needCommitted(t, s.client.Transaction(operations(ackOperations(s, "", completed(0, 1)))))
		s.needCursor(3)
	})
}

// TestTransactionGuardOrder: 8.4, acks, then pushes, then positions: the first guard that fails decides.
func TestTransactionGuardOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	batch := s.redelivered(0, 1, 1)
	badAck, duplicate := batch.operations(completed(99)), []any{pushOperation(s.queue, "m0")}
	missing := map[string]any{"queue": s.queue + "-missing", "consumerGroup": "p", "offset": 0}
	invalid := map[string]any{"queue": s.queue, "consumerGroup": "p", "offset": 1000}
	cases := []struct {
		operations []any
		position   map[string]any
		reason     string
	}{
		{append(append([]any{}, duplicate...), badAck...), missing, "rejected_ack"},
		{badAck, invalid, "rejected_ack"},
		{duplicate, missing, "duplicate"},
		{append(append([]any{}, duplicate...), batch.operations(completed(0))...), nil, "duplicate"},
		{batch.operations(completed(0)), missing, "queue_not_found"},
		{batch.operations(completed(0)), invalid, "bad_request"},
	}
	for i, c := range cases {
		t.Run(fmt.Sprintf("8.4 %s (%d)", c.reason, i), func(t *testing.T) {
			body := map[string]any{"operations": c.operations}
			if c.position != nil {
				body["positions"] = []any{c.position}
			}
			needRolledBack(t, s.client.Transaction(body), c.reason)
			s.needCursor(0)
		})
	}
	needVerdicts(t, batch.ack(completed(0, 1)), released)
}

// TestTransactionDuplicateRollsBack: 8.4 and 4.6, the error shows the destination and the original offset.
func TestTransactionDuplicateRollsBack(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 8)
	batch := s.redelivered(0, 7, 1)
	out := s.queue + "-out"
	body := operations([]any{pushOperation(out, "new")}, batch.operations(completed(0)), []any{pushOperation(s.queue, "m7")})
	reply := s.client.Transaction(body)
	needRolledBack(t, reply, "duplicate")
	want := fmt.Sprintf("QDUP a pushed message to %s/Default is a duplicate (original offset 7); the transaction rolled back", s.queue)
	if reply.Error != want {
		t.Errorf("want %q, got %q", want, reply.Error)
	}
	needStored(t, s.client, out)
	s.needCursor(0)
	// The same txid in another partition is another message.
	elsewhere := pushOperation(s.queue, "m7")
	elsewhere["partition"] = "other"
	needCommitted(t, s.client.Transaction(operations([]any{elsewhere})))
}

// TestTransactionTouchesNothingOnRollback: 8.6, its messages come back when the lease expires, not before; queues it
// would have made do not exist.
func TestTransactionTouchesNothingOnRollback(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	batch := s.redelivered(0, 1, 1)
	out := s.queue + "-out"
	body := operations([]any{pushOperation(out, "t"), pushOperation(s.queue, "m0")}, batch.operations(completed(0), failed(1)))
	needRolledBack(t, s.client.Transaction(body), "duplicate")
	s.needNothing()
	needBody(t, s.client.Get("/api/v1/resources/queues/"+out), 404, `{"error":"Queue not found"}`)
	needExtended(t, s.client.Extend(batch.lease, nil), batch.lease, 1)
	needVerdicts(t, batch.ack(completed(0, 1)), released)
}

// TestTransactionWakesWaiters: 8.6, after the commit.
func TestTransactionWakesWaiters(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	batch := s.redelivered(0, 0, 1)
	out := s.queue + "-out"
	parked := make(chan harness.PopReply, 1)
	go func() { parked <- s.client.Pop(out, "wait=true&"+waitFor(delivery)) }() // ends with its pop
	eventually(t, delivery, func() (bool, string) {                             // the parked pop has made its queue
		reply := s.client.Get("/api/v1/resources/queues/" + out)
		return reply.Status == 200, reply.String()
	})
	needCommitted(t, s.client.Transaction(operations(batch.operations(completed(0)), []any{pushOperation(out, "t")})))
	reply := <-parked
	needMessages(t, reply, "t")
	if reply.Elapsed > delivery/2 {
		t.Fatalf("a waiter is woken at once, got %v", reply.Response)
	}
}
