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

// commitLoop is the committer; it ends when the queue is closed. What waits in the queue is written together: a node that
// replays many small entries would else wait for the goroutines of the engine twice for each.
func (s *Store) commitLoop() {
	defer close(s.committerDone)
	group := make([]*Batch, 0, s.opts.MaxUnflushed)
	for first := range s.queue {
		group = s.gather(append(group[:0], first))
		written, err := 0, s.readable()
		if err == nil {
			if written, err = s.write(group); err != nil {
				err = s.stop(fmt.Errorf("commit entry %d: %w", group[written].index, err))
			}
		}
		for _, b := range group[:written] {
			s.finish(b, nil)
		}
		for _, b := range group[written:] {
			s.finish(b, err)
		}
		clear(group)
	}
}

// gather adds the batches that wait in the queue. They are never more than MaxUnflushed, for each has a slot.
func (s *Store) gather(group []*Batch) []*Batch {
	for {
		select {
		case b, open := <-s.queue:
			if !open {
				return group
			}
			group = append(group, b)
		default:
			return group
		}
	}
}

// finish tells of the oldest batch that it can be read, or why it cannot.
func (s *Store) finish(b *Batch, err error) {
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

// write brings batches to the files: the blocks of all first, then everything else, in one transaction for each. A crash
// between the two leaves blocks that nothing refers to, and the replay writes the same ones again. It returns how many
// batches are written, and what is wrong with the one behind them.
func (s *Store) write(group []*Batch) (written int, err error) {
	// Each step does what it can of what the steps before have done, so the last one that fails fails the earliest batch.
	step := func(done int, failure error) {
		group = group[:done]
		if failure != nil {
			err = failure
		}
	}
	step(s.check(group))
	step(s.buckets.write(group))
	step(s.writeRows(group))
	return len(group), err
}

// check returns how many batches may be written.
func (s *Store) check(group []*Batch) (int, error) {
	if err := checkFree(s.opts.Dir, s.opts.ReserveBytes); err != nil {
		return 0, err
	}
	for i, b := range group {
		if b.err != nil {
			return i, b.err
		}
	}
	return len(group), nil
}

// writeRows writes the rows of batches whose blocks are in their buckets, and returns how many it has written.
func (s *Store) writeRows(group []*Batch) (int, error) {
	rows := newVolley(len(group))
	for _, b := range group {
		s.opts.Faults(FaultBlockWritten)
		err := s.opts.failWrite(FaultBlockWritten)
		if err == nil {
			err = s.commitRows(b, rows)
		}
		if err != nil {
			rows.settle(err)
			break
		}
	}
	written, err := rows.wait()
	for i := range written {
		if failed := s.opts.failWrite(FaultStoreCommitted); failed != nil {
			return i, failed
		}
	}
	if err != nil {
		err = fmt.Errorf("write transaction: %w", err)
	}
	return written, err
}

// commitRows starts the transaction of a batch.
func (s *Store) commitRows(b *Batch, rows *volley) error {
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
	rows.commit(txn, b.index)
	s.operations.wrote(len(b.own.operations), deleted)
	return nil
}
