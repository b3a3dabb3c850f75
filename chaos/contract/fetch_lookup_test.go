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
		if len(page.Partitions) == 0 || page.Partitions[len(page.Partitions)-1].Name != "4" {
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
