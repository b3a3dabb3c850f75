package contract

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// opsRow is a row of the series of queue-ops (14).
type opsRow struct {
	Bucket                                                    time.Time
	QueueName                                                 string
	PushRequests, PushMessages, PopMessages, PopEmpty         int
	AckRequests, AckSuccess, AckFailed, Transactions          int
	PartitionsCreated, PartitionsDeleted                      int
	PartitionCount                                            *int
	AvgLagMs, MaxLagMs                                        float64
	PushPerSecond, PopPerSecond, AckPerSecond, EmptyPerSecond float64
	ParkedCount                                               int
}

// opsCounts are the numbers of a queue over all buckets.
type opsCounts struct {
	pushRequests, pushMessages, popMessages, popEmpty, ackRequests, ackSuccess, ackFailed, transactions, created, deleted int
}

// queueOps sums up queue-ops for a queue.
func queueOps(t *testing.T, client *harness.Client, queue string) (sum opsCounts, rows []opsRow) {
	t.Helper()
	answer := fetchInto[struct {
		Series []opsRow
		Queues []string
	}](t, client, "/api/v1/analytics/queue-ops")
	for _, row := range answer.Series {
		if row.QueueName != queue {
			continue
		}
		rows = append(rows, row)
		sum.pushRequests += row.PushRequests
		sum.pushMessages += row.PushMessages
		sum.popMessages += row.PopMessages
		sum.popEmpty += row.PopEmpty
		sum.ackRequests += row.AckRequests
		sum.ackSuccess += row.AckSuccess
		sum.ackFailed += row.AckFailed
		sum.transactions += row.Transactions
		sum.created += row.PartitionsCreated
		sum.deleted += row.PartitionsDeleted
	}
	if slices.Contains(answer.Queues, queue) != (len(rows) > 0) {
		t.Errorf("queue-ops: queues has to list those of the series, got %v", answer.Queues)
	}
	return sum, rows
}

// TestHistoryValues: 14, what the history of a node counts, on every route that shows it. The node writes it every second.
func TestHistoryValues(t *testing.T) {
	t.Parallel()
	const age = 1_200 * time.Millisecond
	client := privateBroker(t, map[string]string{"METRICS_FLUSH_MS": "1000", "RETENTION_INTERVAL": "100"}).Client()
	start := time.Now()
	busy := &scene{t: t, client: client, queue: "space.task", partition: "Default", group: "g"}
	busy.push(3)
	busy.push(2)
	pushAll(t, client, numbered(busy.queue, "b", "b", 2)...)
	needEmpty(t, client.Pop("other.empty", "wait=true&"+waitFor(age))) // so old are the messages when they are delivered
	batch := busy.needClaim(busy.pinned(4), 0, 3, 1)
	needVerdicts(t, batch.ack(completed(0, 1, 99)), kept, kept, unresolvable)
	needVerdicts(t, batch.ack(dlqed(2)), filed)
	needCommitted(t, client.Transaction(operations([]any{pushOperation(busy.queue, "tx")})))
	needMessages(t, busy.as("conflating").pinned(1, "conflation=true"), "tx")
	needEmpty(t, client.PopPartition(busy.queue, "none", "consumerGroup=g"))
	gone := &scene{t: t, client: client, queue: "space.gone", partition: "Default"}
	gone.push(1)
	pushAll(t, client, numbered(gone.queue, "b", "b", 1)...)
	needDeleted(t, client, gone.queue)
	expiring := &scene{t: t, client: client, queue: "elsewhere", partition: "Default"}
	need(t, client.Configure(expiring.queue, map[string]any{"maxWaitTimeSeconds": 1, "namespace": "away"}), 200)
	expiring.push(3)
	awaitRetained(t, expiring, 0)
	waiting := parkPinnedAt(client, "space.quiet")

	eventually(t, delivery, func() (bool, string) {
		got, _ := queueOps(t, client, busy.queue)
		want := opsCounts{pushRequests: 3, pushMessages: 8, popMessages: 5, popEmpty: 1, ackRequests: 2, ackSuccess: 3, ackFailed: 1, transactions: 1, created: 2}
		return got == want, fmt.Sprintf("want %+v, got %+v", want, got)
	})
	if got, _ := queueOps(t, client, gone.queue); got.created != 2 || got.deleted != 2 || got.pushMessages != 2 {
		t.Errorf("queue-ops of a deleted queue: got %+v", got)
	}
	_, rows := queueOps(t, client, busy.queue)
	for _, row := range rows {
		if row.PartitionCount != nil || row.Bucket.Second() != 0 || row.Bucket.Before(start.Add(-time.Minute)) || row.Bucket.After(time.Now()) || row.AvgLagMs > row.MaxLagMs ||
			(row.PushPerSecond > 0) != (row.PushMessages > 0) || (row.PopPerSecond > 0) != (row.PopMessages > 0) || (row.AckPerSecond > 0) != (row.AckSuccess > 0) ||
			(row.EmptyPerSecond > 0) != (row.PopEmpty > 0) || row.PushPerSecond > float64(row.PushMessages) {
			t.Errorf("queue-ops: got %+v", row)
		}
	}
	t.Run("queue-lag", func(t *testing.T) { queueLagValues(t, client, busy.queue, age) })
	t.Run("queue-parked-replicas", func(t *testing.T) { parkedValues(t, client, "space.quiet") })
	t.Run("retention", func(t *testing.T) { retentionValues(t, client) })
	t.Run("workload", func(t *testing.T) { workloadValues(t, client) })
	t.Run("status", func(t *testing.T) { statusValues(t, client, start) })
	t.Run("worker-metrics", func(t *testing.T) { workerValues(t, client, busy.queue) })
	t.Run("a range before the start is empty", func(t *testing.T) {
		for _, path := range []string{"queue-ops", "queue-parked-replicas", "retention"} {
			reply := client.Get("/api/v1/analytics/" + path + "?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z")
			if series, isArray := reply.Object()["series"].([]any); reply.Status != 200 || !isArray || len(series) != 0 {
				t.Errorf("%s: got %v", path, reply)
			}
		}
		if reply := client.Get("/api/v1/analytics/queue-lag?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z"); string(reply.Body) != "[]" {
			t.Errorf("queue-lag: got %v", reply)
		}
	})
	t.Run("conflated per minute", func(t *testing.T) {
		page := string(client.Get("/metrics/prometheus").Body)
		found := regexp.MustCompile(`(?m)^queen_queue_conflated_per_minute\{[^}]*queue="space\.task"[^}]*\} (\S+)`).FindStringSubmatch(page)
		if found == nil || found[1] != "5" { // the five messages below the newest one, once
			t.Errorf("want 5, got %v", found)
		}
	})
	pushOne(t, client, harness.Item{Queue: "space.quiet", Partition: "p", Payload: 1, TransactionID: "t"})
	needMessages(t, <-waiting, "t")
}

// parkPinnedAt parks a pop of the partition p of a queue.
func parkPinnedAt(client *harness.Client, queue string) <-chan harness.PopReply {
	parked := make(chan harness.PopReply, 1)
	go func() { parked <- client.Pop(queue, "wait=true&timeout=60000") }() // ends with its pop
	return parked
}

func queueLagValues(t *testing.T, client *harness.Client, queue string, age time.Duration) {
	delivered, ages, oldest := 0, 0.0, 0.0
	rows := fetchInto[[]struct {
		QueueName          string
		PopCount           int
		AvgLagMs, MaxLagMs float64
		BucketMinutes      int
		BucketTime         time.Time
	}](t, client, "/api/v1/analytics/queue-lag")
	for _, row := range rows {
		if row.QueueName != queue {
			t.Errorf("only this queue delivered anything, got %+v", row)
			continue
		}
		delivered, ages, oldest = delivered+row.PopCount, ages+float64(row.PopCount)*row.AvgLagMs, max(oldest, row.MaxLagMs)
		if row.MaxLagMs < row.AvgLagMs || row.BucketMinutes != 1 || row.BucketTime.Second() != 0 {
			t.Errorf("got %+v", row)
		}
	}
	// Four of the five had waited that long, the one of the transaction had not.
	if least := float64((age - stampSlack).Milliseconds()); delivered != 5 || oldest < least || ages < 4*least || oldest > 60_000 {
		t.Errorf("want four deliveries after %v ms and one more, got %+v", least, rows)
	}
}

func parkedValues(t *testing.T, client *harness.Client, queue string) {
	eventually(t, delivery, func() (bool, string) {
		reply := client.Get("/api/v1/analytics/queue-parked-replicas")
		for _, entry := range reply.Object()["series"].([]any) {
			row := entry.(map[string]any)
			needExactKeys(t, row, "bucket", "queueName", "hostname", "workerId", "parkedCount")
			if row["queueName"] == queue && fmt.Sprint(row["parkedCount"]) == "1" && fmt.Sprint(row["workerId"]) == "0" && row["hostname"] != "" {
				replica := firstObject(reply.Object()["replicas"])
				return replica["hostname"] == row["hostname"], reply.String()
			}
		}
		return false, reply.String()
	})
}

func retentionValues(t *testing.T, client *harness.Client) {
	type counts struct{ RetentionMsgs, CompletedRetentionMsgs, EvictionMsgs, TotalMsgs, EventCount int }
	type view struct {
		Series []struct {
			Bucket time.Time
			counts
		}
		Totals counts
		Rows   []struct {
			Key string
			counts
		}
	}
	read := func(query string) (view, harness.Response) {
		t.Helper()
		path := "/api/v1/analytics/retention" + query
		return fetchInto[view](t, client, path), client.Get(path)
	}
	eventually(t, delivery, func() (bool, string) {
		answer, raw := read("")
		return answer.Totals.TotalMsgs == 3, raw.String()
	})
	plain, raw := read("")
	needExactKeys(t, raw.Object(), "series", "totals")
	needExactKeys(t, firstObject(raw.Object()["series"]), "bucket", "retentionMsgs", "completedRetentionMsgs", "evictionMsgs", "totalMsgs", "eventCount")
	sum := 0
	for _, point := range plain.Series {
		sum += point.TotalMsgs
	}
	if got := plain.Totals; sum != 3 || got.RetentionMsgs != 3 || got.CompletedRetentionMsgs != 0 || got.EvictionMsgs != 0 || got.EventCount < 1 {
		t.Errorf("got %v", raw)
	}
	for by, key := range map[string]string{"queue": "elsewhere", "namespace": "away", "task": ""} {
		answer, raw := read("?groupBy=" + by)
		if len(answer.Rows) != 1 || answer.Rows[0].Key != key || answer.Rows[0].counts != plain.Totals {
			t.Errorf("groupBy=%s: want the row %q, got %v", by, key, raw)
		}
	}
	reply := client.Get("/api/v1/analytics/retention?groupBy=colour")
	needEnvelope(t, reply, 400, "bad_request")
}

func workloadValues(t *testing.T, client *harness.Client) {
	type row struct {
		Key    string
		Queues int
		Window struct{ PushMessages, PopMessages, AckSuccess, AckFailed int }
		Series struct{ Push, Pop, Ack []int }
		Now    struct {
			Partitions int
			Messages   counts
		}
	}
	read := func(by string) (rows map[string]row, tenant row, buckets int) {
		t.Helper()
		answer := fetchInto[struct {
			Rows    []row
			Tenant  row
			Buckets []time.Time
		}](t, client, "/api/v1/analytics/workload?groupBy="+by)
		rows = map[string]row{}
		for _, r := range answer.Rows {
			rows[r.Key] = r
		}
		return rows, answer.Tenant, len(answer.Buckets)
	}
	total := func(list []int) (sum int) {
		for _, n := range list {
			sum += n
		}
		return sum
	}
	for by, key := range map[string]string{"queue": "space.task", "task": "task", "namespace": "space"} {
		rows, tenant, buckets := read(by)
		got := rows[key]
		pushed := map[string]int{"queue": 8, "task": 8, "namespace": 8}[by]
		if got.Window.PushMessages != pushed || got.Window.PopMessages != 5 || got.Window.AckSuccess != 3 || got.Window.AckFailed != 1 {
			t.Errorf("groupBy=%s: got %+v", by, got)
		}
		if total(got.Series.Push) != pushed || total(got.Series.Pop) != 5 || total(got.Series.Ack) != 3 || len(got.Series.Push) != buckets || buckets == 0 {
			t.Errorf("groupBy=%s: the series have one number per bucket, got %+v for %d buckets", by, got.Series, buckets)
		}
		queues := map[string]int{"queue": 1, "task": 1, "namespace": 2}[by] // space.quiet is the other one of its namespace
		if got.Queues != queues || got.Now.Partitions != 2 || got.Now.Messages.Total != 8 || got.Now.Messages.DeadLetter != 1 {
			t.Errorf("groupBy=%s: now is %+v of %d queues", by, got.Now, got.Queues)
		}
		if tenant.Window.PushMessages != 13 || tenant.Window.PopMessages != 5 || tenant.Now.Messages.Total != 8 {
			t.Errorf("tenant: got %+v", tenant)
		}
	}
	for _, query := range []string{"", "?groupBy=", "?groupBy=Queue"} {
		needEnvelope(t, client.Get("/api/v1/analytics/workload"+query), 400, "bad_request")
	}
}

func statusValues(t *testing.T, client *harness.Client, start time.Time) {
	raw := client.Get("/api/v1/status")
	needExactKeys(t, raw.Object(), "timeRange", "bucketMinutes", "pointCount", "throughput", "queues", "messages", "leases", "deadLetterQueue", "workers",
		"errors", "statsAge", "engine")
	status := fetchInto[statusView](t, client, "/api/v1/status")
	ingested, processed, delivered := 0, 0, 0
	for i, point := range status.Throughput {
		ingested, processed, delivered = ingested+point.Ingested, processed+point.Processed, delivered+point.Delivered
		if i > 0 && point.Timestamp.Sub(status.Throughput[i-1].Timestamp) != time.Minute {
			t.Errorf("want a point a minute, got %v after %v", point.Timestamp, status.Throughput[i-1].Timestamp)
		}
	}
	if ingested != 13 || processed != 3 || delivered != 5 || status.PointCount != len(status.Throughput) || status.BucketMinutes != 1 ||
		status.TimeRange.To.Sub(status.TimeRange.From) != time.Hour || status.TimeRange.To.Before(start) {
		t.Errorf("throughput: got %d, %d and %d in %v", ingested, processed, delivered, raw)
	}
	if status.Queues != 4 || status.Messages.Total != 8 || status.Messages.DeadLetter != 1 || status.Messages.Failed != 0 || status.Leases.Active != 1 ||
		status.DeadLetterQueue.TotalMessages != 1 || status.DeadLetterQueue.AffectedQueues != 1 || status.StatsAge != 0 || status.Engine != "raft" ||
		len(status.Workers) != 1 || status.Workers[0].Hostname == "" || status.Workers[0].WorkerID != 0 || status.Errors["ackFailed"] != 1 {
		t.Errorf("got %v", raw)
	}
	analytics := fetchInto[struct {
		DataPoints []struct{ Messages counts }
		Interval   string
		From, To   time.Time
	}](t, client, "/api/v1/status/analytics?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z")
	if len(analytics.DataPoints) != 1 || analytics.DataPoints[0].Messages.Total != 8 || analytics.Interval != "hour" || iso(analytics.From) != "2026-01-01T00:00:00.000000Z" ||
		iso(analytics.To) != "2026-01-02T00:00:00.000000Z" {
		t.Errorf("analytics: got %+v", analytics)
	}
	for _, query := range []string{"", "?includePartitions=false", "?includePartitions=maybe"} {
		detail := fetchInto[struct {
			Queue struct {
				Name     string
				Priority *int
				Config   map[string]any
			}
			Partitions []partitionView
			Totals     counts
		}](t, client, "/api/v1/status/queues/space.task"+query)
		if detail.Queue.Name != "space.task" || detail.Queue.Priority == nil || len(detail.Partitions) != 2 || detail.Totals.Total != 8 {
			t.Errorf("status/queues/:queue%s: got %+v", query, detail)
		}
		needOptions(t, detail.Queue.Config, withOptions(map[string]any{"leaseTime": 60.0}))
	}
	list, rows := client.Get("/api/v1/status/queues?namespace=nothing&limit=1&search=x"), client.Get("/api/v1/resources/queues")
	if !sameJSON(list.Body, rows.Body) {
		t.Errorf("status/queues has no filters: want %v, got %v", rows, list)
	}
}

func workerValues(t *testing.T, client *harness.Client, queue string) {
	type counts struct {
		PushMessages, PopMessages, PopEmpty, AckSuccess, AckFailed, Transactions int
	}
	metrics := fetchInto[struct {
		PointCount int
		TimeSeries []counts
		Queues     []struct {
			QueueName string
			counts
		}
		Summary counts
		Workers []struct{ Hostname string }
	}](t, client, "/api/v1/analytics/worker-metrics")
	var sum counts
	for _, point := range metrics.TimeSeries {
		sum.PushMessages += point.PushMessages
		sum.PopMessages += point.PopMessages
		sum.AckSuccess += point.AckSuccess
	}
	if sum.PushMessages != 13 || sum.PopMessages != 5 || sum.AckSuccess != 3 || metrics.Summary.PushMessages != 13 || metrics.Summary.PopMessages != 5 ||
		metrics.Summary.AckFailed != 1 || metrics.Summary.Transactions != 1 || metrics.PointCount != len(metrics.TimeSeries) || len(metrics.Workers) != 1 {
		t.Errorf("got %+v", metrics)
	}
	if i := slices.IndexFunc(metrics.Queues, func(q struct {
		QueueName string
		counts
	}) bool {
		return q.QueueName == queue
	}); i < 0 || metrics.Queues[i].PushMessages != 8 || metrics.Queues[i].PopMessages != 5 {
		t.Errorf("queues: got %+v", metrics.Queues)
	}
}

// TestSignatureValues: 14, what dlq-signatures says of the letters of a queue.
func TestSignatureValues(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 4)
	before := time.Now()
	for _, reason := range []string{"no such account", "disk on fire", "disk on fire"} {
		fileOne(s, reason)
	}
	fileOne(s.as(""), "disk on fire")
	path := "/api/v1/analytics/dlq-signatures?queue=" + s.queue
	needExactKeys(t, s.client.Get(path).Object(), "queue", "rowsNow", "sample", "retryCounts", "groups", "oldest", "newest", "avgBytes", "signatures", "byDay")
	answer := fetchInto[struct {
		RowsNow, Sample int
		Oldest, Newest  time.Time
		AvgBytes        float64
		Signatures      []struct {
			Text  string
			N     int
			Share float64
		}
	}](t, s.client, path)
	if answer.RowsNow != 4 || answer.Sample != 4 || !answer.Oldest.Before(answer.Newest) || answer.Oldest.Before(before.Add(-time.Second)) || answer.AvgBytes <= 0 {
		t.Errorf("got %+v", answer)
	}
	if got := fmt.Sprint(answer.Signatures); got != "[{disk on fire 3 0.75} {no such account 1 0.25}]" {
		t.Errorf("want the most frequent first with their shares, got %s", got)
	}
	none := s.client.Get("/api/v1/analytics/dlq-signatures?queue=" + s.queue + "-missing")
	if need(t, none, 200); fmt.Sprint(none.Object()["rowsNow"]) != "0" || len(none.Object()["signatures"].([]any)) != 0 {
		t.Errorf("got %v", none)
	}
	needEnvelope(t, s.client.Get(path+"&limit=many"), 400, "bad_request")
}

// TestLivenessValues: 14, partition-liveness counts the partitions by their last write.
func TestLivenessValues(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	s := newSceneAt(t, client, map[string]any{"namespace": "n", "task": "t"}, 4)
	pushAll(t, client, numbered(s.queue, "b", "b", 2)...)
	needVerdicts(t, s.needClaim(s.pinned(2), 0, 1, 1).ack(completed(0)), kept)
	need(t, client.Configure("empty", nil), 200)
	answer := client.Get("/api/v1/analytics/partition-liveness")
	needExactKeys(t, answer.Object(), "capturedAt", "rows")
	rows := map[string]map[string]any{}
	for _, entry := range answer.Object()["rows"].([]any) {
		row := entry.(map[string]any)
		needExactKeys(t, row, "queue", "namespace", "task", "partitions", "live1h", "live24h", "live7d", "created24h", "oldestWriteAt", "newestWriteAt", "pending")
		rows[fmt.Sprint(row["queue"])] = row
	}
	full, empty := rows[s.queue], rows["empty"]
	for _, key := range []string{"partitions", "live1h", "live24h", "live7d", "created24h"} {
		if fmt.Sprint(full[key]) != "2" || fmt.Sprint(empty[key]) != "0" {
			t.Errorf("%s: want 2 and 0, got %v and %v", key, full[key], empty[key])
		}
	}
	oldest, newest := fmt.Sprint(full["oldestWriteAt"]), fmt.Sprint(full["newestWriteAt"])
	if full["namespace"] != "n" || full["task"] != "t" || fmt.Sprint(full["pending"]) != "4" || oldest != messageStamp(t, s, 0) || strings.Compare(oldest, newest) >= 0 {
		t.Errorf("got %v", full)
	}
	if empty["oldestWriteAt"] != nil || empty["newestWriteAt"] != nil || fmt.Sprint(empty["pending"]) != "0" {
		t.Errorf("got %v", empty)
	}
}
