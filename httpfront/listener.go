package httpfront

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// Pauses after an accept that failed for want of resources, such as descriptors.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// How a refused request's unread body is read on. Closing a socket with unread data resets it, and the client may then
// see the reset in place of the answer; so what it still sends is read and thrown away for a while. A client that goes on
// beyond this is cut.
const (
	lingerTime      = 10 * time.Second
	lingerIdleTime  = 2 * time.Second
	lingerReadBytes = 32 << 10
)

// listener wraps the connections of the port. It survives what would end the accept loop of the library for good: running
// out of descriptors.
type listener struct {
	*net.TCPListener
	tls         *tls.Config
	lingerBytes int64
	log         zerolog.Logger
	closed      chan struct{}
	closeOnce   sync.Once

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func newListener(tcp *net.TCPListener, config *tls.Config, lingerBytes int64, log zerolog.Logger) *listener {
	return &listener{
		TCPListener: tcp,
		tls:         config,
		lingerBytes: lingerBytes,
		log:         log,
		closed:      make(chan struct{}),
		conns:       map[*conn]struct{}{},
	}
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	pause := minAcceptPause
	for {
		tcp, err := l.AcceptTCP()
		if err == nil {
			return l.wrap(tcp), nil
		}
		if !shortOfResources(err) {
			return nil, err
		}
		l.log.Warn().Err(err).Dur("ms", pause).Msg("http: accept failed, trying again")
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
		pause = min(2*pause, maxAcceptPause)
	}
}

// shortOfResources tells errors of accept that pass from those that do not.
func shortOfResources(err error) bool {
	for _, transient := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO,
	} {
		if errors.Is(err, transient) {
			return true
		}
	}
	return false
}

func (l *listener) wrap(tcp *net.TCPConn) *conn {
	c := &conn{Conn: tcp, tcp: tcp, owner: l}
	if l.tls != nil {
		c.Conn = tls.Server(tcp, l.tls)
	}
	l.mu.Lock()
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	return c
}

// Close stops accepting; connections go on.
func (l *listener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.TCPListener.Close()
}

// cut closes connections without ceremony: all of them, or only those over which nothing was ever received.
func (l *listener) cut(onlySilent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if !onlySilent || !c.heard.Load() {
			c.tcp.Close()
		}
	}
}

// conn is one connection of a client.
type conn struct {
	net.Conn // the plain or the TLS connection
	tcp      *net.TCPConn
	owner    *listener
	// heard is set once something was received.
	heard atomic.Bool
	// linger asks Close to read on first. afterClose runs once when the connection ends. Both belong to the goroutine
	// that serves the connection.
	linger     bool
	afterClose func()
	closed     sync.Once
}

// errClientClosed stands for the end of the stream. fasthttp drops a request silently on a bare io.EOF between two chunks
// of a body; every other error reaches the error handler, which gives permits back.
var errClientClosed = errors.New("unexpected EOF: the client closed the connection")

// Read reads from the client.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	if errors.Is(err, io.EOF) {
		err = errClientClosed
	}
	return n, err
}

// Close ends the connection.
func (c *conn) Close() error {
	c.closed.Do(func() {
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
		deadline := time.Now().Add(lingerIdleTime)
		if deadline.After(end) {
			deadline = end
		}
		if c.Conn.SetReadDeadline(deadline) != nil {
			return
		}
		n, err := c.Conn.Read(buffer)
		if err != nil {
			return
		}
		left -= int64(n)
	}
}
