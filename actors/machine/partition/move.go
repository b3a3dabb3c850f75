package partition

import (
	"fmt"

	"queen/store/layout"
)

// movePages bounds the pages that one step looks through: some milliseconds of reading.
const movePages = 4096

// MoveInput is one step of emptying a bucket.
type MoveInput struct {
	Bucket uint32
	// MaxBytes is how many chunk bytes the step copies at most; one chunk always goes.
	MaxBytes uint64
}

// MoveOutput says what a step did.
type MoveOutput struct {
	Chunks uint32
	Bytes  uint64
	// More tells that the partition may hold more chunks of the bucket; the next step goes on where this one stopped.
	More bool
}

// MoveChunks copies the partition's chunks of a bucket into the block of the current entry, so that the bucket can be
// dropped (architecture 7). The bucket must not be the one that receives chunks; then nothing happens.
func (m *Machine) MoveChunks(r Reader, w Writer, in MoveInput) (MoveOutput, error) {
	if m.head.Segments == 0 || in.Bucket >= w.Bucket() {
		return MoveOutput{}, nil
	}
	s := mover{m: m, log: m.log(r), w: w, in: &in}
	before := m.head.moves
	if err := s.run(); err != nil {
		return MoveOutput{}, fmt.Errorf("move chunks of bucket %d in partition %d: %w", in.Bucket, m.partition, err)
	}
	if s.out.Chunks > 0 || m.head.moves != before {
		m.putHead(w)
	}
	return s.out, nil
}

// mover is one call of MoveChunks.
type mover struct {
	m     *Machine
	log   *log
	w     Writer
	in    *MoveInput
	out   MoveOutput
	pages int
}

func (s *mover) run() error {
	h := &s.m.head
	at := h.LogStart
	if h.moves.next > at && h.moves.bucket == s.in.Bucket {
		at = h.moves.next
	}
	// What was moved before may lie in any bucket, so that part is walked through. Above it buckets rise with the offsets.
	at, err := s.walk(at, min(h.moves.end, h.inlineBase), false)
	if err == nil && !s.out.More && at < h.inlineBase {
		if at, err = s.skip(at); err == nil {
			at, err = s.walk(at, h.inlineBase, true)
		}
	}
	if err == nil && !s.out.More {
		at, err = s.moveInline(max(at, h.inlineBase))
	}
	if err != nil {
		return err
	}
	if s.out.More {
		h.moves.bucket, h.moves.next = s.in.Bucket, at
	} else {
		h.moves.bucket, h.moves.next = 0, 0
	}
	h.moves = h.moves.above(h.LogStart)
	return nil
}

// skip returns the base of the first page at or above at that can refer to the bucket: the one before the first page that
// begins in it or in a later one.
func (s *mover) skip(at uint64) (uint64, error) {
	h := &s.m.head
	p, found, err := s.log.firstPage(func(p *page) bool { return p.bucket >= s.in.Bucket })
	if err != nil {
		return 0, err
	}
	before := h.inlineBase
	if found {
		before = p.base
	}
	if before <= at {
		return at, nil
	}
	if p, err = s.log.pageAt(before - 1); err != nil {
		return 0, err
	}
	return max(p.base, at), nil
}

// walk moves the chunks of the pages from an offset on, up to end, or, where buckets rise, to the first page that begins
// above the bucket. It returns where it stopped.
func (s *mover) walk(at, end uint64, rising bool) (uint64, error) {
	for at < end {
		if s.pages++; s.pages > movePages {
			s.out.More = true
			return at, nil
		}
		p, err := s.log.pageAt(at)
		if err != nil {
			return 0, err
		}
		if rising && p.bucket > s.in.Bucket {
			return end, nil
		}
		list, err := p.appends()
		if err != nil {
			return 0, err
		}
		reached, changed, err := s.moveAppends(list, at)
		if err != nil {
			return 0, err
		}
		if changed {
			p.refs = encodeAppends(list)
			s.w.Put(layout.Page(s.m.partition, p.base), p.encode())
		}
		if at = reached; s.out.More {
			return at, nil
		}
	}
	return at, nil
}

func (s *mover) moveInline(at uint64) (uint64, error) {
	h := &s.m.head
	if len(h.inline) == 0 {
		return at, nil
	}
	inline := page{base: h.inlineBase, end: h.Tail, firstStamp: h.inlineStamp, lastStamp: h.LastStampMicros, refs: h.inline}
	list, err := inline.appends()
	if err != nil {
		return 0, err
	}
	reached, changed, err := s.moveAppends(list, at)
	if changed {
		h.inline = encodeAppends(list)
	}
	return reached, err
}

// moveAppends moves the chunks of the appends that end above at, as far as the step may go, and returns the end of the
// last append that is done.
func (s *mover) moveAppends(list []Append, at uint64) (reached uint64, changed bool, err error) {
	h := &s.m.head
	for i := range list {
		a := &list[i]
		if a.End() <= max(at, h.LogStart) {
			continue
		}
		if a.Chunk.Bucket != s.in.Bucket {
			at = a.End()
			continue
		}
		if s.out.Chunks > 0 && s.out.Bytes+uint64(a.Chunk.Bytes) > s.in.MaxBytes {
			s.out.More = true
			return at, changed, nil
		}
		var data []byte
		err := s.log.r.Chunk(a.Chunk, func(chunk []byte) error {
			data = append([]byte(nil), chunk...)
			return nil
		})
		if err != nil {
			return at, changed, fmt.Errorf("read chunk at offset %d: %w", a.Base, err)
		}
		s.w.ReleaseChunk(a.Chunk)
		a.Chunk = s.w.SetChunk(s.w.ReserveChunk(), data)
		s.out.Chunks++
		s.out.Bytes += uint64(len(data))
		changed, at = true, a.End()
		h.moves.end = max(h.moves.end, at)
	}
	return at, changed, nil
}

func encodeAppends(list []Append) []byte {
	var refs []byte
	previous := list[0].StampMicros
	for i := range list {
		refs = appendReference(refs, &list[i], previous)
		previous = list[i].StampMicros
	}
	return refs
}
