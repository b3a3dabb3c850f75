package timer

import (
	"bytes"
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

// space is where a machine keeps its rows: in memory, or over a real store.
type space interface {
	Reader
	MoveWriter
	// Mark returns what undoes everything since.
	Mark() (rollback func())
	// NextEntry ends the entry and begins another.
	NextEntry()
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

func (s *stored) Mark() func() {
	mark := s.Batch.Mark()
	return func() { s.Batch.Rollback(mark) }
}

func (s *stored) NextEntry() {
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
	s.NextEntry()
}
