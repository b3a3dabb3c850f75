package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// fetchEntry is one entry of the answer of a fetch (13.1).
type fetchEntry struct {
	Queue     string `json:"queue"`
	Partition string `json:"partition"`
	Records   []struct {
		Offset        int64           `json:"offset"`
		TransactionID string          `json:"transactionId"`
		Payload       json.RawMessage `json:"payload"`
		TS            time.Time       `json:"ts"`
	} `json:"records"`
	HighWatermark  int64  `json:"highWatermark"`
	LogStartOffset int64  `json:"logStartOffset"`
	Error          string `json:"error"`
}

// offsetEntry is one entry of the answer of fetch/offsets (13.2).
type offsetEntry struct {
	Queue          string     `json:"queue"`
	Partition      string     `json:"partition"`
	Offset         *int64     `json:"offset"`
	TS             *time.Time `json:"ts"`
	HighWatermark  int64      `json:"highWatermark"`
	LogStartOffset int64      `json:"logStartOffset"`
	Error          string     `json:"error"`
}

// changedEntry is one entry of the answer of partitions/changed (13.3).
type changedEntry struct {
	Queue      string `json:"queue"`
	Partitions []struct {
		ID          string    `json:"id"`
		Name        string    `json:"name"`
		LastOffset  int64     `json:"lastOffset"`
		LogStart    int64     `json:"logStart"`
		LastWriteAt time.Time `json:"lastWriteAt"`
	} `json:"partitions"`
	Next  *string `json:"next"`
	Error string  `json:"error"`
}

// fetchEntries sends a body to one of the three routes of section 13 and returns its entries.
func fetchEntries[Entry any](t *testing.T, path string, body any) ([]Entry, harness.Response) {
	t.Helper()
	return fetchEntriesAt[Entry](t, suite.client, path, body)
}

// fetchEntriesAt is fetchEntries on another broker.
func fetchEntriesAt[Entry any](t *testing.T, client *harness.Client, path string, body any) ([]Entry, harness.Response) {
	t.Helper()
	answer := client.Post(path, body)
	need(t, answer, 200)
	var reply struct {
		Entries []Entry `json:"entries"`
	}
	if err := answer.Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return reply.Entries, answer
}

// fetch reads one partition of the shared broker from an offset on.
func fetch(t *testing.T, queue, partition string, offset int64) fetchEntry {
	t.Helper()
	return fetchAt(t, suite.client, queue, partition, offset)
}

// fetchAt is fetch on another broker.
func fetchAt(t *testing.T, client *harness.Client, queue, partition string, offset int64) fetchEntry {
	t.Helper()
	entries, answer := fetchEntriesAt[fetchEntry](t, client, "/api/v1/fetch",
		map[string]any{"entries": []any{map[string]any{"queue": queue, "partition": partition, "offset": offset}}})
	if len(entries) != 1 || entries[0].Queue != queue || entries[0].Partition != partition {
		t.Fatalf("want the entry of %s/%s, got %v", queue, partition, answer)
	}
	return entries[0]
}

// fetchOffsets asks for the first record of the default partition at or after a timestamp.
func fetchOffsets(t *testing.T, queue string, timestamp any) offsetEntry {
	t.Helper()
	entries, answer := fetchEntries[offsetEntry](t, "/api/v1/fetch/offsets",
		map[string]any{"entries": []any{map[string]any{"queue": queue, "timestamp": timestamp}}})
	if len(entries) != 1 || entries[0].Queue != queue || entries[0].Partition != "Default" {
		t.Fatalf("want the entry of %s/Default, got %v", queue, answer)
	}
	return entries[0]
}

func (e fetchEntry) offsets() []int64 {
	offsets := make([]int64, 0, len(e.Records))
	for _, record := range e.Records {
		offsets = append(offsets, record.Offset)
	}
	return offsets
}

func TestFetchReadsWithoutCursorOrLease_13_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "p", "m", 5)...)
	for range 2 { // a read changes nothing
		entry := fetch(t, queue, "p", 2)
		if fmt.Sprint(entry.offsets()) != "[2 3 4]" || entry.HighWatermark != 5 || entry.LogStartOffset != 0 || entry.Error != "" {
			t.Fatalf("got %+v", entry)
		}
		if record := entry.Records[0]; record.TransactionID != "m2" || string(record.Payload) != "2" {
			t.Fatalf("got %+v", record)
		}
	}
	t.Run("a leased and consumed message is still there", func(t *testing.T) {
		popped := suite.client.Pop(queue, "leaseSeconds=60")
		needMessageCount(t, popped, 5)
		needAcked(t, suite.client.AckMessages("completed", popped.Messages[:3]...))
		if entry := fetch(t, queue, "p", 0); len(entry.Records) != 5 {
			t.Fatalf("got %+v", entry)
		}
	})
	t.Run("the keys are exact", func(t *testing.T) {
		entries, answer := fetchEntries[fetchEntry](t, "/api/v1/fetch", fmt.Sprintf(`{"entries":[{"queue":%q,"partition":"p","offset":0}]}`, queue))
		if len(entries) != 1 {
			t.Fatalf("got %v", answer)
		}
		needExactKeys(t, answer.Object(), "entries")
		entry := firstObject(answer.Object()["entries"])
		needExactKeys(t, entry, "queue", "partition", "records", "highWatermark", "logStartOffset")
		needExactKeys(t, firstObject(entry["records"]), "offset", "transactionId", "payload", "ts")
	})
	t.Run("at the high watermark there is nothing and no error", func(t *testing.T) {
		if entry := fetch(t, queue, "p", 5); len(entry.Records) != 0 || entry.Error != "" || entry.HighWatermark != 5 {
			t.Fatalf("got %+v", entry)
		}
	})
}

func TestFetchNamesWhatIsMissing_13_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 3)...)
	cases := []struct {
		rule, queue, partition string
		offset                 int64
		want                   string
	}{
		{"a missing queue", queue + "-none", "Default", 0, "UNKNOWN_TOPIC_OR_PARTITION"},
		{"a missing partition of an existing queue", queue, "none", 0, "UNKNOWN_TOPIC_OR_PARTITION"},
		{"an offset above the tail", queue, "Default", 4, "OFFSET_OUT_OF_RANGE"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			if entry := fetch(t, c.queue, c.partition, c.offset); entry.Error != c.want || len(entry.Records) != 0 {
				t.Fatalf("want %s, got %+v", c.want, entry)
			}
		})
	}
	t.Run("a read creates nothing", func(t *testing.T) { need(t, suite.client.Get("/api/v1/resources/queues/"+queue+"-none"), 404) })
	t.Run("an offset below the log start", func(t *testing.T) {
		aged := queue + "-aged"
		need(t, suite.client.Configure(aged, map[string]any{"retentionEnabled": true, "retentionSeconds": 1}), 200)
		pushOne(t, suite.client, harness.Item{Queue: aged, Payload: 1})
		eventually(t, 30*time.Second, func() (bool, string) {
			entry := fetch(t, aged, "Default", 0)
			return entry.Error == "OFFSET_OUT_OF_RANGE" && entry.LogStartOffset == 1 && entry.HighWatermark == 1, fmt.Sprintf("%+v", entry)
		})
	})
}

func TestFetchRequestRules_13_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "d", 1)...)
	pushAll(t, suite.client, numbered(queue, "7", "n", 1)...)
	refusal := func(path, body, text string) {
		t.Helper()
		answer := suite.client.Post(path, body)
		need(t, answer, 400)
		needExactKeys(t, answer.Object(), "error")
		if got := answer.Text("error"); text != "" && got != text {
			t.Fatalf("want %q, got %q", text, got)
		}
	}
	many := func(count int, entry string) string {
		return `{"entries":[` + strings.TrimSuffix(strings.Repeat(entry+",", count), ",") + `]}`
	}
	refusal("/api/v1/fetch", many(1025, `{"queue":"q","offset":0}`), "too many entries")
	need(t, suite.client.Post("/api/v1/fetch", many(1024, `{"queue":"q","offset":0}`)), 200)
	refusal("/api/v1/fetch", `{"entries":[{"queue":"q","offset":-1}]}`, "offset must be non-negative")
	refusal("/api/v1/fetch/offsets", many(1025, `{"queue":"q","timestamp":0}`), "too many entries")
	refusal("/api/v1/partitions/changed", many(65, `{"queue":"q"}`), "")
	need(t, suite.client.Post("/api/v1/partitions/changed", many(64, `{"queue":"q"}`)), 200)
	refusal("/api/v1/partitions/changed", `{"entries":[{"queue":""}]}`, "")
	refusal("/api/v1/partitions/changed", `{"entries":[{"queue":"q","since":"lately"}]}`, "")
	for _, path := range []string{"/api/v1/fetch", "/api/v1/fetch/offsets", "/api/v1/partitions/changed"} {
		refusal(path, `{"entries":`, "")
	}
	t.Run("an absent partition is Default, a number its decimal text", func(t *testing.T) {
		entries, _ := fetchEntries[fetchEntry](t, "/api/v1/fetch",
			fmt.Sprintf(`{"entries":[{"queue":%q,"offset":0},{"queue":%q,"partition":7,"offset":0}]}`, queue, queue))
		if len(entries) != 2 || entries[0].Partition != "Default" || entries[1].Partition != "7" ||
			len(entries[0].Records) != 1 || len(entries[1].Records) != 1 || entries[1].Records[0].TransactionID != "n0" {
			t.Fatalf("got %+v", entries)
		}
	})
}

func TestFetchIsBoundedByBytesAndRecords_13_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	payload := strings.Repeat("x", 1000)
	items := make([]harness.Item, 5)
	for i := range items {
		items[i] = harness.Item{Queue: queue, Payload: payload}
	}
	pushAll(t, suite.client, items...)
	records := func(maxBytes string) int {
		entries, _ := fetchEntries[fetchEntry](t, "/api/v1/fetch", fmt.Sprintf(`{"entries":[{"queue":%q,"offset":0,"maxBytes":%s}]}`, queue, maxBytes))
		return len(entries[0].Records)
	}
	for maxBytes, want := range map[string]int{"1": 1, "0": 1, "-4": 1, "1500": 1, "2500": 2, "99999999": 5} {
		if got := records(maxBytes); got != want {
			t.Errorf("maxBytes %s: want %d records, got %d", maxBytes, want, got)
		}
	}
	t.Run("maxBytes defaults to 1 MiB", func(t *testing.T) {
		big := queue + "-big"
		for range 4 {
			pushOne(t, suite.client, harness.Item{Queue: big, Payload: strings.Repeat("x", 400<<10)})
		}
		if got := len(fetch(t, big, "Default", 0).Records); got != 2 {
			t.Errorf("want 2 records of 400 KiB, got %d", got)
		}
	})
	t.Run("maxBytes is at most 8 MiB", func(t *testing.T) {
		big := queue + "-huge"
		for range 3 {
			pushOne(t, suite.client, harness.Item{Queue: big, Payload: strings.Repeat("x", 3<<20)})
		}
		entries, _ := fetchEntries[fetchEntry](t, "/api/v1/fetch", fmt.Sprintf(`{"entries":[{"queue":%q,"offset":0,"maxBytes":1000000000}]}`, big))
		if got := len(entries[0].Records); got != 2 {
			t.Errorf("want 2 records of 3 MiB, got %d", got)
		}
	})
	t.Run("the answer as a whole is at most 64 MiB, its first record aside", func(t *testing.T) {
		big := queue + "-whole"
		pushOne(t, suite.client, harness.Item{Queue: big, Payload: strings.Repeat("x", 7<<20)})
		one := fmt.Sprintf(`{"queue":%q,"offset":0,"maxBytes":8388608},`, big)
		entries, _ := fetchEntries[fetchEntry](t, "/api/v1/fetch", `{"entries":[`+strings.TrimSuffix(strings.Repeat(one, 12), ",")+`]}`)
		for i, entry := range entries {
			// Nine of 7 MiB fit; whether the first record counts decides on the tenth.
			if got := len(entry.Records); i < 9 && got != 1 || i > 9 && got != 0 || entry.HighWatermark != 1 {
				t.Errorf("entry %d has %d records", i, got)
			}
		}
	})
	t.Run("at most 10,000 records", func(t *testing.T) {
		long := queue + "-long"
		pushAll(t, suite.client, numbered(long, "", "m", 10_050)...)
		entries, _ := fetchEntries[fetchEntry](t, "/api/v1/fetch", fmt.Sprintf(`{"entries":[{"queue":%q,"offset":0,"maxBytes":8000000}]}`, long))
		if got := len(entries[0].Records); got != 10_000 {
			t.Errorf("want 10,000 records, got %d", got)
		}
	})
}

func TestFetchWaitsForBytes_13_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: "first"})
	body := func(offset, maxWaitMs, minBytes int) string {
		return fmt.Sprintf(`{"entries":[{"queue":%q,"offset":%d}],"maxWaitMs":%d,"minBytes":%d}`, queue, offset, maxWaitMs, minBytes)
	}
	t.Run("not at all by default", func(t *testing.T) {
		answer := suite.client.Post("/api/v1/fetch", fmt.Sprintf(`{"entries":[{"queue":%q,"offset":1}]}`, queue))
		if need(t, answer, 200); answer.Elapsed > promptly {
			t.Fatalf("took %v", answer.Elapsed)
		}
	})
	t.Run("until maxWaitMs has passed", func(t *testing.T) {
		answer := suite.client.Post("/api/v1/fetch", body(1, 1000, 1))
		if need(t, answer, 200); answer.Elapsed < 950*time.Millisecond || answer.Elapsed > 1000*time.Millisecond+promptly {
			t.Fatalf("took %v", answer.Elapsed)
		}
	})
	t.Run("no longer than the bytes take to come", func(t *testing.T) {
		waiting := make(chan harness.Response, 1)
		go func() { waiting <- suite.client.Post("/api/v1/fetch", body(1, 30_000, 1)) }()
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: "second"})
		answer := <-waiting
		if need(t, answer, 200); answer.Elapsed > 15*time.Second || !strings.Contains(string(answer.Body), "second") {
			t.Fatalf("got %v", answer)
		}
	})
	t.Run("not when minBytes are there", func(t *testing.T) {
		answer := suite.client.Post("/api/v1/fetch", body(0, 30_000, 5))
		if need(t, answer, 200); answer.Elapsed > 15*time.Second {
			t.Fatalf("took %v", answer.Elapsed)
		}
	})
	t.Run("when fewer than minBytes are there", func(t *testing.T) {
		answer := suite.client.Post("/api/v1/fetch", body(0, 500, 1_000_000))
		if need(t, answer, 200); answer.Elapsed < 450*time.Millisecond || !strings.Contains(string(answer.Body), "first") {
			t.Fatalf("got %v", answer)
		}
	})
}
