package kv

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

	"queen/store"
	"queen/store/layout"
)

var update = flag.Bool("update", false, "write the golden files anew")

func keyOf(key string) []byte { return layout.KV(tenantA, "n", key) }

// golden compares encoded bytes with a file that is never to change without a new format version.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
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

func sampleRows() map[string]*Row {
	return map[string]*Row{
		"row-inline": {Version: 300, ExpiresMicros: testStart + second, UpdatedMicros: testStart, Inline: []byte(`{"n":1}`)},
		"row-chunk":  {Version: MaxVersion, UpdatedMicros: testStart, Chunk: &store.ChunkRef{Bucket: 1, Entry: 2, Ordinal: 3, Bytes: 4}},
	}
}

func TestRowsEqualGoldenFiles(t *testing.T) {
	for name, row := range sampleRows() {
		encoded := appendRow(nil, row)
		golden(t, name, encoded)
		if decoded, err := DecodeRow(encoded); err != nil || !reflect.DeepEqual(decoded, row) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, decoded, err, row)
		}
	}
	golden(t, "permit", permit("host:1:ab", testStart+7))
	golden(t, "permit-without-owner", permit("", testStart))
	// Every count is written in the same way; a small call shows all of them.
	r := newRig(t)
	r.one(lasting(put("k", "12"), 1))
	for name, key := range map[string][]byte{
		"counters": countersKey, "usage": layout.KVUsage(tenantA), "namespace": layout.KVNamespace(tenantA, "n"),
		"expiry": layout.KVExpiry(r.now+second, keyOf("k")),
	} {
		golden(t, name, r.store.rows[string(key)])
	}
}

func TestCutRowsAreRefused(t *testing.T) {
	for name, row := range sampleRows() {
		encoded := appendRow(nil, row)
		for n := range len(encoded) - len(row.Inline) {
			if _, err := DecodeRow(encoded[:n]); !errors.Is(err, ErrBadRow) {
				t.Errorf("%s: %d bytes: %v", name, n, err)
			}
		}
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
	for name, damage := range map[string]func(rows map[string][]byte, expiry string){
		"row":      func(rows map[string][]byte, _ string) { rows[string(keyOf("k"))] = []byte{9} },
		"counters": func(rows map[string][]byte, _ string) { rows[string(countersKey)] = []byte{9} },
		"usage":    func(rows map[string][]byte, _ string) { rows[string(layout.KVUsage(tenantA))] = []byte{9} },
		"namespace": func(rows map[string][]byte, _ string) {
			rows[string(layout.KVNamespace(tenantA, "n"))] = appendNumbers(0)
		},
		"row gone": func(rows map[string][]byte, _ string) { delete(rows, string(keyOf("k"))) },
		"expiry": func(rows map[string][]byte, expiry string) {
			rows[string(layout.KVExpiry(testStart+5, keyOf("k")))] = rows[expiry]
			delete(rows, expiry)
		},
	} {
		r := newRig(t)
		r.one(lasting(put("k", "1"), 1))
		damage(r.store.rows, string(layout.KVExpiry(r.now+second, keyOf("k"))))
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
	f.Fuzz(func(t *testing.T, data []byte) {
		row, err := DecodeRow(data)
		if err != nil {
			if !errors.Is(err, ErrBadRow) {
				t.Fatalf("undeclared error %v", err)
			}
			return
		}
		if again := appendRow(nil, row); !bytes.Equal(again, data) {
			t.Fatalf("a second encoding of the same row: %x, want %x", again, data)
		}
	})
}
