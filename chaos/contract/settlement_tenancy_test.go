package contract

import (
	"testing"
)

// TestSettlementStaysWithinTheTenant: 2.5, 6.6, 7, 8.4, 9.11, 10 and 11: partitions, leases, groups and dead letters of
// one tenant are invisible to another.
func TestSettlementStaysWithinTheTenant(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_TENANCY_HEADER": "true", "QUEEN_KV_TRUSTED_PROXY": "true"})
	mine := broker.Client().WithTenant("11111111-1111-4111-8111-111111111111")
	theirs := broker.Client().WithTenant("22222222-2222-4222-8222-222222222222")
	s := newSceneAt(t, mine, nil, 4)
	s.group = uniqueName(t)
	batch := s.redelivered(0, 3, 1)
	stranger := s.as(s.group)
	stranger.client = theirs
	foreign := refused("partition " + s.partitionID + " not owned by this tenant")
	for _, lease := range []string{batch.lease, ""} {
		for _, mark := range []mark{completed(0), failed(0), retried(0), dlqed(0)} {
			needVerdicts(t, theirs.AckBatch(s.group, s.items(lease, mark)...), foreign)
		}
	}
	needNotExtended(t, theirs.Extend(batch.lease, nil), batch.lease)
	needRolledBack(t, theirs.Transaction(operations(ackOperations(stranger, "", completed(0)))), "rejected_ack")
	needRolledBack(t, theirs.Transaction(position(stranger, 0)), "queue_not_found")
	requiring := operations([]any{pushOperation("out", "t")})
	requiring["requiredLeases"] = []any{batch.lease}
	needRolledBack(t, theirs.Transaction(requiring), "rejected_ack")
	needBody(t, theirs.Get(queuePath(s.queue)), 404, `{"error":"Queue not found"}`)
	needBody(t, theirs.Get(groupPath(s.group)), 404, `{"error":"Consumer group not found"}`)
	needBody(t, theirs.Get("/api/v1/messages/"+s.partitionID+"/m0"), 404, `{"error":"Message not found"}`)
	if reply := theirs.DeleteQueue(s.queue); reply.Object()["existed"] != false {
		t.Errorf("got %v", reply)
	}
	if answer := deleteGroup(t, theirs, groupPath(s.group)); answer.DeletedPartitions != 0 {
		t.Errorf("got %+v", answer)
	}
	needVerdicts(t, batch.ack(dlqed(0)), filed)
	row := s.needDeadLetters(0)[0]
	stranger.needDeadLetters()
	need(t, theirs.Post("/api/v1/dlq/"+row.ID+"/replay", nil), 404)
	need(t, theirs.Post("/api/v1/messages/"+s.partitionID+"/m0/retry", nil), 404)
	need(t, theirs.Delete("/api/v1/messages/"+s.partitionID+"/m0"), 404)
	if reply := theirs.Delete("/api/v1/dlq?queue=" + s.queue); reply.Status != 200 || reply.Object()["deleted"] == nil {
		t.Errorf("got %v", reply)
	}
	s.needDeadLetters(0)
	if rows := browse(t, theirs, "queue="+s.queue); len(rows) != 0 {
		t.Errorf("got %+v", rows)
	}
	// A queue of the same name of the other tenant is another queue.
	twin := newSceneAt(t, theirs, nil, 0)
	twin.queue = s.queue
	twin.push(1)
	twin.redelivered(0, 0, 1)
	if twin.partitionID == s.partitionID {
		t.Errorf("two tenants share the partition %s", s.partitionID)
	}
	s.redelivered(1, 3, 1)
}
