package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// position is the body of a transaction that sets the cursor of the scene's group (8.1).
func position(s *scene, offset any) map[string]any {
	return map[string]any{"positions": []any{map[string]any{
		"queue": s.queue, "partition": s.partition, "consumerGroup": s.groupName(), "offset": offset,
	}}}
}

// TestTransactionWithoutParts: 8.1, absent, null and empty members count as empty: 200 with reason bad_request.
func TestTransactionWithoutParts(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`{}`,
		`{"operations":[]}`,
		`{"operations":null,"kv":null,"timers":null,"positions":null,"requiredLeases":null}`,
		`{"operations":[],"kv":[],"timers":[],"positions":[]}`,
		`{"requiredLeases":[]}`,
		`{"somethingElse":1}`,
	}
	for _, body := range bodies {
		t.Run("8.1 "+body, func(t *testing.T) {
			t.Parallel()
			needRolledBack(t, suite.client.Transaction(body), "bad_request")
		})
	}
}

// TestTransactionRefusesWrongRequests: 8.1 and 8.5, refused with 400 and nothing takes effect.
func TestTransactionRefusesWrongRequests(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	batch := s.redelivered(0, 0, 1)
	out := s.queue + "-out"
	withPush := func(operation any) map[string]any {
		return map[string]any{"operations": []any{pushOperation(out, "t"), operation}}
	}
	ackWith := func(key string, value any) any {
		operation := batch.operations(completed(0))[0].(map[string]any)
		operation[key] = value
		return operation
	}
	cases := map[string]struct {
		body any
		code string // "" leaves the code open
	}{
		"not JSON":                   {`{"operations":[`, "bad_body"},
		"empty body":                 {``, "bad_body"},
		"an array":                   {`[]`, "bad_body"},
		"operations is an object":    {`{"operations":{}}`, ""},
		"operations is a string":     {`{"operations":"push"}`, ""},
		"kv is an object":            {map[string]any{"operations": []any{pushOperation(out, "t")}, "kv": map[string]any{}}, ""},
		"timers is a number":         {map[string]any{"operations": []any{pushOperation(out, "t")}, "timers": 1}, ""},
		"positions is a string":      {map[string]any{"operations": []any{pushOperation(out, "t")}, "positions": "all"}, ""},
		"requiredLeases is a string": {map[string]any{"operations": []any{pushOperation(out, "t")}, "requiredLeases": "x"}, ""},
		"an operation is a string":   {withPush("push"), ""},
		"operation without type":     {withPush(map[string]any{"queue": out, "payload": 1}), ""},
		"unknown operation type":     {withPush(map[string]any{"type": "pop", "queue": out}), ""},
		"a kv operation":             {withPush(map[string]any{"type": "kv", "op": "put", "key": "k", "value": 1}), ""},
		"a timer operation":          {withPush(map[string]any{"type": "timer", "op": "cancel", "queue": out, "timerKey": "k"}), ""},
		"unknown ack status":         {withPush(ackWith("status", "complete")), "bad_request"},
		"ack transactionId a number": {withPush(ackWith("transactionId", 1)), ""},
		"ack partitionId a number":   {withPush(ackWith("partitionId", 1)), ""},
		"ack leaseId a number":       {withPush(ackWith("leaseId", 1)), ""},
		"push queue a number":        {withPush(map[string]any{"type": "push", "queue": 7, "payload": 1}), ""},
		"push items an object":       {withPush(map[string]any{"type": "push", "items": map[string]any{}}), ""},
		"txid over 65,535 bytes":     {withPush(pushOperation(out, strings.Repeat("t", 65536))), "bad_request"},
		"so is that of an ack":       {withPush(ackWith("transactionId", strings.Repeat("t", 65536))), "bad_request"},
	}
	for name, c := range cases {
		t.Run("8.5 "+name, func(t *testing.T) {
			reply := s.client.Transaction(c.body)
			need(t, reply.Response, 400)
			code := reply.Text("code")
			if c.code != "" && code != c.code || code != "bad_body" && code != "bad_request" || reply.Text("error") == "" {
				t.Fatalf("want the envelope with %q, got %v", c.code, reply.Response)
			}
		})
	}
	needStored(t, s.client, out)
	needVerdicts(t, batch.ack(completed(0)), released)
}

// TestTransactionPushForms: 8.1, items or one inline; a partition that is absent or "" is Default; a traceId is
// stored when it is a UUID; a payload may be null.
func TestTransactionPushForms(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const trace = "018f2f60-1111-7000-8000-000000000000"
	body := fmt.Sprintf(`{"operations":[
		{"type":"push","items":[
			{"queue":%[1]q,"payload":{"n":1},"transactionId":"t0","traceId":%[2]q},
			{"queue":%[1]q,"partition":"","payload":null,"transactionId":"t1","traceId":"no trace"}]},
		{"type":"push","queue":%[1]q,"partition":"Default","payload":12345678901234567890.5,"transactionId":"t2","traceId":7},
		{"type":"push","queue":%[1]q,"partition":null,"payload":[],"producerSub":"forged"},
		{"type":"push","queue":%[1]q,"partition":"","payload":{}}]}`, queue, trace)
	reply := suite.client.Transaction(body)
	needCommitted(t, reply)
	if len(reply.Results) != 5 {
		t.Fatalf("want one result per pushed item, got %v", reply.Response)
	}
	popped := suite.client.Pop(queue, "batch=10&partitions=10")
	if need(t, popped.Response, 200); len(popped.Messages) != 5 || popped.PartitionsClaimed != 1 || popped.Partition != "Default" {
		t.Fatalf("want five messages in Default, got %v", popped.Response)
	}
	for i, message := range popped.Messages {
		result := reply.Results[i]
		if result.Type != "push" || result.MessageID != message.ID || result.TransactionID != message.TransactionID || result.QueueName != queue {
			t.Errorf("result %d: want the stored message %+v, got %+v", i, message, result)
		}
		if message.ProducerSub != nil {
			t.Errorf("message %d: a producerSub in a body is ignored, got %q", i, *message.ProducerSub)
		}
		if hasTrace := message.TraceID != nil; hasTrace != (i == 0) || hasTrace && *message.TraceID != trace {
			t.Errorf("message %d: traceId %v", i, message.TraceID)
		}
	}
	if last := popped.Messages[3]; last.TransactionID != last.ID || !uuidV7.MatchString(last.ID) {
		t.Errorf("a message without txid has its minted id, got %+v", last)
	}
	for i, want := range []string{`{"n":1}`, `null`, `12345678901234567890.5`, `[]`, `{}`} {
		if !sameJSON(popped.Messages[i].Data, []byte(want)) {
			t.Errorf("message %d: want %s, got %s", i, want, popped.Messages[i].Data)
		}
	}
}

// TestTransactionInlinePushNeedsQueueAndPayload: 8.1 and 8.4, reason bad_request.
func TestTransactionInlinePushNeedsQueueAndPayload(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{`{"type":"push","payload":1}`, `{"type":"push","queue":"q"}`, `{"type":"push"}`} {
		t.Run("8.4 "+operation, func(t *testing.T) {
			t.Parallel()
			out := uniqueName(t)
			body := fmt.Sprintf(`{"operations":[%s,%s]}`, mustJSON(pushOperation(out, "t")), operation)
			needRolledBack(t, suite.client.Transaction(body), "bad_request")
			needStored(t, suite.client, out)
		})
	}
}

// TestTransactionAckGroupStandsOnTheOperation: 8.1, default queue mode; a group at top level is not read.
func TestTransactionAckGroupStandsOnTheOperation(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	named := s.redelivered(0, 0, 1)
	mode := s.as("").redelivered(0, 0, 1)
	without := mode.operations(completed(0))[0].(map[string]any)
	delete(without, "consumerGroup")
	body := operations(named.operations(completed(0)), []any{without})
	body["consumerGroup"] = "somebody"
	needCommitted(t, s.client.Transaction(body))
	s.needCursor(1)
	s.as("").needCursor(1)
}

// TestTransactionAnswerNumbersFlat: 8.3, operations first, one result per pushed item and per ack, then positions,
// which carry opIndex besides; the id is spelled messageId.
func TestTransactionAnswerNumbersFlat(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	batch := s.redelivered(0, 1, 1)
	other := s.as("other")
	out := s.queue + "-out"
	items := map[string]any{"type": "push", "items": []any{
		map[string]any{"queue": out, "payload": 1, "transactionId": "t0"},
		map[string]any{"queue": out, "payload": 2, "transactionId": "t1"},
	}}
	body := operations([]any{items}, batch.operations(completed(0, 1)), []any{pushOperation(out, "t2")})
	body["positions"] = append(position(other, 1)["positions"].([]any), position(s.as("third"), 2)["positions"].([]any)...)
	reply := s.client.Transaction(body)
	needCommitted(t, reply)
	if !uuidAny.MatchString(reply.TransactionID) {
		t.Errorf("want a minted id of the call, got %q", reply.TransactionID)
	}
	var answer struct{ Results []map[string]json.RawMessage }
	if err := reply.Decode(&answer); err != nil {
		t.Fatal(err)
	}
	wantTypes := []string{"push", "push", "ack", "ack", "push", "position", "position"}
	if len(answer.Results) != len(wantTypes) {
		t.Fatalf("want %d results, got %v", len(wantTypes), reply.Response)
	}
	keys := map[string][]string{
		"push":     {"index", "type", "success", "transactionId", "messageId", "queueName"},
		"ack":      {"index", "type", "success", "transactionId", "error", "dlq"},
		"position": {"index", "type", "success", "opIndex"},
	}
	for i, result := range reply.Results {
		if result.Type != wantTypes[i] {
			t.Fatalf("result %d: want type %s, got %+v", i, wantTypes[i], result)
		}
		for _, key := range keys[result.Type] {
			if _, present := answer.Results[i][key]; !present {
				t.Errorf("result %d (%s): no %q in %v", i, result.Type, key, reply.Response)
			}
		}
		if result.Type == "position" && (result.OpIndex == nil || *result.OpIndex != i-5) {
			t.Errorf("result %d: want opIndex %d, got %+v", i, i-5, result)
		}
	}
	for i, want := range map[int]string{0: "t0", 1: "t1", 2: "m0", 3: "m1", 4: "t2"} {
		if got := reply.Results[i].TransactionID; got != want {
			t.Errorf("result %d: want txid %s, got %s", i, want, got)
		}
	}
	needStored(t, s.client, out, "t0", "t1", "t2")
}

// TestTransactionRepeatWithinTheCallCollapses: 8.3 and 8.6, duplicate:true and no rollback.
func TestTransactionRepeatWithinTheCallCollapses(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	elsewhere := pushOperation(queue, "t")
	elsewhere["partition"] = "other"
	reply := suite.client.Transaction(operations([]any{pushOperation(queue, "t"), pushOperation(queue, "t"), elsewhere}))
	needCommitted(t, reply)
	if reply.Results[0].Duplicate || !reply.Results[1].Duplicate || reply.Results[2].Duplicate {
		t.Fatalf("want the second alone to be a duplicate, got %v", reply.Response)
	}
	if reply.Results[1].MessageID != reply.Results[0].MessageID {
		t.Fatalf("want the id of the first, got %v", reply.Response)
	}
	fetched := suite.client.PopPartition(queue, "Default", "batch=10&autoAck=true")
	needMessages(t, fetched, "t")
	needMessages(t, suite.client.PopPartition(queue, "other", "batch=10&autoAck=true"), "t")
}

// TestTransactionRefusesTooLongNames: 8.5 and 2.11.
func TestTransactionRefusesTooLongNames(t *testing.T) {
	t.Parallel()
	out := uniqueName(t)
	body := operations([]any{pushOperation(out, "t"), pushOperation(strings.Repeat("q", 412), "t")})
	needEnvelope(t, suite.client.Transaction(body).Response, 413, "name_too_long")
	needStored(t, suite.client, out)
}

// TestTransactionBeyondOneEntryIsTooLarge: 2.11 and 8.4, nothing of it is stored.
func TestTransactionBeyondOneEntryIsTooLarge(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_RAFT_ENTRY_MAX_BYTES": "1048576"})
	client := broker.Client()
	out := uniqueName(t)
	big := pushOperation(out, "big")
	big["payload"] = incompressible(1 << 20)
	needRolledBack(t, client.Transaction(operations([]any{pushOperation(out, "small"), big})), "too_large")
	needStored(t, client, out)
	needCommitted(t, client.Transaction(operations([]any{pushOperation(out, "small")})))
	needStored(t, client, out, "small")
}

// incompressible is a text of n characters that no compression makes much smaller.
func incompressible(n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	text := make([]byte, n)
	state := uint64(0x9e3779b97f4a7c15)
	for i := range text {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		text[i] = alphabet[state>>58]
	}
	return string(text)
}
