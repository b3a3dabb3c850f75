package store

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// View reads the state at one committed index for as long as it is open. It holds back the reclaiming of old versions
// and buckets: close it soon.
type View struct {
	store  *Store
	at     snapshot
	closed atomic.Bool
	once   sync.Once
}

// View opens a view at the last committed index. Any goroutine.
func (s *Store) View() *View { return &View{store: s, at: s.snapshotAt(s.horizon.enter())} }

// Index is the index the view reads at.
func (v *View) Index() uint64 { return v.at.index }

// Close ends the view; it may be called more than once.
func (v *View) Close() {
	v.once.Do(func() {
		v.closed.Store(true)
		v.store.horizon.leave(v.at.index)
	})
}

func (v *View) check() error {
	if v.closed.Load() {
		return fmt.Errorf("read view at %d: %w", v.at.index, ErrClosed)
	}
	return v.store.readable()
}

// Get implements Reader.
func (v *View) Get(key []byte) ([]byte, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	return v.at.get(key)
}

// Scan implements Reader.
func (v *View) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	if err := v.check(); err != nil {
		return err
	}
	return v.at.scan(query{prefix: prefix, from: from, visit: visit}, nil)
}

// ScanReverse implements Reader.
func (v *View) ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error {
	if err := v.check(); err != nil {
		return err
	}
	return v.at.scan(query{prefix: prefix, from: from, reverse: true, visit: visit}, nil)
}

// Chunk implements Reader.
func (v *View) Chunk(ref ChunkRef, visit func(chunk []byte) error) error {
	if err := v.check(); err != nil {
		return err
	}
	return v.store.readChunk(ref, visit)
}
