package kv

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

// memory is a Reader and Writer over maps. Chunk bytes are scribbled over after visit, to punish whoever keeps them.
type memory struct {
	rows    map[string][]byte
	chunks  map[store.ChunkRef][]byte
	entry   uint64
	ordinal uint32
	bucket  uint32
	// written are the keys of the entry with the bytes of their values.
	written map[string]int
	// scannedFrom is where the last scan began, scanned how many rows it visited.
	scannedFrom []byte
	scanned     int
}

func newMemory() *memory {
	return &memory{rows: map[string][]byte{}, chunks: map[store.ChunkRef][]byte{}, written: map[string]int{}, bucket: 1}
}

// nextEntry begins to count anew.
func (s *memory) nextEntry() {
	s.entry++
	s.ordinal = 0
	clear(s.written)
}

// writes are the keys and bytes of the entry.
func (s *memory) writes() (keys, bytes int) {
	for key, n := range s.written {
		bytes += len(key) + n
	}
	return len(s.written), bytes
}

// copied is the same store, to be changed apart.
func (s *memory) copied() *memory {
	c := newMemory()
	maps.Copy(c.rows, s.rows)
	maps.Copy(c.chunks, s.chunks)
	c.entry, c.ordinal, c.bucket = s.entry, s.ordinal, s.bucket
	return c
}

func (s *memory) equals(other *memory) bool {
	return maps.EqualFunc(s.rows, other.rows, bytes.Equal) && maps.EqualFunc(s.chunks, other.chunks, bytes.Equal)
}

func (s *memory) Get(key []byte) ([]byte, error) {
	value, found := s.rows[string(key)]
	if !found {
		return nil, nil
	}
	return append([]byte{}, value...), nil
}

func (s *memory) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	s.scannedFrom, s.scanned = from, 0
	var keys []string
	for key := range s.rows {
		if strings.HasPrefix(key, string(prefix)) && key >= string(from) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		s.scanned++
		if !visit([]byte(key), bytes.Clone(s.rows[key])) {
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
	s.rows[string(key)] = value
	s.written[string(key)] = len(value)
}

func (s *memory) Delete(key []byte) {
	if _, found := s.rows[string(key)]; !found {
		panic(fmt.Sprintf("deleted missing key %x", key))
	}
	delete(s.rows, string(key))
	s.written[string(key)] = 0
}

func (s *memory) Bucket() uint32 { return s.bucket }

func (s *memory) ReserveChunk() uint32 {
	s.ordinal++
	return s.ordinal - 1
}

func (s *memory) SetChunk(ordinal uint32, data []byte) store.ChunkRef {
	ref := store.ChunkRef{Bucket: s.bucket, Entry: s.entry, Ordinal: ordinal, Bytes: uint32(len(data))}
	s.chunks[ref] = bytes.Clone(data)
	return ref
}

func (s *memory) ReleaseChunk(ref store.ChunkRef) {
	if _, found := s.chunks[ref]; !found {
		panic("released missing chunk " + ref.String())
	}
	delete(s.chunks, ref)
}
