package contract

import (
	"fmt"
	"testing"

	"queen/chaos/contract/harness"
)

// pushWide pushes one message into each of the partitions first to end-1 of a queue, a thousand in a call.
func pushWide(t *testing.T, client *harness.Client, queue string, first, end int) {
	t.Helper()
	const call = 1_000
	for ; first < end; first += call {
		items := make([]harness.Item, min(call, end-first))
		for i := range items {
			items[i] = harness.Item{Queue: queue, Partition: fmt.Sprint("p", first+i), Payload: 1, TransactionID: "m0"}
		}
		pushAll(t, client, items...)
	}
}

// TestQueueOfManyPartitions: 9.6 to 9.9, 9.11, 10.1, 10.4 and 10.5, with one partition more than the sizes route walks
// over, twice as many as the partition list shows, and many steps for a seek and for the deletion.
func TestQueueOfManyPartitions(t *testing.T) {
	t.Parallel()
	const walked, partitions = 10_000, 10_001
	client := privateBroker(t, nil).Client()
	queue := uniqueName(t)
	type sizesView struct {
		Partitions map[string]int64
		Truncated  *bool
	}
	pushWide(t, client, queue, 0, walked)
	if sizes := fetchInto[sizesView](t, client, queuePath(queue)+"/sizes"); len(sizes.Partitions) != walked || sizes.Truncated != nil {
		t.Errorf("9.8: want all %d partitions, got %d, truncated %v", walked, len(sizes.Partitions), sizes.Truncated)
	}
	pushWide(t, client, queue, walked, partitions)
	if sizes := fetchInto[sizesView](t, client, queuePath(queue)+"/sizes"); len(sizes.Partitions) != walked || sizes.Truncated == nil || !*sizes.Truncated {
		t.Errorf("9.8: want %d partitions and truncated, got %d, truncated %v", walked, len(sizes.Partitions), sizes.Truncated)
	}
	most := fmt.Sprint("p", partitions-1)
	pushOne(t, client, harness.Item{Queue: queue, Partition: most, Payload: 2})
	for limit, n := range map[string]int{"": 610, "limit=610": 610, "limit=4999": 4999, "limit=5000": 5000, "limit=5001": 5000, "limit=99999999999999999999": 5000} {
		reply := client.Get("/api/v1/resources/partitions?" + limit)
		need(t, reply, 200)
		needExactKeys(t, reply.Object(), "partitions") // the walk did not stop early
		rows := reply.Object()["partitions"].([]any)
		if len(rows) != n || rows[0].(map[string]any)["partition"] != most {
			t.Errorf("9.9 %q: want %d rows with %s first, got %d with %v", limit, n, most, len(rows), rows[0])
		}
	}
	rows, at := queueRows(t, client, queue)
	detail, depth := queueDetail(t, client, queue), queueDepth(t, client, queue, "")
	if rows[at].Partitions != partitions || len(detail.Partitions) != partitions || depth.PartitionsPending != partitions || depth.Pending != partitions+1 {
		t.Errorf("want %d partitions, got %d, %d and %d", partitions, rows[at].Partitions, len(detail.Partitions), depth.PartitionsPending)
	}

	s := &scene{t: t, client: client, queue: queue, group: "g"}
	for _, step := range []struct {
		body string
		lag  int
	}{{`{"toEnd":true}`, 0}, {`{"timestamp":"2020-01-01T00:00:00Z"}`, partitions + 1}} {
		if answer := seek(t, s, "/seek", step.body); answer.PartitionsUpdated != partitions || string(answer.Updated) != fmt.Sprint(partitions) {
			t.Errorf("10.5: want %d partitions, got %+v", partitions, answer)
		}
		if row := groupRows(t, client, queue)["g"]; row.PartitionCursors != partitions || row.TotalLag != step.lag || (row.PartitionsWithLag > 0) != (step.lag > 0) {
			t.Errorf("10.1: want %d cursors and a lag of %d, got %+v", partitions, step.lag, row)
		}
	}
	if answer := deleteGroup(t, client, groupPath("g")); answer.DeletedPartitions != partitions {
		t.Errorf("10.4: want %d partitions, got %+v", partitions, answer)
	}

	popped := client.PopPartition(queue, most, "leaseSeconds=60")
	needMessageCount(t, popped, 2)
	if hurried := client.Delete(queuePath(queue) + "?timeoutMs=1"); hurried.Status != 200 {
		needEnvelope(t, hurried, 503, "timeout")
	}
	need(t, client.DeleteQueue(queue), 200) // repeating the call is safe
	fresh := pushOne(t, client, harness.Item{Queue: queue, Partition: most, Payload: 3, TransactionID: "m0"})
	if *fresh.Offset != 0 {
		t.Errorf("9.11: want offset 0 at once, got %+v", fresh)
	}
	again := queueDetail(t, client, queue)
	if len(again.Partitions) != 1 || again.ID == detail.ID || again.Totals.Total != 1 {
		t.Errorf("9.11: want one new partition, got %d of %s with %+v", len(again.Partitions), again.ID, again.Totals)
	}
	needVerdicts(t, client.AckMessages("completed", popped.Messages[0]), refused("no partition "+popped.PartitionID))
	needBody(t, client.Get("/api/v1/messages/"+popped.PartitionID+"/m0"), 404, `{"error":"Message not found"}`)
	needMessages(t, client.PopPartition(queue, most, ""), "m0")
}

// TestGroupOnManyQueues: 10.4, 10.6 and 5.8, a group on more queues than one step visits; 14, partition-liveness lists 20
// queues by default and 200 at most.
func TestGroupOnManyQueues(t *testing.T) {
	t.Parallel()
	const queues = 1_100
	client := privateBroker(t, nil).Client()
	items := make([]harness.Item, queues)
	for i := range items {
		items[i] = harness.Item{Queue: fmt.Sprint("space.q", i), Payload: 1}
	}
	pushAll(t, client, items...)
	for limit, n := range map[string]int{"": 20, "?limit=21": 21, "?limit=199": 199, "?limit=200": 200, "?limit=201": 200, "?limit=-1": 1} {
		if rows := client.Get("/api/v1/analytics/partition-liveness" + limit).Object()["rows"].([]any); len(rows) != n {
			t.Errorf("14 partition-liveness %q: want %d rows, got %d", limit, n, len(rows))
		}
	}
	needEmpty(t, client.Discover("consumerGroup=g&subscriptionMode=new&namespace=space"))
	reply := client.Post(groupPath("g", "/subscription"), `{"subscriptionTimestamp":"2031-01-01T00:00:00Z"}`)
	if need(t, reply, 200); fmt.Sprint(reply.Object()["rowsUpdated"]) != fmt.Sprint(queues) {
		t.Errorf("10.6: want %d registrations, got %v", queues, reply)
	}
	for i, want := range []int{queues, 0} {
		answer := deleteGroup(t, client, groupPath("g", "?deleteMetadata=true"))
		if len(answer.Queues) != want || string(answer.MetadataDeleted) != fmt.Sprint(want > 0) {
			t.Errorf("10.4, call %d: want %d queues, got %d and metadataDeleted %s", i, want, len(answer.Queues), answer.MetadataDeleted)
		}
	}
	needMessageCount(t, client.Discover("consumerGroup=g&subscriptionMode=all&namespace=space&partitions=64"), 64)
}
