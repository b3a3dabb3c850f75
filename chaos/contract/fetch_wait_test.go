package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// fetchBody is the body of a fetch that waits, from the given offsets of partitions of one queue.
func fetchBody(queue string, maxWaitMs, minBytes any, offsets map[string]int) map[string]any {
	var entries []any
	for partition, offset := range offsets {
		entries = append(entries, map[string]any{"queue": queue, "partition": partition, "offset": offset})
	}
	return map[string]any{"entries": entries, "maxWaitMs": maxWaitMs, "minBytes": minBytes}
}

// TestFetchCountsBytesOverAllEntries_13_1: minBytes are those of all entries together, the payloads as they are stored.
func TestFetchCountsBytesOverAllEntries_13_1(t *testing.T) {
	t.Parallel()
	const size = 1000 // a JSON string of this many bytes with its quotes
	payload := strings.Repeat("x", size-2)
	cases := []struct {
		minBytes int
		answered bool // at once, with one message in each of two partitions
	}{{1, true}, {size, true}, {size + 1, true}, {2 * size, true}, {2*size + 1, false}, {3 * size, false}}
	for _, c := range cases {
		t.Run(fmt.Sprint("minBytes ", c.minBytes), func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			push := func(partition string) {
				pushOne(t, suite.client, harness.Item{Queue: queue, Partition: partition, Payload: payload})
			}
			push("a")
			push("b")
			waitMs := 30_000
			if !c.answered {
				waitMs = 500
			}
			body := fetchBody(queue, waitMs, c.minBytes, map[string]int{"a": 0, "b": 0})
			entries, answer := fetchEntries[fetchEntry](t, "/api/v1/fetch", body)
			if len(entries) != 2 || len(entries[0].Records) != 1 || len(entries[1].Records) != 1 {
				t.Fatalf("want what is there, got %v", answer)
			}
			if c.answered {
				if answer.Elapsed > delivery {
					t.Fatalf("answered after %v although the bytes were there", answer.Elapsed)
				}
				return
			}
			if answer.Elapsed < 500*time.Millisecond-stampSlack {
				t.Fatalf("answered after %v although bytes were missing", answer.Elapsed)
			}
			body["maxWaitMs"] = 30_000
			waiting := make(chan harness.Response, 1)
			go func() { waiting <- suite.client.Post("/api/v1/fetch", body) }() // ends with its fetch
			push("b")
			if last := <-waiting; last.Status != 200 || last.Elapsed > delivery || strings.Count(string(last.Body), payload) != 3 {
				t.Fatalf("want three records once they are there, got %v", last)
			}
		})
	}
}

// TestFetchWaitsForWhatDoesNotExistYet_13_1: the bytes may come in a queue or a partition that was missing when the call
// arrived.
func TestFetchWaitsForWhatDoesNotExistYet_13_1(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"queue", "partition", "one of two queues"} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			body := fetchBody(queue, 30_000, 1, map[string]int{"p": 0})
			switch missing {
			case "partition":
				pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "other", Payload: 1})
			case "one of two queues":
				pushOne(t, suite.client, harness.Item{Queue: queue + "-there", Payload: 1})
				body["entries"] = append(body["entries"].([]any), map[string]any{"queue": queue + "-there", "offset": 1})
			}
			waiting := make(chan harness.Response, 1)
			go func() { waiting <- suite.client.Post("/api/v1/fetch", body) }() // ends with its fetch
			// What answers at once does not wait: the call is there and has found nothing when this one has.
			short := fetchBody(queue, 300, 1, map[string]int{"p": 0})
			if entries, _ := fetchEntries[fetchEntry](t, "/api/v1/fetch", short); entries[0].Error != "UNKNOWN_TOPIC_OR_PARTITION" {
				t.Fatalf("got %+v", entries)
			}
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p", Payload: "here", TransactionID: "t"})
			answer := <-waiting
			need(t, answer, 200)
			if answer.Elapsed > delivery || !strings.Contains(string(answer.Body), `"here"`) {
				t.Fatalf("want the record once it is there, got %v", answer)
			}
		})
	}
}

// TestFetchFollowsAQueueThatIsMadeAgain_13_1: a queue that is deleted while a call waits for it, and made again by a push, is
// the one that the call reads.
func TestFetchFollowsAQueueThatIsMadeAgain_13_1(t *testing.T) {
	t.Parallel()
	for _, pause := range []bool{true, false} {
		t.Run(fmt.Sprint("missing for a while ", pause), func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			pushAll(t, suite.client, numbered(queue, "p", "m", 3)...)
			offsets := map[string]int{"p": 3, "other": 0}
			waiting := make(chan harness.Response, 1)
			go func() { waiting <- suite.client.Post("/api/v1/fetch", fetchBody(queue, 30_000, 1, offsets)) }() // ends with its fetch
			// The call is there and has found nothing when this one has.
			short := fetchBody(queue, 300, 1, offsets)
			fetchEntries[fetchEntry](t, "/api/v1/fetch", short)
			need(t, suite.client.Delete("/api/v1/resources/queues/"+queue), 200)
			if pause {
				entries, _ := fetchEntries[fetchEntry](t, "/api/v1/fetch", short)
				if entries[0].Error != "UNKNOWN_TOPIC_OR_PARTITION" {
					t.Fatalf("got %+v", entries)
				}
			}
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "other", Payload: "again"})
			answer := <-waiting
			need(t, answer, 200)
			if answer.Elapsed > delivery || !strings.Contains(string(answer.Body), `"again"`) {
				t.Fatalf("want the record of the new queue, got %v", answer)
			}
		})
	}
}

// TestFetchWaitIsClamped_13_1: maxWaitMs to 0 to 30,000; minBytes of 0 are always there.
func TestFetchWaitIsClamped_13_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
	for name, body := range map[string]map[string]any{
		"a negative maxWaitMs":           fetchBody(queue, -5000, 1, map[string]int{"Default": 1}),
		"maxWaitMs 0":                    fetchBody(queue, 0, 1_000_000, map[string]int{"Default": 0}),
		"maxWaitMs null":                 fetchBody(queue, nil, 1_000_000, map[string]int{"Default": 0}),
		"minBytes 0":                     fetchBody(queue, 30_000, 0, map[string]int{"Default": 1}),
		"no entries":                     {"entries": []any{}, "maxWaitMs": 0},
		"a large maxWaitMs, bytes there": fetchBody(queue, int64(1)<<62, nil, map[string]int{"Default": 0}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := suite.client.Post("/api/v1/fetch", body)
			if need(t, answer, 200); answer.Elapsed > delivery {
				t.Fatalf("took %v", answer.Elapsed)
			}
		})
	}
	t.Run("above 30,000", func(t *testing.T) {
		t.Parallel()
		if !longRun() {
			t.Skip("waits 30 s: QUEEN_CONTRACT_LONG=1")
		}
		answer := suite.client.Post("/api/v1/fetch", fetchBody(queue, 45_000, 1, map[string]int{"Default": 1}))
		if need(t, answer, 200); answer.Elapsed < 29*time.Second || answer.Elapsed > 40*time.Second {
			t.Fatalf("want 30 s, took %v", answer.Elapsed)
		}
	})
}

// TestFetchFamilyRefusals_13: what a body lacks or has in the wrong type is 400 in the form of section 13, and the text
// names it.
func TestFetchFamilyRefusals_13(t *testing.T) {
	t.Parallel()
	const fetch, offsets, changed = "/api/v1/fetch", "/api/v1/fetch/offsets", "/api/v1/partitions/changed"
	cases := []struct{ path, body, names string }{
		{fetch, `{}`, "entries"},
		{fetch, `{"entries":null}`, "entries"},
		{fetch, `{"entries":{}}`, "entries"},
		{fetch, `{"entries":[7]}`, ""},
		{fetch, `{"entries":[{"offset":0}]}`, "queue"},
		{fetch, `{"entries":[{"queue":7,"offset":0}]}`, "queue"},
		{fetch, `{"entries":[{"queue":"q"}]}`, "offset"},
		{fetch, `{"entries":[{"queue":"q","offset":"0"}]}`, "offset"},
		{fetch, `{"entries":[{"queue":"q","offset":1.5}]}`, "offset"},
		{fetch, `{"entries":[{"queue":"q","partition":true,"offset":0}]}`, "partition"},
		{fetch, `{"entries":[{"queue":"q","partition":1.5,"offset":0}]}`, "partition"},
		{fetch, `{"entries":[{"queue":"q","offset":0,"maxBytes":"1"}]}`, "maxBytes"},
		{fetch, `{"entries":[{"queue":"q","offset":0}],"maxWaitMs":"1"}`, "maxWaitMs"},
		{fetch, `{"entries":[{"queue":"q","offset":0}],"minBytes":true}`, "minBytes"},
		{fetch, `[]`, ""},
		{offsets, `{}`, "entries"},
		{offsets, `{"entries":[{"queue":"q"}]}`, "timestamp"},
		{offsets, `{"entries":[{"queue":"q","timestamp":"yesterday"}]}`, "timestamp"},
		{offsets, `{"entries":[{"queue":"q","timestamp":true}]}`, "timestamp"},
		{offsets, `{"entries":[{"timestamp":0}]}`, "queue"},
		{offsets, `{"entries":[{"queue":"q","partition":[],"timestamp":0}]}`, "partition"},
		{changed, `{}`, "entries"},
		{changed, `{"entries":[{}]}`, "queue"},
		{changed, `{"entries":[{"queue":""}]}`, "queue"},
		{changed, `{"entries":[{"queue":7}]}`, "queue"},
		{changed, `{"entries":[{"queue":"q","since":true}]}`, "since"},
		{changed, `{"entries":[{"queue":"q","since":"lately"}]}`, "since"},
		{changed, `{"entries":[{"queue":"q","limit":"many"}]}`, "limit"},
		{changed, `{"entries":[{"queue":"q","after":7}]}`, "after"},
	}
	for _, c := range cases {
		t.Run(c.path+" "+c.body, func(t *testing.T) {
			answer := suite.client.Post(c.path, c.body)
			need(t, answer, 400)
			needExactKeys(t, answer.Object(), "error")
			if text := answer.Text("error"); text == "" || !strings.Contains(text, c.names) {
				t.Fatalf("want a text that names %q, got %v", c.names, answer)
			}
		})
	}
	t.Run("as many entries as are allowed", func(t *testing.T) {
		for path, entry := range map[string]string{offsets: `{"queue":"q","timestamp":0}`, fetch: `{"queue":"q","offset":0}`} {
			entries := strings.TrimSuffix(strings.Repeat(entry+",", 1024), ",")
			if got, _ := fetchEntries[fetchEntry](t, path, `{"entries":[`+entries+`]}`); len(got) != 1024 {
				t.Errorf("%s: want 1,024 entries, got %d", path, len(got))
			}
		}
	})
}

// TestFetchEntriesAreIndependent_13_1: an entry in error leaves the others as they are, in the order of the request.
func TestFetchEntriesAreIndependent_13_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "p", "m", 3)...)
	body := fmt.Sprintf(`{"entries":[{"queue":%[1]q,"partition":"none","offset":0},{"queue":%[1]q,"partition":"p","offset":1},
		{"queue":%[1]q,"partition":"p","offset":9},{"queue":%[1]q,"partition":"p","offset":1}]}`, queue)
	entries, answer := fetchEntries[fetchEntry](t, "/api/v1/fetch", body)
	if len(entries) != 4 || entries[0].Error != "UNKNOWN_TOPIC_OR_PARTITION" || entries[2].Error != "OFFSET_OUT_OF_RANGE" {
		t.Fatalf("got %v", answer)
	}
	for _, i := range []int{1, 3} {
		if fmt.Sprint(entries[i].offsets()) != "[1 2]" || entries[i].Error != "" {
			t.Errorf("entry %d: got %+v", i, entries[i])
		}
	}
	if entries[2].HighWatermark != 3 || len(entries[2].Records) != 0 {
		t.Errorf("got %+v", entries[2])
	}
}
