package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

var ackRoutes = []string{"/api/v1/ack", "/api/v1/ack/batch"}

// single is the body of a single ack of a delivered message (6.1).
func single(s *scene, message harness.Message, status any) map[string]any {
	return map[string]any{
		"transactionId": message.TransactionID, "partitionId": message.PartitionID, "leaseId": message.LeaseID,
		"status": status, "consumerGroup": s.groupName(),
	}
}

// several is the body of a batch ack (6.1).
func several(s *scene, items ...map[string]any) map[string]any {
	return map[string]any{"consumerGroup": s.groupName(), "acknowledgments": items}
}

func ackItem(message harness.Message, status any) map[string]any {
	return map[string]any{
		"transactionId": message.TransactionID, "partitionId": message.PartitionID, "leaseId": message.LeaseID, "status": status,
	}
}

// TestAckRoutesAcceptBothShapes: 6.1, both routes are one handler; an acknowledgments member of null is absent.
func TestAckRoutesAcceptBothShapes(t *testing.T) {
	t.Parallel()
	for _, route := range ackRoutes {
		s := newScene(t, nil, 3)
		batch := s.redelivered(0, 2, 1)
		needVerdicts(t, s.client.AckBody(route, single(s, batch.messages[0], "completed")), kept)
		withNull := single(s, batch.messages[1], "completed")
		withNull["acknowledgments"] = nil
		needVerdicts(t, s.client.AckBody(route, withNull), kept)
		needVerdicts(t, s.client.AckBody(route, several(s, ackItem(batch.messages[2], "completed"))), released)
		s.needCursor(3)
	}
}

// TestAckAnswerHasEveryMember: 6.3, an array also for a single ack, with exactly the members of the sketch.
func TestAckAnswerHasEveryMember(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	reply := s.redelivered(0, 0, 1).ack(completed(0))
	need(t, reply.Response, 200)
	want := `[{"index":0,"transactionId":"m0","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false}]`
	if !sameJSON(reply.Body, []byte(want)) {
		t.Fatalf("want %s, got %v", want, reply)
	}
}

// TestAckRefusesBadBodies: 6.1 and 6.3, the text starts "bad ack body: " and nothing changes.
func TestAckRefusesBadBodies(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	batch := s.redelivered(0, 1, 1)
	good := func() map[string]any { return single(s, batch.messages[0], "completed") }
	with := func(key string, value any) map[string]any {
		body := good()
		body[key] = value
		return body
	}
	without := func(key string) map[string]any {
		body := good()
		delete(body, key)
		return body
	}
	inBatch := func(item any) map[string]any { return map[string]any{"acknowledgments": []any{item}} }
	surrogate := strings.Replace(string(mustJSON(good())), `"m0"`, `"m\ud800"`, 1)
	bodies := map[string]any{
		"not JSON":                         `{"transactionId":`,
		"empty":                            ``,
		"an array":                         `[]`,
		"a string":                         `"ack"`,
		"not UTF-8":                        "{\"transactionId\":\"\xff\",\"partitionId\":\"1\"}",
		"unpaired surrogate in the txid":   surrogate,
		"no acknowledgments":               map[string]any{"acknowledgments": []any{}},
		"acknowledgments is an object":     map[string]any{"acknowledgments": map[string]any{}},
		"acknowledgments is a string":      map[string]any{"acknowledgments": "m0"},
		"no transactionId":                 without("transactionId"),
		"transactionId null":               with("transactionId", nil),
		"transactionId is a number":        with("transactionId", 7),
		"no partitionId":                   without("partitionId"),
		"partitionId is a number":          with("partitionId", 17),
		"status is a number":               with("status", 1),
		"status is a boolean":              with("status", true),
		"consumerGroup is a number":        with("consumerGroup", 1),
		"leaseId is a number":              with("leaseId", 1),
		"error is a number":                with("error", 1),
		"an item is a string":              inBatch("m0"),
		"an item without transactionId":    inBatch(map[string]any{"partitionId": s.partitionID}),
		"an item without partitionId":      inBatch(map[string]any{"transactionId": "m0"}),
		"an item with transactionId false": inBatch(map[string]any{"transactionId": false, "partitionId": s.partitionID}),
	}
	for name, body := range bodies {
		for _, route := range ackRoutes {
			t.Run("6.3 "+name+" "+route, func(t *testing.T) {
				reply := s.client.Post(route, body)
				needEnvelope(t, reply, 400, "bad_body")
				if !strings.HasPrefix(reply.Text("error"), "bad ack body: ") {
					t.Fatalf(`want a text that starts "bad ack body: ", got %v`, reply)
				}
			})
		}
	}
	s.needCursor(0)
	needVerdicts(t, batch.ack(completed(0, 1)), released)
}

func mustJSON(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("BUG: a test body does not marshal: %v", err))
	}
	return encoded
}

// TestAckOfTooLongGroupIsRefused: 6.3 and 2.11, the key budget counts the group's name.
func TestAckOfTooLongGroupIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	s.redelivered(0, 0, 1)
	for _, route := range ackRoutes {
		body := several(s.as(strings.Repeat("g", 412)), map[string]any{"transactionId": "m0", "partitionId": s.partitionID})
		needEnvelope(t, s.client.Post(route, body), 413, "name_too_long")
	}
}

// TestAckGroupStandsAtTopLevelOnly: 6.1, absent or null is queue mode, and an item cannot name another group.
func TestAckGroupStandsAtTopLevelOnly(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]any{"absent": nil, "null": nil, "named explicitly": queueMode} {
		t.Run("6.1 group "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 1)
			other := s.as("other").redelivered(0, 0, 1)
			batch := s.as("").redelivered(0, 0, 1)
			item := ackItem(batch.messages[0], "completed")
			item["consumerGroup"] = "other"
			body := map[string]any{"acknowledgments": []any{item}}
			if name != "absent" {
				body["consumerGroup"] = group
			}
			needVerdicts(t, s.client.AckBody(ackRoutes[1], body), released)
			s.as("").needCursor(1)
			needVerdicts(t, other.ack(completed(0)), released) // untouched so far
		})
	}
}

// TestAckLeaseOfNullNamesNone: 6.1, absent, null and "" name no lease.
func TestAckLeaseOfNullNamesNone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"absent": func(item map[string]any) { delete(item, "leaseId") },
		"null":   func(item map[string]any) { item["leaseId"] = nil },
		"empty":  func(item map[string]any) { item["leaseId"] = "" },
	} {
		t.Run("6.1 leaseId "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 1)
			item := ackItem(s.redelivered(0, 0, 1).messages[0], "completed")
			change(item)
			needVerdicts(t, s.client.AckBody(ackRoutes[1], several(s, item)), released)
			s.needCursor(1)
		})
	}
}

// TestAckNamesSeveralPartitions: 6.1, one call may name messages of several partitions.
func TestAckNamesSeveralPartitions(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 0)
	for _, partition := range []string{"a", "b", "c"} {
		pushAll(t, s.client, numbered(s.queue, partition, partition, 2)...)
	}
	reply := s.pop(wholeBacklog, "partitions=3")
	if need(t, reply.Response, 200); len(reply.Messages) != 6 {
		t.Fatalf("want 6 messages, got %v", reply)
	}
	messages := slices.Clone(reply.Messages)
	slices.SortFunc(messages, func(a, b harness.Message) int { return int(a.Offset - b.Offset) }) // interleaves the partitions
	needVerdicts(t, s.client.AckMessages("completed", messages...), released)
	s.needNothing()
}

// TestAckStatusWords: 6.2, every word in any letter case.
func TestAckStatusWords(t *testing.T) {
	t.Parallel()
	absent := "absent"
	cases := []struct {
		words   []any
		verdict verdict
		cursor  int
		filed   []int64
	}{
		{[]any{absent, nil, "completed", "COMPLETED", "success", "Success", "acked", "aCKed", "ok", "OK"}, released, 1, nil},
		{[]any{"failed", "FAILED", "nack", "Nack"}, released, 0, nil},
		{[]any{"retry", "RETRY", "ReTry"}, released, 0, nil},
		{[]any{"dlq", "DLQ", "Dlq"}, filed, 1, []int64{0}},
	}
	for _, c := range cases {
		for _, word := range c.words {
			t.Run(fmt.Sprintf("6.2 status %v", word), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, nil, 1)
				item := ackItem(s.redelivered(0, 0, 1).messages[0], word)
				if word == absent {
					delete(item, "status")
				}
				needVerdicts(t, s.client.AckBody(ackRoutes[1], several(s, item)), c.verdict)
				s.needCursor(c.cursor)
				s.needDeadLetters(c.filed...)
				if c.cursor == 0 {
					s.redelivered(0, 0, 2)
				}
			})
		}
	}
}

// TestAckChargesOnlyFailures: 6.2, failed and nack charge the retry budget, retry does not.
func TestAckChargesOnlyFailures(t *testing.T) {
	t.Parallel()
	for word, charged := range map[string]int{"failed": 1, "NACK": 1, "Retry": 0} {
		t.Run("6.2 "+word, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 1)
			needVerdicts(t, s.redelivered(0, 0, 1).ack(mark{status: word, offsets: []int{0}}), released)
			s.needCharged(charged)
		})
	}
}

// TestAckUnknownStatusFailsTheItemAlone: 6.2, it changes nothing, so a typing mistake never loses a message.
func TestAckUnknownStatusFailsTheItemAlone(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"complete", "fail", "done", "", " ok", "Rejected"} {
		t.Run(fmt.Sprintf("6.2 status %q", word), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 3)
			batch := s.redelivered(0, 2, 1)
			body := several(s, ackItem(batch.messages[0], "completed"), ackItem(batch.messages[2], word))
			unknown := refused(fmt.Sprintf(`unknown ack status "%s"`, word))
			needVerdicts(t, s.client.AckBody(ackRoutes[1], body), kept, unknown)
			s.needCursor(1)
			needVerdicts(t, s.client.AckBody(ackRoutes[0], single(s, batch.messages[1], word)), unknown)
			s.needCursor(1)
			needVerdicts(t, batch.ack(completed(1, 2)), released)
		})
	}
}
