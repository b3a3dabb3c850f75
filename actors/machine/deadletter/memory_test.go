package deadletter

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	"queen/store"
)

// memory is a Reader and Writer over maps.
type memory struct {
	rows     map[string][]byte
	chunks   map[store.ChunkRef][]byte
	ordinals uint32
}

func newMemory() *memory {
	return &memory{rows: map[string][]byte{}, chunks: map[store.ChunkRef][]byte{}}
}

func (m *memory) Get(key []byte) ([]byte, error) { return m.rows[string(key)], nil }
func (m *memory) Put(key, value []byte)          { m.rows[string(key)] = append([]byte{}, value...) }
func (m *memory) Delete(key []byte)              { delete(m.rows, string(key)) }

func (m *memory) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(m.rows)) {
		if strings.HasPrefix(key, string(prefix)) && key >= string(from) && !visit([]byte(key), m.rows[key]) {
			return nil
		}
	}
	return nil
}

func (m *memory) ReserveChunk() uint32 {
	m.ordinals++
	return m.ordinals
}

func (m *memory) SetChunk(ordinal uint32, data []byte) store.ChunkRef {
	ref := store.ChunkRef{Bucket: 1, Entry: 1, Ordinal: ordinal, Bytes: uint32(len(data))}
	m.chunks[ref] = bytes.Clone(data)
	return ref
}

func (m *memory) ReleaseChunk(ref store.ChunkRef) {
	if _, held := m.chunks[ref]; !held {
		panic("a chunk is released twice")
	}
	delete(m.chunks, ref)
}

func (m *memory) Chunk(ref store.ChunkRef, visit func(chunk []byte) error) error {
	data, held := m.chunks[ref]
	if !held {
		return errors.New("no such chunk")
	}
	given := bytes.Clone(data)
	defer clear(given)
	return visit(given)
}
