package httpfront

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// readAheadBytes holds most requests as a whole.
const readAheadBytes = 4 << 10

// readAhead takes in a request in one system call. The library asks for the first byte of a request alone, so that an idle
// connection holds no buffer, and for the rest in a second call. This reads both at once, into a buffer that it takes only
// when something has come.
//
// It belongs to the goroutine that serves the connection.
type readAhead struct {
	raw syscall.RawConn
	// unread is what was read and not handed on; buffer is where it lies, nil when there is none.
	unread []byte
	buffer *[readAheadBytes]byte
	failed error
	// fill is the method of that name: made once, because every request hands it on.
	fillFunc func(fd uintptr) bool
}

var readAheadBuffers = sync.Pool{New: func() any { return new([readAheadBytes]byte) }}

// newReadAhead returns nil when the connection cannot be read that way.
func newReadAhead(tcp *net.TCPConn) *readAhead {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	a := &readAhead{raw: raw}
	a.fillFunc = a.fill
	return a
}

// first waits for the first byte of a request and returns it.
func (a *readAhead) first(b []byte) (int, error) {
	if err := a.raw.Read(a.fillFunc); err != nil {
		return 0, err
	}
	if a.failed != nil {
		return 0, a.failed
	}
	return a.rest(b), nil
}

// rest hands on what was read; 0 when there is nothing.
func (a *readAhead) rest(b []byte) int {
	n := copy(b, a.unread)
	a.unread = a.unread[n:]
	if len(a.unread) == 0 && a.buffer != nil {
		readAheadBuffers.Put(a.buffer)
		a.buffer, a.unread = nil, nil
	}
	return n
}

// fill is called by the poller until it returns true: when there are bytes, at the end of the stream, or after a failure.
func (a *readAhead) fill(fd uintptr) bool {
	buffer := readAheadBuffers.Get().(*[readAheadBytes]byte)
	// Of this package, as in the library of Go: the race detector knows then that what was sent happened before.
	n, err := syscall.Read(int(fd), buffer[:])
	for errors.Is(err, syscall.EINTR) {
		n, err = syscall.Read(int(fd), buffer[:])
	}
	if n > 0 {
		a.buffer, a.unread = buffer, buffer[:n]
		return true
	}
	readAheadBuffers.Put(buffer)
	if err == nil {
		err = io.EOF
	}
	if errors.Is(err, syscall.EAGAIN) {
		return false
	}
	a.failed = err
	return true
}
