package httpfront

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// Pauses after an accept that failed for want of resources, such as descriptors.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// listener wraps the connections of the port. It survives what would end the accept loop of the library for good: running
// out of descriptors.
type listener struct {
	*net.TCPListener
	tls         *tls.Config
	lingerBytes int64
	pace        pace
	log         zerolog.Logger
	closed      chan struct{}
	closeOnce   sync.Once

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func newListener(tcp *net.TCPListener, config *tls.Config, lingerBytes int64, pace pace, log zerolog.Logger) *listener {
	return &listener{
		TCPListener: tcp,
		tls:         config,
		lingerBytes: lingerBytes,
		pace:        pace,
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
	} else {
		c.ahead = newReadAhead(tcp)
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
