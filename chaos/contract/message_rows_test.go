package contract

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// TestMessageListTimes: 11.1, from is inclusive to the microsecond; to is truncated to its minute and ends with that minute.
func TestMessageListTimes(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	stamp := stampOf(t, s, 0)
	minute := stamp.Truncate(time.Minute)
	for query, comes := range map[string]bool{
		"from=" + iso(stamp):                                 true,
		"from=" + iso(stamp.Add(time.Microsecond)):           false,
		"from=" + iso(stamp.Add(-time.Microsecond)):          true,
		"to=" + iso(minute):                                  true,
		"to=" + iso(minute.Add(59999999*time.Microsecond)):   true,
		"to=" + iso(minute.Add(-time.Microsecond)):           false,
		"to=" + iso(minute.Add(time.Hour)):                   true,
		"from=" + iso(stamp) + "&to=" + iso(minute):          true,
		"to=1969-12-31T23:59:59Z":                            false,
		"from=1969-12-31T23:59:59Z":                          true,
		"from=" + iso(stamp) + "&to=" + iso(stamp):           true,
		"from=" + stamp.Format("2006-01-02T15:04:05.000000"): true, // without a zone it is UTC
		"": true,
	} {
		rows := browse(t, s.client, "queue="+s.queue+"&"+query)
		if (len(rows) == 1) != comes {
			t.Errorf("11.1 %s: the message of %v comes: want %v, got %+v", query, iso(stamp), comes, rows)
		}
	}
}

// TestMessageListPages: 11.1 and 2.11, 200 rows by default and 1,000 at most; the pages join without a gap.
func TestMessageListPages(t *testing.T) {
	t.Parallel()
	const n = 1_003
	s := newScene(t, nil, n)
	type page struct {
		Messages   []browsed
		Total      int
		Pagination struct{ Limit, Offset int }
	}
	read := func(query string) page {
		t.Helper()
		return fetchInto[page](t, s.client, "/api/v1/messages?queue="+s.queue+query)
	}
	for _, c := range []struct {
		query               string
		limit, offset, rows int
	}{
		{"", 200, 0, 200}, {"&limit=999", 999, 0, 999}, {"&limit=1000", 1000, 0, 1000}, {"&limit=1001", 1000, 0, 1000}, {"&limit=-1", 1, 0, 1},
		{"&limit=99999999999999999999", 1000, 0, 1000}, {"&limit=1000&offset=1000", 1000, 1000, 3}, {"&offset=-7", 200, 0, 200},
		{"&offset=1003", 200, 1003, 0}, {"&status=pending&limit=5&offset=1000", 5, 1000, 3},
	} {
		got := read(c.query)
		if got.Pagination.Limit != c.limit || got.Pagination.Offset != c.offset || len(got.Messages) != c.rows || got.Total != c.rows {
			t.Errorf("11.1 %q: want %d rows from %d with limit %d, got %d (total %d) with %+v", c.query, c.rows, c.offset, c.limit, len(got.Messages), got.Total, got.Pagination)
		}
		for i, row := range got.Messages {
			if want := int64(n - 1 - c.offset - i); row.Offset != want {
				t.Fatalf("11.1 %q: row %d: want offset %d, got %d", c.query, i, want, row.Offset)
			}
		}
	}
	for _, query := range []string{"&status=done", "&status=Pending", "&limit=1.5", "&offset=", "&limit="} {
		needEnvelope(t, s.client.Get("/api/v1/messages?queue="+s.queue+query), 400, "bad_request")
	}
}

// TestQueueStatus: 11.1, status judged for queue mode alone, null while it has no cursor.
func TestQueueStatus(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 5)
	mode := s.as("")
	needBothStatuses := func(want ...string) {
		t.Helper()
		rows := browse(t, s.client, "queue="+s.queue)
		slices.Reverse(rows)
		got := make([]string, len(rows))
		for i, row := range rows {
			got[i] = row.Status + "/"
			if row.QueueStatus != nil {
				got[i] += *row.QueueStatus
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("want %v, got %v", want, got)
		}
	}
	group := s.claim(1, 0, 0, 1)
	needBothStatuses("processing/", "pending/", "pending/", "pending/", "pending/")
	batch := mode.claim(3, 0, 2, 1)
	needBothStatuses("processing/processing", "processing/processing", "processing/processing", "pending/pending", "pending/pending")
	needVerdicts(t, batch.ack(completed(0), dlqed(1)), released, filed)
	needBothStatuses("processing/completed", "dead_letter/dead_letter", "pending/pending", "pending/pending", "pending/pending")
	needVerdicts(t, group.ack(completed(0)), released)
	needVerdicts(t, s.redelivered(1, 4, 1).ack(completed(1), dlqed(2)), released, filed)
	needBothStatuses("completed/completed", "dead_letter/dead_letter", "dead_letter/pending", "pending/pending", "pending/pending")
	needMessages(t, s.pop(1, "autoAck=true"), "m3")
	needBothStatuses("completed/completed", "dead_letter/dead_letter", "dead_letter/pending", "completed/pending", "pending/pending")
	mode.claim(2, 2, 3, anyAttempt)
	needBothStatuses("completed/completed", "dead_letter/dead_letter", "dead_letter/processing", "processing/processing", "pending/pending")
}

// TestGroupsWithoutACursorDoNotHoldBack: 11.1, completed asks the groups with a cursor; totalGroups counts all.
func TestGroupsWithoutACursorDoNotHoldBack(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 0)
	s.as("registered").needNothing() // there is no partition yet
	s.push(1)
	if row := browse(t, s.client, "queue="+s.queue)[0]; row.Status != "pending" || row.BusStatus.TotalGroups != 1 || row.BusStatus.ConsumedBy != 0 {
		t.Errorf("got %+v", row)
	}
	reader := s.as("reader")
	needMessages(t, reader.pinned(1, "autoAck=true"), "m0")
	if row := browse(t, s.client, "queue="+s.queue)[0]; row.Status != "completed" || row.BusStatus.TotalGroups != 2 || row.BusStatus.ConsumedBy != 1 {
		t.Errorf("got %+v", row)
	}
}

// TestMessageRowKeys: 11.1 and 11.2, exactly the members of a row, of the answer and of the detail; of a message that
// only its dead letter still holds, too.
func TestMessageRowKeys(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	list := s.client.Get("/api/v1/messages?queue=" + s.queue).Object()
	needExactKeys(t, list, "messages", "total", "pagination", "mode")
	needExactKeys(t, list["pagination"].(map[string]any), "limit", "offset")
	needExactKeys(t, list["mode"].(map[string]any), "hasQueueMode", "busGroupsCount", "type")
	row := firstObject(list["messages"])
	needExactKeys(t, row, "id", "transactionId", "txnHash", "partitionId", "queuePath", "queue", "partition", "offset", "namespace", "task",
		"queuePriority", "status", "queueStatus", "busStatus", "traceId", "producerSub", "isEncrypted", "payloadAvailable", "segment",
		"createdAt", "leaseExpiresAt", "data", "payload")
	needExactKeys(t, row["busStatus"].(map[string]any), "consumedBy", "totalGroups")
	needExactKeys(t, row["segment"].(map[string]any), "seq", "frameIdx")
	empty := s.client.Get("/api/v1/messages?queue=" + s.queue + "-missing")
	needJSON(t, empty, 200, `{"messages":[],"total":0,"pagination":{"limit":200,"offset":0},"mode":{"hasQueueMode":false,"busGroupsCount":0,"type":"none"}}`)
	fileOne(s, "broken")
	detailOf := func() map[string]any {
		t.Helper()
		reply := s.client.Get("/api/v1/messages/" + s.partitionID + "/m0")
		need(t, reply, 200)
		needExactKeys(t, reply.Object(), "id", "transactionId", "data", "payload", "traceId", "producerSub", "createdAt", "partitionId", "partition",
			"queue", "queuePath", "namespace", "task", "status", "errorMessage", "retryCount", "isEncrypted", "queueConfig", "mode", "consumerGroups")
		return reply.Object()
	}
	before := detailOf()
	need(t, s.client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 1}), 200)
	awaitRetained(t, s, 0)
	need(t, s.client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 0}), 200)
	after := detailOf()
	delete(before, "consumerGroups") // the cursor follows the log start
	delete(after, "consumerGroups")
	for _, detail := range []map[string]any{before, after} {
		delete(detail["queueConfig"].(map[string]any), "maxWaitTimeSeconds")
	}
	if !sameJSON(mustJSON(before), mustJSON(after)) {
		t.Errorf("the dead letter serves %s, the log served %s", mustJSON(after), mustJSON(before))
	}
}

// TestMessageDetailValues: 11.2, where each group stands, who reads, the options of the queue, and the retries of a dead
// letter.
func TestMessageDetailValues(t *testing.T) {
	t.Parallel()
	const trace = "018f2f60-1111-7000-8000-000000000000"
	s := newScene(t, map[string]any{"leaseTime": 33, "retryLimit": 1, "namespace": "n", "task": "t"}, 0)
	pushed := pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: map[string]any{"n": 1}, TransactionID: "m0", TraceID: trace})
	s.pushed = 1
	s.push(2)
	type consumer struct {
		Name           string
		Committed      json.Number
		Consumed       *bool
		LeaseExpiresAt *time.Time
	}
	type detail struct {
		ID, CreatedAt, Namespace, Task, Status string
		TraceID, ProducerSub, ErrorMessage     *string
		RetryCount                             *int
		QueueConfig                            map[string]any
		Mode                                   struct {
			HasQueueMode   bool
			BusGroupsCount int
			Type           string
		}
		ConsumerGroups []consumer
	}
	read := func(txid string) detail {
		t.Helper()
		return fetchInto[detail](t, s.client, "/api/v1/messages/"+queueDetail(t, s.client, s.queue).Partitions[0].ID+"/"+txid)
	}
	first := read("m0")
	if first.ID != pushed.MessageID || first.CreatedAt != messageStamp(t, s, 0) || first.TraceID == nil || *first.TraceID != trace || first.ProducerSub != nil ||
		first.Namespace != "n" || first.Task != "t" || first.Status != "pending" || first.ErrorMessage != nil || first.RetryCount == nil || *first.RetryCount != 0 ||
		first.Mode.Type != "none" || first.ConsumerGroups == nil || len(first.ConsumerGroups) != 0 {
		t.Errorf("got %+v", first)
	}
	for key, want := range withOptions(map[string]any{"leaseTime": 33.0, "retryLimit": 1.0}) {
		if got := first.QueueConfig[key]; got != want {
			t.Errorf("queueConfig.%s: want %v, got %v", key, want, got)
		}
	}
	mode := s.as("")
	needMessages(t, mode.pop(2, "autoAck=true"), "m0", "m1")
	batch := s.redelivered(0, 2, 1)
	left := time.Now().Add(33 * time.Second)
	second := read("m1")
	if second.Mode.Type != "hybrid" || !second.Mode.HasQueueMode || second.Mode.BusGroupsCount != 1 || second.Status != "processing" || len(second.ConsumerGroups) != 2 {
		t.Fatalf("got %+v", second)
	}
	for _, got := range second.ConsumerGroups {
		want := map[string]struct {
			committed json.Number
			consumed  bool
		}{queueMode: {"2", true}, s.group: {"0", false}}[got.Name]
		if got.Consumed == nil || *got.Consumed != want.consumed || got.Committed != want.committed || (got.LeaseExpiresAt != nil) != (got.Name == s.group) {
			t.Errorf("want %+v, got %+v", want, got)
		}
		if got.LeaseExpiresAt != nil && got.LeaseExpiresAt.Sub(left).Abs() > promptly {
			t.Errorf("the lease ends at %v, got %v", left, *got.LeaseExpiresAt)
		}
	}
	for _, got := range read("m2").ConsumerGroups { // the next one of queue mode
		if *got.Consumed || got.Committed != map[string]json.Number{queueMode: "2", s.group: "0"}[got.Name] {
			t.Errorf("nobody has consumed m2, got %+v", got)
		}
	}
	needVerdicts(t, batch.ack(failed(0).because("once")), released)
	if got := read("m0"); got.ErrorMessage != nil || got.Status != "pending" {
		t.Errorf("a charged failure is no dead letter, got %+v", got)
	}
	needVerdicts(t, s.redelivered(0, 2, 2).ack(failed(0).because("twice")), filed)
	if got := read("m0"); got.Status != "dead_letter" || got.ErrorMessage == nil || *got.ErrorMessage != "twice" || got.RetryCount == nil || *got.RetryCount != 1 {
		t.Errorf("got %+v", got)
	}
}

// TestMessageAddresses: 11.2 and 11.3, what is no address is a message that is not there, on either route; an address is
// percent-decoded and echoed as it was meant.
func TestMessageAddresses(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 0)
	const odd = "a/b c%d"
	pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: 1, TransactionID: odd})
	popped := s.pop(1)
	needAcked(t, s.client.AckMessages("dlq", popped.Messages...))
	need(t, s.client.Get("/api/v1/messages/"+s.partitionID+"/"+url.PathEscape(odd)), 200)
	for _, address := range []string{"x", "-1", "99999999999999999999", deadLease, s.partitionID} {
		txid := map[bool]string{true: "nothing", false: odd}[address == s.partitionID]
		path := "/api/v1/messages/" + address + "/" + url.PathEscape(txid)
		needBody(t, s.client.Get(path), 404, `{"error":"Message not found"}`)
		reply := s.client.Delete(path)
		need(t, reply, 404)
		object := reply.Object()
		needExactKeys(t, object, "success", "partitionId", "transactionId", "error", "message")
		if object["success"] != false || object["partitionId"] != address || object["transactionId"] != txid || object["error"] != "Message not found" ||
			object["message"] == "" {
			t.Errorf("11.3 %s: got %v", path, reply)
		}
	}
	id := strings.ToUpper(queueDetail(t, s.client, s.queue).Partitions[0].ID)
	needJSON(t, s.client.Delete("/api/v1/messages/"+id+"/"+url.PathEscape(odd)), 200,
		fmt.Sprintf(`{"success":true,"partitionId":%q,"transactionId":%q,"deleted":1}`, id, odd))
}
