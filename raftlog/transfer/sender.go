package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Source is a state that is read part by part, by one goroutine at a time.
type Source interface {
	// Next moves on to the next part and returns its name and length; io.EOF behind the last. The part before it is not
	// read again.
	Next() (name string, size int64, err error)
	// ReadAt reads from the current part.
	ReadAt(to []byte, offset int64) (int, error)
	// Sum is the SHA-256 of the current part. It is asked for after all of it has been read.
	Sum() ([32]byte, error)
	// Bytes is about how much all parts hold.
	Bytes() int64
	Close() error
}

// FaultPartSent is the crash point of cluster.md 19 that the sender passes: a part has been read to its end.
const FaultPartSent = "snapshot.part_sent"

// SenderOptions are the settings of a Sender.
type SenderOptions struct {
	// Open opens the state as it is now, with the bytes that go to the receiver first. Required.
	Open func(ctx context.Context) (Source, []byte, error)
	// Pace waits before so many bytes are sent, so that a transfer leaves the node room for its work; such as WaitN of a
	// rate.Limiter with a burst of at least MaxRangeBytes. Nil does not wait.
	Pace func(ctx context.Context, bytes int) error
	// Received is called when a receiver says that it has a whole export; nil does nothing.
	Received func()
	// Now is the clock, for idle exports. Required.
	Now func() time.Time
	// Idle is how long an export stays open without a request, MaxAge how long at most. Zero means 60 s and 12 h.
	Idle, MaxAge time.Duration
	// MaxExports is how many may be open at a time. Zero means two.
	MaxExports int
	Logger     zerolog.Logger
	// Faults is called at the crash point; nil does nothing.
	Faults func(point string)
}

// Sender answers receivers. Any goroutine may call it.
type Sender struct {
	options SenderOptions

	mu      sync.Mutex // guards what follows; not held while a source is used
	exports map[exportID]*export
	opening int
	closed  bool
}

// export is a source that is being read.
type export struct {
	id   exportID
	peer uint64

	// Guarded by the lock of Sender.
	began, used time.Time
	serving     int

	mu     sync.Mutex // guards the source and what follows; taken without the lock of Sender
	source Source
	part   uint32 // number of the current part; 0 before the first
	name   string
	size   int64
	noMore bool
	closed bool
}

// NewSender returns a sender without exports.
func NewSender(options SenderOptions) *Sender {
	if options.Idle == 0 {
		options.Idle = 60 * time.Second
	}
	if options.MaxAge == 0 {
		options.MaxAge = 12 * time.Hour
	}
	if options.MaxExports == 0 {
		options.MaxExports = 2
	}
	if options.Pace == nil {
		options.Pace = func(context.Context, int) error { return nil }
	}
	if options.Faults == nil {
		options.Faults = func(string) {}
	}
	return &Sender{options: options, exports: make(map[exportID]*export)}
}

// Serve answers one request of a peer. It never fails: what goes wrong is in the answer.
func (s *Sender) Serve(ctx context.Context, peer uint64, message []byte) []byte {
	s.CloseIdle()
	r, err := decodeRequest(message)
	if err != nil {
		return encodeFailure(statusRefused, err.Error())
	}
	switch r.op {
	case opBegin:
		return s.begin(ctx, peer)
	case opEnd:
		s.end(peer, r.id)
		return encodeFailure(statusOK, "")
	}
	e := s.enter(peer, r.id)
	if e == nil {
		return encodeFailure(statusGone, r.id.String())
	}
	defer s.leave(e)
	answer, sent, err := s.read(e, r)
	if err == nil && sent > 0 {
		err = s.options.Pace(ctx, sent)
	}
	switch {
	case err == nil:
		return answer
	case errors.Is(err, errGone):
		return encodeFailure(statusGone, err.Error())
	case errors.Is(err, ErrProtocol):
		return encodeFailure(statusRefused, err.Error())
	default:
		s.options.Logger.Warn().Err(err).Uint64("peer", peer).Msg("transfer: export cannot be read")
		return encodeFailure(statusFailed, err.Error())
	}
}

// begin opens an export. A peer that begins has given up the one it had.
func (s *Sender) begin(ctx context.Context, peer uint64) []byte {
	s.drop("begun anew", func(e *export) bool { return e.peer == peer })
	s.mu.Lock()
	if s.closed || len(s.exports)+s.opening >= s.options.MaxExports {
		s.mu.Unlock()
		return encodeFailure(statusBusy, fmt.Sprintf("%d exports at a time", s.options.MaxExports))
	}
	s.opening++
	s.mu.Unlock()
	e, meta, err := s.open(ctx, peer)
	s.mu.Lock()
	s.opening--
	closed := s.closed
	if err == nil && !closed {
		e.began = s.options.Now()
		e.used = e.began
		s.exports[e.id] = e
	}
	s.mu.Unlock()
	if err != nil {
		s.options.Logger.Warn().Err(err).Uint64("peer", peer).Msg("transfer: export cannot be opened")
		return encodeFailure(statusFailed, err.Error())
	}
	if closed {
		s.shut(e, "sender is closed")
		return encodeFailure(statusBusy, "sender is closed")
	}
	answer := begun{id: e.id, about: max(0, e.source.Bytes()), meta: meta}
	s.options.Logger.Info().Uint64("peer", peer).Stringer("export", e.id).Int64("bytes", answer.about).Msg("transfer: export begun")
	return answer.encode()
}

func (s *Sender) open(ctx context.Context, peer uint64) (*export, []byte, error) {
	source, meta, err := s.options.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(meta) > MaxMetaBytes {
		return nil, nil, errors.Join(fmt.Errorf("%d bytes go with the export, at most %d are allowed", len(meta), MaxMetaBytes),
			source.Close())
	}
	e := &export{peer: peer, source: source}
	if _, err := rand.Read(e.id[:]); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make id of export: %w", err), source.Close())
	}
	return e, meta, nil
}

// enter finds an export and keeps it from being idle until leave.
func (s *Sender) enter(peer uint64, id exportID) *export {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.exports[id]
	if e == nil || e.peer != peer {
		return nil
	}
	e.serving++
	e.used = s.options.Now()
	return e
}

func (s *Sender) leave(e *export) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.serving--
	e.used = s.options.Now()
}

// read answers a Read. An error of the source ends the export.
func (s *Sender) read(e *export, r request) (answer []byte, sent int, err error) {
	p, answer, room, err := e.read(r)
	if err != nil {
		if !errors.Is(err, errGone) && !errors.Is(err, ErrProtocol) {
			s.drop("it cannot be read", func(other *export) bool { return other == e })
		}
		return nil, 0, err
	}
	if p.last {
		s.options.Faults(FaultPartSent)
	}
	return p.encode(answer, room), len(p.data), nil
}

func (e *export) read(r request) (p piece, answer []byte, room int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return p, nil, 0, errGone
	}
	if r.part == e.part+1 && !e.noMore {
		if r.offset != 0 {
			return p, nil, 0, fmt.Errorf("%w: part %d begins at %d", ErrProtocol, r.part, r.offset)
		}
		name, size, err := e.source.Next()
		switch {
		case errors.Is(err, io.EOF):
			e.noMore = true
		case err != nil:
			return p, nil, 0, err
		case !validName(name):
			return p, nil, 0, fmt.Errorf("BUG: part %d is called %q", r.part, name)
		default:
			e.part, e.name, e.size = r.part, name, size
		}
	}
	if e.noMore && r.part == e.part+1 {
		return piece{noMore: true}, nil, 0, nil
	}
	if r.part != e.part || r.offset > e.size {
		return p, nil, 0, fmt.Errorf("%w: read at %d of part %d, part %d has %d bytes", ErrProtocol, r.offset, r.part, e.part, e.size)
	}
	room = int(min(int64(r.limit), e.size-r.offset))
	answer, data := newPiece(room)
	if n, err := e.source.ReadAt(data, r.offset); n < room {
		return p, nil, 0, fmt.Errorf("read %d bytes at %d of %s, got %d: %w", room, r.offset, e.name, n, err)
	}
	p = piece{name: e.name, size: e.size, data: data, last: r.offset+int64(room) == e.size}
	if p.last {
		if p.sum, err = e.source.Sum(); err != nil {
			return p, nil, 0, err
		}
	}
	return p, answer, room, nil
}

func (s *Sender) end(peer uint64, id exportID) {
	received := false
	s.drop("received", func(e *export) bool {
		its := e.peer == peer && e.id == id
		received = received || its
		return its
	})
	if received && s.options.Received != nil {
		s.options.Received()
	}
}

// CloseIdle closes the exports that nobody has asked for in a while. Serve calls it; the owner calls it now and then, so
// that an export does not hold back the node's disk space when nobody asks any more.
func (s *Sender) CloseIdle() {
	now := s.options.Now()
	s.drop("idle", func(e *export) bool {
		return e.serving == 0 && now.Sub(e.used) >= s.options.Idle || now.Sub(e.began) >= s.options.MaxAge
	})
}

// CloseAll closes all exports; receivers begin anew. The disk is needed, or the node does not lead any more.
func (s *Sender) CloseAll(why string) { s.drop(why, func(*export) bool { return true }) }

// Close closes all exports, waits for reads under way, and lets nobody begin any more.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.CloseAll("sender is closed")
}

// Exports is how many are open.
func (s *Sender) Exports() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.exports)
}

// drop closes the exports that are chosen; choose is called with the lock held.
func (s *Sender) drop(why string, choose func(*export) bool) {
	var chosen []*export
	s.mu.Lock()
	for id, e := range s.exports {
		if choose(e) {
			delete(s.exports, id)
			chosen = append(chosen, e)
		}
	}
	s.mu.Unlock()
	for _, e := range chosen {
		s.shut(e, why)
	}
}

func (s *Sender) shut(e *export, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.closed = true
	log := s.options.Logger.Info()
	if err := e.source.Close(); err != nil {
		log = s.options.Logger.Warn().Err(err)
	}
	log.Uint64("peer", e.peer).Stringer("export", e.id).Uint32("parts", e.part).Str("why", why).Msg("transfer: export closed")
}
