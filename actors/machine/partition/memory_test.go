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
	sorted   []string
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

// keys returns the keys of a prefix, ascending.
func (s *memory) keys(prefix []byte) []string {
	low, _ := slices.BinarySearch(s.sorted, string(prefix))
	high := low
	for step := len(s.sorted) - low; step > 0; {
		if high+step <= len(s.sorted) && strings.HasPrefix(s.sorted[high+step-1], string(prefix)) {
			high += step
		} else {
			step /= 2
		}
	}
	return s.sorted[low:high]
}

func (s *memory) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	s.scans++
	if from == nil {
		panic("a scan starts at the front of a prefix, across removed keys")
	}
	keys := s.keys(prefix)
	at, _ := slices.BinarySearch(keys, string(from))
	for _, key := range keys[at:] {
		if !visit([]byte(key), s.hand(s.rows[key])) {
			break
		}
	}
	return nil
}

func (s *memory) ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error {
	s.scans++
	keys := s.keys(prefix)
	if from == nil {
		panic("a scan starts at the end of a prefix")
	}
	end, exact := slices.BinarySearch(keys, string(from))
	if exact {
		end++
	}
	for i := end - 1; i >= 0; i-- {
		if !visit([]byte(keys[i]), s.hand(s.rows[keys[i]])) {
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
	s.insert(key, value)
}

func (s *memory) insert(key, value []byte) {
	if _, found := s.rows[string(key)]; !found {
		at, _ := slices.BinarySearch(s.sorted, string(key))
		s.sorted = slices.Insert(s.sorted, at, string(key))
	}
	s.rows[string(key)] = value
}

func (s *memory) Delete(key []byte) {
	at, found := slices.BinarySearch(s.sorted, string(key))
	if !found {
		panic(fmt.Sprintf("deleted missing key %x", key))
	}
	s.sorted = slices.Delete(s.sorted, at, at+1)
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
