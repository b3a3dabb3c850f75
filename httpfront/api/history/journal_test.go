package history

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

var update = flag.Bool("update", false, "write the golden files anew")

func sampleRow() QueueRow {
	row := QueueRow{Name: Name{uuid.MustParse("00000000-0000-0000-0000-0000000000ff"), "orders"}, Parked: 3}
	for i := range row.Counts {
		row.Counts[i] = uint64(1) << (2 * i)
	}
	row.LagMaxMicros = 123_456
	return row
}

func TestFileFormatIsStable(t *testing.T) {
	node := NodeRow{ResidentBytes: 1 << 20, DiskPercent: 12.5}
	row, plain := sampleRow(), QueueRow{Name: Name{defaultTenant, ""}}
	span := Span{StartMs: 1_800_000_000_000, EndMs: 1_800_000_060_000}
	queues := frameOf(span, [][]byte{row.append(nil), plain.append(nil)})
	nodes := frameOf(span, [][]byte{node.append(nil)})
	got := hex.Dump(nodes.append(queues.append([]byte(magic))))
	path := filepath.Join("testdata", "file.hex")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("files of earlier builds would not be read any more:\n%s\nwant\n%s", got, want)
	}
	back, rest, err := nextFrame(queues.append(nil))
	if err != nil || len(rest) != 0 || back.Span != span || back.rows != 2 {
		t.Fatalf("got %+v, %v", back, err)
	}
	d := decoder{data: back.data, names: map[string]string{}}
	for _, want := range []QueueRow{row, plain} {
		var decoded QueueRow
		if err := d.queueRow(&decoded); err != nil || decoded != want {
			t.Errorf("got %+v, %v, want %+v", decoded, err, want)
		}
	}
}

// testJournal is one file with one row per frame, a minute each.
func testJournal(path string, maxRows int, log *bytes.Buffer) *journal {
	j := &journal{name: "test.log", keep: 24 * time.Hour, maxRows: maxRows, log: zerolog.New(log)}
	j.open(path)
	return j
}

func appendRows(j *journal, from, count int) {
	for i := from; i < from+count; i++ {
		row := sampleRow()
		row.Counts[PushMessages] = uint64(i)
		span := Span{StartMs: int64(i) * 60_000, EndMs: int64(i+1) * 60_000}
		j.append(time.UnixMilli(span.EndMs), frameOf(span, [][]byte{row.append(nil)}))
	}
}

func held(t *testing.T, j *journal) (numbers []uint64) {
	t.Helper()
	for _, f := range j.between(0, 1<<60) {
		d := decoder{data: f.data, names: map[string]string{}}
		for range f.rows {
			var row QueueRow
			if err := d.queueRow(&row); err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, row.Counts[PushMessages])
		}
	}
	return numbers
}

func needRange(t *testing.T, numbers []uint64, from, to uint64) {
	t.Helper()
	if len(numbers) != int(to-from) || numbers[0] != from || numbers[len(numbers)-1] != to-1 {
		t.Fatalf("want the rows %d to %d, got %v", from, to-1, numbers)
	}
}

func TestARestartKeepsTheRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history", "test.log")
	var log bytes.Buffer
	j := testJournal(path, 1000, &log)
	appendRows(j, 0, 10)
	j.close()
	j = testJournal(path, 1000, &log)
	appendRows(j, 10, 5)
	j.close()
	needRange(t, held(t, testJournal(path, 1000, &log)), 0, 15)
	if log.Len() > 0 {
		t.Errorf("warned: %s", &log)
	}
}

func TestRowsAreBoundedInMemoryAndOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.log")
	var log bytes.Buffer
	j := testJournal(path, 50, &log)
	const frames = 60_000
	appendRows(j, 0, frames)
	needRange(t, held(t, j), frames-50, frames)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if most := 2*j.bytes + slackBytes + 4096; info.Size() > most {
		t.Errorf("the file has %d bytes, want at most %d", info.Size(), most)
	}
	j.close()
	j = testJournal(path, 50, &log)
	j.evict(time.UnixMilli(frames * 60_000))
	needRange(t, held(t, j), frames-50, frames)
}

func TestRowsBeyondTheirAgeAreDropped(t *testing.T) {
	var log bytes.Buffer
	j := testJournal(filepath.Join(t.TempDir(), "test.log"), 1<<20, &log)
	appendRows(j, 0, 3000)
	needRange(t, held(t, j), 3000-24*60-1, 3000)
}

func TestUnreadableFilesCostAWarningAndTheirRows(t *testing.T) {
	cases := map[string]struct {
		damage func(data []byte) []byte
		kept   uint64
	}{
		"no history":  {func([]byte) []byte { return []byte("something else altogether") }, 0},
		"empty":       {func([]byte) []byte { return nil }, 0},
		"torn frame":  {func(data []byte) []byte { return data[:len(data)-3] }, 9},
		"torn length": {func(data []byte) []byte { return append(data, 1, 2, 3) }, 10},
		"huge length": {func(data []byte) []byte { return append(data, 255, 255, 255, 255, 0, 0, 0, 0) }, 10},
		"flipped bit": {func(data []byte) []byte {
			data[len(magic)+(len(data)-len(magic))/2] ^= 1 // in frame 5 of 10
			return data
		}, 5},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.log")
			var log bytes.Buffer
			j := testJournal(path, 1000, &log)
			appendRows(j, 1000, 10) // numbers of one size, so that frames have one size
			j.close()
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.damage(data), 0o640); err != nil {
				t.Fatal(err)
			}
			j = testJournal(path, 1000, &log)
			if strings.Count(log.String(), `"level":"warn"`) != 1 {
				t.Errorf("want one warning, got %s", &log)
			}
			appendRows(j, 1000+int(c.kept), 2)
			j.close()
			needRange(t, held(t, testJournal(path, 1000, &log)), 1000, 1000+c.kept+2)
		})
	}
}

func TestADirectoryThatCannotBeWrittenKeepsRowsInMemory(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	if err := os.WriteFile(blocked, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	j := testJournal(filepath.Join(blocked, "test.log"), 1000, &log)
	appendRows(j, 0, 3)
	needRange(t, held(t, j), 0, 3)
	if strings.Count(log.String(), `"level":"warn"`) != 1 {
		t.Errorf("want one warning and not one per row, got %s", &log)
	}
}

func TestMoreQueuesThanRowsKeepTheBusiest(t *testing.T) {
	options := testOptions("")
	options.MaxQueueRows = 2
	r := Open(options)
	r.sample = noNode
	for queue, messages := range map[string]uint64{"a": 1, "b": 30, "c": 20} {
		r.Pushed(defaultTenant, queue, messages)
	}
	r.flush(r.began.Add(time.Second))
	rows := allRows(t, r)
	if len(rows) != 2 || rows[0].Queue != "b" || rows[1].Queue != "c" {
		t.Errorf("got %+v", rows)
	}
}

func FuzzFrames(f *testing.F) {
	row, node := sampleRow(), NodeRow{ResidentBytes: 1}
	frame := frameOf(Span{1, 2}, [][]byte{row.append(nil)})
	f.Add(frame.append(nil))
	f.Add(row.append(nil))
	f.Add(node.append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if decoded, _, err := nextFrame(data); err == nil {
			again, rest, err := nextFrame(decoded.append(nil))
			if err != nil || len(rest) > 0 || again.Span != decoded.Span || !bytes.Equal(again.data, decoded.data) {
				t.Fatalf("%+v does not come back: %+v, %v", decoded, again, err)
			}
		}
		d := decoder{data: data, names: map[string]string{}}
		var queue QueueRow
		if d.queueRow(&queue) == nil {
			again := decoder{data: queue.append(nil), names: map[string]string{}}
			var back QueueRow
			if err := again.queueRow(&back); err != nil || back != queue {
				t.Fatalf("%+v does not come back: %+v, %v", queue, back, err)
			}
		}
		d = decoder{data: data}
		var values NodeRow
		_ = d.nodeRow(&values) // must not panic
	})
}
