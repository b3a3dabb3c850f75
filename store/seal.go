package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// sealedMark is the file that says that a bucket was closed in good order.
const sealedMark = "SEALED"

// housekeep seals full buckets, drops dead ones, and closes sealed ones that nobody has used for long. One goroutine.
func (s *buckets) housekeep() error {
	for {
		dead, ok := s.nextDead()
		if !ok {
			break
		}
		if err := s.drop(dead.id); err != nil {
			return err
		}
	}
	for _, id := range s.sealable() {
		if err := s.seal(id); err != nil {
			return err
		}
	}
	return s.closeIdle()
}

// nextDead takes the next bucket that nobody can need: the durable point has passed its end, no view is older, and no
// export has pinned it.
func (s *buckets) nextDead() (deadBucket, bool) {
	floor := s.horizon.floor()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, dead := range s.dead {
		if dead.index > floor {
			break
		}
		if s.pinned[dead.id] == 0 {
			s.dead = slices.Delete(s.dead, i, i+1)
			return dead, true
		}
	}
	return deadBucket{}, false
}

// drop removes a bucket. The rename makes it vanish at once; Open removes what a crash leaves of it.
func (s *buckets) drop(id uint32) error {
	b, ok := s.quiesce(id, phaseDropped)
	if !ok {
		return nil
	}
	if b.db != nil {
		if err := b.db.Close(); err != nil {
			return fmt.Errorf("close dead bucket %d: %w", id, err)
		}
	}
	from := s.path(id)
	to := from + droppingSuffix
	if err := os.Rename(from, to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("drop bucket %d: %w", id, err)
	}
	s.opts.Faults(FaultBeforeUnlink)
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("drop bucket %d: %w", id, err)
	}
	s.opts.Faults(FaultAfterUnlink)
	s.mu.Lock()
	delete(s.byID, id)
	delete(s.dirty, id)
	s.mu.Unlock()
	s.opts.Logger.Debug().Uint32("bucket", id).Msg("store: bucket dropped")
	return nil
}

// quiesce waits until nobody uses a bucket and moves it to a phase in the same step. The phase changes only when the
// last user has left, so that a reader within a reader never waits for itself.
func (s *buckets) quiesce(id uint32, to phase) (*bucket, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		b := s.byID[id]
		if b == nil || s.closed || b.phase == phaseDropped {
			return nil, false
		}
		if b.users == 0 && (b.phase == phaseOpen || b.phase == phaseClosed) {
			b.phase = to
			return b, true
		}
		s.changed.Wait()
	}
}

// sealable are the full buckets behind the newest few.
func (s *buckets) sealable() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var full []uint32
	for id, b := range s.byID {
		if b.full && !b.sealed && b.phase == phaseOpen {
			full = append(full, id)
		}
	}
	slices.Sort(full)
	return full[:max(0, len(full)-keptUnsealed)]
}

// seal closes a full bucket, which moves its last pointers into a table, and marks it, so that it is opened read-only
// from now on. Readers that come meanwhile wait; syncing first keeps that short.
func (s *buckets) seal(id uint32) error {
	if err := syncEngine(s.path(id), nil, s.opts.synced); err != nil {
		return fmt.Errorf("seal bucket %d: %w", id, err)
	}
	b, ok := s.quiesce(id, phaseClosing)
	if !ok {
		return nil
	}
	err := b.db.Close()
	s.opts.Faults(FaultBeforeSeal)
	if err == nil {
		err = markSealed(s.path(id), s.opts.synced)
	}
	s.mu.Lock()
	b.phase, b.db, b.sealed = phaseClosed, nil, err == nil
	s.changed.Broadcast()
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("seal bucket %d: %w", id, err)
	}
	s.opts.Faults(FaultAfterSeal)
	return nil
}

func markSealed(path string, observe func(path string)) error {
	if err := syncEngine(path, nil, observe); err != nil {
		return err
	}
	return writeFileDurably(filepath.Join(path, sealedMark), []byte("sealed\n"))
}

// closeIdle keeps the number of open sealed buckets within its bound, least recently used first.
func (s *buckets) closeIdle() error {
	s.mu.Lock()
	var open []*bucket
	for _, b := range s.byID {
		if b.sealed && b.phase == phaseOpen {
			open = append(open, b)
		}
	}
	slices.SortFunc(open, func(a, b *bucket) int { return int(int64(a.used - b.used)) })
	var victims []*bucket
	for i := 0; i < len(open)-maxSealedOpen; i++ {
		if open[i].users == 0 {
			open[i].phase = phaseClosing
			victims = append(victims, open[i])
		}
	}
	s.mu.Unlock()
	var first error
	for _, b := range victims {
		err := b.db.Close()
		s.mu.Lock()
		b.phase, b.db = phaseClosed, nil
		s.changed.Broadcast()
		s.mu.Unlock()
		if err != nil && first == nil {
			first = fmt.Errorf("close bucket %d: %w", b.id, err)
		}
	}
	return first
}

// close ends all buckets; nobody may be writing. Readers get ErrStopped from now on.
func (s *buckets) close() error {
	close(s.quit)
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var first error
	for _, b := range s.byID {
		for b.users > 0 || b.phase == phaseOpening {
			s.changed.Wait()
		}
		if b.phase != phaseOpen {
			continue
		}
		// Nobody can reach the database any more, so closing it under the lock delays nobody.
		if err := b.db.Close(); err != nil && first == nil {
			first = fmt.Errorf("close bucket %d: %w", b.id, err)
		}
		b.phase, b.db = phaseClosed, nil
	}
	return first
}
