package outcome

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"queen/store"
)

// The store's batch and view are what the machine works on.
var (
	_ Reader = (*store.Batch)(nil)
	_ Writer = (*store.Batch)(nil)
	_ Reader = (*store.View)(nil)
)

// memory is a Reader and Writer over maps. Chunk bytes are scribbled over after visit, to punish whoever keeps them. Rows
// are written once and deleted once, or it panics.
type memory struct {
	rows    map[string][]byte
	chunks  map[store.ChunkRef][]byte
	entry   uint64
	ordinal uint32
	// keys and bytes are what the entry has written, gets counts reads.
	keys, bytes, gets int
}

func newMemory() *memory {
	return &memory{rows: map[string][]byte{}, chunks: map[store.ChunkRef][]byte{}}
}

// next begins to count anew.
func (s *memory) next(index uint64) { s.entry, s.ordinal, s.keys, s.bytes = index, 0, 0, 0 }

func (s *memory) equal(other *memory) bool {
	return maps.EqualFunc(s.rows, other.rows, bytes.Equal) && maps.EqualFunc(s.chunks, other.chunks, bytes.Equal)
}

func (s *memory) Get(key []byte) ([]byte, error) {
	s.gets++
	value, found := s.rows[string(key)]
	if !found {
		return nil, nil
	}
	return bytes.Clone(value), nil
}

func (s *memory) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(s.rows)) {
		if strings.HasPrefix(key, string(prefix)) && key >= string(from) && !visit([]byte(key), bytes.Clone(s.rows[key])) {
			break
		}
	}
	return nil
}

func (s *memory) Chunk(ref store.ChunkRef, visit func(chunk []byte) error) error {
	chunk, found := s.chunks[ref]
	if !found {
		return fmt.Errorf("no chunk %s", ref)
	}
	given := bytes.Clone(chunk)
	defer clear(given)
	return visit(given)
}

func (s *memory) Put(key, value []byte) {
	if _, found := s.rows[string(key)]; found && key[0] != 'm' {
		panic(fmt.Sprintf("wrote key %x again", key))
	}
	s.rows[string(key)] = value
	s.keys, s.bytes = s.keys+1, s.bytes+len(key)+len(value)
}

func (s *memory) Delete(key []byte) {
	if _, found := s.rows[string(key)]; !found {
		panic(fmt.Sprintf("deleted missing key %x", key))
	}
	delete(s.rows, string(key))
	s.keys, s.bytes = s.keys+1, s.bytes+len(key)
}

func (s *memory) ReserveChunk() uint32 {
	s.ordinal++
	return s.ordinal - 1
}

func (s *memory) SetChunk(ordinal uint32, data []byte) store.ChunkRef {
	ref := store.ChunkRef{Bucket: 1, Entry: s.entry, Ordinal: ordinal, Bytes: uint32(len(data))}
	s.chunks[ref] = bytes.Clone(data)
	return ref
}

func (s *memory) ReleaseChunk(ref store.ChunkRef) {
	if _, found := s.chunks[ref]; !found {
		panic("released missing chunk " + ref.String())
	}
	delete(s.chunks, ref)
}
