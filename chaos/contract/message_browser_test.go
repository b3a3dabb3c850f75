package contract

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// browsed is a row of 11.1.
type browsed struct {
	ID               string
	TransactionID    string
	TxnHash          string
	PartitionID      string
	QueuePath        string
	Queue, Partition string
	Offset           int64
	Namespace, Task  string
	QueuePriority    int
	Status           string
	QueueStatus      *string
	BusStatus        struct{ ConsumedBy, TotalGroups int }
	TraceID          *string
	ProducerSub      *string
	IsEncrypted      bool
	PayloadAvailable bool
	Segment          struct{ Seq, FrameIdx int64 }
	CreatedAt        string
	LeaseExpiresAt   *string
	Data, Payload    json.RawMessage
}

// browse lists messages; the query is that of 11.1.
func browse(t *testing.T, client *harness.Client, query string) []browsed {
	t.Helper()
	return fetchInto[struct{ Messages []browsed }](t, client, "/api/v1/messages?"+query).Messages
}

func browsedTxids(rows []browsed) []string {
	txids := make([]string, len(rows))
	for i, row := range rows {
		txids[i] = row.TransactionID
	}
	return txids
}

// microStamp is the form of a stamp in a management read (2.12).
var microStamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)

// TestMessageListRow: 11.1, every member of a row.
func TestMessageListRow(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"namespace": "n", "task": "t", "priority": 4}), 200)
	const trace = "018f2f60-1111-7000-8000-000000000000"
	pushed := pushAll(t, suite.client,
		harness.Item{Queue: queue, Partition: "p/q", Payload: map[string]any{"n": 1}, TransactionID: "a", TraceID: trace},
		harness.Item{Queue: queue, Partition: "p/q", Payload: "two", TransactionID: "b"})
	reply := suite.client.Get("/api/v1/messages?queue=" + queue)
	need(t, reply, 200)
	needKeys(t, reply.Object(), "messages", "total", "pagination", "mode")
	raw := reply.Object()["messages"].([]any)[0].(map[string]any)
	needKeys(t, raw, "id", "transactionId", "txnHash", "partitionId", "queuePath", "queue", "partition", "offset", "namespace", "task",
		"queuePriority", "status", "queueStatus", "busStatus", "traceId", "producerSub", "isEncrypted", "payloadAvailable", "segment",
		"createdAt", "leaseExpiresAt", "data", "payload")
	rows := browse(t, suite.client, "queue="+queue)
	if !slices.Equal(browsedTxids(rows), []string{"b", "a"}) {
		t.Fatalf("want newest first, got %v", reply)
	}
	row := rows[1]
	if row.ID != pushed[0].MessageID || !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(row.TxnHash) || row.TxnHash == rows[0].TxnHash ||
		!uuidAny.MatchString(row.PartitionID) || row.QueuePath != queue+"/p/q" || row.Queue != queue || row.Partition != "p/q" || row.Offset != 0 ||
		row.Namespace != "n" || row.Task != "t" || row.QueuePriority != 4 || row.Status != "pending" || row.QueueStatus != nil ||
		row.TraceID == nil || *row.TraceID != trace || row.ProducerSub != nil || row.IsEncrypted || !row.PayloadAvailable ||
		!microStamp.MatchString(row.CreatedAt) || row.LeaseExpiresAt != nil ||
		!sameJSON(row.Data, []byte(`{"n":1}`)) || !sameJSON(row.Payload, row.Data) {
		t.Errorf("got %+v", row)
	}
	if row.TxnHash != "e6c632b61e964e1f" {
		t.Errorf("txnHash of %q: want the XXH3-64 e6c632b61e964e1f, got %s", "a", row.TxnHash)
	}
	if rows[0].Segment.Seq != 0 || rows[0].Segment.FrameIdx != 1 || row.Segment.FrameIdx != 0 {
		t.Errorf("want places 0 and 1 of the segment 0, got %+v and %+v", row.Segment, rows[0].Segment)
	}
}

// TestMessageListStatus: 11.1, dead_letter before processing before completed before pending; queueStatus is the same
// for queue mode alone, and the mode says who reads.
func TestMessageListStatus(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 5)
	type mode struct {
		HasQueueMode   bool
		BusGroupsCount int
		Type           string
	}
	needMode := func(want mode) {
		t.Helper()
		if got := fetchInto[struct{ Mode mode }](t, s.client, "/api/v1/messages?queue="+s.queue).Mode; got != want {
			t.Errorf("mode: want %+v, got %+v", want, got)
		}
	}
	needStatuses := func(want ...string) []browsed {
		t.Helper()
		rows := browse(t, s.client, "queue="+s.queue)
		slices.Reverse(rows)
		got := make([]string, len(rows))
		for i, row := range rows {
			got[i] = row.Status
		}
		if !slices.Equal(got, want) {
			t.Fatalf("want %v, got %v", want, got)
		}
		return rows
	}
	needMode(mode{false, 0, "none"})
	needStatuses("pending", "pending", "pending", "pending", "pending")
	queueReader := s.as("")
	batch := queueReader.claim(2, 0, 1, 1)
	needStatuses("processing", "processing", "pending", "pending", "pending")
	needVerdicts(t, batch.ack(completed(1)), released)
	needMode(mode{true, 0, "queue"})
	rows := needStatuses("completed", "completed", "pending", "pending", "pending")
	if rows[0].QueueStatus == nil || *rows[0].QueueStatus != "completed" || rows[4].QueueStatus == nil || *rows[4].QueueStatus != "pending" {
		t.Errorf("queueStatus: got %v and %v", rows[0].QueueStatus, rows[4].QueueStatus)
	}
	slow, fast := s.as("slow"), s.as("fast")
	needVerdicts(t, slow.claim(1, 0, 0, 1).ack(completed(0)), released)
	needVerdicts(t, fast.claim(3, 0, 2, 1).ack(completed(2)), released)
	needMode(mode{true, 2, "hybrid"})
	rows = needStatuses("completed", "pending", "pending", "pending", "pending")
	for offset, consumedBy := range []int{2, 1, 1, 0, 0} {
		if got := rows[offset].BusStatus; got.ConsumedBy != consumedBy || got.TotalGroups != 2 {
			t.Errorf("offset %d: want consumed by %d of 2, got %+v", offset, consumedBy, got)
		}
	}
	leased := slow.claim(2, 1, 2, 1)
	rows = needStatuses("completed", "processing", "processing", "pending", "pending")
	if rows[1].LeaseExpiresAt == nil || rows[3].LeaseExpiresAt != nil {
		t.Errorf("leaseExpiresAt: got %v and %v", rows[1].LeaseExpiresAt, rows[3].LeaseExpiresAt)
	}
	needVerdicts(t, leased.ack(dlqed(1)), filed)
	slow.redelivered(2, 4, 1)
	needStatuses("completed", "dead_letter", "processing", "processing", "processing")
	for status, txids := range map[string][]string{
		"completed": {"m0"}, "dead_letter": {"m1"}, "failed": {"m1"}, "processing": {"m4", "m3", "m2"}, "pending": {},
	} {
		if got := browsedTxids(browse(t, s.client, "queue="+s.queue+"&status="+status)); !slices.Equal(got, txids) {
			t.Errorf("status %s: want %v, got %v", status, txids, got)
		}
	}
	busOnly := newScene(t, nil, 1)
	busOnly.redelivered(0, 0, 1)
	if got := fetchInto[struct{ Mode mode }](t, s.client, "/api/v1/messages?queue="+busOnly.queue).Mode; got != (mode{false, 1, "bus"}) {
		t.Errorf("mode: got %+v", got)
	}
}

// TestMessageListFilters: 11.1.
func TestMessageListFilters(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	queue, other := namespace+".x", namespace+".y"
	pushAll(t, suite.client, numbered(queue, "a", "a", 2)...)
	pushAll(t, suite.client, numbered(queue, "b", "b", 1)...)
	pushAll(t, suite.client, numbered(other, "a", "y", 1)...)
	middle := browse(t, suite.client, "queue="+queue+"&partition=b")[0].CreatedAt
	at := func(offset time.Duration) string {
		return url.QueryEscape(time.Now().Add(offset).UTC().Format(time.RFC3339))
	}
	for query, want := range map[string][]string{
		"queue=" + queue:                                 {"b0", "a1", "a0"},
		"queue=" + queue + "&partition=a":                {"a1", "a0"},
		"namespace=" + namespace:                         {"y0", "b0", "a1", "a0"},
		"namespace=" + namespace + "&task=y":             {"y0"},
		"queue=" + other + "&task=x":                     {},
		"queue=" + queue + "-missing":                    {},
		"queue=" + queue + "&limit=1":                    {"b0"},
		"queue=" + queue + "&limit=1&offset=1":           {"a1"},
		"queue=" + queue + "&offset=3":                   {},
		"queue=" + queue + "&limit=0":                    {"b0"},
		"queue=" + queue + "&limit=99999":                {"b0", "a1", "a0"},
		"queue=" + queue + "&from=" + middle:             {"b0"},
		"queue=" + queue + "&from=" + at(time.Hour):      {},
		"queue=" + queue + "&to=" + at(-2*time.Minute):   {},
		"queue=" + queue + "&to=" + at(0):                {"b0", "a1", "a0"}, // truncated to its minute, plus one
		"queue=" + queue + "&from=" + at(-time.Hour):     {"b0", "a1", "a0"},
		"queue=" + queue + "&status=pending&partition=a": {"a1", "a0"},
	} {
		t.Run("11.1 "+query, func(t *testing.T) {
			rows := browse(t, suite.client, query)
			if got := browsedTxids(rows); !slices.Equal(got, want) {
				t.Fatalf("want %v, got %v", want, got)
			}
		})
	}
	answer := fetchInto[struct {
		Total      int
		Pagination struct{ Limit, Offset int }
	}](t, suite.client, "/api/v1/messages?limit=2&offset=1&queue="+queue)
	if answer.Total != 2 || answer.Pagination.Limit != 2 || answer.Pagination.Offset != 1 {
		t.Errorf("total is the size of the page, got %+v", answer)
	}
	if answer := fetchInto[struct{ Pagination struct{ Limit int } }](t, suite.client, "/api/v1/messages?queue="+queue); answer.Pagination.Limit != 200 {
		t.Errorf("the default limit is 200, got %+v", answer)
	}
	for _, query := range []string{"limit=many", "offset=x", "from=yesterday", "to=later"} {
		needEnvelope(t, suite.client.Get("/api/v1/messages?"+query), 400, "bad_request")
	}
}

// TestMessageDetail: 11.2, all keys are always present, with either form of the partition id.
func TestMessageDetail(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"namespace": "n", "leaseTime": 33}, 2)
	leased := s.redelivered(0, 1, 1)
	needVerdicts(t, leased.ack(completed(0)), kept)
	row := browse(t, s.client, "queue="+s.queue)[0]
	type detail struct {
		ID, TransactionID       string
		Data, Payload           json.RawMessage
		PartitionID, Partition  string
		Queue, QueuePath        string
		Namespace, Task, Status string
		ErrorMessage            *string
		RetryCount              *int
		IsEncrypted             bool
		QueueConfig             map[string]any
		ConsumerGroups          []struct {
			Name                string
			Committed, Consumed json.RawMessage
			LeaseExpiresAt      *string
		}
	}
	for _, id := range []string{row.PartitionID, s.partitionID} {
		path := "/api/v1/messages/" + id + "/m1"
		reply := s.client.Get(path)
		need(t, reply, 200)
		needKeys(t, reply.Object(), "id", "transactionId", "data", "payload", "traceId", "producerSub", "createdAt", "partitionId", "partition",
			"queue", "queuePath", "namespace", "task", "status", "errorMessage", "retryCount", "isEncrypted", "queueConfig", "mode", "consumerGroups")
		got := fetchInto[detail](t, s.client, path)
		if got.ID != row.ID || got.TransactionID != "m1" || !sameJSON(got.Data, []byte("1")) || !sameJSON(got.Payload, []byte("1")) ||
			got.PartitionID != row.PartitionID || got.Partition != "Default" || got.Queue != s.queue || got.QueuePath != s.queue+"/Default" ||
			got.Namespace != "n" || got.Status != "processing" || got.ErrorMessage != nil || got.QueueConfig["leaseTime"] != 33.0 {
			t.Errorf("got %v", reply)
		}
		if len(got.ConsumerGroups) != 1 || got.ConsumerGroups[0].Name != s.group || got.ConsumerGroups[0].LeaseExpiresAt == nil {
			t.Errorf("consumerGroups: got %v", reply)
		}
	}
	for _, path := range []string{"/" + s.partitionID + "/m9", "/" + noPartition + "/m0", "/" + deadLease + "/m0"} {
		needBody(t, s.client.Get("/api/v1/messages"+path), 404, `{"error":"Message not found"}`)
	}
}

// TestMessageDetailOfADeadLetter: 11.2, with its reason; also when retention has removed the log record.
func TestMessageDetailOfADeadLetter(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 0}, 1)
	needVerdicts(t, s.redelivered(0, 0, 1).ack(failed(0).because("broken")), filed)
	check := func() {
		t.Helper()
		reply := s.client.Get("/api/v1/messages/" + s.partitionID + "/m0")
		need(t, reply, 200)
		object := reply.Object()
		if object["status"] != "dead_letter" || object["errorMessage"] != "broken" || fmt.Sprint(object["retryCount"]) != "0" || fmt.Sprint(object["data"]) != "0" ||
			object["queue"] != s.queue {
			t.Fatalf("got %v", reply)
		}
	}
	check()
	need(t, s.client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 1}), 200)
	awaitRetained(t, s, 0)
	check()
}
