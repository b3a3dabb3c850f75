package contract

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

func TestFetchOffsetsFindsTheFirstRecordAtOrAfter_13_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for i := range 3 {
		pushAll(t, suite.client, numbered(queue, "", fmt.Sprint(i, "-"), 2)...)
	}
	records := fetch(t, queue, "Default", 0).Records
	if len(records) != 6 {
		t.Fatalf("want 6 records, got %d", len(records))
	}
	stamp := func(offset int) string { return records[offset].TS.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }
	cases := []struct {
		rule      string
		timestamp any
		want      int64 // -1: none
	}{
		{"before the first", "1999-01-01T00:00:00Z", 0},
		{"epoch milliseconds", 0, 0},
		{"the stamp of an append is inclusive", stamp(2), 2},
		{"inside an append is its first record", stamp(3), 2},
		{"a microsecond later is the next append", records[2].TS.Add(time.Microsecond).UTC().Format("2006-01-02T15:04:05.000000Z07:00"), 4},
		{"after the last is null", time.Now().Add(time.Hour).UnixMilli(), -1},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			entry := fetchOffsets(t, queue, c.timestamp)
			if entry.HighWatermark != 6 || entry.LogStartOffset != 0 || entry.Error != "" {
				t.Fatalf("got %+v", entry)
			}
			if c.want < 0 {
				if entry.Offset != nil || entry.TS != nil {
					t.Fatalf("want null, got %+v", entry)
				}
				return
			}
			if entry.Offset == nil || *entry.Offset != c.want || entry.TS == nil || !entry.TS.Equal(records[c.want].TS) {
				t.Fatalf("want offset %d, got %+v", c.want, entry)
			}
		})
	}
	t.Run("a missing queue", func(t *testing.T) {
		if entry := fetchOffsets(t, queue+"-none", 0); entry.Error != "UNKNOWN_TOPIC_OR_PARTITION" {
			t.Fatalf("got %+v", entry)
		}
	})
}

func TestChangedPartitionsArePaged_13_3(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const partitions = 5
	for i := range partitions {
		pushAll(t, suite.client, numbered(queue, strconv.Itoa(i), "m", i+1)...)
	}
	ask := func(extra string) (changedEntry, harness.Response) {
		t.Helper()
		entries, answer := fetchEntries[changedEntry](t, "/api/v1/partitions/changed", fmt.Sprintf(`{"entries":[{"queue":%q%s}]}`, queue, extra))
		if len(entries) != 1 {
			t.Fatalf("got %v", answer)
		}
		return entries[0], answer
	}
	all, answer := ask("")
	t.Run("all of them in the order of creation", func(t *testing.T) {
		needExactKeys(t, answer.Object(), "safeTime", "safeTimeDegraded", "entries")
		if answer.Object()["safeTimeDegraded"] != false || len(all.Partitions) != partitions || all.Next != nil {
			t.Fatalf("got %v", answer)
		}
		row := firstObject(firstObject(answer.Object()["entries"])["partitions"])
		needExactKeys(t, row, "id", "name", "lastOffset", "logStart", "lastWriteAt")
		for i, partition := range all.Partitions {
			if partition.Name != strconv.Itoa(i) || partition.LastOffset != int64(i) || partition.LogStart != 0 {
				t.Fatalf("got %+v", partition)
			}
		}
	})
	t.Run("pages of two", func(t *testing.T) {
		var names []string
		page, _ := ask(`,"limit":2`)
		for len(names) <= partitions {
			for _, partition := range page.Partitions {
				names = append(names, partition.Name)
			}
			if page.Next == nil {
				break
			}
			if len(page.Partitions) != 2 {
				t.Fatalf("next only stands on a full page, got %+v", page)
			}
			page, _ = ask(fmt.Sprintf(`,"limit":2,"after":%q`, *page.Next))
		}
		if strings.Join(names, "") != "01234" {
			t.Fatalf("got %v", names)
		}
	})
	t.Run("limit is clamped", func(t *testing.T) {
		if page, _ := ask(`,"limit":0`); len(page.Partitions) != 1 {
			t.Fatalf("got %+v", page)
		}
		if page, _ := ask(`,"limit":100000`); len(page.Partitions) != partitions {
			t.Fatalf("got %+v", page)
		}
	})
	t.Run("since leaves out what was not written", func(t *testing.T) {
		since := all.Partitions[3].LastWriteAt.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		page, _ := ask(fmt.Sprintf(`,"since":%q`, since))
		for _, partition := range page.Partitions {
			if partition.LastWriteAt.Before(all.Partitions[3].LastWriteAt) {
				t.Fatalf("got %+v", page)
			}
		}
		// What was written at that very instant is in it: a client asks again from a safeTime that it was given.
		if len(page.Partitions) != 2 || page.Partitions[0].Name != "3" || page.Partitions[1].Name != "4" {
			t.Fatalf("got %+v", page)
		}
	})
	t.Run("a bad cursor and a missing queue are entry errors", func(t *testing.T) {
		if page, _ := ask(`,"after":"not a cursor"`); page.Error != "BAD_CURSOR" {
			t.Fatalf("got %+v", page)
		}
		entries, _ := fetchEntries[changedEntry](t, "/api/v1/partitions/changed", fmt.Sprintf(`{"entries":[{"queue":"%s-none"}]}`, queue))
		if entries[0].Error != "UNKNOWN_TOPIC_OR_PARTITION" {
			t.Fatalf("got %+v", entries[0])
		}
	})
	t.Run("empty entries answer safeTime", func(t *testing.T) {
		entries, answer := fetchEntries[changedEntry](t, "/api/v1/partitions/changed", `{"entries":[]}`)
		if safe, err := time.Parse(time.RFC3339, answer.Text("safeTime")); err != nil || len(entries) != 0 || safe.Before(all.Partitions[4].LastWriteAt) {
			t.Fatalf("got %v (%v)", answer, err)
		}
	})
}

// TestFetchOffsetsOfANamedPartition_13_2: a partition is named by a string or a number, and the answer has exact keys.
func TestFetchOffsetsOfANamedPartition_13_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "d", 1)...)
	pushAll(t, suite.client, numbered(queue, "7", "n", 2)...)
	pushAll(t, suite.client, numbered(queue, "p", "p", 3)...)
	ask := func(members string) (offsetEntry, map[string]any) {
		t.Helper()
		entries, answer := fetchEntries[offsetEntry](t, "/api/v1/fetch/offsets", fmt.Sprintf(`{"entries":[{"queue":%q,"timestamp":0%s}]}`, queue, members))
		if len(entries) != 1 || entries[0].Queue != queue {
			t.Fatalf("got %v", answer)
		}
		return entries[0], firstObject(answer.Object()["entries"])
	}
	for members, want := range map[string]offsetEntry{
		"":                    {Partition: "Default", HighWatermark: 1},
		`,"partition":null`:   {Partition: "Default", HighWatermark: 1},
		`,"partition":"p"`:    {Partition: "p", HighWatermark: 3},
		`,"partition":7`:      {Partition: "7", HighWatermark: 2},
		`,"partition":"7"`:    {Partition: "7", HighWatermark: 2},
		`,"partition":"none"`: {Partition: "none", Error: "UNKNOWN_TOPIC_OR_PARTITION"},
	} {
		t.Run("partition"+members, func(t *testing.T) {
			entry, object := ask(members)
			if entry.Partition != want.Partition || entry.HighWatermark != want.HighWatermark || entry.Error != want.Error || entry.LogStartOffset != 0 {
				t.Fatalf("want %+v, got %+v", want, entry)
			}
			if (entry.Offset == nil) != (want.Error != "") || (entry.TS == nil) != (want.Error != "") {
				t.Fatalf("offset and ts are null with an error alone, got %+v", entry)
			}
			keys := []string{"queue", "partition", "offset", "ts", "highWatermark", "logStartOffset"}
			if want.Error != "" {
				keys = append(keys, "error")
			}
			needExactKeys(t, object, keys...)
		})
	}
	t.Run("a time without a zone is UTC", func(t *testing.T) {
		stamp := fetch(t, queue, "p", 0).Records[0].TS.UTC()
		for at, found := range map[time.Time]bool{stamp.Add(-time.Second): true, stamp.Add(time.Second): false} {
			for _, timestamp := range []any{at.Format("2006-01-02T15:04:05.000000"), at.Format(time.RFC3339Nano), at.UnixMilli()} {
				entries, answer := fetchEntries[offsetEntry](t, "/api/v1/fetch/offsets",
					map[string]any{"entries": []any{map[string]any{"queue": queue, "partition": "p", "timestamp": timestamp}}})
				if (entries[0].Offset != nil) != found {
					t.Errorf("%v: got %v", timestamp, answer)
				}
			}
		}
	})
}

// TestLookupsFollowTheLogStart_13: what retention has removed is found neither by time nor listed: all three routes show
// the same log start.
func TestLookupsFollowTheLogStart_13(t *testing.T) {
	t.Parallel()
	client := retentionBroker(t)
	s := newSceneAt(t, client, nil, 2)
	s.push(3)
	needVerdicts(t, s.claim(2, 0, 1, 1).ack(completed(1)), released)
	need(t, client.Configure(s.queue, map[string]any{"retentionEnabled": true, "completedRetentionSeconds": 1}), 200)
	awaitRetained(t, s, 3)
	entry := fetchAt(t, client, s.queue, s.partition, 2)
	if fmt.Sprint(entry.offsets()) != "[2 3 4]" || entry.LogStartOffset != 2 || entry.HighWatermark != 5 {
		t.Errorf("fetch: got %+v", entry)
	}
	if below := fetchAt(t, client, s.queue, s.partition, 1); below.Error != "OFFSET_OUT_OF_RANGE" || below.LogStartOffset != 2 || below.HighWatermark != 5 {
		t.Errorf("fetch below the log start: got %+v", below)
	}
	offsets, answer := fetchEntriesAt[offsetEntry](t, client, "/api/v1/fetch/offsets", fmt.Sprintf(`{"entries":[{"queue":%q,"timestamp":0}]}`, s.queue))
	if first := offsets[0]; first.Offset == nil || *first.Offset != 2 || first.LogStartOffset != 2 || first.HighWatermark != 5 {
		t.Errorf("offsets: got %v", answer)
	}
	changed, answer := fetchEntriesAt[changedEntry](t, client, "/api/v1/partitions/changed", fmt.Sprintf(`{"entries":[{"queue":%q}]}`, s.queue))
	if rows := changed[0].Partitions; len(rows) != 1 || rows[0].LogStart != 2 || rows[0].LastOffset != 4 || rows[0].ID != s.partitionID {
		t.Errorf("changed: got %v", answer)
	}
}

// TestChangedPartitionsLimit_13_3: a page has 1,000 partitions by default and at most, and 1 at least.
func TestChangedPartitionsLimit_13_3(t *testing.T) {
	t.Parallel()
	const most = 1000
	queue := uniqueName(t)
	items := make([]harness.Item, most+2)
	for i := range items {
		items[i] = harness.Item{Queue: queue, Partition: strconv.Itoa(i), Payload: i}
	}
	pushAll(t, suite.client, items...)
	page := func(t *testing.T, extra string) changedEntry {
		t.Helper()
		entries, answer := fetchEntries[changedEntry](t, "/api/v1/partitions/changed", fmt.Sprintf(`{"entries":[{"queue":%q%s}]}`, queue, extra))
		if len(entries) != 1 || entries[0].Error != "" {
			t.Fatalf("got %v", answer)
		}
		return entries[0]
	}
	for extra, want := range map[string]int{"": most, `,"limit":null`: most, `,"limit":999`: 999, `,"limit":1000`: most, `,"limit":1001`: most,
		`,"limit":99999999999999999999`: most, `,"limit":1`: 1, `,"limit":0`: 1, `,"limit":-7`: 1} {
		t.Run("limit"+extra, func(t *testing.T) {
			first := page(t, extra)
			if len(first.Partitions) != want || first.Next == nil {
				t.Fatalf("want a full page of %d, got %d", want, len(first.Partitions))
			}
			if want < 999 {
				return
			}
			last := page(t, fmt.Sprintf(`,"after":%q`, *first.Next))
			if len(last.Partitions) != len(items)-want || last.Next != nil || last.Partitions[0].Name != strconv.Itoa(want) {
				t.Fatalf("want the rest, got %d from %+v on", len(last.Partitions), last.Partitions[0])
			}
		})
	}
}

// TestChangedPartitionsSinceAndAfter_13_3: both bounds hold together, in the order of creation and not of writing; a
// write to a page already read is not repeated by the cursor.
func TestChangedPartitionsSinceAndAfter_13_3(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for i := range 6 {
		pushAll(t, suite.client, numbered(queue, strconv.Itoa(i), "m", 1)...)
	}
	ask := func(extra string) changedEntry {
		t.Helper()
		entries, answer := fetchEntries[changedEntry](t, "/api/v1/partitions/changed", fmt.Sprintf(`{"entries":[{"queue":%q%s}]}`, queue, extra))
		if len(entries) != 1 || entries[0].Error != "" {
			t.Fatalf("got %v", answer)
		}
		return entries[0]
	}
	all := ask("").Partitions
	since := fmt.Sprintf(`,"since":%q`, all[5].LastWriteAt.Add(time.Microsecond).UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
	if page := ask(since); len(page.Partitions) != 0 || page.Next != nil || page.Partitions == nil {
		t.Fatalf("nothing has changed since, got %+v", page)
	}
	for _, i := range []int{4, 0, 3} { // not in the order of their creation
		pushAll(t, suite.client, numbered(queue, strconv.Itoa(i), "again", 1)...)
	}
	var names []string
	after := ""
	for range 6 {
		page := ask(since + `,"limit":1` + after)
		for _, partition := range page.Partitions {
			names = append(names, partition.Name)
			if partition.LastOffset < 1 || !partition.LastWriteAt.After(all[5].LastWriteAt) {
				t.Errorf("got %+v", partition)
			}
		}
		if page.Next == nil {
			break
		}
		after = fmt.Sprintf(`,"after":%q`, *page.Next)
		pushAll(t, suite.client, numbered(queue, "0", fmt.Sprint("later", len(names)), 1)...) // before the cursor
	}
	if strings.Join(names, "") != "034" {
		t.Fatalf("want the partitions 0, 3 and 4, got %v", names)
	}
}

// TestSafeTimeIsTheGreatestStamp_13_3: safeTime is the greatest stamp that the node has applied, not the time of the call: it
// stands still while nothing is written. This broker soon writes nothing by itself.
func TestSafeTimeIsTheGreatestStamp_13_3(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_IDLE_TICK_MS": "0"}).Client()
	safeTime := func() time.Time {
		t.Helper()
		reply := client.Post("/api/v1/partitions/changed", `{"entries":[]}`)
		need(t, reply, 200)
		safe, err := time.Parse(time.RFC3339Nano, reply.Text("safeTime"))
		if err != nil || !microStamp.MatchString(reply.Text("safeTime")) {
			t.Fatalf("got %v (%v)", reply, err)
		}
		return safe
	}
	s := &scene{t: t, client: client, queue: "q", partition: "Default"}
	s.push(1)
	written, safe := stampOf(t, s, 0), safeTime()
	if safe.Before(written) || safe.After(time.Now().Add(time.Second)) {
		t.Fatalf("want the stamp %v of the last write, got %v", written, safe)
	}
	eventually(t, delivery, func() (bool, string) {
		before := safeTime()
		needEmpty(t, client.PopPartition("elsewhere", "p", "wait=true&timeout=1000"))
		safe = safeTime()
		return safe.Equal(before), fmt.Sprintf("nothing is written and it goes from %v to %v", before, safe)
	})
	s.push(1)
	if later := safeTime(); !later.After(safe) || later.Before(stampOf(t, s, 1)) {
		t.Fatalf("want the stamp of the write after %v, got %v", safe, later)
	}
}

// TestEntriesInErrorHaveExactKeys_13: an entry that has no answer says which one it is and why, and nothing else; on fetch the
// records are empty.
func TestEntriesInErrorHaveExactKeys_13(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	body := fmt.Sprintf(`{"entries":[{"queue":"%[1]s-none","offset":0,"timestamp":0},{"queue":%[1]q,"partition":"none","offset":0,"timestamp":0}]}`, s.queue)
	for path, keys := range map[string][]string{
		"/api/v1/fetch":         {"queue", "partition", "records", "highWatermark", "logStartOffset", "error"},
		"/api/v1/fetch/offsets": {"queue", "partition", "offset", "ts", "highWatermark", "logStartOffset", "error"},
	} {
		reply := s.client.Post(path, body)
		need(t, reply, 200)
		for _, entry := range objects(t, reply.Object()["entries"]) {
			if needExactKeys(t, entry, keys...); entry["error"] != "UNKNOWN_TOPIC_OR_PARTITION" {
				t.Errorf("%s: got %v", path, entry)
			}
		}
	}
	body = fmt.Sprintf(`{"entries":[{"queue":"%[1]s-none"},{"queue":%[1]q,"after":"no cursor"},{"queue":%[1]q}]}`, s.queue)
	reply := s.client.Post("/api/v1/partitions/changed", body)
	need(t, reply, 200)
	entries := objects(t, reply.Object()["entries"])
	if len(entries) != 3 {
		t.Fatalf("got %v", reply)
	}
	for i, want := range []string{"UNKNOWN_TOPIC_OR_PARTITION", "BAD_CURSOR"} {
		if needExactKeys(t, entries[i], "queue", "error"); entries[i]["error"] != want {
			t.Errorf("want %s, got %v", want, entries[i])
		}
	}
	needExactKeys(t, entries[2], "queue", "partitions", "next")
}
