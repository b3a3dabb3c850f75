package link

import (
	"net"
	"sync"
	"time"
)

const (
	// maxUnsentBytes bounds what waits to be written. A link that is so far behind has stopped, and is closed.
	maxUnsentBytes = 256 << 20
	// writeTimeout is how long the network may take to accept what is written at once.
	writeTimeout = 10 * time.Second
	// keptBytes is the largest buffer that is kept for the next frames.
	keptBytes = 1 << 20
)

// sender writes frames without making those who send them wait.
type sender struct {
	conn net.Conn

	mu     sync.Mutex
	unsent []byte
	spare  []byte
	closed bool
	wake   chan struct{}
}

func newSender(conn net.Conn) *sender { return &sender{conn: conn, wake: make(chan struct{}, 1)} }

// send lets frame append to what is to be written; false when the link is closed.
func (s *sender) send(frame func(dst []byte) []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.unsent = frame(s.unsent); len(s.unsent) > maxUnsentBytes {
		_ = s.conn.Close() // the reader of the connection ends the link
		return false
	}
	select {
	case s.wake <- struct{}{}: // with the lock: close may not come in between
	default:
	}
	return true
}

// run writes until the connection fails or close is called.
func (s *sender) run() error {
	for range s.wake {
		s.mu.Lock()
		batch := s.unsent
		s.unsent, s.spare = s.spare[:0], nil
		s.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if _, err := s.conn.Write(batch); err != nil {
			return err
		}
		if cap(batch) <= keptBytes {
			s.mu.Lock()
			s.spare = batch
			s.mu.Unlock()
		}
	}
	return nil
}

// close lets no further frame in and ends run.
func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.wake)
	}
}
