package contract

import (
	"fmt"
	"net/url"
	"testing"
)

// TestGroupWithoutACursorIsNoReader: 10.1 and 10.3, a registration alone is neither a row nor a detail; 10.7, it has no
// position.
func TestGroupWithoutACursorIsNoReader(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{}, 0)
	s.group = uniqueName(t)
	s.needNothing() // registers it; there is no partition
	if rows := groupRows(t, s.client, s.queue); len(rows) != 0 {
		t.Errorf("10.1: got %+v", rows)
	}
	needBody(t, s.client.Get(groupPath(s.group)), 404, `{"error":"Consumer group not found"}`)
	needJSON(t, s.client.Post(groupPath(s.group, "/positions"), nil), 200, fmt.Sprintf(`{"consumerGroup":%q,"entries":[]}`, s.group))
	s.push(1)
	s.redelivered(0, 0, 1)
	if row := groupRows(t, s.client, s.queue)[s.group]; row.PartitionCursors != 1 || row.SubscriptionMode == nil || *row.SubscriptionMode != "all" {
		t.Errorf("10.1: got %+v", row)
	}
	need(t, s.client.Get(groupPath(s.group)), 200)
}

// TestStableSaysThatAGroupEverConsumed: 10.1, wherever it stands now; being moved is not consuming.
func TestStableSaysThatAGroupEverConsumed(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	needState := func(s *scene, want string) {
		t.Helper()
		if row := groupRows(t, s.client, s.queue)[s.group]; row.State != want {
			t.Errorf("want %s, got %+v", want, row)
		}
	}
	moved, acked, delivered := s.as("moved"), s.as("acked"), s.as("delivered")
	seek(t, moved, "/seek", `{"toEnd":true}`)
	needState(moved, "Dead")
	needVerdicts(t, acked.claim(1, 0, 0, 1).ack(completed(0)), released)
	needState(acked, "Stable")
	seek(t, acked, "/seek", `{"timestamp":"2020-01-01T00:00:00Z"}`)
	needState(acked, "Stable")
	delivered.needClaim(delivered.pop(1, "commitOnDelivery=true"), 0, 0, 1)
	needState(delivered, "Stable")
}

// TestExpiredLeaseIsNoWorker: 10.2, worker_id is the live lease id, null once it has expired.
func TestExpiredLeaseIsNoWorker(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	s.group, s.leaseTime = uniqueName(t), 2
	held := s.redelivered(0, 0, 1)
	if row := laggingRows(t, s.client, s.group, 0)[0]; row.WorkerID == nil || *row.WorkerID != held.lease {
		t.Fatalf("want the lease %s, got %+v", held.lease, row)
	}
	eventually(t, delivery, func() (bool, string) {
		row := laggingRows(t, s.client, s.group, 0)[0]
		return row.WorkerID == nil, fmt.Sprintf("%+v", row)
	})
}

// TestAllPositionsOfAGroup: 10.7, absent entries mean every partition of every queue on which the group has a cursor, and
// nothing of another group.
func TestAllPositionsOfAGroup(t *testing.T) {
	t.Parallel()
	s, second := newScene(t, nil, 2), newScene(t, nil, 3)
	s.group = uniqueName(t)
	second.group = s.group
	pushAll(t, s.client, numbered(s.queue, "b", "b", 2)...)
	needMessages(t, s.pinned(1, "autoAck=true"), "m0")
	needMessages(t, s.client.PopPartition(s.queue, "b", s.query(10, "autoAck=true")), "b0", "b1")
	needMessages(t, second.pop(3, "autoAck=true"), "m0", "m1", "m2")
	second.as("other").pinned(1)
	stands := map[string]int{}
	reply := s.client.Post(groupPath(s.group, "/positions"), `{}`)
	need(t, reply, 200)
	for _, entry := range objects(t, reply.Object()["entries"]) {
		needExactKeys(t, entry, "queue", "partition", "offset", "metadata")
		stands[fmt.Sprint(entry["queue"], "/", entry["partition"])] = int(integer(entry["offset"]))
	}
	want := map[string]int{s.queue + "/Default": 1, s.queue + "/b": 2, second.queue + "/Default": 3}
	if fmt.Sprint(stands) != fmt.Sprint(want) {
		t.Errorf("want %v, got %v", want, stands)
	}
}

// TestNamesOfGroupsInPaths: section 10, a group or a queue of any name is addressed percent-encoded, on every route.
func TestNamesOfGroupsInPaths(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 0)
	s.queue, s.partition, s.group = uniqueName(t)+"/ä %", "p/ü", uniqueName(t)+"/g %?"
	s.push(2)
	needVerdicts(t, s.claim(1, 0, 0, 1).ack(completed(0)), released)
	of := func(more string) string { return groupPath(s.group, "/queues/", url.PathEscape(s.queue), more) }
	if detail := fetchInto[groupDetail](t, s.client, groupPath(s.group)); len(detail[s.queue].Partitions) != 1 || detail[s.queue].Partitions[0].Partition != s.partition {
		t.Errorf("10.3: got %+v", detail)
	}
	reply := s.client.Post(of("/partitions/"+url.PathEscape(s.partition)+"/seek"), `{"toEnd":true}`)
	need(t, reply, 200)
	if reply.Text("consumerGroup") != s.group || reply.Text("queueName") != s.queue || reply.Text("partitionName") != s.partition {
		t.Errorf("10.5: got %v", reply)
	}
	entries := fmt.Sprintf(`{"entries":[{"queue":%q,"partition":%q}]}`, s.queue, s.partition)
	needJSON(t, s.client.Post(groupPath(s.group, "/positions"), entries), 200,
		fmt.Sprintf(`{"consumerGroup":%q,"entries":[{"queue":%q,"partition":%q,"offset":2,"metadata":null}]}`, s.group, s.queue, s.partition))
	changed := s.client.Post(groupPath(s.group, "/subscription"), `{"subscriptionTimestamp":"2031-01-01T00:00:00Z"}`)
	if need(t, changed, 200); changed.Text("consumerGroup") != s.group || fmt.Sprint(changed.Object()["rowsUpdated"]) != "1" {
		t.Errorf("10.6: got %v", changed)
	}
	if answer := deleteGroup(t, s.client, of("")); answer.DeletedPartitions != 1 || answer.ConsumerGroup != s.group || *answer.QueueName != s.queue {
		t.Errorf("10.4: got %+v", answer)
	}
}
