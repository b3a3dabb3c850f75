package contract

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

func TestHealth_14(t *testing.T) {
	t.Parallel()
	answer := suite.client.Get("/health")
	need(t, answer, 200)
	object := answer.Object()
	if object["status"] != "healthy" || object["engine"] != "raft" || answer.Text("version") == "" {
		t.Fatalf("got %v", answer)
	}
	if reasons, isArray := object["reasons"].([]any); !isArray || len(reasons) != 0 {
		t.Errorf("a ready node has no reasons, got %v", object["reasons"])
	}
	raft, _ := object["raft"].(map[string]any)
	needKeys(t, raft, "role", "leader", "leaderId", "term", "applied", "commit", "lag", "lagEntries", "quorumAckMs", "storageReady",
		"clusterVersion", "kinds", "clusterId", "clusterEpoch", "nodeId", "identity", "voters", "learners", "diskPct", "storageFull", "apply")
	want := map[string]any{"role": "leader", "leader": true, "lag": json.Number("0"), "storageReady": true, "identity": "ok", "storageFull": false}
	for key, value := range want {
		if !reflect.DeepEqual(raft[key], value) {
			t.Errorf("%s: want %v, got %v", key, value, raft[key])
		}
	}
	apply, _ := raft["apply"].(map[string]any)
	if needKeys(t, apply, "failure", "skipped"); apply["failure"] != nil {
		t.Errorf("got %v", apply)
	}
}

func TestStatusAndRefresh_14(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer harness.Response
		want   map[string]any
	}{
		{suite.client.Get("/status"), map[string]any{"status": "ok", "engine": "raft"}},
		{suite.client.Post("/api/v1/stats/refresh", nil), map[string]any{"success": true, "refreshed": false, "engine": "raft"}},
	} {
		need(t, c.answer, 200)
		if !reflect.DeepEqual(c.answer.Object(), c.want) {
			t.Errorf("want %v, got %v", c.want, c.answer)
		}
	}
}

func TestMetricsCount_14(t *testing.T) {
	t.Parallel()
	read := func() (requests, messages int64) {
		answer := suite.client.Get("/metrics")
		need(t, answer, 200)
		var body struct {
			Requests, Messages struct {
				Total int64  `json:"total"`
				Rate  *int64 `json:"rate"`
			}
			Memory map[string]json.Number `json:"memory"`
			CPU    map[string]json.Number `json:"cpu"`
		}
		if err := answer.Decode(&body); err != nil {
			t.Fatal(err)
		}
		needKeys(t, answer.Object(), "uptime", "requests", "messages", "memory", "cpu", "engine", "raft")
		if body.Requests.Rate == nil || *body.Requests.Rate != 0 || body.Messages.Rate == nil || *body.Messages.Rate != 0 {
			t.Errorf("rate is 0, got %v", answer)
		}
		if rss, err := body.Memory["rss"].Int64(); err != nil || rss <= 0 {
			t.Errorf("want the resident set, got %v", body.Memory)
		}
		if body.CPU["user"] != "0" || body.CPU["system"] != "0" {
			t.Errorf("got %v", body.CPU)
		}
		return body.Requests.Total, body.Messages.Total
	}
	requestsBefore, messagesBefore := read()
	pushAll(t, suite.client, numbered(uniqueName(t), "", "m", 7)...)
	requestsAfter, messagesAfter := read()
	if requestsAfter <= requestsBefore || messagesAfter < messagesBefore+7 {
		t.Errorf("totals went from %d and %d to %d and %d", requestsBefore, messagesBefore, requestsAfter, messagesAfter)
	}
}

func TestPrometheusPage_14(t *testing.T) {
	t.Parallel()
	answer := suite.client.Get("/metrics/prometheus")
	need(t, answer, 200)
	sample := regexp.MustCompile(`^queen_[a-zA-Z0-9_]+(\{.*\})? [-+0-9.eNaInf]+$`)
	samples := 0
	for line := range strings.Lines(string(answer.Body)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if samples++; !sample.MatchString(line) {
			t.Errorf("every name begins with queen_, got %q", line)
		}
	}
	if samples == 0 {
		t.Error("the page has no samples")
	}
}

// The sample counts the messages of the last minute that were passed over for a newer one.
func TestConflatedPerMinuteIsExported_14(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 5)...)
	popped := suite.client.Pop(queue, "consumerGroup=g&conflation=true&subscriptionMode=all")
	needMessages(t, popped, "m4")
	needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
	eventually(t, promptly, func() (bool, string) {
		page := string(suite.client.Get("/metrics/prometheus").Body)
		return regexp.MustCompile(`(?m)^queen_queue_conflated_per_minute\{[^}]*queue="` + regexp.QuoteMeta(queue) + `"[^}]*\} 4$`).MatchString(page),
			"queen_queue_conflated_per_minute of the queue is missing or not 4"
	})
}

func TestStatusRoutesHaveTheirKeys_14(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 3)...)
	needMessageCount(t, suite.client.Pop(queue, "batch=1&leaseSeconds=60"), 1)
	cases := []struct {
		path string
		keys []string
	}{
		{"/api/v1/status", []string{"timeRange", "bucketMinutes", "pointCount", "throughput", "queues", "messages", "leases", "deadLetterQueue", "workers",
			"errors", "statsAge", "engine"}},
		{"/api/v1/status/queues", []string{"queues"}},
		{"/api/v1/status/queues/" + queue, []string{"queue", "partitions", "totals"}},
		{"/api/v1/status/analytics", []string{"dataPoints", "interval", "from", "to"}},
		{"/api/v1/analytics/queue-ops", []string{"timeRange", "bucketMinutes", "series", "queues"}},
		{"/api/v1/analytics/queue-parked-replicas", []string{"timeRange", "bucketMinutes", "series", "replicas"}},
		{"/api/v1/analytics/retention", []string{"series", "totals"}},
		{"/api/v1/analytics/retention?groupBy=queue", []string{"series", "totals", "rows"}},
		{"/api/v1/analytics/workload?groupBy=namespace", []string{"rows", "tenant", "buckets"}},
		{"/api/v1/analytics/workload?groupBy=task", []string{"rows", "tenant", "buckets"}},
		{"/api/v1/analytics/workload?groupBy=queue", []string{"rows", "tenant", "buckets"}},
		{"/api/v1/analytics/dlq-signatures?queue=" + queue, []string{"queue", "rowsNow", "sample", "retryCounts", "groups", "oldest", "newest", "avgBytes",
			"signatures", "byDay"}},
		{"/api/v1/analytics/partition-liveness", []string{"capturedAt", "rows"}},
		{"/api/v1/analytics/system-metrics", []string{"timeRange", "replicaCount", "replicas", "bucketMinutes", "pointCount"}},
		{"/api/v1/analytics/worker-metrics", []string{"timeRange", "bucketMinutes", "pointCount", "timeSeries", "workers", "queues", "summary"}},
	}
	for _, c := range cases {
		t.Run(c.path, func(t *testing.T) {
			answer := suite.client.Get(c.path)
			need(t, answer, 200)
			needKeys(t, answer.Object(), c.keys...)
		})
	}
	t.Run("queue-lag is a bare array", func(t *testing.T) {
		answer := suite.client.Get("/api/v1/analytics/queue-lag")
		need(t, answer, 200)
		if answer.Array() == nil {
			t.Fatalf("got %v", answer)
		}
	})
	t.Run("status/queues lists the rows of 9.6", func(t *testing.T) {
		rows, _ := suite.client.Get("/api/v1/status/queues").Object()["queues"].([]any)
		for _, row := range rows {
			if listed, _ := row.(map[string]any); listed["name"] == queue {
				needKeys(t, listed, "id", "name", "queue", "namespace", "task", "storage", "partitions", "segments", "messages", "retainedBytes", "options", "createdAt")
				return
			}
		}
		t.Fatalf("%s is not among %d rows", queue, len(rows))
	})
	t.Run("status/queues/:queue", func(t *testing.T) {
		object := suite.client.Get("/api/v1/status/queues/" + queue).Object()
		detail, _ := object["queue"].(map[string]any)
		needKeys(t, detail, "priority", "config")
		needBody(t, suite.client.Get("/api/v1/status/queues/"+queue+"-none"), 404, `{"error":"Queue not found"}`)
	})
	t.Run("status/analytics has one point of an hour", func(t *testing.T) {
		object := suite.client.Get("/api/v1/status/analytics").Object()
		points, _ := object["dataPoints"].([]any)
		if object["interval"] != "hour" || len(points) != 1 {
			t.Fatalf("got %v", object)
		}
		needKeys(t, firstObject(points), "timestamp", "messages")
	})
	t.Run("partition-liveness names the queue", func(t *testing.T) {
		answer := suite.client.Get("/api/v1/analytics/partition-liveness?limit=200")
		needKeys(t, firstObject(answer.Object()["rows"]), "queue", "namespace", "task", "partitions", "live1h", "live24h", "live7d", "created24h",
			"oldestWriteAt", "newestWriteAt", "pending")
	})
}

func TestStatusRefusals_14(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
	need(t, suite.client.Get("/api/v1/analytics/workload?groupBy=colour"), 400)
	answer := suite.client.Get("/api/v1/analytics/dlq-signatures")
	if need(t, answer, 400); answer.Text("error") != "queue required" {
		t.Errorf("got %v", answer)
	}
	for _, path := range []string{"/api/v1/status", "/api/v1/status/analytics", "/api/v1/analytics/queue-lag", "/api/v1/analytics/queue-ops",
		"/api/v1/analytics/queue-parked-replicas", "/api/v1/analytics/retention", "/api/v1/analytics/system-metrics", "/api/v1/analytics/worker-metrics",
		"/api/v1/status/queues", "/api/v1/status/queues/" + queue, "/api/v1/analytics/workload", "/api/v1/analytics/dlq-signatures",
		"/api/v1/analytics/partition-liveness"} {
		for _, name := range []string{"from", "to"} {
			query := "?groupBy=queue&queue=" + queue + "&" + name + "="
			needEnvelope(t, suite.client.Get(path+query+"lately"), 400, "bad_request")
			need(t, suite.client.Get(path+query+"2026-01-31T00:00:00Z"), 200)
		}
	}
}

func TestBucketWidths_14(t *testing.T) {
	t.Parallel()
	const to = "2026-01-31T00:00:00Z"
	cases := map[string]int{"2026-01-30T23:30:00Z": 1, "2026-01-30T23:00:00Z": 1, "2026-01-30T20:00:00Z": 5, "2026-01-30T18:00:00Z": 5,
		"2026-01-30T12:00:00Z": 15, "2026-01-30T00:00:00Z": 15, "2026-01-28T00:00:00Z": 60, "2026-01-24T00:00:00Z": 60, "2026-01-01T00:00:00Z": 360}
	for _, path := range []string{"/api/v1/status", "/api/v1/analytics/queue-ops", "/api/v1/analytics/system-metrics"} {
		for from, want := range cases {
			answer := suite.client.Get(fmt.Sprintf("%s?from=%s&to=%s", path, from, to))
			need(t, answer, 200)
			if got := answer.Object()["bucketMinutes"]; got != json.Number(fmt.Sprint(want)) {
				t.Errorf("%s from %s: want %d, got %v", path, from, want, got)
			}
		}
	}
}
