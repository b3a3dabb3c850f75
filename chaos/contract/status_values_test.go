package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// knownTraffic makes a broker whose history is written every second, and whose whole traffic is known: 5 messages pushed
// to space.task, of them 3 leased, 2 completed and 1 ack refused; 2 dead letters in letters; 1 message by a transaction in
// moved; 2 messages removed from aged; a pop parked on parked.
func knownTraffic(t *testing.T) *harness.Client {
	t.Helper()
	client := privateBroker(t, map[string]string{"METRICS_FLUSH_MS": "1000", "RETENTION_INTERVAL": "100"}).Client()
	need(t, client.Configure("aged", map[string]any{"maxWaitTimeSeconds": 1}), 200)
	need(t, client.Configure("letters", map[string]any{"namespace": "mail", "task": "letters", "priority": 7}), 200)
	pushAll(t, client, numbered("aged", "", "a", 2)...)
	pushAll(t, client, numbered("space.task", "", "m", 5)...)
	popped := client.Pop("space.task", "batch=3&leaseSeconds=600&consumerGroup=g&subscriptionMode=all")
	needMessages(t, popped, "m0", "m1", "m2")
	needAcked(t, client.AckMessages("completed", popped.Messages[:2]...))
	needVerdicts(t, client.AckBatch("g", harness.AckItem{TransactionID: "unknown", PartitionID: popped.PartitionID, LeaseID: popped.LeaseID}), unresolvable)
	needEmpty(t, client.Pop("space.task", "consumerGroup=g"))
	pushAll(t, client, numbered("letters", "", "l", 2)...)
	needVerdicts(t, client.AckMessages("dlq", client.Pop("letters", "").Messages...), filed)
	needCommitted(t, client.Transaction(operations([]any{pushOperation("moved", "t")})))
	leaving, leave := context.WithCancel(context.Background())
	left := make(chan struct{})
	go func() { // ends with the test
		defer close(left)
		client.PopContext(leaving, "parked", "wait=true&timeout=60000")
	}()
	t.Cleanup(func() { leave(); <-left })
	return client
}

// integer is a number of a decoded answer, -1 when it is none.
func integer(value any) int64 {
	number, _ := value.(json.Number)
	if whole, err := number.Int64(); err == nil {
		return whole
	}
	return -1
}

// objects is a decoded array of objects.
func objects(t *testing.T, value any) []map[string]any {
	t.Helper()
	array, isArray := value.([]any)
	if !isArray {
		t.Fatalf("want an array, got %v", value)
	}
	list := make([]map[string]any, len(array))
	for i, element := range array {
		list[i], _ = element.(map[string]any)
	}
	return list
}

// rowWhere is the first of the rows with this value, else nil.
func rowWhere(rows []map[string]any, key, value string) map[string]any {
	at := slices.IndexFunc(rows, func(row map[string]any) bool { return row[key] == value })
	if at < 0 {
		return nil
	}
	return rows[at]
}

// TestStatusShowsTheTraffic: 14, the values of the routes that count, on a broker whose traffic is known. Series come from
// the history, which is written every METRICS_FLUSH_MS; lists and counts from the state.
func TestStatusShowsTheTraffic(t *testing.T) {
	t.Parallel()
	client := knownTraffic(t)
	get := func(t *testing.T, path string) map[string]any {
		t.Helper()
		answer := client.Get(path)
		need(t, answer, 200)
		return answer.Object()
	}
	// settled polls a route until its history is complete.
	settled := func(t *testing.T, path string, complete func(answer map[string]any) bool) map[string]any {
		t.Helper()
		var object map[string]any
		eventually(t, delivery, func() (bool, string) {
			object = get(t, path)
			return complete(object), fmt.Sprintf("%s: %.900s", path, mustJSON(object))
		})
		return object
	}
	t.Run("queue-ops", func(t *testing.T) {
		want := map[string]map[string]int64{
			"space.task": {"pushRequests": 1, "pushMessages": 5, "popMessages": 3, "popEmpty": 1, "ackRequests": 2, "ackSuccess": 2, "ackFailed": 1,
				"transactions": 0, "partitionsCreated": 1, "partitionsDeleted": 0},
			"moved":   {"pushMessages": 1, "transactions": 1, "partitionsCreated": 1, "popMessages": 0, "ackRequests": 0},
			"letters": {"pushMessages": 2, "popMessages": 2, "ackSuccess": 2, "ackFailed": 0},
		}
		object := settled(t, "/api/v1/analytics/queue-ops", func(object map[string]any) bool {
			sums := map[string]map[string]int64{}
			for _, row := range objects(t, object["series"]) {
				name := row["queueName"].(string)
				if sums[name] == nil {
					sums[name] = map[string]int64{}
				}
				for key := range want[name] {
					sums[name][key] += integer(row[key])
				}
			}
			for name, counts := range want {
				if !maps.Equal(sums[name], counts) {
					return false
				}
			}
			return true
		})
		row := rowWhere(objects(t, object["series"]), "queueName", "space.task")
		average, _ := row["avgLagMs"].(json.Number).Float64()
		longest, _ := row["maxLagMs"].(json.Number).Float64()
		if row["partitionCount"] != nil || average < 0 || longest < average {
			t.Errorf("got %v", row)
		}
		for _, rate := range []string{"pushPerSecond", "popPerSecond", "ackPerSecond", "emptyPerSecond"} {
			if value, err := row[rate].(json.Number).Float64(); err != nil || value <= 0 {
				t.Errorf("%s: got %v", rate, row[rate])
			}
		}
		if names := fmt.Sprint(object["queues"]); !strings.Contains(names, "letters") || !strings.Contains(names, "space.task") {
			t.Errorf("queues: got %s", names)
		}
	})
	t.Run("queue-lag", func(t *testing.T) {
		answer := client.Get("/api/v1/analytics/queue-lag")
		rows := objects(t, answer.Value())
		popped := int64(0)
		for _, row := range rows {
			if row["queueName"] == "space.task" {
				popped += integer(row["popCount"])
			}
			if integer(row["bucketMinutes"]) != 1 {
				t.Errorf("an hour has buckets of a minute, got %v", row)
			}
		}
		if popped != 3 {
			t.Errorf("want 3 delivered, got %v", answer)
		}
	})
	t.Run("queue-parked-replicas", func(t *testing.T) {
		object := settled(t, "/api/v1/analytics/queue-parked-replicas", func(object map[string]any) bool {
			row := rowWhere(objects(t, object["series"]), "queueName", "parked")
			return row != nil && integer(row["parkedCount"]) == 1
		})
		row := rowWhere(objects(t, object["series"]), "queueName", "parked")
		if integer(row["workerId"]) != 0 || row["hostname"] == "" || len(objects(t, object["replicas"])) != 1 {
			t.Errorf("got %v of %v", row, object["replicas"])
		}
	})
	t.Run("retention", func(t *testing.T) {
		object := settled(t, "/api/v1/analytics/retention?groupBy=queue", func(object map[string]any) bool {
			totals, _ := object["totals"].(map[string]any)
			return integer(totals["totalMsgs"]) == 2
		})
		totals, series, rows := object["totals"].(map[string]any), objects(t, object["series"]), objects(t, object["rows"])
		if len(series) != 1 || len(rows) != 1 || rows[0]["key"] != "aged" || series[0]["bucket"] == nil {
			t.Fatalf("want one bucket and the queue aged, got %v", object)
		}
		for _, counts := range []map[string]any{totals, series[0], rows[0]} {
			if integer(counts["retentionMsgs"]) != 2 || integer(counts["completedRetentionMsgs"]) != 0 || integer(counts["evictionMsgs"]) != 0 ||
				integer(counts["totalMsgs"]) != 2 || integer(counts["eventCount"]) < 1 {
				t.Errorf("got %v", counts)
			}
		}
		if _, grouped := get(t, "/api/v1/analytics/retention")["rows"]; grouped {
			t.Error("rows come with groupBy alone")
		}
	})
	t.Run("workload", func(t *testing.T) {
		for by, keys := range map[string][]string{
			"queue":     {"aged", "letters", "moved", "parked", "space.task"},
			"namespace": {"", "mail", "moved", "parked", "space"},
			"task":      {"", "letters", "task"},
		} {
			object := get(t, "/api/v1/analytics/workload?groupBy="+by)
			rows := objects(t, object["rows"])
			var got []string
			for _, row := range rows {
				got = append(got, fmt.Sprint(row["key"]))
			}
			slices.Sort(got)
			if !slices.Equal(got, keys) {
				t.Errorf("%s: want the keys %v, got %v", by, keys, got)
			}
			needKeys(t, object["tenant"].(map[string]any), "queues", "window", "series", "now")
			if total := integer(object["tenant"].(map[string]any)["queues"]); total != 5 {
				t.Errorf("%s: want 5 queues of the tenant, got %d", by, total)
			}
			if len(object["buckets"].([]any)) == 0 {
				t.Errorf("%s: got no buckets", by)
			}
		}
		needEnvelope(t, client.Get("/api/v1/analytics/workload"), 400, "bad_request")
	})
	t.Run("status", func(t *testing.T) {
		object := settled(t, "/api/v1/status", func(object map[string]any) bool { return len(objects(t, object["throughput"])) > 0 })
		if integer(object["pointCount"]) != int64(len(objects(t, object["throughput"]))) || integer(object["queues"]) != 5 ||
			len(objects(t, object["workers"])) != 1 || integer(object["statsAge"]) != 0 || object["engine"] != "raft" {
			t.Errorf("got %.900s", mustJSON(object))
		}
		// Of 8 retained messages 5 wait, 2 are dead letters of a reader that has passed them, 1 is leased.
		messages := object["messages"].(map[string]any)
		for name, want := range map[string]int64{"total": 8, "pending": 3, "processing": 1, "completed": 4, "deadLetter": 2} {
			if got := integer(messages[name]); got != want {
				t.Errorf("messages.%s: want %d, got %d", name, want, got)
			}
		}
	})
	t.Run("status/analytics", func(t *testing.T) {
		object := get(t, "/api/v1/status/analytics?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z")
		points := objects(t, object["dataPoints"])
		for name, want := range map[string]string{"from": "2026-01-01T00:00:00", "to": "2026-01-02T00:00:00"} {
			if at, _ := object[name].(string); !strings.HasPrefix(at, want) {
				t.Errorf("%s: want %s, got %v", name, want, object[name])
			}
		}
		if len(points) != 1 || integer(points[0]["messages"].(map[string]any)["total"]) != 8 {
			t.Errorf("want the counts of now as the one point, got %v", object)
		}
	})
	t.Run("status/queues/:queue", func(t *testing.T) {
		for _, query := range []string{"", "?includePartitions=false", "?includePartitions=perhaps"} {
			object := get(t, "/api/v1/status/queues/letters"+query)
			queue, _ := object["queue"].(map[string]any)
			config, _ := queue["config"].(map[string]any)
			if integer(queue["priority"]) != 7 || integer(config["priority"]) != 7 || queue["namespace"] != "mail" || queue["name"] != "letters" {
				t.Errorf("got %v", queue)
			}
			if partitions := objects(t, object["partitions"]); len(partitions) != 1 || partitions[0]["name"] != "Default" {
				t.Errorf("%q: want its partition, got %v", query, partitions)
			}
			totals, _ := object["totals"].(map[string]any)
			want := queueDetail(t, client, "letters").Totals
			if integer(totals["total"]) != int64(want.Total) || integer(totals["deadLetter"]) != 2 {
				t.Errorf("want %+v, got %v", want, totals)
			}
		}
	})
	t.Run("status/queues has no filters", func(t *testing.T) {
		if rows := objects(t, get(t, "/api/v1/status/queues?namespace=mail&task=letters&limit=1&search=x")["queues"]); len(rows) != 5 {
			t.Errorf("want all 5 queues, got %d", len(rows))
		}
	})
	t.Run("partition-liveness", func(t *testing.T) {
		object := get(t, "/api/v1/analytics/partition-liveness")
		row := rowWhere(objects(t, object["rows"]), "queue", "space.task")
		for name, want := range map[string]int64{"partitions": 1, "live1h": 1, "live24h": 1, "live7d": 1, "created24h": 1, "pending": 2} {
			if got := integer(row[name]); got != want {
				t.Errorf("%s: want %d, got %v", name, want, row)
			}
		}
		oldest, err := time.Parse(time.RFC3339Nano, fmt.Sprint(row["oldestWriteAt"]))
		captured, captureErr := time.Parse(time.RFC3339Nano, fmt.Sprint(object["capturedAt"]))
		if err != nil || captureErr != nil || row["newestWriteAt"] != row["oldestWriteAt"] || captured.Before(oldest) || row["namespace"] != "space" || row["task"] != "task" {
			t.Errorf("got %v at %v", row, object["capturedAt"])
		}
	})
	t.Run("worker-metrics and system-metrics", func(t *testing.T) {
		worker := get(t, "/api/v1/analytics/worker-metrics")
		if integer(worker["pointCount"]) != int64(len(objects(t, worker["timeSeries"]))) || len(objects(t, worker["workers"])) != 1 {
			t.Errorf("got %.900s", mustJSON(worker))
		}
		if sum := worker["summary"].(map[string]any); integer(sum["pushMessages"]) != 10 || integer(sum["ackSuccess"]) != 4 {
			t.Errorf("summary: got %v", sum)
		}
		system := settled(t, "/api/v1/analytics/system-metrics", func(object map[string]any) bool { return integer(object["pointCount"]) > 0 })
		replicas := objects(t, system["replicas"])
		if integer(system["replicaCount"]) != 1 || len(replicas) != 1 || integer(replicas[0]["workerId"]) != 0 ||
			integer(replicas[0]["port"]) < 1 {
			t.Fatalf("got %.900s", mustJSON(system))
		}
		for _, sample := range objects(t, replicas[0]["timeSeries"]) {
			if metrics, _ := sample["metrics"].(map[string]any); integer(sample["sampleCount"]) < 1 || len(metrics) == 0 {
				t.Errorf("got %v", sample)
			}
		}
	})
	t.Run("a time range leaves out what was not in it", func(t *testing.T) {
		const past = "from=2026-01-01T00:00:00Z&to=2026-01-01T00:30:00Z"
		for _, path := range []string{"queue-ops", "queue-parked-replicas", "retention"} {
			object := get(t, "/api/v1/analytics/"+path+"?"+past)
			if series := objects(t, object["series"]); len(series) != 0 {
				t.Errorf("%s: got %v", path, series)
			}
			if timeRange, shown := object["timeRange"].(map[string]any); shown && !strings.HasPrefix(fmt.Sprint(timeRange["from"]), "2026-01-01T00:00:00") {
				t.Errorf("%s: got %v", path, timeRange)
			}
		}
	})
	t.Run("partition-liveness shows 20 queues, and 200 at most", func(t *testing.T) {
		items := make([]harness.Item, 205)
		for i := range items {
			items[i] = harness.Item{Queue: fmt.Sprint("many-", i), Payload: i}
		}
		pushAll(t, client, items...)
		for query, want := range map[string]int{"": 20, "?limit=0": 1, "?limit=-5": 1, "?limit=19": 19, "?limit=200": 200, "?limit=201": 200, "?limit=9999": 200} {
			if rows := objects(t, get(t, "/api/v1/analytics/partition-liveness"+query)["rows"]); len(rows) != want {
				t.Errorf("%q: want %d rows, got %d", query, want, len(rows))
			}
		}
	})
}

// TestSignatureSampleIsBounded: 14, limit is 200 by default and at most 1,000; rowsNow counts all of them.
func TestSignatureSampleIsBounded(t *testing.T) {
	t.Parallel()
	const letters = 1003
	s := newScene(t, nil, letters)
	for first := 0; first < letters; first += 250 { // one call cannot file them all
		batch := s.claim(250, first, min(first+250, letters)-1, 1)
		needVerdicts(t, s.client.AckMessages("dlq", batch.messages...), filed)
	}
	path := "/api/v1/analytics/dlq-signatures?queue=" + s.queue
	for query, want := range map[string]int64{"": 200, "&limit=1": 1, "&limit=0": 1, "&limit=-3": 1, "&limit=201": 201, "&limit=1000": 1000, "&limit=1001": 1000} {
		answer := s.client.Get(path + query)
		need(t, answer, 200)
		object := answer.Object()
		retries, groups, days := objects(t, object["retryCounts"]), objects(t, object["groups"]), objects(t, object["byDay"])
		if integer(object["sample"]) != want || integer(object["rowsNow"]) != letters {
			t.Fatalf("%q: want %d of %d, got %v", query, want, letters, answer)
		}
		if len(retries) != 1 || len(groups) != 1 || len(days) < 1 || object["oldest"] == nil || object["newest"] == nil {
			t.Fatalf("%q: got %v", query, answer)
		}
		share, err := firstObject(object["signatures"])["share"].(json.Number).Float64()
		if bytes, byteErr := object["avgBytes"].(json.Number).Float64(); err != nil || byteErr != nil || share != 1 || bytes < 1 || bytes > 4 {
			t.Fatalf("%q: payloads have 1 to 4 bytes and one signature, got %v", query, answer)
		}
	}
	needEnvelope(t, s.client.Get(path+"&limit=all"), 400, "bad_request")
	empty := s.client.Get(path + "-missing")
	if need(t, empty, 200); integer(empty.Object()["rowsNow"]) != 0 || integer(empty.Object()["sample"]) != 0 {
		t.Fatalf("got %v", empty)
	}
}

// TestTimesOfEveryStatusRouteAreChecked: 14, from and to that do not parse answer 400, on the routes without a series too.
func TestTimesOfEveryStatusRouteAreChecked(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	for _, path := range []string{
		"/api/v1/status/queues?", "/api/v1/status/queues/" + s.queue + "?", "/api/v1/analytics/workload?groupBy=queue&",
		"/api/v1/analytics/dlq-signatures?queue=" + s.queue + "&", "/api/v1/analytics/partition-liveness?",
	} {
		need(t, s.client.Get(path+"from=2026-01-01T00:00:00Z&to=2026-01-02"), 200)
		for _, name := range []string{"from", "to"} {
			answer := s.client.Get(path + name + "=lately")
			needEnvelope(t, answer, 400, "bad_request")
			if !strings.Contains(answer.Text("error"), name) {
				t.Errorf("want a text that names %s, got %v", name, answer)
			}
		}
	}
	for _, path := range []string{"/api/v1/analytics/workload?groupBy=color", "/api/v1/analytics/retention?groupBy=color"} {
		needEnvelope(t, s.client.Get(path), 400, "bad_request")
	}
}

// TestBucketWidthsChangeRightAboveTheirRange: 14, on every route that shows bucketMinutes.
func TestBucketWidthsChangeRightAboveTheirRange(t *testing.T) {
	t.Parallel()
	to := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	widths := map[time.Duration]int64{
		time.Minute: 1, time.Hour: 1, time.Hour + time.Second: 5, 6 * time.Hour: 5, 6*time.Hour + time.Second: 15, 24 * time.Hour: 15,
		24*time.Hour + time.Second: 60, 7 * 24 * time.Hour: 60, 7*24*time.Hour + time.Second: 360, 90 * 24 * time.Hour: 360,
	}
	for _, route := range []string{"status", "analytics/queue-ops", "analytics/queue-parked-replicas", "analytics/system-metrics", "analytics/worker-metrics"} {
		for span, want := range widths {
			answer := suite.client.Get(fmt.Sprintf("/api/v1/%s?from=%s&to=%s", route, to.Add(-span).Format(time.RFC3339), to.Format(time.RFC3339)))
			need(t, answer, 200)
			if got := integer(answer.Object()["bucketMinutes"]); got != want {
				t.Errorf("%s over %v: want %d, got %d", route, span, want, got)
			}
		}
	}
}
