package contract

import (
	"slices"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// labelCounts is the messages object of the label lists of 9.10.
type labelCounts struct{ Total, Pending int }

// TestOverviewAndLabels: 9.10, on a broker whose content is known. Only labels that are not empty appear, and pending
// is what is not leased.
func TestOverviewAndLabels(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	for queue, labels := range map[string]map[string]any{
		"a": {"namespace": "n", "task": "t"}, "b": {"namespace": "n", "task": "u"}, "c": {"task": "t"}, "d": {},
	} {
		need(t, client.Configure(queue, labels), 200)
	}
	pushAll(t, client, append(numbered("a", "p", "a", 3), numbered("a", "q", "q", 1)...)...)
	pushAll(t, client, append(numbered("b", "p", "b", 2), numbered("c", "p", "c", 4)...)...)
	leased := client.PopPartition("a", "p", "batch=2&consumerGroup=g&subscriptionMode=all")
	needMessages(t, leased, "a0", "a1")
	filing := client.PopPartition("c", "p", "batch=1&consumerGroup=g&subscriptionMode=all")
	needVerdicts(t, client.AckMessages("dlq", filing.Messages...), filed)

	before := time.Now()
	reply := client.Get("/api/v1/resources/overview")
	need(t, reply, 200)
	object := reply.Object()
	needExactKeys(t, object, "queues", "partitions", "namespaces", "tasks", "messages", "lag", "throughput", "timestamp", "statsAge")
	needExactKeys(t, object["messages"].(map[string]any), "total", "pending", "processing", "completed", "failed", "deadLetter")
	needExactKeys(t, object["lag"].(map[string]any), "time", "offset")
	overview := readOverview(t, client)
	if overview.Queues != 4 || overview.Partitions != 4 || overview.Namespaces != 1 || overview.Tasks != 2 || overview.StatsAge != 0 {
		t.Errorf("got %v", reply)
	}
	if got := overview.Messages; got.Total != 10 || got.Pending != 7 || got.Processing != 2 || got.Completed != 1 || got.Failed != 0 || got.DeadLetter != 1 {
		t.Errorf("messages: got %+v", got)
	}
	// Behind are the partitions p and q of a, p of b and p of c, by 3 to 1 messages, c by what follows its dead letter.
	if got := overview.Lag; got.Offset != (lagSpread{Avg: 9 / 4.0, Max: 3}) || got.Time.Median != 0 || got.Time.Min != 0 || got.Time.Max < got.Time.Avg {
		t.Errorf("lag: got %+v", got)
	}
	if got := overview.Throughput; got.IngestedPerSecond <= 0 || got.IngestedPerSecond > 10 || got.ProcessedPerSecond <= 0 || got.ProcessedPerSecond > 1 {
		t.Errorf("throughput: got %+v", got)
	}
	if overview.Timestamp.Before(before.Add(-time.Second)) || overview.Timestamp.After(time.Now().Add(time.Second)) || !microStamp.MatchString(reply.Text("timestamp")) {
		t.Errorf("timestamp: got %v", reply)
	}
	needLabels(t, client, "/api/v1/resources/namespaces", "namespaces", "namespace", map[string]label{"n": {2, 3, labelCounts{6, 4}}})
	needLabels(t, client, "/api/v1/resources/tasks", "tasks", "task", map[string]label{"t": {2, 3, labelCounts{8, 5}}, "u": {1, 1, labelCounts{2, 2}}})
}

// lagSpread is one of the two lags of 9.10.
type lagSpread struct{ Avg, Median, Min, Max float64 }

// overviewView is the answer of the overview of 9.10.
type overviewView struct {
	Queues, Partitions, Namespaces, Tasks int
	Messages                              struct{ Total, Pending, Processing, Completed, Failed, DeadLetter int }
	Lag                                   struct{ Time, Offset lagSpread }
	Throughput                            struct{ IngestedPerSecond, ProcessedPerSecond float64 }
	Timestamp                             time.Time
	StatsAge                              int
}

func readOverview(t *testing.T, client *harness.Client) overviewView {
	t.Helper()
	return fetchInto[overviewView](t, client, "/api/v1/resources/overview")
}

// label is a row of a label list.
type label struct {
	queues, partitions int
	messages           labelCounts
}

func needLabels(t *testing.T, client *harness.Client, path, list, key string, want map[string]label) {
	t.Helper()
	reply := client.Get(path)
	need(t, reply, 200)
	rows, isArray := reply.Object()[list].([]any)
	if !isArray || len(rows) != len(want) {
		t.Errorf("%s: want %v, got %v", path, want, reply)
		return
	}
	type row struct {
		Namespace, Task    string
		Queues, Partitions int
		Messages           labelCounts
	}
	decoded := fetchInto[map[string][]row](t, client, path)[list]
	for _, row := range decoded {
		name := map[string]string{"namespace": row.Namespace, "task": row.Task}[key]
		if got := (label{row.Queues, row.Partitions, row.Messages}); got != want[name] {
			t.Errorf("%s %q: want %+v, got %+v", path, name, want[name], got)
		}
	}
	if slices.ContainsFunc(rows, func(entry any) bool { return entry.(map[string]any)[key] == "" }) {
		t.Errorf("%s: an empty label appears in %v", path, reply)
	}
}
