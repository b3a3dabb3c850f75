package partition

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// memory is a Reader and Writer over maps. It punishes whoever keeps bytes too long: chunk bytes are scribbled over after
// visit, and all others when the next entry begins.
type memory struct {
	rows     map[string][]byte
	chunks   map[ChunkRef][]byte
	released map[ChunkRef]bool
	handed   [][]byte
	bucket   uint32
	entry    uint64
	ordinal  uint32
	gets     int
	scans    int
	puts     int
	putBytes int
}

func newMemory() *memory {
	return &memory{rows: map[string][]byte{}, chunks: map[ChunkRef][]byte{}, released: map[ChunkRef]bool{}, bucket: 1}
}

func (s *memory) nextEntry() {
	for _, b := range s.handed {
		scribble(b)
	}
	s.handed = s.handed[:0]
	s.entry++
	s.ordinal = 0
}

func scribble(b []byte) {
	for i := range b {
		b[i] = 0xA5
	}
}

func (s *memory) hand(value []byte) []byte {
	given := bytes.Clone(value)
	s.handed = append(s.handed, given)
	return given
}

func (s *memory) Get(key []byte) ([]byte, error) {
	s.gets++
	value, found := s.rows[string(key)]
	if !found {
		return nil, nil
	}
	return s.hand(value), nil
}

func (s *memory) keys(prefix []byte) []string {
	var keys []string
	for key := range s.rows {
		if strings.HasPrefix(key, string(prefix)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (s *memory) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	s.scans++
	for _, key := range s.keys(prefix) {
		if from != nil && key < string(from) {
			continue
		}
		if !visit([]byte(key), s.hand(s.rows[key])) {
			break
		}
	}
	return nil
}

func (s *memory) ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error {
	s.scans++
	keys := s.keys(prefix)
	slices.Reverse(keys)
	for _, key := range keys {
		if from != nil && key > string(from) {
			continue
		}
		if !visit([]byte(key), s.hand(s.rows[key])) {
			break
		}
	}
	return nil
}

func (s *memory) Chunk(ref ChunkRef, visit func(chunk []byte) error) error {
	chunk, found := s.chunks[ref]
	if !found {
		return fmt.Errorf("no chunk %+v", ref)
	}
	given := bytes.Clone(chunk)
	defer scribble(given)
	return visit(given)
}

func (s *memory) Put(key, value []byte) {
	s.puts++
	s.putBytes += len(value)
	s.rows[string(key)] = value
}

func (s *memory) Delete(key []byte) {
	if _, found := s.rows[string(key)]; !found {
		panic(fmt.Sprintf("deleted missing key %x", key))
	}
	delete(s.rows, string(key))
}

func (s *memory) Bucket() uint32 { return s.bucket }

func (s *memory) ReserveChunk() uint32 {
	s.ordinal++
	return s.ordinal - 1
}

func (s *memory) SetChunk(ordinal uint32, data []byte) ChunkRef {
	ref := ChunkRef{Bucket: s.bucket, Entry: s.entry, Ordinal: ordinal, Bytes: uint32(len(data))}
	if _, taken := s.chunks[ref]; taken {
		panic(fmt.Sprintf("chunk %+v is set twice", ref))
	}
	s.chunks[ref] = bytes.Clone(data)
	return ref
}

func (s *memory) ReleaseChunk(ref ChunkRef) {
	if _, found := s.chunks[ref]; !found {
		panic(fmt.Sprintf("released missing chunk %+v", ref))
	}
	delete(s.chunks, ref)
	s.released[ref] = true
}

// same tells whether two stores hold the same bytes.
func (s *memory) same(other *memory) error {
	for _, key := range slices.Sorted(maps.Keys(s.rows)) {
		if !bytes.Equal(s.rows[key], other.rows[key]) {
			return fmt.Errorf("row %x differs:\n%x\n%x", key, s.rows[key], other.rows[key])
		}
	}
	if len(s.rows) != len(other.rows) || len(s.chunks) != len(other.chunks) {
		return fmt.Errorf("%d rows and %d chunks in place of %d and %d", len(s.rows), len(s.chunks), len(other.rows), len(other.chunks))
	}
	for ref, chunk := range s.chunks {
		if !bytes.Equal(chunk, other.chunks[ref]) {
			return fmt.Errorf("chunk %+v differs", ref)
		}
	}
	return nil
}
