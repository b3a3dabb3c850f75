package peer

import (
	"bufio"
	"errors"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Conn is a connection after its handshake. One goroutine at a time reads, one at a time writes. Its owner closes it.
type Conn struct {
	net.Conn
	// Remote is what the node at the other end says of itself. It has proved to know the token.
	Remote  Hello
	Purpose Purpose
	Group   int
	// Verdict is what the other node thinks of this one, Judged what this one thinks of the other. They are ok except for
	// the purposes that Carries allows all the same.
	Verdict, Judged Verdict
	// Address is the address that was dialled; empty for a connection that was accepted.
	Address string

	network *Network
	// raw is the connection under TLS, or Conn.
	raw    net.Conn
	reader *bufio.Reader
	closed sync.Once
}

// Read implements io.Reader. Bytes that came along with the handshake are in the buffer.
func (c *Conn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// ReadFrame reads one frame of at most maxBytes; a larger one is ErrFrameTooLarge. A connection that was closed between two
// frames is io.EOF.
func (c *Conn) ReadFrame(maxBytes int) ([]byte, error) { return readFrame(c.reader, maxBytes) }

// WriteFrame writes one frame. The payload is the caller's again when it returns.
func (c *Conn) WriteFrame(payload []byte) error { return writeFrame(c.Conn, payload) }

// gone tells whether the other end has closed the connection, or has been given up by TCP. It reads nothing and does not wait.
func (c *Conn) gone() bool {
	tcp, ok := c.raw.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	ended := false
	err = raw.Control(func(fd uintptr) {
		var next [1]byte
		n, _, err := unix.Recvfrom(int(fd), next[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		ended = n == 0 && err == nil || err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	return ended || err != nil
}

// Close implements io.Closer. It may be called from any goroutine and more than once.
func (c *Conn) Close() error {
	var err error
	c.closed.Do(func() {
		c.network.unregister(c)
		err = c.Conn.Close()
	})
	return err
}
