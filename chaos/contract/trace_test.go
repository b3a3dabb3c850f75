package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

func TestTraceOfAPoppedMessage_12(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
	popped := suite.client.Pop(queue, "leaseSeconds=60")
	needMessages(t, popped, "t")
	trace := suite.client.Post("/api/v1/traces", map[string]any{"transactionId": "t", "partitionId": popped.PartitionID,
		"data": map[string]any{"step": 1}, "traceNames": []string{queue}})
	need(t, trace, 201)
	address := "/api/v1/traces/" + popped.PartitionID + "/t"
	needTraces := func() {
		t.Helper()
		answer := suite.client.Get(address)
		need(t, answer, 200)
		if traces, _ := answer.Object()["traces"].([]any); len(traces) != 1 || firstObject(traces)["id"] != trace.Text("traceId") {
			t.Fatalf("want the trace %s, got %v", trace.Text("traceId"), answer)
		}
	}
	needTraces()
	t.Run("it is found by name, with the partitionId of the pop", func(t *testing.T) {
		row := firstObject(suite.client.Get("/api/v1/traces/by-name/" + queue).Object()["traces"])
		if row["partition_id"] != popped.PartitionID || row["transaction_id"] != "t" {
			t.Fatalf("got %v", row)
		}
	})
	t.Run("its address accepts the UUID of the partition too", func(t *testing.T) { // 2.12
		partition, _ := firstObject(suite.client.Get(queuePath(queue)).Object()["partitions"])["id"].(string)
		if !uuidAny.MatchString(partition) {
			t.Fatalf("got %q", partition)
		}
		byUUID := suite.client.Get("/api/v1/traces/" + partition + "/t")
		if need(t, byUUID, 200); string(byUUID.Body) != string(suite.client.Get(address).Body) {
			t.Fatalf("got %v", byUUID)
		}
	})
	t.Run("it survives the deletion of the queue", func(t *testing.T) {
		need(t, suite.client.DeleteQueue(queue), 200)
		needTraces()
	})
}

func TestTraceStoreKeyIsBounded_2_11(t *testing.T) {
	t.Parallel()
	const bytesMost = 511 - 36
	post := func(transactionID, name string) harness.Response {
		return suite.client.Post("/api/v1/traces", map[string]any{"transactionId": transactionID, "partitionId": "1", "data": 1, "traceNames": []string{name}})
	}
	fits, tooLong := strings.Repeat("x", bytesMost), strings.Repeat("x", bytesMost+1)
	need(t, post(fits, fits), 201)
	needEnvelope(t, post(tooLong, "n"), 400, "name_too_long")
	needEnvelope(t, post("t", tooLong), 400, "name_too_long")
}

// traceBody is a trace of a message nobody has pushed: the server does not check that it exists (state.md 7).
func traceBody(txid string, more map[string]any) map[string]any {
	body := map[string]any{"transactionId": txid, "partitionId": noPartition, "data": map[string]any{"n": 1}}
	for name, value := range more {
		body[name] = value
	}
	return body
}

// needTrace posts a trace and returns its id.
func needTrace(t *testing.T, body map[string]any) string {
	t.Helper()
	answer := suite.client.Post("/api/v1/traces", body)
	need(t, answer, 201)
	needExactKeys(t, answer.Object(), "success", "traceId")
	if answer.Object()["success"] != true || !uuidAny.MatchString(answer.Text("traceId")) {
		t.Fatalf("got %v", answer)
	}
	return answer.Text("traceId")
}

// tracesOf reads the rows of a list of traces.
func tracesOf(t *testing.T, path string) (rows []any, answer harness.Response) {
	t.Helper()
	answer = suite.client.Get(path)
	need(t, answer, 200)
	rows, isArray := answer.Object()["traces"].([]any)
	if !isArray {
		t.Fatalf("want traces, got %v", answer)
	}
	return rows, answer
}

// state.md 7: the members of a trace, their defaults and the row that shows them.
func TestTraceRow_12(t *testing.T) {
	t.Parallel()
	id := uniqueName(t)
	address := "/api/v1/traces/" + noPartition + "/"
	for i, c := range []struct {
		sent map[string]any
		want map[string]any
	}{
		{nil, map[string]any{"event_type": "info", "consumer_group": queueMode, "trace_names": []any{}}},
		{map[string]any{"traceNames": nil, "eventType": nil, "consumerGroup": nil}, map[string]any{"event_type": "info", "consumer_group": queueMode, "trace_names": []any{}}},
		{map[string]any{"traceNames": "one", "eventType": "step", "consumerGroup": "g"}, map[string]any{"event_type": "step", "consumer_group": "g", "trace_names": []any{"one"}}},
		{map[string]any{"traceNames": []string{"b", "a"}}, map[string]any{"trace_names": []any{"b", "a"}}},
		{map[string]any{"data": "text"}, map[string]any{"data": "text"}},
		{map[string]any{"data": json.RawMessage("null")}, map[string]any{"data": nil}},
		{map[string]any{"data": json.RawMessage("12345678901234567890")}, map[string]any{"data": json.Number("12345678901234567890")}},
	} {
		txid := fmt.Sprint(id, "-", i)
		trace := needTrace(t, traceBody(txid, c.sent))
		rows, answer := tracesOf(t, address+txid)
		needExactKeys(t, answer.Object(), "traces")
		row := firstObject(rows)
		needExactKeys(t, row, "id", "event_type", "data", "consumer_group", "worker_id", "created_at", "trace_names")
		if len(rows) != 1 || row["id"] != trace {
			t.Errorf("want the trace %s, got %v", trace, answer)
		}
		for name, want := range c.want {
			if fmt.Sprint(row[name]) != fmt.Sprint(want) {
				t.Errorf("case %d: want %s %v, got %v", i, name, want, row[name])
			}
		}
		if created, _ := row["created_at"].(string); !isoMicros.MatchString(created) {
			t.Errorf("created_at is %q", created)
		}
		if worker, _ := row["worker_id"].(string); worker == "" {
			t.Errorf("worker_id names the node, got %v", row)
		}
	}
	rows, _ := tracesOf(t, address+id+"-unknown")
	if len(rows) != 0 {
		t.Errorf("an unknown address has traces: %v", rows)
	}
}

// state.md 7: what a trace must have.
func TestTraceRefusals_12(t *testing.T) {
	t.Parallel()
	for body, text := range map[string]string{
		`{"partitionId":"1","data":1}`:                      "transactionId and partitionId are required",
		`{"transactionId":"t","data":1}`:                    "transactionId and partitionId are required",
		`{"transactionId":"","partitionId":"1","data":1}`:   "transactionId and partitionId are required",
		`{"transactionId":"t","partitionId":null,"data":1}`: "transactionId and partitionId are required",
		`{"transactionId":"t","partitionId":"1"}`:           "data is required",
		`{}`: "transactionId and partitionId are required",
	} {
		answer := suite.client.Post("/api/v1/traces", body)
		if need(t, answer, 400); answer.Text("error") != text {
			t.Errorf("%s: want %q, got %v", body, text, answer)
		}
	}
	for _, body := range []string{``, `[]`, `{"transactionId":`, `{"transactionId":7,"partitionId":"1","data":1}`, `{"transactionId":"t","partitionId":1,"data":1}`,
		`{"transactionId":"t","partitionId":"1","data":1,"traceNames":7}`, `{"transactionId":"t","partitionId":"1","data":1,"traceNames":[7]}`} {
		needEnvelope(t, suite.client.Post("/api/v1/traces", body), 400, "bad_body")
	}
}

// state.md 7: both lists have pages, the real total, and the newest first.
func TestTraceListsArePaged_12(t *testing.T) {
	t.Parallel()
	const many = 103
	name := uniqueName(t)
	ids := make([]string, many)
	for i := range ids {
		// One name for all, and one that changes: there is a list of traces by name and a list of names.
		ids[i] = needTrace(t, traceBody(fmt.Sprint(name, "-", i%(many-1)), map[string]any{"traceNames": []string{name, fmt.Sprint(name, "/", i)}}))
	}
	path := "/api/v1/traces/by-name/" + name
	for _, page := range []struct {
		query         string
		rows          int
		first         int
		limit, offset string
	}{
		{"", 100, many - 1, "100", "0"},
		{"?limit=2&offset=3", 2, many - 4, "2", "3"},
		{"?limit=0", 1, many - 1, "1", "0"},
		{"?limit=-1&offset=-1", 1, many - 1, "1", "0"},
		{"?limit=10000", many, many - 1, "10000", "0"},
		{"?limit=10001", many, many - 1, "10000", "0"},
	} {
		rows, answer := tracesOf(t, path+page.query)
		needExactKeys(t, answer.Object(), "traces", "total", "pagination")
		pagination, _ := answer.Object()["pagination"].(map[string]any)
		if len(rows) != page.rows || firstObject(rows)["id"] != ids[page.first] || answer.Object()["total"] != json.Number(fmt.Sprint(many)) ||
			pagination["limit"] != json.Number(page.limit) || pagination["offset"] != json.Number(page.offset) {
			t.Errorf("%s: want %d rows from trace %d, got %d of %v", page.query, page.rows, page.first, len(rows), pagination)
		}
	}
	row := firstObject(suite.client.Get(path).Object()["traces"])
	needExactKeys(t, row, "id", "event_type", "data", "consumer_group", "worker_id", "created_at", "trace_names",
		"transaction_id", "partition_id", "queue_name", "partition_name", "message_payload")
	if row["partition_id"] != noPartition || row["message_payload"] != nil {
		t.Errorf("got %v", row)
	}
	for _, list := range []string{path, "/api/v1/traces/names"} {
		for _, parameter := range []string{"limit", "offset"} {
			answer := suite.client.Get(list + "?" + parameter + "=many")
			if need(t, answer, 400); !strings.Contains(answer.Text("error"), parameter) {
				t.Errorf("%s: the text must name %s, got %v", list, parameter, answer)
			}
		}
	}
}

// state.md 7: the list of names, most recently seen first. The broker is the test's own, so that the list is.
func TestTraceNames_12(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_SERVER_ID": "the-node"}).Client()
	post := func(txid string, names ...string) {
		t.Helper()
		need(t, client.Post("/api/v1/traces", traceBody(txid, map[string]any{"traceNames": names})), 201)
	}
	for i := range 52 {
		post("t", fmt.Sprint("name", i))
	}
	post("t", "twice")
	post("t", "twice")
	post("u", "twice")
	for query, want := range map[string]int{"": 50, "?limit=10001": 53, "?limit=0": 1, "?offset=52": 1, "?offset=53": 0} {
		answer := client.Get("/api/v1/traces/names" + query)
		need(t, answer, 200)
		needExactKeys(t, answer.Object(), "trace_names", "total", "pagination")
		if rows, _ := answer.Object()["trace_names"].([]any); len(rows) != want || answer.Object()["total"] != json.Number("53") {
			t.Errorf("%s: want %d rows of 53, got %v", query, want, answer)
		}
	}
	answer := client.Get("/api/v1/traces/names?limit=1")
	row := firstObject(answer.Object()["trace_names"])
	needExactKeys(t, row, "trace_name", "trace_count", "message_count", "last_seen")
	if row["trace_name"] != "twice" || row["trace_count"] != json.Number("3") || row["message_count"] != json.Number("2") {
		t.Errorf("got %v", row)
	}
	if seen, _ := row["last_seen"].(string); !isoMicros.MatchString(seen) {
		t.Errorf("last_seen is %q", seen)
	}
	if worker := firstObject(client.Get("/api/v1/traces/" + noPartition + "/t").Object()["traces"])["worker_id"]; worker != "the-node" {
		t.Errorf("worker_id is %v", worker)
	}
}

// state.md 7: with tenancy, the partition of another tenant is no message, and traces are per tenant.
func TestTracesStayWithinTheTenant_12(t *testing.T) {
	t.Parallel()
	client := tenancyBroker(t)
	other := client.WithTenant(otherTenant)
	pushOne(t, client, harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
	popped := client.Pop("q", "leaseSeconds=60")
	body := map[string]any{"transactionId": "t", "partitionId": popped.PartitionID, "data": 1, "traceNames": "n"}
	need(t, client.Post("/api/v1/traces", body), 201)
	needBody(t, other.Post("/api/v1/traces", body), 404, `{"success":false,"error":"Message not found"}`)
	for _, path := range []string{"/api/v1/traces/" + popped.PartitionID + "/t", "/api/v1/traces/by-name/n"} {
		if rows, _ := other.Get(path).Object()["traces"].([]any); len(rows) != 0 {
			t.Errorf("%s shows a foreign trace: %v", path, rows)
		}
	}
	if total := other.Get("/api/v1/traces/names").Object()["total"]; total != json.Number("0") {
		t.Errorf("got %v foreign names", total)
	}
}
