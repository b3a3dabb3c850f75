package api

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"queen/httpfront/api/history"
	"queen/httpfront/wire"
)

// flushOften makes rows of the history within a test's patience.
const flushOften = 100 * time.Millisecond

type opsAnswer struct {
	Series []queueOpsRow `json:"series"`
	Queues []string      `json:"queues"`
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *micros) UnmarshalJSON(text []byte) error {
	*m = 0
	if at, ok := wire.ParseTime(strings.Trim(string(text), `"`)); ok {
		*m = micros(at)
	}
	return nil
}

// ops sums up what queue-ops shows of a queue.
func (n *testNode) ops(queue string) (sum queueOpsRow) {
	n.t.Helper()
	var answer opsAnswer
	n.get("/api/v1/analytics/queue-ops", &answer)
	for _, row := range answer.Series {
		if row.QueueName != queue {
			continue
		}
		sum.PushRequests += row.PushRequests
		sum.PushMessages += row.PushMessages
		sum.PopMessages += row.PopMessages
		sum.PopEmpty += row.PopEmpty
		sum.AckRequests += row.AckRequests
		sum.AckSuccess += row.AckSuccess
		sum.AckFailed += row.AckFailed
		sum.Transactions += row.Transactions
		sum.PartitionsCreated += row.PartitionsCreated
		sum.PartitionsDeleted += row.PartitionsDeleted
	}
	return sum
}

func TestQueueOpsCountEveryKindOfRequest(t *testing.T) {
	n := startNode(t, flushOften)
	n.push("a", "p", 5)
	n.call("POST", "/api/v1/push", `{"items":[{"queue":"a","partition":"x","payload":1},{"queue":"b","payload":1},{"queue":"a","partition":"y","payload":1}]}`)
	taken := n.pop("a/partition/p", "batch=3")
	n.ack("__QUEUE_MODE__", "completed", taken)
	n.pop("b", "batch=1")
	n.pop("b", "batch=1")
	n.call("POST", "/api/v1/ack", fmt.Sprintf(`{"transactionId":"nobody","partitionId":%q,"status":"completed"}`, taken.Messages[0].PartitionID))
	n.call("POST", "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"b","payload":2},{"queue":"c","payload":2}]}]}`)
	n.call("DELETE", "/api/v1/resources/queues/c", "")
	want := map[string]queueOpsRow{
		"a": {PushRequests: 2, PushMessages: 7, PopMessages: 3, AckRequests: 2, AckSuccess: 3, AckFailed: 1, PartitionsCreated: 3},
		"b": {PushRequests: 1, PushMessages: 2, PopMessages: 1, PopEmpty: 1, Transactions: 1, PartitionsCreated: 1},
		"c": {PushMessages: 1, Transactions: 1, PartitionsCreated: 1, PartitionsDeleted: 1},
	}
	for queue, row := range want {
		t.Run(queue, func(t *testing.T) {
			var got queueOpsRow
			defer func() {
				if got != row {
					t.Errorf("got  %+v\nwant %+v", got, row)
				}
			}()
			eventually(t, "the rows", func() bool {
				got = n.ops(queue)
				return got == row
			})
		})
	}
}

func TestPopsOfAMissingQueueAreNotCounted(t *testing.T) {
	n := startNode(t, flushOften)
	n.call("GET", "/api/v1/pop/queue/nowhere/partition/p", "")
	n.push("somewhere", "p", 1)
	eventually(t, "rows", func() bool { return n.ops("somewhere").PushMessages == 1 })
	if got := n.ops("nowhere"); got != (queueOpsRow{}) {
		t.Errorf("got %+v", got)
	}
}

func TestParkedPopsAreShownPerQueue(t *testing.T) {
	n := startNode(t, flushOften)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.pop("awaited", "wait=true&timeout=5000")
	}()
	eventually(t, "a parked pop", func() bool {
		var answer struct{ Series []parkedRow }
		n.get("/api/v1/analytics/queue-parked-replicas", &answer)
		for _, row := range answer.Series {
			if row.QueueName == "awaited" && row.ParkedCount == 1 && row.Hostname == "test" {
				return true
			}
		}
		return false
	})
	n.push("awaited", "p", 1)
	<-done
}

func TestRetentionIsShownByBucketAndByQueue(t *testing.T) {
	n := startNode(t, flushOften)
	n.push("ns.old", "p", 3)
	n.call("POST", "/api/v1/configure", `{"queue":"ns.old","options":{"maxWaitTimeSeconds":1}}`)
	type answer struct {
		Series []retentionPoint
		Totals retentionCounts
		Rows   []retentionRow
	}
	var byQueue, byNamespace answer
	eventually(t, "retention of 3 messages", func() bool {
		n.get("/api/v1/analytics/retention?groupBy=queue", &byQueue)
		return byQueue.Totals.TotalMsgs == 3
	})
	if len(byQueue.Rows) != 1 || byQueue.Rows[0].Key != "ns.old" || byQueue.Rows[0].TotalMsgs != 3 || byQueue.Totals.EventCount == 0 {
		t.Errorf("got %+v", byQueue)
	}
	n.get("/api/v1/analytics/retention?groupBy=namespace", &byNamespace)
	if len(byNamespace.Rows) != 1 || byNamespace.Rows[0].Key != "ns" {
		t.Errorf("got %+v", byNamespace)
	}
}

func TestWorkloadSumsUpByLabel(t *testing.T) {
	n := startNode(t, flushOften)
	n.push("ns.one", "p", 2)
	n.push("ns.two", "p", 3)
	n.push("other", "p", 1)
	type sum struct {
		Key    string         `json:"key"`
		Queues int            `json:"queues"`
		Window workloadWindow `json:"window"`
		Series workloadSeries `json:"series"`
		Now    workloadNow    `json:"now"`
	}
	var answer struct {
		Rows    []sum    `json:"rows"`
		Tenant  sum      `json:"tenant"`
		Buckets []string `json:"buckets"`
	}
	eventually(t, "the pushes", func() bool {
		n.get("/api/v1/analytics/workload?groupBy=namespace", &answer)
		return answer.Tenant.Window.PushMessages == 6
	})
	if answer.Tenant.Queues != 3 || answer.Tenant.Now.Messages.Total != 6 || len(answer.Rows) != 2 {
		t.Fatalf("got %+v", answer)
	}
	first := answer.Rows[0]
	if first.Key != "ns" || first.Queues != 2 || first.Window.PushMessages != 5 || first.Now.Messages.Total != 5 {
		t.Errorf("got %+v", first)
	}
	pushed := uint64(0)
	for _, count := range first.Series.Push {
		pushed += count
	}
	if pushed != 5 || len(first.Series.Push) != len(answer.Buckets) {
		t.Errorf("got %+v over %d buckets", first.Series, len(answer.Buckets))
	}
}

func TestATimeRangeThatDoesNotParseIsRefused(t *testing.T) {
	n := startNode(t, time.Minute)
	for _, path := range []string{
		"status", "status/queues", "status/queues/q", "status/analytics", "analytics/queue-lag", "analytics/queue-ops",
		"analytics/queue-parked-replicas", "analytics/retention", "analytics/workload?groupBy=queue",
		"analytics/dlq-signatures?queue=q", "analytics/partition-liveness", "analytics/system-metrics", "analytics/worker-metrics",
	} {
		for _, name := range []string{"from", "to"} {
			target := "/api/v1/" + path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + name + "=lately"
			status, answer := n.try("GET", target, "")
			if status != 400 || !strings.Contains(string(answer), `"code":"bad_request"`) || !strings.Contains(string(answer), name) {
				t.Errorf("%s: got %d %s", target, status, answer)
			}
		}
	}
}

func TestARangeThatEndsBeforeItBeginsIsEmpty(t *testing.T) {
	n := startNode(t, flushOften)
	n.push("a", "p", 1)
	eventually(t, "rows", func() bool { return n.ops("a").PushMessages == 1 })
	var answer opsAnswer
	late := url.QueryEscape(time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	n.get("/api/v1/analytics/queue-ops?from="+late+"&to=2026-01-01T00:00:00Z", &answer)
	if len(answer.Series) != 0 {
		t.Errorf("got %+v", answer)
	}
}

func TestLongSeriesKeepTheBusiestQueues(t *testing.T) {
	var rows []*queueBucket
	activity, buckets := map[string]uint64{}, map[string]int{}
	add := func(queue string, count int, messages uint64) {
		for i := range count {
			rows = append(rows, &queueBucket{queue: queue, bucketMs: int64(i)})
		}
		activity[queue], buckets[queue] = messages, count
	}
	add("idle", seriesRowsMax/2, 1)
	add("busy", seriesRowsMax/2, 1000)
	add("steady", seriesRowsMax/2, 100)
	kept := busiest(rows, activity, buckets)
	names := queueNames(kept)
	if len(kept) != seriesRowsMax || len(names) != 2 || names[0] != "busy" || names[1] != "steady" {
		t.Errorf("got %d rows of %v", len(kept), names)
	}
}

func TestSystemSamplesDescribeTheirBucket(t *testing.T) {
	var sample systemSample
	for _, value := range []float64{4, 1, 7} {
		sample.add(&history.NodeRow{history.DiskPercent: value})
	}
	if got, want := sample.stats[history.DiskPercent], (gaugeStat{Avg: 4, Min: 1, Max: 7, Last: 7}); got != want || sample.SampleCount != 3 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSignaturesLeaveOutWhatDiffers(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "",
		"disk on fire":                          "disk on fire",
		"order 4711 of  user u-17 failed":       "order # of user # failed",
		"order 815 of user u-9 failed\n":        "order # of user # failed",
		strings.Repeat("ä", 150):                strings.Repeat("ä", 100),
		"x" + strings.Repeat("ä", 150):          "x" + strings.Repeat("ä", 99),
		"\xff" + strings.Repeat("\xbf", 10_000): signature("\xff" + strings.Repeat("\xbf", 10_000)),
	} {
		if got := signature(text); got != want || len(got) > signatureBytes || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%.40q: got %.40q, want %.40q", text, got, want)
		}
	}
}

func TestAPopWhoseClientHasGoneIsHandedBack(t *testing.T) {
	n := startNode(t, time.Minute)
	n.push("a", "p", 1)
	conn := must(net.Dial("tcp", n.address))
	must(io.WriteString(conn, "GET /api/v1/pop/queue/a HTTP/1.1\r\nHost: x\r\n\r\n"))
	check(t, conn.Close())
	eventually(t, "the message is there again, delivered for the first time", func() bool {
		status, answer := n.try("GET", "/api/v1/pop/queue/a", "")
		if status == 200 && !strings.Contains(string(answer), `"deliveryAttempt":1`) {
			t.Fatalf("got %s", answer)
		}
		return status == 200
	})
	if popped := n.api.stats.PopMessages.Load(); popped != 1 {
		t.Errorf("counted %d delivered messages, want the one that was received", popped)
	}
}
