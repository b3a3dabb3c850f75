package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// scrubStep is the number of rows read through one view: a pass may take hours, and a view that is open that long would
// hold back everything that could be reclaimed.
const scrubStep = 1_000

// Scrub reads every row and every stored chunk once and checks its checksum. pace is called with the number of rows or
// chunks just read, about 1,000, and waits as long as the operator wants; its error ends the pass. The error wraps
// ErrCorrupt when something is damaged. Any goroutine.
func (s *Store) Scrub(ctx context.Context, pace func(ctx context.Context, rows int) error) error {
	if err := s.scrubTables(); err != nil {
		return s.noteCorruption(fmt.Errorf("scrub main: %w", err))
	}
	if err := s.scrubRows(ctx, pace); err != nil {
		return fmt.Errorf("scrub main: %w", err)
	}
	for _, id := range s.ledger.ids() {
		if err := s.scrubBucket(ctx, id, pace); err != nil {
			return fmt.Errorf("scrub bucket %d: %w", id, err)
		}
	}
	return nil
}

// scrubTables checks whole tables, which also finds rows whose key was damaged: those no reader would miss.
func (s *Store) scrubTables() error {
	if !s.gate.enter() {
		return s.stopped()
	}
	defer s.gate.leave()
	for _, t := range s.main.Tables() {
		path := table.NewFilename(t.ID, s.mainDir())
		_, err := verifyTable(path)
		if err == nil || !s.hasTable(t.ID) {
			continue // compacted away, and perhaps cut before it was removed, while it was read
		}
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: %s is missing", ErrCorrupt, path)
		}
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

func (s *Store) hasTable(id uint64) bool {
	return slices.ContainsFunc(s.main.Tables(), func(t badger.TableInfo) bool { return t.ID == id })
}

func (s *Store) scrubRows(ctx context.Context, pace func(context.Context, int) error) error {
	var from []byte
	for {
		rows := 0
		var last []byte
		view := s.View()
		err := view.Scan(nil, from, func(key, _ []byte) bool {
			rows++
			last = key
			return rows < scrubStep
		})
		view.Close()
		if err != nil {
			return err
		}
		if rows > 0 {
			if err := pace(ctx, rows); err != nil {
				return err
			}
		}
		if rows < scrubStep {
			return nil
		}
		from = append(bytes.Clone(last), 0)
	}
}

// scrubBucket checks all chunks of all blocks of a bucket, dead ones included.
func (s *Store) scrubBucket(ctx context.Context, id uint32, pace func(context.Context, int) error) error {
	last := s.horizon.last().index // blocks beyond may be from before an unclean stop
	for from := uint64(0); ; {
		chunks, next, err := s.buckets.scrubSome(id, from, last)
		if errors.Is(err, errGone) {
			return nil // dropped meanwhile
		}
		if err != nil {
			return s.noteCorruption(err)
		}
		if chunks > 0 {
			if err := pace(ctx, chunks); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		from = next
	}
}

// scrubSome checks blocks from an entry on, until it has seen scrubStep chunks, and returns the entry to go on with; 0
// at the end.
func (s *buckets) scrubSome(id uint32, from, last uint64) (chunks int, next uint64, err error) {
	err = s.visitBlocks(id, from, last, func(entry uint64, block []byte) (bool, error) {
		if chunks >= scrubStep {
			next = entry
			return false, nil
		}
		n, err := checkBlock(block, id, entry, func(uint32, int) {})
		chunks += n
		return true, err
	})
	return chunks, next, err
}

// ids are the buckets that hold live chunks, oldest first.
func (l *ledger) ids() []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]uint32, 0, len(l.rows))
	for id := range l.rows {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
