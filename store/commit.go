package store

import "fmt"

// Begin starts the batch of one entry; index must be higher than that of every batch before. One goroutine (apply)
// calls Begin and Commit, and at most one batch is open at a time.
func (s *Store) Begin(index, term uint64) *Batch {
	if index <= s.lastBegun.index {
		panic(fmt.Sprintf("BUG: begin entry %d after entry %d", index, s.lastBegun.index))
	}
	if s.current != nil {
		panic(fmt.Sprintf("BUG: begin entry %d while entry %d is open", index, s.current.index))
	}
	b := &Batch{store: s, index: index, term: term, bucket: s.ledger.next()}
	s.pipeline.Lock()
	b.below = make([]*Batch, 0, len(s.unflushed))
	for i := len(s.unflushed) - 1; i >= 0; i-- {
		b.below = append(b.below, s.unflushed[i])
	}
	b.base = s.snapshotAt(s.horizon.enter())
	s.pipeline.Unlock()
	b.overlays = make([]*overlay, 0, len(b.below)+1)
	b.overlays = append(b.overlays, &b.own)
	for _, of := range b.below {
		b.overlays = append(b.overlays, &of.own)
	}
	s.current = b
	return b
}

// Discard gives up a batch that was not committed. The same index may begin again.
func (b *Batch) Discard() {
	if b.store.current == b {
		b.store.current = nil
	}
	b.end()
}

// Commit hands the batch over and returns; it blocks while MaxUnflushed batches are outstanding. done is called from the
// committer, in the order of indexes, once the batch can be read by new views or has failed. It must not block for long
// and must not call Commit. After the first failure the store is stopped: this and every later done gets the error.
func (s *Store) Commit(b *Batch, done func(error)) {
	if s.current != b {
		panic(fmt.Sprintf("BUG: commit entry %d, which is not the open one", b.index))
	}
	s.current = nil
	b.done = done
	s.book(b)
	b.mu.Lock()
	b.handedOver = true
	b.mu.Unlock()
	s.lastBegun = mark{b.index, b.term}

	s.slots <- struct{}{}
	s.pipeline.Lock()
	if s.closing {
		s.pipeline.Unlock()
		<-s.slots
		b.end()
		done(s.stopped())
		return
	}
	s.unflushed = append(s.unflushed, b)
	s.queue <- b // has room for MaxUnflushed
	s.pipeline.Unlock()
}

// book adds the store's own rows to the batch. A batch that breaks a limit carries its error to the committer.
func (s *Store) book(b *Batch) {
	if b.err != nil {
		return
	}
	if err := b.Overflow(); err != nil {
		b.fail(err)
		return
	}
	rows, err := s.ledger.post(b)
	if err != nil {
		b.fail(err)
		return
	}
	b.rows = rows
	for _, row := range rows {
		if row.gone {
			b.own.set(operation{key: row.key(), deleted: true})
		} else {
			b.own.set(operation{key: row.key(), value: row.row.encode()})
		}
	}
	applied := appliedRow{index: b.index, term: b.term, previous: s.lastBegun.index, bucket: s.ledger.openBucket()}
	b.own.set(operation{key: appliedKey(), value: applied.encode()})
}

// commitLoop is the committer; it ends when the queue is closed.
func (s *Store) commitLoop() {
	defer close(s.committerDone)
	for b := range s.queue {
		err := s.readable()
		if err == nil {
			if err = s.write(b); err != nil {
				err = s.stop(fmt.Errorf("commit entry %d: %w", b.index, err))
			}
		}
		s.pipeline.Lock()
		if err == nil {
			s.horizon.advance(mark{b.index, b.term})
		}
		copy(s.unflushed, s.unflushed[1:])
		s.unflushed[len(s.unflushed)-1] = nil
		s.unflushed = s.unflushed[:len(s.unflushed)-1]
		s.pipeline.Unlock()
		if err == nil {
			s.opts.Faults(FaultStoreCommitted)
			s.buckets.noteDropped(b)
		}
		b.end()
		b.done(err)
		<-s.slots
	}
}

// write brings a batch to the files: its block first, then everything else in one transaction. A crash between the two
// leaves a block that nothing refers to, and the replay writes the same one again.
func (s *Store) write(b *Batch) error {
	if b.err != nil {
		return b.err
	}
	if err := checkFree(s.opts.Dir, s.opts.ReserveBytes); err != nil {
		return err
	}
	if b.setChunks > 0 {
		if err := s.buckets.write(b); err != nil {
			return err
		}
	}
	s.opts.Faults(FaultBlockWritten)
	if err := s.opts.failWrite(FaultBlockWritten); err != nil {
		return err
	}
	txn := s.main.NewTransactionAt(b.index, true)
	defer txn.Discard()
	// Nobody changes the operations of a batch that was handed over, so they need no lock.
	arena := make([]byte, 0, b.own.bytes+rowSumBytes*len(b.own.operations))
	deleted := 0
	for _, op := range b.own.operations {
		var err error
		if op.deleted {
			deleted++
			err = txn.Delete(op.key)
		} else {
			start := len(arena)
			arena = appendRow(arena, op.key, op.value)
			err = txn.Set(op.key, arena[start:len(arena):len(arena)])
		}
		if err != nil {
			return fmt.Errorf("add row %x: %w", op.key, err)
		}
	}
	if err := txn.CommitAt(b.index, nil); err != nil {
		return fmt.Errorf("write transaction: %w", err)
	}
	s.operations.wrote(len(b.own.operations), deleted)
	return s.opts.failWrite(FaultStoreCommitted)
}
