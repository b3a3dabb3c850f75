package partition

import (
	"fmt"

	"queen/raftlog/command"
	"queen/store/layout"
)

const (
	// retainHashMessages bounds the messages whose hashes one step moves: 512 KiB of rows.
	retainHashMessages = 16_384
	// retainChunkBytes bounds what one step reads from chunks for that, a single large append aside.
	retainChunkBytes = 4 << 20
	// retainHashRows bounds the hash rows that one step deletes.
	retainHashRows = 256
)

// RetainInput is one step of retention.
type RetainInput struct {
	NowMicros        uint64
	HashWindowMicros uint64
	Rules            Retention
	// MaxAppends is the most appends that the step removes (RETENTION_BATCH_SIZE).
	MaxAppends uint32
}

// RetainOutput says what a step did.
type RetainOutput struct {
	Appends  uint32
	Messages uint64
	// HashRows is the number of hash rows that left the hash window.
	HashRows uint32
	// More tells that more is due already; the next step goes on.
	More bool
	// NextDueMicros is when something more becomes due if neither options nor cursors change; 0 when nothing will.
	NextDueMicros uint64
}

// Retain removes due appends from the front of the log and hashes that have left the hash window (messaging 15, 4.6). What
// an append leaves inside the hash window goes to hash rows first. A step that finds nothing due writes nothing.
func (m *Machine) Retain(r Reader, w Writer, in RetainInput) (RetainOutput, error) {
	s := retention{m: m, log: m.log(r), w: w, in: &in, rows: rowWriter{w: w, head: &m.head, partition: m.partition}}
	if err := s.expireRows(); err != nil {
		return RetainOutput{}, fmt.Errorf("expire hashes of partition %d: %w", m.partition, err)
	}
	if err := s.removeAppends(); err != nil {
		return RetainOutput{}, fmt.Errorf("remove appends of partition %d: %w", m.partition, err)
	}
	if s.changed {
		m.putHead(w)
	}
	s.out.NextDueMicros = m.NextDue(in.Rules, in.HashWindowMicros)
	return s.out, nil
}

// NextDue returns when Retain has something to do next if neither options nor cursors change; 0 for never. A time in the
// past means now.
func (m *Machine) NextDue(rules Retention, hashWindowMicros uint64) uint64 {
	h := &m.head
	next := uint64(0)
	if h.Segments > 0 {
		next = rules.dueAt(h.LogStart+uint64(h.OldestCount), h.OldestStampMicros)
	}
	if h.hashes.rows > 0 {
		if at := h.hashes.dueStamp + hashWindowMicros; next == 0 || at < next {
			next = at
		}
	}
	return next
}

// retention is one call of Retain.
type retention struct {
	m       *Machine
	log     *log
	w       Writer
	in      *RetainInput
	rows    rowWriter
	out     RetainOutput
	changed bool
	// chunkBytes counts what was read from chunks.
	chunkBytes uint64
}

func (s *retention) expireRows() error {
	known := &s.m.head.hashes
	if known.rows == 0 || inWindow(known.dueStamp, s.in.NowMicros, s.in.HashWindowMicros) {
		return nil
	}
	var expired []uint64
	var failure error
	next := hashState{newestStamp: known.newestStamp, moved: known.moved}
	prefix, from := layout.HashesOf(s.m.partition), layout.Hashes(s.m.partition, known.floor)
	err := s.log.r.Scan(prefix, from, func(key, value []byte) bool {
		base := layout.LastNumber(key)
		var newest uint64
		if newest, failure = newestRowStamp(base, value); failure != nil {
			return false
		}
		next.floor, next.dueStamp = base, newest
		if inWindow(newest, s.in.NowMicros, s.in.HashWindowMicros) {
			return false
		}
		if len(expired) == retainHashRows {
			s.out.More = true
			return false
		}
		expired = append(expired, base)
		return true
	})
	if err == nil {
		err = failure
	}
	if err != nil {
		return err
	}
	if uint64(len(expired)) > known.rows {
		return fmt.Errorf("%d rows in place of %d: %w", len(expired), known.rows, ErrBadHashes)
	}
	for _, base := range expired {
		s.w.Delete(layout.Hashes(s.m.partition, base))
	}
	next.rows = known.rows - uint64(len(expired))
	if next.rows == 0 {
		next = hashState{moved: known.moved}
	}
	*known = next
	s.out.HashRows = uint32(len(expired))
	s.changed = true
	return nil
}

func (s *retention) removeAppends() error {
	h := &s.m.head
	at := h.LogStart
	for at < h.Tail {
		part, err := s.log.stretchAt(at)
		if err != nil {
			return err
		}
		reached, err := s.removeFrom(&part, at)
		if err != nil {
			return err
		}
		if part.inPage && reached == part.end {
			s.w.Delete(layout.Page(s.m.partition, part.base))
			h.frontPage = part.end
		}
		at = reached
		if at != part.end {
			break
		}
	}
	s.rows.flush()
	s.changed = s.changed || s.rows.written
	if at == h.LogStart {
		return nil
	}
	return s.moveStart(at)
}

// removeFrom removes due appends of a stretch from an offset on and returns where it stopped.
func (s *retention) removeFrom(part *stretch, at uint64) (uint64, error) {
	var a Append
	for {
		more, err := part.refs.next(&a)
		if err != nil {
			return at, fmt.Errorf("walk references: %w: %w", err, ErrBadPage)
		}
		if !more {
			return at, nil
		}
		if a.End() <= at {
			continue
		}
		if !s.in.Rules.due(a.End(), a.StampMicros, s.in.NowMicros) {
			return at, nil
		}
		if s.out.Appends >= s.in.MaxAppends {
			s.out.More = true
			return at, nil
		}
		if whole, err := s.keepHashes(&a); err != nil || !whole {
			s.out.More = true
			return at, err
		}
		s.w.ReleaseChunk(a.Chunk)
		s.out.Appends++
		s.out.Messages += uint64(a.Count)
		h := &s.m.head
		h.Segments--
		h.RetainedBytes -= uint64(a.Chunk.Bytes)
		at = a.End()
	}
}

// keepHashes moves the hashes of an append to hash rows while they are inside the hash window. It returns false when the
// step has to end before the append may go; what was moved of it is remembered.
func (s *retention) keepHashes(a *Append) (bool, error) {
	if !inWindow(a.StampMicros, s.in.NowMicros, s.in.HashWindowMicros) {
		return true, nil
	}
	if s.rows.added >= retainHashMessages || s.chunkBytes >= retainChunkBytes {
		return false, nil
	}
	s.chunkBytes += uint64(a.Chunk.Bytes)
	from := max(a.Base, s.m.head.hashes.moved)
	moved := from
	var hash []byte
	err := forEachMessage(s.log.r, a, func(place uint32, message *command.Message) (bool, error) {
		offset := a.Base + uint64(place)
		if offset < from {
			return true, nil
		}
		if s.rows.added >= retainHashMessages {
			return false, nil
		}
		hash = appendMessageHash(hash[:0], message)
		s.rows.add(offset, message, hash, a.StampMicros)
		moved = offset + 1
		return true, nil
	})
	if err != nil {
		return false, err
	}
	s.m.head.hashes.moved = moved
	s.changed = s.changed || moved > from
	return moved == a.End(), nil
}

// moveStart raises the log start, drops what the head holds below it and finds the new oldest append.
func (s *retention) moveStart(at uint64) error {
	h := &s.m.head
	s.changed = true
	if at >= h.inlineBase {
		if err := s.trimInline(at); err != nil {
			return err
		}
		h.inlineBase, h.frontPage, h.pageStamp = at, 0, 0
	}
	h.LogStart = at
	// What stands below the log start is forgotten here as it is by the codec, so that a reloaded machine is no different.
	if h.hashes.moved <= at {
		h.hashes.moved = 0
	}
	h.moves = h.moves.above(at)
	if at == h.Tail {
		h.OldestStampMicros, h.OldestCount = 0, 0
		return nil
	}
	oldest, err := s.log.appendAt(at)
	if err != nil {
		return err
	}
	h.OldestStampMicros, h.OldestCount = oldest.StampMicros, oldest.Count
	return nil
}

// trimInline drops the inline references below an offset. The index has not known them so far.
func (s *retention) trimInline(at uint64) error {
	h := &s.m.head
	walk := h.inlineReferences()
	var kept []byte
	var a Append
	var previous uint64
	for {
		more, err := walk.next(&a)
		if err != nil {
			return fmt.Errorf("walk inline references: %w: %w", err, ErrBadHead)
		}
		if !more {
			break
		}
		if a.End() <= at {
			if s.m.index != nil {
				s.m.index.addAppend(&a, a.hashes, s.in.HashWindowMicros)
			}
			continue
		}
		if kept == nil {
			h.inlineStamp, previous = a.StampMicros, a.StampMicros
		}
		kept = appendReference(kept, &a, previous)
		previous = a.StampMicros
	}
	if kept == nil {
		h.inlineStamp = 0
	}
	h.inline = kept
	return nil
}

// rowWriter packs hashes into rows.
type rowWriter struct {
	w         Writer
	head      *Head
	partition uint64
	row       hashRow
	added     int
	written   bool
}

func (s *rowWriter) add(offset uint64, m *command.Message, hash []byte, stampMicros uint64) {
	if s.row.count == maxRowMessages || (s.row.count > 0 && s.row.end() != offset) {
		s.flush()
	}
	if s.row.count == 0 {
		s.row.base = offset
	}
	s.row.add(m.ID, hash, stampMicros)
	s.added++
}

func (s *rowWriter) flush() {
	if s.row.count == 0 {
		return
	}
	s.w.Put(layout.Hashes(s.partition, s.row.base), s.row.encode())
	known := &s.head.hashes
	if known.rows == 0 {
		known.floor, known.dueStamp = s.row.base, s.row.newestStamp
	}
	known.rows++
	known.newestStamp = s.row.newestStamp
	s.written = true
	s.row = hashRow{}
}
