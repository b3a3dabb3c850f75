package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Store is the state of one Raft group on disk.
//
// Goroutines: apply calls Begin, Commit and the writing methods of Batch; the committer runs done; any goroutine may
// call everything else. Locks: pipeline before horizon; durability alone; no lock is held while files are written, but
// durability.
type Store struct {
	opts    Options
	main    *badger.DB
	buckets *buckets
	horizon *horizon
	ledger  *ledger

	// Of the apply goroutine.
	current   *Batch
	lastBegun mark

	pipeline  sync.Mutex // guards unflushed, closing, and the order of queue
	unflushed []*Batch   // handed over, not committed, oldest first
	closing   bool
	queue     chan *Batch   // capacity MaxUnflushed
	slots     chan struct{} // one for each batch handed over; capacity MaxUnflushed

	newest uint64 // see Newest

	durability   sync.Mutex          // one durable point at a time
	syncedTables map[string]struct{} // tables of main that were synced once; guarded by durability

	gate          *gate // of those who read main
	corruptions   atomic.Uint64
	operations    operations
	failure       atomic.Pointer[error]
	quit          chan struct{}
	committerDone chan struct{}
	keeperDone    chan struct{}
	closeOnce     sync.Once
	closeErr      error
}

// Applied is the entry to go on from: entries up to index are in the state. After an orderly stop that is everything,
// after any other stop the durable index.
func (s *Store) Applied() (index, term uint64) {
	at := s.horizon.last()
	return at.index, at.term
}

// Newest returns the newest entry of which Open found a trace, whether or not it lies above Applied. A log that ends below
// it has lost what was fsynced: no entry is applied before that.
func (s *Store) Newest() uint64 { return s.newest }

// Durable is the index up to which everything survives a power cut. The Raft log must not be cut beyond.
func (s *Store) Durable() uint64 { return s.horizon.durable.Load() }

func (s *Store) mainDir() string { return filepath.Join(s.opts.Dir, mainName) }

// stop makes the store refuse everything from now on; the first cause stays. It returns the error that callers get.
func (s *Store) stop(cause error) error {
	err := fmt.Errorf("%w: %w", ErrStopped, cause)
	if s.failure.CompareAndSwap(nil, &err) && !errors.Is(cause, errClosing) {
		s.opts.Logger.Error().Err(cause).Msg("store: this store stops")
	}
	return *s.failure.Load()
}

// readable returns why the store has stopped, or nil.
func (s *Store) readable() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// stopped is readable for those who know that the store stops or will.
func (s *Store) stopped() error {
	if err := s.readable(); err != nil {
		return err
	}
	return ErrStopped
}

// noteCorruption counts and reports what a read found damaged, and returns the error as it is (cluster.md 18).
func (s *Store) noteCorruption(err error) error {
	if err != nil && errors.Is(err, ErrCorrupt) {
		s.corruptions.Add(1)
		s.opts.Logger.Error().Err(err).Msg("store checksum mismatch")
	}
	return err
}

var errClosing = errors.New("store was closed")

// keep is the housekeeper: it lets old versions and dead buckets go, and seals full ones.
func (s *Store) keep() {
	defer close(s.keeperDone)
	ticker := time.NewTicker(s.opts.HousekeepingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-s.buckets.wake:
		case <-ticker.C:
		}
		if s.readable() != nil {
			continue
		}
		// Badger forgets the timestamp when it opens, and never derives one by itself.
		s.main.SetDiscardTs(s.horizon.floor())
		if err := s.buckets.housekeep(); err != nil {
			_ = s.stop(fmt.Errorf("keep buckets: %w", err))
		}
	}
}

// Close waits for the batches handed over, reaches a durable point and marks the stop as orderly. After a failure it
// only closes the files; on a full disk it leaves them open, and what they hold as a crash would leave it (ErrNoSpace). Views must be
// closed before.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	// 1. No more batches; those handed over are finished.
	s.pipeline.Lock()
	s.closing = true
	close(s.queue)
	s.pipeline.Unlock()
	<-s.committerDone
	// Badger flushes what it has when it is closed, through memory maps. Without room for that, the files stay as a crash would leave them.
	if err := checkFree(s.opts.Dir, s.opts.ReserveBytes); err != nil {
		err = errors.Join(err, s.stop(errClosing))
		close(s.quit)
		<-s.keeperDone
		return fmt.Errorf("close store: %w", err)
	}
	// 2. Everything is on disk.
	_, err := s.DurablePoint()
	at := s.horizon.last()
	// 3. Nobody reads or keeps house any more.
	failed := s.readable() != nil
	_ = s.stop(errClosing)
	close(s.quit)
	bucketsErr := s.buckets.close()
	<-s.keeperDone
	err = errors.Join(err, bucketsErr)
	s.gate.shut()
	// 4. Main last: its lock covers the whole directory.
	if mainErr := s.main.Close(); mainErr != nil {
		err = errors.Join(err, fmt.Errorf("close main: %w", mainErr))
	}
	if err == nil && !failed {
		err = writeDurable(s.opts.Dir, at, true)
	}
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
