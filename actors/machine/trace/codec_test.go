package trace

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"queen/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares encoded bytes with a file that is never to change without a new format version.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	if *update {
		if err := os.WriteFile(path, []byte(hex.EncodeToString(got)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: bytes differ:\n%x\nwant\n%x", name, got, want)
	}
}

func sampleRecord() *Record {
	return &Record{
		Partition: "17", Txid: "t-1", Queue: "orders", PartitionName: "p", Placed: true, Group: "workers", EventType: "info",
		Worker: "queen-1", Names: []string{"order", ""}, Data: []byte(`{"step":1}`),
	}
}

func sampleRows() (inline, chunked *Row) {
	inline = &Row{
		Number: 9, StampMicros: testStart, ID: uuid.UUID{0: 1, 15: 2}, Tenant: tenantA, Address: Address{0: 3, 15: 4},
		Names: []uint64{1, 300}, Inline: appendRecord(nil, sampleRecord()),
	}
	moved := *inline
	moved.Names, moved.Inline = []uint64{}, nil
	moved.Chunk = &store.ChunkRef{Bucket: 1, Entry: 2, Ordinal: 3, Bytes: 4}
	return inline, &moved
}

func TestRowsEqualGoldenFiles(t *testing.T) {
	inline, chunked := sampleRows()
	for name, row := range map[string]*Row{"row-inline": inline, "row-chunk": chunked} {
		encoded := appendRow(nil, row)
		golden(t, name, encoded)
		decoded, err := DecodeRow(row.Number, encoded)
		if err != nil || !reflect.DeepEqual(decoded, row) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, decoded, err, row)
		}
	}
	for name, record := range map[string]*Record{"record": sampleRecord(), "record-empty": {Names: []string{}}} {
		encoded := appendRecord(nil, record)
		golden(t, name, encoded)
		decoded, err := decodeRecord(encoded)
		if err != nil || !reflect.DeepEqual(decoded, record) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, decoded, err, record)
		}
	}
	known := &nameRow{tenant: tenantA, name: "order/1", traces: 300, messages: 2, lastNumber: 9, lastStampMicros: testStart}
	encoded := appendNameRow(nil, known)
	golden(t, "name", encoded)
	if decoded, err := decodeNameRow(encoded); err != nil || *decoded != *known {
		t.Errorf("name: decoded %+v, %v", decoded, err)
	}
	c := counters{last: 4, oldest: 3, lastName: 2, stored: 1}
	memory := newMemory()
	c.put(memory)
	golden(t, "counters", memory.rows[string(countersKey)])
	if read, err := readCounters(memory); err != nil || read != c {
		t.Errorf("counters: read %+v, %v", read, err)
	}
}

func TestCutRowsAreRefused(t *testing.T) {
	inline, chunked := sampleRows()
	head := len(appendRow(nil, inline)) - len(inline.Inline)
	for n := range head {
		if _, err := DecodeRow(9, appendRow(nil, inline)[:n]); !errors.Is(err, ErrBadRow) {
			t.Errorf("%d bytes of a row: %v", n, err)
		}
	}
	for n := range appendRow(nil, chunked) {
		if _, err := DecodeRow(9, appendRow(nil, chunked)[:n]); !errors.Is(err, ErrBadRow) {
			t.Errorf("%d bytes of a row with a chunk: %v", n, err)
		}
	}
	record := sampleRecord()
	for n := range len(appendRecord(nil, record)) - len(record.Data) {
		if _, err := decodeRecord(appendRecord(nil, record)[:n]); !errors.Is(err, ErrBadRow) {
			t.Errorf("%d bytes of a record: %v", n, err)
		}
	}
	known := appendNameRow(nil, &nameRow{tenant: tenantA, name: ""})
	for n := range known {
		if _, err := decodeNameRow(known[:n]); !errors.Is(err, ErrBadRow) {
			t.Errorf("%d bytes of a name: %v", n, err)
		}
	}
}

func FuzzDecodeRow(f *testing.F) {
	inline, chunked := sampleRows()
	f.Add(appendRow(nil, inline))
	f.Add(appendRow(nil, chunked))
	f.Add(appendRecord(nil, sampleRecord()))
	f.Add(appendNameRow(nil, &nameRow{name: "n", traces: 1}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if row, err := DecodeRow(1, data); err == nil {
			again, err := DecodeRow(1, appendRow(nil, row))
			if err != nil || !reflect.DeepEqual(row, again) {
				t.Fatalf("row changed: %+v to %+v, %v", row, again, err)
			}
		}
		if record, err := decodeRecord(data); err == nil {
			again, err := decodeRecord(appendRecord(nil, record))
			if err != nil || !reflect.DeepEqual(record, again) {
				t.Fatalf("record changed: %+v to %+v, %v", record, again, err)
			}
		}
		if known, err := decodeNameRow(data); err == nil {
			again, err := decodeNameRow(appendNameRow(nil, known))
			if err != nil || *known != *again {
				t.Fatalf("name changed: %+v to %+v, %v", known, again, err)
			}
		}
	})
}
