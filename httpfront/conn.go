package httpfront

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// How a refused request's unread body is read on. Closing a socket with unread data resets it, and the client may then
// see the reset in place of the answer; so what it still sends is read and thrown away for a while. A client that goes on
// beyond this is cut.
const (
	lingerTime      = 10 * time.Second
	lingerIdleTime  = 2 * time.Second
	lingerReadBytes = 32 << 10
)

// pace is the slowest transfer that is still taken for a client and not for an attack: so many bytes within each window.
// It holds for bodies that arrive and for answers that are sent, because both hold memory and permits meanwhile.
type pace struct {
	window time.Duration
	bytes  int
}

// defaultPace is 16 KiB/s on average over 10 s.
var defaultPace = pace{window: 10 * time.Second, bytes: 160 << 10}

// bodyMark is added to the read timeout of a body. The library tells a connection nothing about the phase of a request;
// a deadline so far away, which nothing else sets, says that what is read from now on is a body.
const bodyMark = 30 * 24 * time.Hour

// unsentBytes is how much of an answer the kernel takes over before it has been sent. Without the limit it takes several
// MiB, and nobody learns that the client never read them.
const unsentBytes = 128 << 10

// conn is one connection of a client. Its methods belong to the goroutine that serves the connection; the library closes
// idle connections from another one.
type conn struct {
	net.Conn // the plain or the TLS connection
	tcp      *net.TCPConn
	owner    *listener
	ahead    *readAhead // nil with TLS
	// heard is set once something was received.
	heard atomic.Bool
	// linger asks Close to read on first. afterClose runs once when the connection ends.
	linger     bool
	afterClose func()
	closed     sync.Once

	// bodyUntil is the deadline of the body that is arriving, zero when none is; windowBytes came in this window.
	bodyUntil   time.Time
	windowBytes int
	// writeUntil is the deadline of the answer; measured is set once the kernel was told to take over unsentBytes only.
	writeUntil time.Time
	measured   bool
	// sending is the answer that is on its way, if anything depends on its fate.
	sending atomic.Pointer[sending]
}

// sending is an answer on its way to the client.
type sending struct {
	// bytes are the permits that the answer holds of budget.
	bytes  int64
	budget *admission
	// undelivered is called when the answer could not be written to its end; begun tells whether something of it was.
	undelivered func(begun bool)

	begun, failed bool
}

// errClientClosed stands for the end of the stream. fasthttp drops a request silently on a bare io.EOF between two chunks
// of a body; every other error reaches the error handler, which gives permits back.
var errClientClosed = errors.New("unexpected EOF: the client closed the connection")

// Read reads from the client. A body that falls behind its pace ends with a timeout.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.read(b)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	if errors.Is(err, io.EOF) {
		err = errClientClosed
	}
	if err == nil && !c.bodyUntil.IsZero() {
		if c.windowBytes += n; c.windowBytes >= c.owner.pace.bytes {
			err = c.openWindow()
		}
	}
	return n, err
}

func (c *conn) read(b []byte) (int, error) {
	if c.ahead == nil {
		return c.Conn.Read(b)
	}
	if n := c.ahead.rest(b); n > 0 {
		return n, nil
	}
	if len(b) == 1 {
		return c.ahead.first(b)
	}
	return c.Conn.Read(b)
}

// SetReadDeadline is how the library begins to read something: a request, which ends the answer before it, or a body.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.settle()
	if time.Until(t) < bodyMark/2 {
		c.bodyUntil = time.Time{}
		return c.Conn.SetReadDeadline(t)
	}
	c.bodyUntil = t.Add(-bodyMark)
	return c.openWindow()
}

// openWindow gives the body another window for the bytes of its pace.
func (c *conn) openWindow() error {
	c.windowBytes = 0
	return c.Conn.SetReadDeadline(earlier(c.bodyUntil, time.Now().Add(c.owner.pace.window)))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// SetWriteDeadline sets the deadline of the next answer.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writeUntil = t
	return c.Conn.SetWriteDeadline(t)
}

// Write sends to the client and notes what becomes of the answer.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.write(b)
	if s := c.sending.Load(); s != nil {
		s.begun = s.begun || n > 0
		s.failed = s.failed || err != nil
	}
	return n, err
}

// write sends a large answer in pieces, each of which has one window of the pace.
func (c *conn) write(b []byte) (written int, err error) {
	piece := c.owner.pace.bytes
	if len(b) <= piece {
		return c.Conn.Write(b)
	}
	c.limitUnsent()
	for written < len(b) {
		until := time.Now().Add(c.owner.pace.window)
		if !c.writeUntil.IsZero() {
			until = earlier(c.writeUntil, until)
		}
		if err := c.Conn.SetWriteDeadline(until); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(b[written:min(written+piece, len(b))])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, c.Conn.SetWriteDeadline(c.writeUntil)
}

// limitUnsent makes the kernel take over less of a large answer. Where it cannot be told, answers are only less exactly
// known to have arrived.
func (c *conn) limitUnsent() {
	if c.measured {
		return
	}
	c.measured = true
	if raw, err := c.tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
		})
	}
}

// settle ends the answer that was on its way: its permits go back, and its owner is told if it was not written to its end.
func (c *conn) settle() {
	s := c.sending.Swap(nil)
	if s == nil {
		return
	}
	if s.bytes > 0 {
		s.budget.release(s.bytes)
	}
	if s.undelivered != nil && (s.failed || !s.begun) {
		s.undelivered(s.begun)
	}
}

// Close ends the connection.
func (c *conn) Close() error {
	c.closed.Do(func() {
		c.settle()
		if c.linger {
			c.readOn()
		}
		if c.afterClose != nil {
			c.afterClose()
		}
		c.owner.mu.Lock()
		delete(c.owner.conns, c)
		c.owner.mu.Unlock()
	})
	return c.Conn.Close()
}

// readOn ends our side of the stream and throws away what still comes.
func (c *conn) readOn() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	end := time.Now().Add(lingerTime)
	buffer := make([]byte, lingerReadBytes)
	for left := c.owner.lingerBytes; left > 0; {
		if c.Conn.SetReadDeadline(earlier(end, time.Now().Add(lingerIdleTime))) != nil {
			return
		}
		n, err := c.Conn.Read(buffer)
		if err != nil {
			return
		}
		left -= int64(n)
	}
}
