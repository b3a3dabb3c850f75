package timer

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
	"queen/store/layout"
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

func sampleRows() (inline, chunked *Row) {
	inline = &Row{
		Tenant: tenantA, Queue: "orders", Key: "order/9f1", Number: 300, DueMicros: testStart, DeliverMicros: -5,
		CreatedMicros: testStart - 9, UpdatedMicros: testStart - 8, Attempts: 2, MessageID: uuid.UUID{0: 1, 15: 2}, Partition: "p",
		Txid: "t-1", ProducerSub: "alice", LastError: "not zstd", Zstd: true, Inline: []byte(`"x"`),
	}
	chunked = &Row{
		Tenant: tenantB, Queue: "q", Key: "k", Number: 1, DueMicros: testStart, DeliverMicros: testStart, Txid: "t", Encrypted: true,
		Chunk: &store.ChunkRef{Bucket: 1, Entry: 2, Ordinal: 3, Bytes: 4},
	}
	return inline, chunked
}

func TestRowsEqualGoldenFiles(t *testing.T) {
	inline, chunked := sampleRows()
	for name, row := range map[string]*Row{"row-inline": inline, "row-chunk": chunked} {
		encoded := appendRow(nil, row)
		golden(t, name, encoded)
		decoded, err := DecodeRow(row.key(), encoded)
		if err != nil || !reflect.DeepEqual(decoded, row) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, decoded, err, row)
		}
	}
	c := counters{lastNumber: 4, Usage: Usage{Pending: 3, PayloadBytes: 200}, first: place{testStart, -5, 2}}
	m := newMemory()
	c.put(m)
	golden(t, "counters", m.rows[string(countersKey)])
	if read, err := readCounters(m); err != nil || read != c {
		t.Errorf("counters: read %+v, %v", read, err)
	}
}

// TestRowsOfATimerAreTheseThree pins what a call leaves in the store, byte by byte.
func TestRowsOfATimerAreTheseThree(t *testing.T) {
	m := newMemory()
	r := newRig(t, m)
	r.call(r.schedule("k", second))
	var dump []byte
	for _, prefix := range [][]byte{{layout.FamilyTimer}, layout.TimersDue(), {layout.FamilyTimerCount}} {
		n := 0
		if err := m.Scan(prefix, nil, func(key, value []byte) bool {
			dump = append(append(append(dump, key...), '='), value...)
			n++
			return true
		}); err != nil || n != 1 {
			t.Fatalf("%d rows under %x, %v", n, prefix, err)
		}
	}
	golden(t, "rows", dump)
	if len(m.rows) != 4 {
		t.Errorf("%d rows, the counters among them", len(m.rows))
	}
}

func TestCutRowsAreRefused(t *testing.T) {
	inline, chunked := sampleRows()
	head := len(appendRow(nil, inline)) - len(inline.Inline)
	for n := range head {
		if _, err := DecodeRow(inline.key(), appendRow(nil, inline)[:n]); !errors.Is(err, ErrBadRow) {
			t.Errorf("%d bytes of a row: %v", n, err)
		}
	}
	encoded := appendRow(nil, chunked)
	for n := range encoded {
		if _, err := DecodeRow(chunked.key(), encoded[:n]); !errors.Is(err, ErrBadRow) {
			t.Errorf("%d bytes of a row with a chunk: %v", n, err)
		}
	}
	if _, err := DecodeRow(chunked.key(), append(bytes.Clone(encoded), 0)); !errors.Is(err, ErrBadRow) {
		t.Errorf("a byte after the chunk: %v", err)
	}
	for at, what := range []string{"version", "flags"} {
		bad := bytes.Clone(encoded)
		bad[at] = 0x80
		if _, err := DecodeRow(chunked.key(), bad); !errors.Is(err, ErrBadRow) {
			t.Errorf("unknown %s: %v", what, err)
		}
	}
	if _, err := DecodeRow(chunked.place().key(), encoded); !errors.Is(err, ErrBadRow) {
		t.Errorf("under the key of a place: %v", err)
	}
}

func TestDamagedCountsAreRefused(t *testing.T) {
	m := newMemory()
	m.Put(countersKey, make([]byte, countersBytes-1))
	if _, err := Load(m); !errors.Is(err, ErrBadRow) {
		t.Errorf("counters: %v", err)
	}
	m.Put(layout.TimerCount(tenantA), make([]byte, 15))
	if _, err := UsageOf(m, tenantA); !errors.Is(err, ErrBadRow) {
		t.Errorf("count of a tenant: %v", err)
	}
	for _, c := range []change{{pending: -2}, {pending: 1, payloadBytes: -2}, {pending: -1}} {
		u := Usage{Pending: 1, PayloadBytes: 1}
		if err := u.add(c); !errors.Is(err, ErrBadRow) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func FuzzDecodeRow(f *testing.F) {
	inline, chunked := sampleRows()
	f.Add(inline.key(), appendRow(nil, inline))
	f.Add(chunked.key(), appendRow(nil, chunked))
	f.Fuzz(func(t *testing.T, key, data []byte) {
		row, err := DecodeRow(key, data)
		if err != nil {
			if !errors.Is(err, ErrBadRow) {
				t.Fatalf("undeclared error %v", err)
			}
			return
		}
		if !bytes.Equal(row.key(), key) {
			t.Fatalf("key %x became %x", key, row.key())
		}
		again, err := DecodeRow(key, appendRow(nil, row))
		if err != nil || !reflect.DeepEqual(row, again) {
			t.Fatalf("row changed: %+v to %+v, %v", row, again, err)
		}
	})
}
