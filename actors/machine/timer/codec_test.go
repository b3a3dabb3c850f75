package timer

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/uuid"

	"queen/actors/machine/rowtest"
	"queen/store"
	"queen/store/layout"
)

// rowCodec is that of the rows of a key.
func rowCodec(key []byte) rowtest.Codec[*Row] {
	return rowtest.Codec[*Row]{
		Encode: func(r *Row) []byte { return appendRow(nil, r) },
		Decode: func(row []byte) (*Row, error) { return DecodeRow(key, row) },
		Bad:    ErrBadRow,
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
	rowCodec(inline.key()).Golden(t, "row-inline", inline)
	rowCodec(chunked.key()).Golden(t, "row-chunk", chunked)
	c := counters{lastNumber: 4, Usage: Usage{Pending: 3, PayloadBytes: 200}, first: place{testStart, -5, 2}}
	m := rowtest.NewMemory()
	c.put(m)
	rowtest.Golden(t, "counters", m.Row(countersKey))
	if read, err := readCounters(m); err != nil || read != c {
		t.Errorf("counters: read %+v, %v", read, err)
	}
}

// TestRowsOfATimerAreTheseThree pins what a call leaves in the store, byte by byte.
func TestRowsOfATimerAreTheseThree(t *testing.T) {
	m := rowtest.NewMemory()
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
	rowtest.Golden(t, "rows", dump)
	if m.Len() != 4 {
		t.Errorf("%d rows, the counters among them", m.Len())
	}
}

func TestCutRowsAreRefused(t *testing.T) {
	inline, chunked := sampleRows()
	rowCodec(inline.key()).Cut(t, "row", inline, len(inline.Inline))
	rowCodec(chunked.key()).Cut(t, "row with a chunk", chunked, 0)
	encoded := appendRow(nil, chunked)
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
	m := rowtest.NewMemory()
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
		if row, err := DecodeRow(key, data); err == nil && !bytes.Equal(row.key(), key) {
			t.Fatalf("key %x became %x", key, row.key())
		}
		rowCodec(key).Stable(t, data)
	})
}
