package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// configureDefaults are the options of 9.2 that a configure echoes, with the defaults of a configured queue.
func configureDefaults() map[string]any {
	return map[string]any{
		"priority": 0.0, "leaseTime": 300.0, "retryLimit": 3.0, "retryDelay": 1000.0, "maxSize": 0.0, "maxQueueSize": 0.0,
		"ttl": 3600.0, "deadLetterQueue": true, "dlqAfterMaxRetries": true, "delayedProcessing": 0.0, "windowBuffer": 0.0,
		"retentionEnabled": false, "retentionSeconds": 0.0, "completedRetentionSeconds": 0.0, "maxWaitTimeSeconds": 0.0,
		"minPopWaitTime": 0.0, "encryptionEnabled": false, "dedupWindowSeconds": 3600.0, "retentionSinkHold": "",
		"retentionSinkHoldMaxSeconds": 604800.0,
	}
}

// withOptions returns the configure defaults with some of them changed.
func withOptions(changes map[string]any) map[string]any {
	options := configureDefaults()
	maps.Copy(options, changes)
	return options
}

// configured is the answer of 9.4.
type configured struct {
	Configured             bool
	QueueID                string
	PartitionID            *string
	Queue, Namespace, Task string
	Storage                string
	Options                map[string]any
}

func configure(t *testing.T, body any) configured {
	t.Helper()
	reply := suite.client.Post("/api/v1/configure", body)
	need(t, reply, 200)
	needExactKeys(t, reply.Object(), "configured", "queueId", "partitionId", "queue", "namespace", "task", "storage", "options")
	var answer configured
	if err := reply.Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if !answer.Configured || !uuidV7.MatchString(answer.QueueID) || answer.PartitionID != nil || answer.Storage != "segments" {
		t.Fatalf("want the literals of 9.4, got %v", reply)
	}
	return answer
}

func needOptions(t *testing.T, got, want map[string]any) {
	t.Helper()
	for key, value := range want {
		if echoed, present := got[key]; !present || echoed != value {
			t.Errorf("option %s: want %v, got %v", key, value, got[key])
		}
	}
	for key := range got {
		if _, known := want[key]; !known {
			t.Errorf("option %s is not one of 9.4", key)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// TestConfigureDefaults: 9.2 and 9.4, the first configure of a missing queue starts from the configure defaults, in
// each of the shapes that name no option; the reads show the same options.
func TestConfigureDefaults(t *testing.T) {
	t.Parallel()
	shapes := map[string]map[string]any{
		"queue alone":                       {},
		"options null":                      {"options": nil},
		"options empty":                     {"options": map[string]any{}},
		"replace":                           {"mode": "replace"},
		"merge":                             {"mode": "merge", "options": map[string]any{}},
		"mode null":                         {"mode": nil},
		"namespace and task null":           {"namespace": nil, "task": nil},
		"namespace null beside the options": {"namespace": nil, "task": nil, "options": map[string]any{}},
		"unknown keys":                      {"colour": "red", "options": map[string]any{"shape": "round"}},
		"what JS create sends": {"namespace": nil, "task": nil, "options": map[string]any{
			"leaseTime": 300, "retryLimit": 3, "priority": 0, "delayedProcessing": 0, "windowBuffer": 0, "maxSize": 0, "retentionSeconds": 0,
			"completedRetentionSeconds": 0, "encryptionEnabled": false,
		}},
	}
	for name, shape := range shapes {
		t.Run("9.2 "+name, func(t *testing.T) {
			t.Parallel()
			queue := "dotted." + uniqueName(t)
			body := maps.Clone(shape)
			body["queue"] = queue
			answer := configure(t, body)
			needOptions(t, answer.Options, configureDefaults())
			if answer.Queue != queue || answer.Namespace != "" || answer.Task != "" {
				t.Errorf("want empty labels, got %+v", answer)
			}
			detail := queueDetail(t, suite.client, queue)
			needOptions(t, detail.Options, configureDefaults())
			if detail.ID != answer.QueueID || len(detail.Partitions) != 0 {
				t.Errorf("want the queue %s without partitions, got %+v", answer.QueueID, detail)
			}
			rows, at := queueRows(t, suite.client, queue)
			if at < 0 {
				t.Fatal("the queue list does not have it")
			}
			needOptions(t, rows[at].Options, configureDefaults())
		})
	}
}

// TestImplicitDefaults: 9.2, of a queue that a push or a pop created; a configure merges into it as it stands.
func TestImplicitDefaults(t *testing.T) {
	t.Parallel()
	creators := map[string]func(queue string) harness.Response{
		"push": func(queue string) harness.Response {
			return suite.client.Push(harness.Item{Queue: queue, Payload: 1}).Response
		},
		"pop": func(queue string) harness.Response { return suite.client.Pop(queue, "").Response },
	}
	for name, create := range creators {
		t.Run("9.2 created by a "+name, func(t *testing.T) {
			t.Parallel()
			label := uniqueName(t)
			queue := label + ".task.more"
			need(t, create(queue), map[string]int{"push": 201, "pop": 204}[name])
			detail := queueDetail(t, suite.client, queue)
			needOptions(t, detail.Options, withOptions(map[string]any{"leaseTime": 60.0}))
			if detail.Namespace != label || detail.Task != "task" {
				t.Errorf("want labels from the name, got %q and %q", detail.Namespace, detail.Task)
			}
			merged := configure(t, map[string]any{"queue": queue, "options": map[string]any{"retryLimit": 7}})
			needOptions(t, merged.Options, withOptions(map[string]any{"leaseTime": 60.0, "retryLimit": 7.0}))
			if merged.Namespace != label || merged.Task != "task" || merged.QueueID != detail.ID {
				t.Errorf("a configure changes the labels only when it names them, got %+v", merged)
			}
			if named := configure(t, map[string]any{"queue": queue, "namespace": "other"}); named.Namespace != "other" || named.Task != "task" {
				t.Errorf("want the named label to change alone, got %+v", named)
			}
		})
	}
}

// TestOptionValuesAreEchoed: 9.2 and 9.4, with exactly the numbers that were sent, maxSize also as maxQueueSize and
// minPopWaitTime clamped.
func TestOptionValuesAreEchoed(t *testing.T) {
	t.Parallel()
	cases := []struct {
		key        string
		sent, echo any
	}{
		{"priority", 2147483647, 2147483647.0}, {"leaseTime", 1, 1.0}, {"retryLimit", 0, 0.0}, {"retryDelay", 0, 0.0},
		{"maxSize", 10, 10.0}, {"ttl", 0, 0.0}, {"deadLetterQueue", false, false}, {"dlqAfterMaxRetries", false, false},
		{"delayedProcessing", 7, 7.0}, {"windowBuffer", 8, 8.0}, {"retentionEnabled", true, true}, {"retentionSeconds", 9, 9.0},
		{"completedRetentionSeconds", 2147483647, 2147483647.0}, {"maxWaitTimeSeconds", 11, 11.0}, {"minPopWaitTime", 60000, 60000.0},
		{"minPopWaitTime", 60001, 60000.0}, {"encryptionEnabled", true, true}, {"dedupWindowSeconds", 0, 0.0},
		{"retentionSinkHold", "a-Z_9.", "a-Z_9."}, {"retentionSinkHold", strings.Repeat("s", 64), strings.Repeat("s", 64)},
		{"leaseTime", 2147483647, 2147483647.0}, {"retryLimit", 2147483647, 2147483647.0}, {"retryDelay", 2147483647, 2147483647.0},
		{"maxSize", 2147483647, 2147483647.0}, {"ttl", 2147483647, 2147483647.0}, {"delayedProcessing", 2147483647, 2147483647.0},
		{"windowBuffer", 2147483647, 2147483647.0}, {"retentionSeconds", 2147483647, 2147483647.0}, {"maxWaitTimeSeconds", 2147483647, 2147483647.0},
		{"minPopWaitTime", 2147483647, 60000.0}, {"dedupWindowSeconds", 2147483647, 2147483647.0},
		{"retentionSinkHold", "", ""}, {"retentionSinkHoldMaxSeconds", 60, 60.0}, {"retentionSinkHoldMaxSeconds", 31536000, 31536000.0},
	}
	for _, c := range cases {
		for _, nested := range []bool{true, false} {
			t.Run(fmt.Sprintf("9.2 %s %v, under options %v", c.key, c.sent, nested), func(t *testing.T) {
				t.Parallel()
				body := map[string]any{"queue": uniqueName(t), c.key: c.sent}
				if nested {
					body = map[string]any{"queue": uniqueName(t), "options": map[string]any{c.key: c.sent}}
				}
				want := map[string]any{c.key: c.echo}
				if c.key == "maxSize" {
					want["maxQueueSize"] = c.echo
				}
				needOptions(t, configure(t, body).Options, withOptions(want))
			})
		}
	}
}

// TestConfigureRefusals: 9.1 and 9.2, a refusal names the key and stores nothing.
func TestConfigureRefusals(t *testing.T) {
	t.Parallel()
	integers := []string{
		"priority", "leaseTime", "retryLimit", "retryDelay", "maxSize", "ttl", "delayedProcessing", "windowBuffer",
		"retentionSeconds", "completedRetentionSeconds", "maxWaitTimeSeconds", "minPopWaitTime", "dedupWindowSeconds",
		"retentionSinkHoldMaxSeconds",
	}
	booleans := []string{"deadLetterQueue", "dlqAfterMaxRetries", "retentionEnabled", "encryptionEnabled"}
	type refusal struct {
		key   string
		value any
		text  string   // "" leaves it open, and names says what it has to name
		names []string // the two ends of a range, as they are written
	}
	var refusals []refusal
	for _, key := range integers {
		for _, value := range []any{"5", 1.5, json.Number("5.0"), json.Number("6e1"), true, []any{}} {
			refusals = append(refusals, refusal{key, value, key + " must be an integer", nil})
		}
		for _, value := range []int64{2147483648, -2147483649} {
			refusals = append(refusals, refusal{key, value, key + " must be an integer", nil})
		}
		for _, value := range []int64{-1, -2147483648} {
			refusals = append(refusals, refusal{key, value, key + " must not be negative", nil})
		}
	}
	for _, key := range booleans {
		for _, value := range []any{"true", 1, map[string]any{}} {
			refusals = append(refusals, refusal{key, value, key + " must be a boolean", nil})
		}
	}
	refusals = append(refusals, refusal{"leaseTime", 0, "", []string{"1", "2147483647"}})
	for _, value := range []int{0, 59, 31536001} {
		refusals = append(refusals, refusal{"retentionSinkHoldMaxSeconds", value, "", []string{"60", "31536000"}})
	}
	for _, value := range []string{"two words", strings.Repeat("s", 65), "ä", "a/b"} {
		refusals = append(refusals, refusal{"retentionSinkHold", value, "", []string{"[A-Za-z0-9._-]{0,64}"}})
	}
	queue := uniqueName(t)
	stored := configure(t, map[string]any{"queue": queue, "options": map[string]any{"leaseTime": 77}}).Options
	for _, r := range refusals {
		t.Run(fmt.Sprintf("9.2 %s %v", r.key, r.value), func(t *testing.T) {
			for _, body := range []map[string]any{
				{"queue": queue, "options": map[string]any{r.key: r.value, "ttl": 5}},
				{"queue": queue, "mode": "replace", r.key: r.value},
			} {
				if r.key == "ttl" {
					body = map[string]any{"queue": queue, "options": map[string]any{r.key: r.value, "priority": 5}}
				}
				reply := suite.client.Post("/api/v1/configure", body)
				needEnvelope(t, reply, 400, "bad_request")
				if reply.Text("invalid") != r.key || r.text != "" && reply.Text("error") != r.text {
					t.Errorf("want invalid %q and text %q, got %v", r.key, r.text, reply)
				}
				for _, name := range r.names {
					if !slices.Contains(strings.Fields(reply.Text("error")), name) {
						t.Errorf("the text has to name %s, got %v", name, reply)
					}
				}
			}
		})
	}
	needOptions(t, queueDetail(t, suite.client, queue).Options, stored)
	missing := uniqueName(t)
	needEnvelope(t, suite.client.Configure(missing, map[string]any{"leaseTime": 0}), 400, "bad_request")
	needBody(t, suite.client.Get(queuePath(missing)), 404, `{"error":"Queue not found"}`)
}

// TestConfigureRefusesBadRequests: 9.1 and 9.4.
func TestConfigureRefusesBadRequests(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for body, want := range map[string]struct{ code, text string }{
		`{"options":{}}`:                         {"bad_request", "queue is required"},
		`{"queue":null}`:                         {"bad_request", "queue is required"},
		`{"queue":7,"options":{}}`:               {"bad_request", "queue is required"},
		`{"queue":`:                              {"bad_body", ""},
		``:                                       {"bad_body", ""},
		`[]`:                                     {"bad_body", ""},
		`{"queue":"` + queue + `","options":[]}`: {"bad_body", ""},
		`{"queue":"` + queue + `","options":"ttl"}`: {"bad_body", ""},
		`{"queue":"` + queue + `","mode":"patch"}`:  {"bad_request", `mode must be "merge" or "replace", got "patch"`},
		`{"queue":"` + queue + `","mode":7}`:        {"bad_request", `mode must be "merge" or "replace", got 7`},
		`{"queue":"` + queue + `","mode":true}`:     {"bad_request", `mode must be "merge" or "replace", got true`},
		`{"queue":"` + queue + `","mode":""}`:       {"bad_request", `mode must be "merge" or "replace", got ""`},
		`{"queue":"` + queue + `","mode":{"a":1}}`:  {"bad_request", `mode must be "merge" or "replace", got {"a":1}`},
		`{"queue":"` + queue + `","mode":"Merge"}`:  {"bad_request", `mode must be "merge" or "replace", got "Merge"`},
	} {
		t.Run("9.1 "+body, func(t *testing.T) {
			reply := suite.client.Post("/api/v1/configure", body)
			needEnvelope(t, reply, 400, want.code)
			if want.text != "" && reply.Text("error") != want.text {
				t.Errorf("want %q, got %v", want.text, reply)
			}
		})
	}
	needBody(t, suite.client.Get(queuePath(queue)), 404, `{"error":"Queue not found"}`)
	needEnvelope(t, suite.client.Configure(strings.Repeat("q", 412), nil), 413, "name_too_long")
}

// TestConfigureMergeAndReplace: 9.1, an absent key keeps its value, null restores the default, replace restores all.
func TestConfigureMergeAndReplace(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	send := func(body map[string]any) configured {
		body["queue"] = queue
		return configure(t, body)
	}
	send(map[string]any{"options": map[string]any{
		"namespace": "n", "task": "t", "leaseTime": 5, "retryLimit": 9, "deadLetterQueue": false, "retentionSinkHold": "sink", "maxSize": 4,
	}})
	step := send(map[string]any{"options": map[string]any{"leaseTime": 6}})
	needOptions(t, step.Options, withOptions(map[string]any{
		"leaseTime": 6.0, "retryLimit": 9.0, "deadLetterQueue": false, "retentionSinkHold": "sink", "maxSize": 4.0, "maxQueueSize": 4.0,
	}))
	if step.Namespace != "n" || step.Task != "t" {
		t.Errorf("merge keeps the labels, got %+v", step)
	}
	step = send(map[string]any{"mode": "merge", "options": map[string]any{"leaseTime": nil, "deadLetterQueue": nil, "maxSize": nil}})
	needOptions(t, step.Options, withOptions(map[string]any{"retryLimit": 9.0, "retentionSinkHold": "sink"}))
	step = send(map[string]any{"options": map[string]any{"namespace": nil, "task": 7, "retentionSinkHold": nil}})
	needOptions(t, step.Options, withOptions(map[string]any{"retryLimit": 9.0}))
	if step.Namespace != "" || step.Task != "" {
		t.Errorf("null and a value that is no string empty a label, got %+v", step)
	}
	send(map[string]any{"options": map[string]any{"namespace": "n", "retentionSinkHold": "sink"}})
	needOptions(t, send(map[string]any{"options": map[string]any{"retentionSinkHold": 7}}).Options, withOptions(map[string]any{"retryLimit": 9.0}))
	step = send(map[string]any{"mode": "replace", "options": map[string]any{"ttl": 1}})
	needOptions(t, step.Options, withOptions(map[string]any{"ttl": 1.0}))
	if step.Namespace != "" || step.Task != "" {
		t.Errorf("replace restores the labels too, got %+v", step)
	}
}

// TestConfigureTakesTopLevelLabels: 9.1, a non-empty string, when options lacks it.
func TestConfigureTakesTopLevelLabels(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name            string
		body            map[string]any
		namespace, task string
	}{
		{"both at top level", map[string]any{"namespace": "n", "task": "t", "options": map[string]any{"ttl": 1}}, "n", "t"},
		{"both at top level, no options member", map[string]any{"namespace": "n", "task": "t", "ttl": 1}, "n", "t"},
		{"the options win", map[string]any{"namespace": "n", "options": map[string]any{"namespace": "o"}}, "o", ""},
		{"null is ignored", map[string]any{"namespace": nil, "task": "t", "options": map[string]any{}}, "", "t"},
		{"null is ignored, no options member", map[string]any{"namespace": nil, "task": "t"}, "", "t"},
		{"null in the options is no lack", map[string]any{"namespace": "n", "task": "t", "options": map[string]any{"namespace": nil}}, "", "t"},
		{"options null", map[string]any{"namespace": "n", "task": "t", "options": nil}, "n", "t"},
	}
	for _, c := range cases {
		t.Run("9.1 "+c.name, func(t *testing.T) {
			t.Parallel()
			c.body["queue"] = uniqueName(t)
			if got := configure(t, c.body); got.Namespace != c.namespace || got.Task != c.task {
				t.Errorf("want %q and %q, got %+v", c.namespace, c.task, got)
			}
		})
	}
	t.Run("9.1 null at top level keeps what is stored", func(t *testing.T) {
		t.Parallel()
		queue := uniqueName(t)
		configure(t, map[string]any{"queue": queue, "namespace": "n", "task": "t"})
		for _, body := range []map[string]any{
			{"namespace": nil, "task": nil}, {"namespace": nil, "task": nil, "options": map[string]any{"ttl": 1}},
			{"namespace": "", "task": 7}, {"namespace": 7, "task": "", "options": map[string]any{}},
		} {
			body["queue"] = queue
			if got := configure(t, body); got.Namespace != "n" || got.Task != "t" {
				t.Errorf("body %v: want the labels to stay, got %+v", body, got)
			}
		}
	})
}

// TestQueueWithAnEmptyName: 9.1 and 2.2, "" is a queue like any other: configured, pushed to, read and deleted.
func TestQueueWithAnEmptyName(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client() // there is only one
	reply := client.Post("/api/v1/configure", `{"queue":"","options":{"leaseTime":33}}`)
	need(t, reply, 200)
	if queue, present := reply.Object()["queue"]; !present || queue != "" {
		t.Fatalf("want the queue \"\" to be echoed, got %v", reply)
	}
	pushAll(t, client, numbered("", "p", "m", 2)...)
	detail := queueDetail(t, client, "")
	needOptions(t, detail.Options, withOptions(map[string]any{"leaseTime": 33.0}))
	if detail.Name != "" || detail.Totals.Total != 2 || queueDepth(t, client, "", "").Pending != 2 {
		t.Errorf("got %+v", detail)
	}
	if _, at := queueRows(t, client, ""); at != 0 {
		t.Error("the queue list does not have it")
	}
	needMessages(t, client.Pop("", "batch=10"), "m0", "m1")
	needDeleted(t, client, "")
	needBody(t, client.Get(queuePath("")), 404, `{"error":"Queue not found"}`)
}

// TestConcurrentConfigures: 9.1, the last write wins and is whole: no two replaces mix, no merge is lost.
func TestConcurrentConfigures(t *testing.T) {
	t.Parallel()
	const writers = 12
	queue := uniqueName(t)
	keys := []string{"leaseTime", "retryLimit", "ttl", "windowBuffer", "priority", "maxWaitTimeSeconds", "retentionSeconds", "delayedProcessing"}
	whole := func(i int) map[string]any { // every writer leaves out what its neighbours set
		return map[string]any{"leaseTime": float64(100 + i), keys[1+i%(len(keys)-1)]: float64(100 + i)}
	}
	for _, reply := range race(writers, func(i int) harness.Response {
		return suite.client.Post("/api/v1/configure", map[string]any{"queue": queue, "mode": "replace", "options": whole(i)})
	}) {
		need(t, reply, 200)
	}
	stored := queueDetail(t, suite.client, queue).Options
	last, _ := stored["leaseTime"].(float64)
	needOptions(t, stored, withOptions(whole(int(last)-100)))
	need(t, suite.client.Post("/api/v1/configure", map[string]any{"queue": queue, "mode": "replace"}), 200)
	for _, reply := range race(len(keys), func(i int) harness.Response {
		return suite.client.Configure(queue, map[string]any{keys[i]: 7000 + i})
	}) {
		need(t, reply, 200)
	}
	want := map[string]any{}
	for i, key := range keys {
		want[key] = float64(7000 + i)
	}
	needOptions(t, queueDetail(t, suite.client, queue).Options, withOptions(want))
	need(t, suite.client.Configure(queue, map[string]any{"leaseTime": 1}), 200)
	want["leaseTime"] = 1.0
	needOptions(t, queueDetail(t, suite.client, queue).Options, withOptions(want))
}
