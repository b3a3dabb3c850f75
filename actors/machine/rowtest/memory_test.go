package rowtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rs/zerolog"

	"queen/store"
)

// TestMemoryReadsLikeTheStore runs random writes and reads on both.
func TestMemoryReadsLikeTheStore(t *testing.T) {
	s, err := store.Open(store.Options{Dir: t.TempDir(), ReserveBytes: -1, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	batch, m := s.Begin(1, 1), NewMemory()
	defer func() {
		batch.Discard()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	random := rand.New(rand.NewPCG(1, 1))
	key := func(least int) []byte {
		drawn := []byte("k")
		for range least + random.IntN(3) {
			drawn = append(drawn, "ab\xff"[random.IntN(3)])
		}
		return drawn
	}
	type reader interface {
		Get(key []byte) ([]byte, error)
		Scan(prefix, from []byte, visit func(key, value []byte) bool) error
		ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error
	}
	for step := range 3000 {
		if k := key(1); m.Row(k) == nil {
			value := fmt.Append(nil, step)
			batch.Put(bytes.Clone(k), value)
			m.Put(k, value)
		} else {
			batch.Delete(bytes.Clone(k))
			m.Delete(k)
		}
		k, prefix, from := key(1), key(0), key(0)
		from = append(bytes.Clone(prefix), from[1:]...)
		if random.IntN(4) == 0 {
			from = nil
		}
		read := func(r reader) string {
			value, err := r.Get(k)
			text := fmt.Sprintf("%q %v", value, err)
			visit := func(key, value []byte) bool {
				text += fmt.Sprintf(" %q=%q", key, value)
				return true
			}
			return fmt.Sprint(text, r.Scan(prefix, from, visit), r.ScanReverse(prefix, from, visit), text)
		}
		if got, want := read(m), read(batch); got != want {
			t.Fatalf("step %d, %q, %q from %q:\n%s\nthe store has\n%s", step, k, prefix, from, got, want)
		}
	}
}

func TestMemoryPanicsAtWhatNoMachineDoes(t *testing.T) {
	for name, offence := range map[string]func(m *Memory, ref store.ChunkRef){
		"deletes a missing row":      func(m *Memory, _ store.ChunkRef) { m.Delete([]byte("b")) },
		"sets a chunk twice":         func(m *Memory, ref store.ChunkRef) { m.SetChunk(ref.Ordinal, []byte("chunk")) },
		"sets an unreserved chunk":   func(m *Memory, ref store.ChunkRef) { m.SetChunk(ref.Ordinal+1, nil) },
		"releases a chunk twice":     func(m *Memory, ref store.ChunkRef) { m.ReleaseChunk(ref); m.ReleaseChunk(ref) },
		"scans from a prefix":        func(m *Memory, _ store.ChunkRef) { _ = m.Scan([]byte("a"), nil, nil) },
		"scans from a prefix's end":  func(m *Memory, _ store.ChunkRef) { _ = m.ScanReverse([]byte("a"), nil, nil) },
		"writes while it scans":      whileScanning(func(m *Memory) { m.Put([]byte("b"), nil) }),
		"deletes while it scans":     whileScanning(func(m *Memory) { m.Delete([]byte("a")) }),
		"deletes what it put before": func(m *Memory, _ store.ChunkRef) { m.Delete([]byte("a")); m.Delete([]byte("a")) },
	} {
		m := NewMemory()
		m.FromSomewhere = true
		m.Put([]byte("a"), []byte("1"))
		ref := m.SetChunk(m.ReserveChunk(), []byte("chunk"))
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a machine that %s goes on", name)
				}
			}()
			offence(m, ref)
		}()
	}
}

func whileScanning(offence func(m *Memory)) func(m *Memory, _ store.ChunkRef) {
	return func(m *Memory, _ store.ChunkRef) {
		_ = m.Scan([]byte("a"), []byte("a"), func([]byte, []byte) bool { offence(m); return true })
	}
}

func TestBytesAreVoidAfterTheirTime(t *testing.T) {
	m := NewMemory()
	m.Put([]byte("a"), []byte("row"))
	ref := m.SetChunk(m.ReserveChunk(), []byte("chunk"))
	row, _ := m.Get([]byte("a"))
	var chunk, key, value []byte
	_ = m.Chunk(ref, func(given []byte) error { chunk = given; return nil })
	_ = m.Scan([]byte("a"), nil, func(k, v []byte) bool { key, value = k, v; return true })
	if string(chunk) == "chunk" || string(row) != "row" || string(key) != "a" || string(value) != "row" {
		t.Errorf("in the entry: %q, %q, %q, %q", chunk, row, key, value)
	}
	m.NextEntry()
	if string(row) == "row" || string(key) == "a" || string(value) == "row" {
		t.Errorf("after the entry: %q, %q, %q", row, key, value)
	}
	if string(m.Row([]byte("a"))) != "row" || string(m.Chunks[ref]) != "chunk" {
		t.Errorf("stored are %q, %q", m.Row([]byte("a")), m.Chunks[ref])
	}
}

func TestRollbackUndoesWhatWasWritten(t *testing.T) {
	m := NewMemory()
	m.Put([]byte("a"), []byte("1"))
	ref := m.SetChunk(m.ReserveChunk(), []byte("chunk"))
	before := m.Copied()
	rollback := m.Mark()
	m.Put([]byte("a"), []byte("2"))
	m.Put([]byte("b"), []byte("2"))
	m.ReleaseChunk(ref)
	m.SetChunk(m.ReserveChunk(), nil)
	if m.Equal(before) {
		t.Error("nothing has changed")
	}
	rollback()
	if err := m.Compare(before); err != nil {
		t.Error(err)
	}
	if keys, bytes := m.Writes(); keys != 1 || bytes != 2 || m.ReserveChunk() != 1 {
		t.Errorf("%d keys, %d bytes are written", keys, bytes)
	}
}
