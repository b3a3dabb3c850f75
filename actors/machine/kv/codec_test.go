package kv

import (
	"errors"
	"testing"

	"queen/actors/machine/rowtest"
	"queen/store"
	"queen/store/layout"
)

func keyOf(key string) []byte { return layout.KV(tenantA, "n", key) }

var rowCodec = rowtest.Codec[*Row]{
	Encode: func(r *Row) []byte { return appendRow(nil, r) }, Decode: DecodeRow, Bad: ErrBadRow,
}

func sampleRows() map[string]*Row {
	return map[string]*Row{
		"row-inline": {Version: 300, ExpiresMicros: testStart + second, UpdatedMicros: testStart, Inline: []byte(`{"n":1}`)},
		"row-chunk":  {Version: MaxVersion, UpdatedMicros: testStart, Chunk: &store.ChunkRef{Bucket: 1, Entry: 2, Ordinal: 3, Bytes: 4}},
	}
}

func TestRowsEqualGoldenFiles(t *testing.T) {
	for name, row := range sampleRows() {
		rowCodec.Golden(t, name, row)
	}
	rowtest.Golden(t, "permit", permit("host:1:ab", testStart+7))
	rowtest.Golden(t, "permit-without-owner", permit("", testStart))
	// Every count is written in the same way; a small call shows all of them.
	r := newRig(t)
	r.one(lasting(put("k", "12"), 1))
	for name, key := range map[string][]byte{
		"counters": countersKey, "usage": layout.KVUsage(tenantA), "namespace": layout.KVNamespace(tenantA, "n"),
		"expiry": layout.KVExpiry(r.now+second, keyOf("k")),
	} {
		rowtest.Golden(t, name, r.store.Row(key))
	}
}

func TestCutRowsAreRefused(t *testing.T) {
	for name, row := range sampleRows() {
		rowCodec.Cut(t, name, row, len(row.Inline))
	}
	var a, b uint64
	for _, bad := range [][]byte{{}, {rowVersion}, {rowVersion, 1}, {rowVersion, 1, 2, 3}, {rowVersion + 1, 1, 2}, {rowVersion, 0x81, 0, 2}} {
		if err := numbers("test", bad, &a, &b); !errors.Is(err, ErrBadRow) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}

// TestDamagedRowsAreErrors: a store that does not fit together ends the command, not the node's memory of it.
func TestDamagedRowsAreErrors(t *testing.T) {
	for name, damage := range map[string]func(m *rowtest.Memory, expiry []byte){
		"row":       func(m *rowtest.Memory, _ []byte) { m.Set(keyOf("k"), []byte{9}) },
		"counters":  func(m *rowtest.Memory, _ []byte) { m.Set(countersKey, []byte{9}) },
		"usage":     func(m *rowtest.Memory, _ []byte) { m.Set(layout.KVUsage(tenantA), []byte{9}) },
		"namespace": func(m *rowtest.Memory, _ []byte) { m.Set(layout.KVNamespace(tenantA, "n"), appendNumbers(0)) },
		"row gone":  func(m *rowtest.Memory, _ []byte) { m.Remove(keyOf("k")) },
		"expiry": func(m *rowtest.Memory, expiry []byte) {
			m.Set(layout.KVExpiry(testStart+5, keyOf("k")), m.Row(expiry))
			m.Remove(expiry)
		},
	} {
		r := newRig(t)
		r.one(lasting(put("k", "1"), 1))
		damage(r.store, layout.KVExpiry(r.now+second, keyOf("k")))
		_, _, err := Sweep(r.store, r.store, SweepInput{NowMicros: r.now + 2*second, MaxRows: 10, Fits: always})
		if !errors.Is(err, ErrBadRow) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeRow(f *testing.F) {
	for _, row := range sampleRows() {
		f.Add(appendRow(nil, row))
	}
	f.Fuzz(func(t *testing.T, data []byte) { rowCodec.Exact(t, data) })
}
