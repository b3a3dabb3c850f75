package timer

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"queen/store"
)

// The store's batch and view are what the machine works on.
var (
	_ Reader = (*store.Batch)(nil)
	_ Writer = (*store.Batch)(nil)
	_ Reader = (*store.View)(nil)
)

// space is where a machine keeps its rows: over maps, or over a real store.
type space interface {
	Reader
	Writer
	// mark returns what undoes everything since.
	mark() (rollback func())
	// next ends the entry and begins another.
	next()
}

// memory is a space over maps. Chunk bytes are scribbled over after visit, to punish whoever keeps them; what is deleted or
// released must be there.
type memory struct {
	rows    map[string][]byte
	chunks  map[store.ChunkRef][]byte
	entry   uint64
	ordinal uint32
	// written are the keys of the entry with the bytes of their values.
	written map[string]int
	// scannedFrom is where the last scan began, scans counts them.
	scannedFrom []byte
	scans       int
}

func newMemory() *memory {
	return &memory{rows: map[string][]byte{}, chunks: map[store.ChunkRef][]byte{}, written: map[string]int{}, entry: 1}
}

func (s *memory) next() {
	s.entry++
	s.ordinal = 0
	clear(s.written)
}

func (s *memory) mark() func() {
	rows, chunks, ordinal := maps.Clone(s.rows), maps.Clone(s.chunks), s.ordinal
	return func() { s.rows, s.chunks, s.ordinal = rows, chunks, ordinal }
}

// writes are the keys and bytes of the entry.
func (s *memory) writes() (keys, bytes int) {
	for key, n := range s.written {
		bytes += len(key) + n
	}
	return len(s.written), bytes
}

func (s *memory) Get(key []byte) ([]byte, error) {
	value, found := s.rows[string(key)]
	if !found {
		return nil, nil
	}
	return append([]byte{}, value...), nil
}

func (s *memory) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	s.scans++
	s.scannedFrom = from
	var keys []string
	for key := range s.rows {
		if strings.HasPrefix(key, string(prefix)) && key >= string(from) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
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

// stored is a space over a real store, with a batch that is always open.
type stored struct {
	*store.Batch
	t     testing.TB
	store *store.Store
	index uint64
}

func newStored(t testing.TB) *stored {
	s, err := store.Open(store.Options{Dir: t.TempDir(), ReserveBytes: -1, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	of := &stored{t: t, store: s, index: 1}
	of.Batch = s.Begin(1, 1)
	t.Cleanup(func() {
		of.Discard()
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return of
}

func (s *stored) mark() func() {
	mark := s.Batch.Mark()
	return func() { s.Batch.Rollback(mark) }
}

func (s *stored) next() {
	done := make(chan error, 1)
	s.store.Commit(s.Batch, func(err error) { done <- err })
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
	s.index++
	s.Batch = s.store.Begin(s.index, 1)
}

// wipe deletes the rows of an earlier run.
func (s *stored) wipe(prefixes ...[]byte) {
	for _, prefix := range prefixes {
		var keys [][]byte
		if err := s.Scan(prefix, nil, func(key, _ []byte) bool {
			keys = append(keys, bytes.Clone(key))
			return true
		}); err != nil {
			s.t.Fatal(err)
		}
		for _, key := range keys {
			s.Delete(key)
		}
	}
	s.next()
}
