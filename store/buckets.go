package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/dgraph-io/badger/v4"
)

// buckets owns the bucket databases: it opens them on demand, seals full ones, bounds how many are open, and drops dead
// ones.
//
// Lock order: buckets.mu is taken last; no other lock is taken, and no file touched, while it is held.
type buckets struct {
	dir     string
	opts    Options
	horizon *horizon

	mu      sync.Mutex
	changed sync.Cond // a phase changed or a user left
	byID    map[uint32]*bucket
	dirty   map[uint32]struct{} // written since the last durable point
	dead    []deadBucket        // committed as dropped, by rising index
	pinned  map[uint32]int      // exports that need the bucket, dead or not
	tick    uint64
	current uint32 // where the committer writes
	closed  bool

	// blocks are the committer's buffers, one for each batch that is written at the same time. Badger has copied a block
	// when its commit is done.
	blocks [][]byte

	ahead chan uint32   // a bucket to open ahead of need; capacity 1
	wake  chan struct{} // housekeeping; capacity 1
	quit  chan struct{}
	work  sync.WaitGroup
}

// keptBlockBytes is the largest block whose buffer is kept for the next one: entries are rarely larger (cluster 1.6).
const keptBlockBytes = 1 << 20

// deadBucket lost its last chunk at an index.
type deadBucket struct {
	id    uint32
	index uint64
}

var errGone = errors.New("bucket is gone")

// acquire opens a bucket if need be and holds it open until release.
func (s *buckets) acquire(id uint32) (*bucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		b := s.byID[id]
		switch {
		case s.closed:
			return nil, fmt.Errorf("open bucket %d: %w", id, ErrStopped)
		case b == nil || b.phase == phaseDropped:
			return nil, fmt.Errorf("open bucket %d: %w", id, errGone)
		case b.phase == phaseOpen:
			s.tick++
			b.used = s.tick
			b.users++
			return b, nil
		case b.phase != phaseClosed:
			s.changed.Wait()
			continue
		}
		b.phase = phaseOpening
		sealed := b.sealed
		s.mu.Unlock()
		db, err := s.openEngine(id, sealed)
		s.mu.Lock()
		b.phase = phaseClosed
		if err == nil {
			b.phase, b.db = phaseOpen, db
		}
		s.changed.Broadcast()
		if err != nil {
			return nil, err
		}
	}
}

func (s *buckets) release(b *bucket) {
	s.mu.Lock()
	if b.users--; b.users == 0 {
		s.changed.Broadcast()
	}
	s.mu.Unlock()
}

func (s *Store) readChunk(ref ChunkRef, visit func(chunk []byte) error) error {
	if err := s.readable(); err != nil {
		return err // the block may be of a batch that could not be written
	}
	return s.noteCorruption(s.buckets.read(ref, visit))
}

// read finds a chunk in its bucket.
func (s *buckets) read(ref ChunkRef, visit func(chunk []byte) error) (err error) {
	b, err := s.acquire(ref.Bucket)
	if errors.Is(err, errGone) {
		return fmt.Errorf("%w: read %s: %w", ErrCorrupt, ref, err)
	}
	if err != nil {
		return err
	}
	defer s.release(b)
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	item, err := b.db.NewTransactionAt(ref.Entry, false).Get(blockKey(ref.Entry))
	if errors.Is(err, badger.ErrKeyNotFound) || err == nil && item.Version() != ref.Entry {
		return fmt.Errorf("%w: read %s: block is missing", ErrCorrupt, ref)
	}
	if err != nil {
		return fmt.Errorf("%w: read %s: %w", ErrCorrupt, ref, err)
	}
	var chunk []byte
	visited := false
	var visitErr error
	err = item.Value(func(block []byte) error {
		var err error
		if chunk, err = chunkOf(block, ref); err != nil {
			return err
		}
		visited = true
		visitErr = visit(chunk)
		return nil
	})
	if err != nil && !visited && !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: read %s: %w", ErrCorrupt, ref, err)
	}
	if err == nil {
		err = visitErr
	}
	return err
}

// write puts the blocks of batches into their buckets, and returns how many batches have theirs there. Called by the
// committer only.
func (s *buckets) write(group []*Batch) (int, error) {
	blocks := newVolley(len(group))
	targets := make([]*bucket, 0, len(group))
	for i, b := range group {
		if b.setChunks == 0 {
			blocks.settle(nil)
			continue
		}
		s.moveTo(b.bucket)
		target, err := s.acquire(b.bucket)
		if err == nil {
			targets = append(targets, target)
			err = s.commitBlock(b, target, s.buffer(i), blocks)
		}
		if err != nil {
			blocks.settle(err)
			break
		}
	}
	written, err := blocks.wait()
	// After the write and before an index can be committed: a durable point that takes the mark without this write in
	// it would lose it for ever.
	s.mu.Lock()
	for _, target := range targets {
		s.dirty[target.id] = struct{}{}
	}
	s.mu.Unlock()
	for _, target := range targets {
		s.release(target)
	}
	for _, b := range group[:written] {
		for _, row := range b.rows {
			if row.id == b.bucket && row.row.totalBytes >= uint64(s.opts.BucketBytes)/2 {
				s.prepare(b.bucket + 1)
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("write block to bucket %d: %w", group[written].bucket, err)
	}
	return written, err
}

// commitBlock starts the transaction of a block.
func (s *buckets) commitBlock(b *Batch, target *bucket, buffer *[]byte, blocks *volley) error {
	txn := target.db.NewTransactionAt(b.index, true)
	defer txn.Discard()
	block := appendBlock((*buffer)[:0], b.chunks)
	if cap(block) <= keptBlockBytes {
		*buffer = block
	}
	if err := txn.Set(blockKey(b.index), block); err != nil {
		return fmt.Errorf("add block: %w", err)
	}
	blocks.commit(txn, b.index)
	return nil
}

// buffer is the committer's i-th buffer.
func (s *buckets) buffer(i int) *[]byte {
	for len(s.blocks) <= i {
		s.blocks = append(s.blocks, nil)
	}
	return &s.blocks[i]
}

// moveTo makes id the bucket that is written; those before are full.
func (s *buckets) moveTo(id uint32) {
	s.mu.Lock()
	moved := s.current != id
	s.current = id
	s.ensure(id)
	if moved {
		for other, b := range s.byID {
			b.full = b.full || other < id
		}
	}
	s.mu.Unlock()
	if moved {
		s.nudge()
	}
}

// ensure makes a bucket known; the lock is held.
func (s *buckets) ensure(id uint32) *bucket {
	b := s.byID[id]
	if b == nil {
		b = &bucket{id: id}
		s.byID[id] = b
	}
	return b
}

// prepare opens a bucket in the background, ahead of need.
func (s *buckets) prepare(id uint32) {
	s.mu.Lock()
	known := s.byID[id] != nil
	if !known {
		s.ensure(id)
	}
	s.mu.Unlock()
	if known {
		return
	}
	select {
	case s.ahead <- id:
	default: // the committer will open it when it gets there
	}
}

// openAhead is the goroutine behind prepare.
func (s *buckets) openAhead() {
	defer s.work.Done()
	for {
		select {
		case <-s.quit:
			return
		case id := <-s.ahead:
			b, err := s.acquire(id)
			switch {
			case err == nil:
				s.release(b)
			case !errors.Is(err, ErrStopped):
				// The committer meets the same error when it needs the bucket, and stops the store then.
				s.opts.Logger.Warn().Err(err).Uint32("bucket", id).Msg("store: bucket cannot be opened ahead")
			}
		}
	}
}

// noteDropped remembers the buckets that a committed batch ended.
func (s *buckets) noteDropped(b *Batch) {
	dropped := false
	s.mu.Lock()
	for _, row := range b.rows {
		if row.gone {
			s.dead = append(s.dead, deadBucket{id: row.id, index: b.index})
			dropped = true
		}
	}
	s.mu.Unlock()
	if dropped {
		s.nudge()
	}
}

// pin keeps buckets from being dropped until unpin. The caller holds a view in which they are alive.
func (s *buckets) pin(ids []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.pinned[id]++
	}
}

func (s *buckets) unpin(ids []uint32) {
	s.mu.Lock()
	for _, id := range ids {
		if s.pinned[id]--; s.pinned[id] == 0 {
			delete(s.pinned, id)
		}
	}
	s.mu.Unlock()
	s.nudge()
}

// isSealed says whether the files of a bucket never change again.
func (s *buckets) isSealed(id uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.byID[id]
	return b != nil && b.sealed
}

func (s *buckets) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// takeDirty returns the buckets written since the last call.
func (s *buckets) takeDirty() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]uint32, 0, len(s.dirty))
	for id := range s.dirty {
		ids = append(ids, id)
	}
	clear(s.dirty)
	slices.Sort(ids)
	return ids
}

// putDirty gives back what could not be synced.
func (s *buckets) putDirty(ids []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.dirty[id] = struct{}{}
	}
}
