package contract

import (
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
