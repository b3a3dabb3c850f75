package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// TestConsoleReadsStayWithinTheTenant: 2.5 and the reads of sections 9, 10, 11 and 14: one tenant has something to show on
// every route, and another one sees no name and no number of it.
func TestConsoleReadsStayWithinTheTenant(t *testing.T) {
	t.Parallel()
	const marker = "hidden"
	broker := privateBroker(t, map[string]string{
		"QUEEN_TENANCY_HEADER": "true", "QUEEN_KV_TRUSTED_PROXY": "true", "METRICS_FLUSH_MS": "1000", "RETENTION_INTERVAL": "100",
	})
	owner, stranger := broker.Client().WithTenant(otherTenant), broker.Client()
	busy := &scene{t: t, client: owner, queue: marker + "-space." + marker + "-task", partition: marker, group: marker + "-group"}
	busy.push(4)
	fileOne(busy, marker+" reason")
	needVerdicts(t, busy.claim(1, 1, 1, 1).ack(completed(1)), released)
	busy.claim(1, 2, 2, 1)
	expiring := &scene{t: t, client: owner, queue: marker + "-expiring", partition: "Default"}
	need(t, owner.Configure(expiring.queue, map[string]any{"maxWaitTimeSeconds": 1}), 200)
	expiring.push(1)
	parked := make(chan harness.PopReply, 1)
	go func() { // ends with its pop
		parked <- owner.Pop(busy.queue, "consumerGroup="+marker+"&wait=true&"+waitFor(delivery))
	}()

	lists := []string{
		"/api/v1/resources/queues", "/api/v1/resources/queues?stats=lanes", "/api/v1/resources/partitions", "/api/v1/resources/partitions?queue=" + busy.queue,
		"/api/v1/resources/namespaces", "/api/v1/resources/tasks", "/api/v1/consumer-groups", "/api/v1/consumer-groups/lagging?minLagSeconds=0",
		"/api/v1/messages", "/api/v1/messages?queue=" + busy.queue, "/api/v1/dlq", "/api/v1/dlq?queue=" + busy.queue, "/api/v1/status/queues",
		"/api/v1/analytics/queue-lag", "/api/v1/analytics/queue-ops", "/api/v1/analytics/queue-parked-replicas", "/api/v1/analytics/retention?groupBy=queue",
		"/api/v1/analytics/workload?groupBy=queue", "/api/v1/analytics/workload?groupBy=namespace", "/api/v1/analytics/workload?groupBy=task",
		"/api/v1/analytics/partition-liveness", "/api/v1/analytics/worker-metrics",
	}
	for _, path := range lists {
		eventually(t, delivery, func() (bool, string) { // the history is a second behind
			reply := owner.Get(path)
			return reply.Status == 200 && strings.Contains(string(reply.Body), marker), path + " of the owner: " + reply.String()
		})
		reply := stranger.Get(path)
		if need(t, reply, 200); strings.Contains(string(reply.Body), marker) {
			t.Errorf("%s shows another tenant: %v", path, reply)
		}
	}
	for _, path := range []string{queuePath(busy.queue), queuePath(busy.queue) + "/depth", queuePath(busy.queue) + "/sizes", "/api/v1/status/queues/" + busy.queue} {
		need(t, owner.Get(path), 200)
		needBody(t, stranger.Get(path), 404, `{"error":"Queue not found"}`)
	}
	need(t, owner.Get(groupPath(busy.group)), 200)
	needBody(t, stranger.Get(groupPath(busy.group)), 404, `{"error":"Consumer group not found"}`)
	position := storedPosition(t, busy)
	busy.client = stranger
	if theirs := storedPosition(t, busy); position.Offset == nil || theirs.Offset != nil {
		t.Errorf("10.7: want the position for its owner alone, got %+v and %+v", position, theirs)
	}

	for name, c := range map[string]struct {
		client *harness.Client
		empty  bool
	}{"owner": {owner, false}, "stranger": {stranger, true}} {
		overview := readOverview(t, c.client)
		throughput := overview.Throughput
		overview.Timestamp, overview.Throughput = time.Time{}, overviewView{}.Throughput
		if (overview == overviewView{}) != c.empty || (throughput == overviewView{}.Throughput) != c.empty {
			t.Errorf("9.10, %s: got %+v and %+v", name, overview, throughput)
		}
		signatures := fetchInto[struct{ RowsNow, Sample int }](t, c.client, "/api/v1/analytics/dlq-signatures?queue="+busy.queue)
		status := fetchInto[statusView](t, c.client, "/api/v1/status")
		ingested := 0
		for _, point := range status.Throughput {
			ingested += point.Ingested
		}
		one := map[bool]int{false: 1, true: 0}[c.empty]
		if signatures.RowsNow != one || signatures.Sample != one || status.Queues != 2*one || status.Leases.Active != one || status.DeadLetterQueue.TotalMessages != one ||
			ingested != 5*one || (status.Messages.Total == 0) != c.empty {
			t.Errorf("14, %s: got %+v and %+v, ingested %d", name, signatures, status, ingested)
		}
	}
	for _, path := range []string{"/api/v1/consumer-groups/" + busy.group + "/queues/" + busy.queue + "/seek", "/api/v1/consumer-groups/" + busy.group + "/queues/" + busy.queue + "/partitions/" + marker + "/seek"} {
		need(t, stranger.Post(path, nil), 404)
	}
	reply := stranger.Post(groupPath(busy.group, "/subscription"), `{"subscriptionTimestamp":"2031-01-01T00:00:00Z"}`)
	if need(t, reply, 200); fmt.Sprint(reply.Object()["rowsUpdated"]) != "0" {
		t.Errorf("10.6: got %v", reply)
	}
	if again := (&scene{t: t, client: owner, queue: busy.queue, partition: marker, group: busy.group}); *storedPosition(t, again).Offset != *position.Offset {
		t.Error("10.5: another tenant has moved a cursor")
	}
	owner.Push(harness.Item{Queue: busy.queue, Partition: "last", Payload: 1})
	<-parked
}

// statusView is the answer of /api/v1/status (14).
type statusView struct {
	TimeRange     struct{ From, To time.Time }
	BucketMinutes int
	PointCount    int
	Throughput    []struct {
		Timestamp                      time.Time
		Ingested, Processed, Delivered int
	}
	Queues   int
	Messages struct{ Total, Pending, Processing, Completed, Failed, DeadLetter int }
	Leases   struct {
		Active               int
		PartitionsWithLeases int
	}
	DeadLetterQueue struct{ TotalMessages, AffectedQueues int }
	Workers         []struct {
		Hostname       string
		Port, WorkerID int
	}
	Errors   map[string]int
	StatsAge int
	Engine   string
}
