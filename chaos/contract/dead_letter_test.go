package contract

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// letters is the answer of 11.4.
type letters struct {
	Messages   []deadLetter
	Total      int
	Pagination struct{ Limit, Offset int }
}

func listLetters(t *testing.T, client *harness.Client, query string) letters {
	t.Helper()
	return fetchInto[letters](t, client, "/api/v1/dlq?"+query)
}

func letterTxids(list letters) []string {
	txids := make([]string, len(list.Messages))
	for i, letter := range list.Messages {
		txids[i] = letter.TransactionID
	}
	return txids
}

// fileOne dead-letters the next message of the scene's reader and releases the rest.
func fileOne(s *scene, reason string) {
	s.t.Helper()
	reply := s.pop(wholeBacklog)
	need(s.t, reply.Response, 200)
	needVerdicts(s.t, s.client.AckBatch(s.group, func() harness.AckItem {
		item := reply.Messages[0].Ack("dlq")
		item.Error = reason
		return item
	}()), filed)
}

// TestDeadLetterRow: 11.4, every member of a row.
func TestDeadLetterRow(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushed := pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p", Payload: map[string]any{"n": 1}, TransactionID: "m0"})
	for name, group := range map[string]string{"g": "g", queueMode: ""} {
		reader := &scene{t: t, client: suite.client, queue: queue, partition: "p", group: group, pushed: 1}
		before := time.Now()
		fileOne(reader, "broken")
		list := suite.client.Get("/api/v1/dlq?queue=" + queue + "&consumerGroup=" + name)
		need(t, list, 200)
		raw := list.Object()["messages"].([]any)[0].(map[string]any)
		needKeys(t, raw, "id", "queue", "partition", "partitionId", "consumerGroup", "offset", "messageId", "transactionId", "data", "payload",
			"errorMessage", "retryCount", "createdAt", "failedAt")
		row := listLetters(t, suite.client, "queue="+queue+"&consumerGroup="+name).Messages[0]
		if row.ID == "" || row.Queue != queue || row.Partition != "p" || !uuidAny.MatchString(row.PartitionID) || row.ConsumerGroup != name ||
			row.Offset != 0 || row.MessageID != pushed.MessageID || row.TransactionID != "m0" || row.ErrorMessage == nil || *row.ErrorMessage != "broken" ||
			row.RetryCount != 0 || !row.CreatedAt.Equal(row.FailedAt) || row.FailedAt.Before(before.Add(-time.Second)) || row.FailedAt.After(time.Now().Add(time.Second)) {
			t.Errorf("got %v", list)
		}
		if !microStamp.MatchString(fmt.Sprint(raw["failedAt"])) {
			t.Errorf("want microseconds, got %v", raw["failedAt"])
		}
		for _, key := range []string{"data", "payload"} {
			if !sameJSON(mustJSON(raw[key]), []byte(`{"n":1}`)) {
				t.Errorf("%s: got %v", key, raw[key])
			}
		}
	}
}

// TestDeadLetterListFilters: 11.4, newest first; total counts all matches; a from or to that does not parse is
// ignored; an unknown queue is an empty list.
func TestDeadLetterListFilters(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	other := s.as("other")
	for range 3 {
		fileOne(s, "")
	}
	fileOne(other, "")
	failedAt := map[string]string{}
	for _, row := range s.client.Get("/api/v1/dlq?queue=" + s.queue + "&consumerGroup=g").Object()["messages"].([]any) {
		failedAt[row.(map[string]any)["transactionId"].(string)] = row.(map[string]any)["failedAt"].(string)
	}
	base := "queue=" + s.queue
	mine := base + "&consumerGroup=g"
	for query, want := range map[string]struct {
		txids []string
		total int
	}{
		base:                               {[]string{"m0", "m2", "m1", "m0"}, 4},
		mine:                               {[]string{"m2", "m1", "m0"}, 3},
		base + "&consumerGroup=other":      {[]string{"m0"}, 1},
		base + "&consumerGroup=nobody":     {nil, 0},
		base + "&partition=Default":        {[]string{"m0", "m2", "m1", "m0"}, 4},
		base + "&partition=nothing":        {nil, 0},
		base + "-missing":                  {nil, 0},
		mine + "&limit=1":                  {[]string{"m2"}, 3},
		mine + "&limit=1&offset=1":         {[]string{"m1"}, 3},
		mine + "&offset=5":                 {nil, 3},
		mine + "&limit=0":                  {[]string{"m2"}, 3},
		mine + "&limit=99999":              {[]string{"m2", "m1", "m0"}, 3},
		mine + "&from=" + failedAt["m1"]:   {[]string{"m2", "m1"}, 2},
		mine + "&to=" + failedAt["m1"]:     {[]string{"m0"}, 1},
		mine + "&from=whenever&to=later":   {[]string{"m2", "m1", "m0"}, 3},
		mine + "&from=2100-01-01T00:00:00": {nil, 0},
	} {
		t.Run("11.4 "+query, func(t *testing.T) {
			list := listLetters(t, s.client, query)
			if got := letterTxids(list); !slices.Equal(got, want.txids) || list.Total != want.total {
				t.Errorf("want %v of %d, got %v of %d", want.txids, want.total, got, list.Total)
			}
		})
	}
	if list := listLetters(t, s.client, mine); list.Pagination.Limit != 100 || list.Pagination.Offset != 0 {
		t.Errorf("the default page is 100, got %+v", list.Pagination)
	}
	needEnvelope(t, s.client.Get("/api/v1/dlq?limit=many"), 400, "bad_request")
}

// TestDeadLettersOutliveTheMessageAndTheGroup: 11.4, not the queue.
func TestDeadLettersOutliveTheMessageAndTheGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	fileOne(s, "")
	need(t, s.client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 1}), 200)
	awaitRetained(t, s, 0)
	need(t, s.client.Delete(groupPath(s.group, "/queues/", s.queue)), 200)
	s.needDeadLetters(0)
	needDeleted(t, s.client, s.queue)
	s.needDeadLetters()
}

// TestDeadLetterDeletionByAddress: 11.3, of all groups; the log is immutable; the id is echoed as sent.
func TestDeadLetterDeletionByAddress(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	uuid := queueDetail(t, s.client, s.queue).Partitions[0].ID
	for i, form := range []func() string{func() string { return s.partitionID }, func() string { return uuid }} {
		fileOne(s, "")
		fileOne(s.as("other"), "")
		id := form()
		path := fmt.Sprintf("/api/v1/messages/%s/m%d", id, i)
		reply := s.client.Delete(path)
		want := fmt.Sprintf(`{"success":true,"partitionId":%q,"transactionId":"m%d","deleted":2}`, id, i)
		if need(t, reply, 200); !sameJSON(reply.Body, []byte(want)) {
			t.Fatalf("want %s, got %v", want, reply)
		}
		s.needDeadLetters()
		again := s.client.Delete(path)
		need(t, again, 404)
		object := again.Object()
		needKeys(t, object, "success", "partitionId", "transactionId", "error", "message")
		if object["success"] != false || object["error"] != "Message not found" || object["partitionId"] != id {
			t.Errorf("got %v", again)
		}
	}
	if rows := browse(t, s.client, "queue="+s.queue); len(rows) != 2 {
		t.Errorf("the log itself is immutable, got %+v", rows)
	}
}

// TestDeadLetterPurge: 11.6, by queue, and by group when one is named.
func TestDeadLetterPurge(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	other := s.as("other")
	fileOne(s, "")
	fileOne(s, "")
	fileOne(other, "")
	purge := func(query, want string) {
		t.Helper()
		reply := s.client.Delete("/api/v1/dlq" + query)
		if need(t, reply, 200); !sameJSON(reply.Body, []byte(want)) {
			t.Fatalf("%s: want %s, got %v", query, want, reply)
		}
	}
	purge("?queue="+s.queue+"&consumerGroup=nobody", fmt.Sprintf(`{"success":true,"deleted":0,"queue":%q,"consumerGroup":"nobody"}`, s.queue))
	purge("?queue="+s.queue+"&consumerGroup=other", fmt.Sprintf(`{"success":true,"deleted":1,"queue":%q,"consumerGroup":"other"}`, s.queue))
	s.needDeadLetters(0, 1)
	purge("?queue="+s.queue, fmt.Sprintf(`{"success":true,"deleted":2,"queue":%q,"consumerGroup":null}`, s.queue))
	s.needDeadLetters()
	purge("?queue="+s.queue, fmt.Sprintf(`{"success":true,"deleted":0,"queue":%q,"consumerGroup":null}`, s.queue))
	for _, query := range []string{"", "?queue=", "?consumerGroup=g"} {
		reply := s.client.Delete("/api/v1/dlq" + query)
		want := `{"success":false,"error":"queue is required","message":"Bulk DLQ purge requires an exact queue name"}`
		if need(t, reply, 400); !sameJSON(reply.Body, []byte(want)) {
			t.Errorf("%q: want %s, got %v", query, want, reply)
		}
	}
}

// replayed is the answer of 11.5.
type replayed struct {
	Success               bool
	Result                string
	Queue, Partition      string
	ConsumerGroup         string
	DLQID                 string
	OriginalTransactionID string
	ReplayedAs            harness.Pushed
	DLQRowRemoved         bool
}

func needReplayed(t *testing.T, reply harness.Response, result string) replayed {
	t.Helper()
	need(t, reply, 200)
	needKeys(t, reply.Object(), "success", "result", "queue", "partition", "consumerGroup", "dlqId", "originalTransactionId", "replayedAs", "dlqRowRemoved")
	var answer replayed
	if err := reply.Decode(&answer); err != nil || !answer.Success || answer.Result != result || answer.DLQRowRemoved != (result == "moved") {
		t.Fatalf("want %s, got %v (%v)", result, reply, err)
	}
	return answer
}

// TestReplayMovesTheMessage: 11.5, both routes append a copy with the txid dlq:<row id> to the tail and delete the
// row; the copy is an ordinary message and reaches all groups.
func TestReplayMovesTheMessage(t *testing.T) {
	t.Parallel()
	routes := map[string]func(s *scene, row deadLetter) string{
		"replay":              func(_ *scene, row deadLetter) string { return "/api/v1/dlq/" + row.ID + "/replay" },
		"retry, numeric id":   func(s *scene, _ deadLetter) string { return "/api/v1/messages/" + s.partitionID + "/m0/retry" },
		"retry, partition id": func(_ *scene, row deadLetter) string { return "/api/v1/messages/" + row.PartitionID + "/m0/retry" },
	}
	for name, route := range routes {
		t.Run("11.5 "+name, func(t *testing.T) {
			t.Parallel()
			const trace = "018f2f60-1111-7000-8000-000000000000"
			s := newScene(t, nil, 0)
			pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: map[string]any{"k": "v"}, TransactionID: "m0", TraceID: trace})
			pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: 1, TransactionID: "m1"})
			other := s.as("other")
			needVerdicts(t, other.redelivered(0, 1, 1).ack(completed(1)), released)
			fileOne(s, "")
			row := s.deadLetters()[0]
			path := route(s, row)
			answer := needReplayed(t, s.client.Post(path, nil), "moved")
			as := answer.ReplayedAs
			if answer.Queue != s.queue || answer.Partition != "Default" || answer.ConsumerGroup != s.group || answer.DLQID != row.ID ||
				answer.OriginalTransactionID != "m0" || as.Index != 0 || as.TransactionID != "dlq:"+row.ID || as.QueueName != s.queue ||
				as.Status != "queued" || as.Offset == nil || *as.Offset != 2 || !uuidV7.MatchString(as.MessageID) || as.MessageID == row.MessageID {
				t.Errorf("got %+v", answer)
			}
			s.needDeadLetters()
			gone := s.client.Post(path, nil)
			if need(t, gone, 404); !sameJSON(gone.Body, []byte(`{"success":false,"result":"gone","error":"Message not found"}`)) {
				t.Errorf("a second call: got %v", gone)
			}
			for _, reader := range []*scene{other, s} {
				reply := reader.pop(wholeBacklog)
				need(t, reply.Response, 200)
				copied := reply.Messages[len(reply.Messages)-1]
				if copied.ID != as.MessageID || copied.TransactionID != as.TransactionID || copied.DeliveryAttempt != 1 ||
					!sameJSON(copied.Data, []byte(`{"k":"v"}`)) || copied.TraceID == nil || *copied.TraceID != trace || copied.Offset != 2 {
					t.Errorf("want the copy, got %+v", copied)
				}
			}
		})
	}
}

// TestReplayDestination: 11.5, the body overrides it, trimmed; a destination that is missing is created.
func TestReplayDestination(t *testing.T) {
	t.Parallel()
	other := uniqueName(t)
	for name, c := range map[string]struct {
		body             string
		queue, partition string // "" is the message's own
	}{
		"empty object":            {`{}`, "", "Default"},
		"partition":               {`{"partition":" p "}`, "", "p"},
		"queue":                   {fmt.Sprintf(`{"queue":"  %s-a\t"}`, other), other + "-a", "Default"},
		"both":                    {fmt.Sprintf(`{"queue":"%s-b","partition":"p"}`, other), other + "-b", "p"},
		"values that are no text": {`{"queue":7,"partition":null}`, "", "Default"},
	} {
		t.Run("11.5 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 1)
			fileOne(s, "")
			row := s.deadLetters()[0]
			queue := c.queue
			if queue == "" {
				queue = s.queue
			}
			answer := needReplayed(t, s.client.Post("/api/v1/dlq/"+row.ID+"/replay", c.body), "moved")
			if answer.Queue != queue || answer.Partition != c.partition || answer.ReplayedAs.QueueName != queue {
				t.Fatalf("got %+v", answer)
			}
			reply := s.client.PopPartition(queue, c.partition, "batch=10&autoAck=true")
			if need(t, reply.Response, 200); reply.Messages[len(reply.Messages)-1].TransactionID != "dlq:"+row.ID {
				t.Errorf("got %v", reply.Response)
			}
		})
	}
}

// TestReplayRefusals: 11.5, nothing is moved.
func TestReplayRefusals(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	fileOne(s, "")
	row := s.deadLetters()[0]
	for _, path := range []string{"/api/v1/dlq/" + row.ID + "/replay", "/api/v1/messages/" + s.partitionID + "/m0/retry"} {
		for _, body := range []string{`{"queue":""}`, `{"partition":"  "}`, `{"queue":"q","partition":""}`} {
			reply := s.client.Post(path, body)
			if need(t, reply, 400); reply.Text("error") != "queue and partition overrides must be non-empty" {
				t.Errorf("%s: got %v", body, reply)
			}
		}
		for _, body := range []string{`{"queue":`, `[]`, `"queue"`, `{} {}`} {
			needEnvelope(t, s.client.Post(path, body), 400, "bad_body")
		}
		needEnvelope(t, s.client.Post(path, map[string]any{"queue": strings.Repeat("q", 412)}), 413, "name_too_long")
	}
	s.needDeadLetters(0)
	for _, path := range []string{"/api/v1/dlq/" + deadLease + "/replay", "/api/v1/dlq/nothing/replay", "/api/v1/messages/" + noPartition + "/m0/retry",
		"/api/v1/messages/" + s.partitionID + "/" + url.PathEscape("no such") + "/retry"} {
		reply := s.client.Post(path, nil)
		if need(t, reply, 404); !sameJSON(reply.Body, []byte(`{"success":false,"result":"gone","error":"Message not found"}`)) {
			t.Errorf("%s: got %v", path, reply)
		}
	}
}

// TestReplayIsADuplicateInTheWindow: 11.5 and 4.6, nothing is written and the row is kept.
func TestReplayIsADuplicateInTheWindow(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	fileOne(s, "")
	row := s.deadLetters()[0]
	pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: 0, TransactionID: "dlq:" + row.ID})
	answer := needReplayed(t, s.client.Post("/api/v1/dlq/"+row.ID+"/replay", nil), "duplicate")
	if answer.ReplayedAs.MessageID != "00000000-0000-0000-0000-000000000000" {
		t.Errorf("got %+v", answer)
	}
	s.needDeadLetters(0)
	if detail := queueDetail(t, s.client, s.queue); detail.Totals.Total != 2 {
		t.Errorf("want nothing to be written, got %+v", detail.Totals)
	}
}

// TestRetryTakesTheOldestRow: 11.5, of the address; each call moves one.
func TestRetryTakesTheOldestRow(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	other := s.as("other")
	fileOne(other, "")
	fileOne(s, "")
	path := "/api/v1/messages/" + s.partitionID + "/m0/retry"
	if first := needReplayed(t, s.client.Post(path, nil), "moved"); first.ConsumerGroup != "other" {
		t.Fatalf("want the oldest row, got %+v", first)
	}
	other.needDeadLetters()
	s.needDeadLetters(0)
	if second := needReplayed(t, s.client.Post(path, nil), "moved"); second.ConsumerGroup != s.group {
		t.Fatalf("got %+v", second)
	}
	needBodyless := s.client.Post(path, nil)
	need(t, needBodyless, 404)
}

// TestReplayAfterTheMessageIsGone: 11.4 and 11.5, retention took the message, not the dead letter.
func TestReplayAfterTheMessageIsGone(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	fileOne(s, "")
	row := s.deadLetters()[0]
	need(t, s.client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 1}), 200)
	awaitRetained(t, s, 0)
	need(t, s.client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 0}), 200)
	answer := needReplayed(t, s.client.Post("/api/v1/dlq/"+row.ID+"/replay", nil), "moved")
	if answer.ReplayedAs.Offset == nil || *answer.ReplayedAs.Offset != 1 {
		t.Fatalf("want the tail, got %+v", answer)
	}
	needMessages(t, s.pop(10), "dlq:"+row.ID)
}
