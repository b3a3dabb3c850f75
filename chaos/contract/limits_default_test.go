package contract

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// 2.11: the default bound of an entry is 48 MiB; a body of exactly 64 MiB is read.
func TestDefaultBoundsOfAnEntryAndABody_2_11(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	const mebibyte = 1 << 20
	payload := func(bytes int) string { return `"` + strings.Repeat("x", bytes) + `"` }
	push := func(txid string, payloads ...string) []harness.Pushed {
		body := strings.Builder{}
		for i, payload := range payloads {
			fmt.Fprintf(&body, `,{"queue":"q","transactionId":"%s%d","payload":%s}`, txid, i, payload)
		}
		reply := client.PushBody(`{"items":[` + body.String()[1:] + `]}`)
		need(t, reply.Response, 201)
		return reply.Items
	}
	for _, verdict := range push("over", payload(48*mebibyte)) {
		if verdict.Status != "error" {
			t.Errorf("48 MiB of payloads do not fit an entry with what surrounds them, got %+v", verdict)
		}
	}
	for _, verdict := range push("fits", payload(47*mebibyte)) {
		if verdict.Status != "queued" {
			t.Errorf("47 MiB of payloads fit an entry, got %+v", verdict)
		}
	}
	const empty = `{"items":[]}`
	needBody(t, client.Post("/api/v1/push", empty+strings.Repeat(" ", 64*mebibyte-len(empty))), 201, `[]`)
}

// 2.11: the broker bounds neither the items of a push nor the acks of a call.
func TestItemsOfACallAreNotBounded_2_11(t *testing.T) {
	t.Parallel()
	const items = 20_001
	s := newScene(t, nil, items)
	reply := s.pop(items)
	needMessageCount(t, reply, items)
	acked := s.client.AckMessages("completed", reply.Messages...)
	if len(acked.Items) != items {
		t.Fatalf("want %d verdicts, got %d", items, len(acked.Items))
	}
	needVerdicts(t, acked, released)
	s.needCursor(items)
}

// 2.11: the default page of each list and the largest one that may be asked for.
func TestListPages_2_11(t *testing.T) {
	t.Parallel()
	const partitions, messages, filedAtOnce = 5001, 1001, 100
	client := privateBroker(t, nil).Client()
	wide := make([]harness.Item, partitions)
	for i := range wide {
		wide[i] = harness.Item{Queue: "wide", Partition: strconv.Itoa(i), Payload: 1}
	}
	pushAll(t, client, wide...)
	pushAll(t, client, numbered("long", "", "m", messages)...)
	for left := messages; left > 0; left -= filedAtOnce {
		popped := client.Pop("long", fmt.Sprint("consumerGroup=g&subscriptionMode=all&batch=", filedAtOnce))
		needVerdicts(t, client.AckMessages("dlq", popped.Messages...), filed)
	}
	for _, list := range []struct {
		path, rows        string
		standard, largest int
	}{
		{"/api/v1/resources/partitions?queue=wide", "partitions", 610, 5000},
		{"/api/v1/messages?queue=long", "messages", 200, 1000},
		{"/api/v1/dlq?queue=long", "messages", 100, 1000},
	} {
		for query, want := range map[string]int{
			"": list.standard, "&limit=0": 1, "&limit=-1": 1, "&limit=2": 2,
			fmt.Sprint("&limit=", list.largest): list.largest, fmt.Sprint("&limit=", list.largest+1): list.largest, "&limit=9223372036854775808": list.largest,
		} {
			answer := client.Get(list.path + query)
			if rows, _ := answer.Object()[list.rows].([]any); len(rows) != want {
				t.Errorf("%s%s: want %d rows, got %d", list.path, query, want, len(rows))
			}
		}
	}
}

// 2.11: one entry too many is 400, and the most there may be is answered.
func TestFetchOffsetsTakesABoundedNumberOfEntries_2_11(t *testing.T) {
	t.Parallel()
	const entriesMost = 1024
	entries := `{"entries":[` + strings.TrimSuffix(strings.Repeat(`{"queue":"q","timestamp":0},`, entriesMost), ",") + `]}`
	answer := suite.client.Post("/api/v1/fetch/offsets", entries)
	need(t, answer, 200)
	if rows, _ := answer.Object()["entries"].([]any); len(rows) != entriesMost {
		t.Fatalf("want %d entries, got %d", entriesMost, len(rows))
	}
}
