package contract

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// The history is written every METRICS_FLUSH_MS; the shared broker takes a minute for it, this one a second.
func TestHistoryRowsHaveTheirKeys_14(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"METRICS_FLUSH_MS": "1000"}).Client()
	pushAll(t, client, numbered("space.task", "", "m", 5)...)
	popped := client.Pop("space.task", "batch=3&leaseSeconds=60")
	needMessageCount(t, popped, 3)
	needAcked(t, client.AckMessages("completed", popped.Messages...))
	lists := []struct {
		path, list string
		keys       []string
	}{
		{"/api/v1/analytics/queue-ops", "series", []string{"bucket", "queueName", "pushRequests", "pushMessages", "popMessages", "popEmpty", "ackRequests",
			"ackSuccess", "ackFailed", "transactions", "partitionsCreated", "partitionsDeleted", "partitionCount", "avgLagMs", "maxLagMs",
			"pushPerSecond", "popPerSecond", "ackPerSecond", "emptyPerSecond", "parkedCount"}},
		{"/api/v1/analytics/queue-parked-replicas", "series", []string{"bucket", "queueName", "hostname", "workerId", "parkedCount"}},
		{"/api/v1/analytics/workload?groupBy=namespace", "rows", []string{"key", "queues", "window", "series", "now"}},
		{"/api/v1/analytics/system-metrics", "replicas", []string{"hostname", "port", "workerId", "timeSeries"}},
		{"/api/v1/analytics/queue-lag", "", []string{"queueName", "popCount", "avgLagMs", "maxLagMs", "bucketMinutes", "bucketTime"}},
	}
	for _, c := range lists {
		t.Run(c.path, func(t *testing.T) {
			var row map[string]any
			eventually(t, 10*time.Second, func() (bool, string) {
				answer := client.Get(c.path)
				if c.list == "" {
					row = firstObject(answer.Value())
				} else {
					row = firstObject(answer.Object()[c.list])
				}
				return row != nil, answer.String()
			})
			needKeys(t, row, c.keys...)
		})
	}
	t.Run("queue-ops counts what happened", func(t *testing.T) {
		eventually(t, 10*time.Second, func() (bool, string) {
			answer := client.Get("/api/v1/analytics/queue-ops")
			counts := map[string]int64{}
			series, _ := answer.Object()["series"].([]any)
			for _, element := range series {
				row, _ := element.(map[string]any)
				for _, key := range []string{"pushMessages", "popMessages", "ackSuccess"} {
					number, _ := row[key].(json.Number)
					count, _ := number.Int64()
					counts[key] += count
				}
			}
			return counts["pushMessages"] == 5 && counts["popMessages"] == 3 && counts["ackSuccess"] == 3, answer.String()
		})
	})
	t.Run("system-metrics has samples", func(t *testing.T) {
		var sample map[string]any
		eventually(t, 10*time.Second, func() (bool, string) {
			answer := client.Get("/api/v1/analytics/system-metrics")
			sample = firstObject(firstObject(answer.Object()["replicas"])["timeSeries"])
			return sample != nil, answer.String()
		})
		needKeys(t, sample, "timestamp", "sampleCount", "metrics")
	})
}

func TestDeadLetterSignatures_14(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 4)...)
	popped := suite.client.Pop(queue, "leaseSeconds=60")
	needMessageCount(t, popped, 4)
	items := make([]harness.AckItem, 0, 4)
	for i, message := range popped.Messages {
		item := message.Ack("dlq")
		item.Error = map[bool]string{true: "disk on fire", false: "no such account"}[i < 3]
		items = append(items, item)
	}
	needAcked(t, suite.client.AckBatch("", items...))
	answer := suite.client.Get("/api/v1/analytics/dlq-signatures?queue=" + queue)
	need(t, answer, 200)
	if answer.Text("queue") != queue || fmt.Sprint(answer.Object()["rowsNow"]) != "4" {
		t.Fatalf("got %v", answer)
	}
	signatures, _ := answer.Object()["signatures"].([]any)
	counts := map[string]string{}
	for _, element := range signatures {
		signature, _ := element.(map[string]any)
		needKeys(t, signature, "text", "n", "share")
		counts[fmt.Sprint(signature["text"])] = fmt.Sprint(signature["n"])
	}
	if len(counts) != 2 || counts["disk on fire"] != "3" || counts["no such account"] != "1" {
		t.Fatalf("got %v", answer)
	}
}

func TestPartitionLivenessLimitIsClamped_14(t *testing.T) {
	t.Parallel()
	pushOne(t, suite.client, harness.Item{Queue: uniqueName(t), Payload: 1})
	pushOne(t, suite.client, harness.Item{Queue: uniqueName(t), Payload: 1})
	for query, most := range map[string]int{"": 20, "?limit=0": 1, "?limit=1": 1, "?limit=2": 2, "?limit=100000": 200} {
		answer := suite.client.Get("/api/v1/analytics/partition-liveness" + query)
		need(t, answer, 200)
		if rows, _ := answer.Object()["rows"].([]any); len(rows) == 0 || len(rows) > most {
			t.Errorf("%q: want at most %d rows, got %d", query, most, len(rows))
		}
	}
	need(t, suite.client.Get("/api/v1/analytics/partition-liveness?limit=many"), 400)
}

// TestHistorySurvivesARestart_14: the history lies on the disk of the node (cluster 2.1); one that cannot be read costs a
// warning and the past, not the start (cluster 18).
func TestHistorySurvivesARestart_14(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"METRICS_FLUSH_MS": "1000"})
	client := broker.Client()
	pushAll(t, client, numbered("q", "", "m", 3)...)
	pushed := func() (sum int64) {
		for _, row := range objects(t, client.Get("/api/v1/analytics/queue-ops").Object()["series"]) {
			sum += integer(row["pushMessages"])
		}
		return sum
	}
	needPushed := func(want int64) {
		t.Helper()
		eventually(t, delivery, func() (bool, string) {
			got := pushed()
			return got == want, fmt.Sprintf("want %d pushed messages, got %d", want, got)
		})
	}
	needPushed(3)
	pushAll(t, client, numbered("q", "", "next", 1)...)
	needPushed(4) // shown a moment before it is written; what was shown before it is on the disk
	if err := broker.Crash(); err != nil {
		t.Fatal(err)
	}
	kept := pushed()
	if kept < 3 || kept > 4 {
		t.Fatalf("want 3 or 4 pushed messages after a kill, got %d", kept)
	}
	pushAll(t, client, numbered("q", "", "again", 1)...)
	if err := broker.Restart(); err != nil { // an orderly stop writes what is not written yet
		t.Fatal(err)
	}
	needPushed(kept + 1)
	if err := broker.Stop(); err != nil {
		t.Fatal(err)
	}
	spoil(t, filepath.Join(broker.DataDir(), "history"))
	if err := broker.Start(); err != nil {
		t.Fatalf("a history that cannot be read stops no start: %v", err)
	}
	needPushed(0)
	needMessageCount(t, client.Pop("q", ""), 5)
	pushAll(t, client, numbered("q", "", "new", 2)...)
	needPushed(2)
}

// spoil overwrites every file below a directory with something else.
func spoil(t *testing.T, dir string) {
	t.Helper()
	spoiled := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		spoiled++
		return os.WriteFile(path, []byte("no history at all\n"), 0o644)
	})
	if err != nil || spoiled == 0 {
		t.Fatalf("%d files below %s (%v)", spoiled, dir, err)
	}
}
