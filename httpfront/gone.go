package httpfront

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// goneWatcher tells when clients close their connections. fasthttp reads nothing while a handler runs, so a parked poll
// would never notice. One epoll instance watches the sockets of all parked polls for the end of the stream; it consumes no
// bytes and stands beside the poller of the Go runtime, in which it is itself only one descriptor.
//
// A client that only closes its sending side counts as gone: whoever waits for an answer keeps both directions open.
type goneWatcher struct {
	epoll *os.File
	raw   interface {
		Control(func(fd uintptr)) error
		Read(func(fd uintptr) bool) error
	}
	done chan struct{}

	mu      sync.Mutex
	watches map[uint64]*Watch
	next    uint64
}

// Watch is the watch over the client of one request.
type Watch struct {
	// C is closed when the client has gone.
	C <-chan struct{}

	gone    chan struct{}
	owner   *goneWatcher
	conn    *net.TCPConn
	id      uint64
	onClose func()
}

// Gone reports whether the client has gone. It may be called from any goroutine.
func (w *Watch) Gone() bool {
	select {
	case <-w.C:
		return true
	default:
		return false
	}
}

// newGoneWatcher starts the goroutine that close ends.
func newGoneWatcher() (*goneWatcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll instance: %w", err)
	}
	// A descriptor that does not block is put into the runtime's poller by os.NewFile.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make epoll instance non-blocking: %w", err)
	}
	g := &goneWatcher{
		epoll:   os.NewFile(uintptr(fd), "epoll"),
		done:    make(chan struct{}),
		watches: map[uint64]*Watch{},
	}
	raw, err := g.epoll.SyscallConn()
	if err != nil {
		g.epoll.Close()
		return nil, fmt.Errorf("reach epoll instance: %w", err)
	}
	g.raw = raw
	go g.run()
	return g, nil
}

// eventsPerRead is how many events one look takes; more stay ready for the next one.
const eventsPerRead = 128

// run waits for events until the epoll descriptor is closed. The runtime wakes it by edges, so every round looks until
// nothing is ready.
func (g *goneWatcher) run() {
	defer close(g.done)
	events := make([]unix.EpollEvent, eventsPerRead)
	for {
		ready := 0
		err := g.raw.Read(func(fd uintptr) bool {
			var err error
			for {
				if ready, err = unix.EpollWait(int(fd), events, 0); !errors.Is(err, unix.EINTR) {
					break
				}
			}
			if err != nil {
				panic("BUG: epoll_wait: " + err.Error())
			}
			return ready > 0
		})
		if err != nil {
			return // closed
		}
		for i := range events[:ready] {
			g.fire(idOf(&events[i]))
		}
	}
}

// The 64 bits of user data of an event hold the id of the watch. Ids are never used again, so an event that was under way
// when its watch ended finds nothing.
func eventFor(id uint64) *unix.EpollEvent {
	return &unix.EpollEvent{
		Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT,
		Fd:     int32(uint32(id)),
		Pad:    int32(uint32(id >> 32)),
	}
}

func idOf(event *unix.EpollEvent) uint64 {
	return uint64(uint32(event.Fd)) | uint64(uint32(event.Pad))<<32
}

func (g *goneWatcher) fire(id uint64) {
	g.mu.Lock()
	w := g.watches[id]
	delete(g.watches, id)
	g.mu.Unlock()
	if w != nil {
		close(w.gone)
	}
}

// watch begins to watch a connection. Only the goroutine that serves the connection may call it, and it calls Close
// before it goes on to the next request. A connection that is closed already is gone at once.
func (g *goneWatcher) watch(conn *net.TCPConn) (*Watch, error) {
	w := &Watch{gone: make(chan struct{}), owner: g, conn: conn}
	w.C = w.gone
	g.mu.Lock()
	if g.next == math.MaxUint64 {
		panic("BUG: out of watch ids")
	}
	g.next++
	w.id = g.next
	g.watches[w.id] = w
	g.mu.Unlock()
	if err := g.control(conn, unix.EPOLL_CTL_ADD, eventFor(w.id)); err != nil {
		if errors.Is(err, net.ErrClosed) {
			g.fire(w.id)
			return w, nil
		}
		g.forget(w)
		return nil, fmt.Errorf("watch connection: %w", err)
	}
	return w, nil
}

// peerClosed asks the system once whether the other side has closed its connection, without consuming anything. A client
// that has sent more meanwhile counts as there.
func peerClosed(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = n == 0 && err == nil || errors.Is(err, unix.ECONNRESET)
	})
	return closed || err != nil
}

func (g *goneWatcher) forget(w *Watch) {
	g.mu.Lock()
	delete(g.watches, w.id)
	g.mu.Unlock()
}

// control calls epoll_ctl for a connection. The nested Control calls keep both descriptors open meanwhile.
func (g *goneWatcher) control(conn *net.TCPConn, operation int, event *unix.EpollEvent) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	outer := g.raw.Control(func(epoll uintptr) {
		if err := raw.Control(func(fd uintptr) {
			failed = unix.EpollCtl(int(epoll), operation, int(fd), event)
		}); err != nil {
			failed = err
		}
	})
	return errors.Join(outer, failed)
}

// Close ends the watch. It must be called before the handler returns, and once only.
func (w *Watch) Close() {
	if w.owner != nil {
		w.owner.forget(w)
		// The descriptor may have been closed meanwhile, which has taken it out of the epoll set.
		_ = w.owner.control(w.conn, unix.EPOLL_CTL_DEL, nil)
	}
	if w.onClose != nil {
		w.onClose()
	}
}

// close ends the goroutine and waits for it. Watches that are still open never fire any more.
func (g *goneWatcher) close() {
	g.epoll.Close()
	<-g.done
}
