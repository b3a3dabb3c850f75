package peer

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"queen/raftlog/identity"
)

// Network is the raft port of a node: it accepts and dials connections to other nodes.
type Network struct {
	options   Options
	logger    zerolog.Logger
	listener  net.Listener
	throttle  *throttle
	settings  *settingsWatch
	keepAlive net.KeepAliveConfig

	// ctx ends with Close.
	ctx    context.Context
	cancel context.CancelFunc
	// work counts the accept loop and the goroutine of every accepted connection.
	work sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	handlers map[Purpose]func(*Conn)
	// greeting are the accepted connections (net.Conn) in their handshake, the oldest first.
	greeting *list.List
	// conns are all connections after step 3, accepted how many of them each node has opened.
	conns    map[*Conn]struct{}
	accepted map[uint64]int
}

// Listen opens the raft port.
func Listen(options Options) (*Network, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("open raft port: %w", err)
	}
	n := &Network{
		options: options,
		logger:  options.Logger,
		keepAlive: net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		},
		throttle: newThrottle(options.Clock),
		settings: &settingsWatch{logger: options.Logger, seen: map[settingKey]string{}},
		handlers: map[Purpose]func(*Conn){},
		greeting: list.New(),
		conns:    map[*Conn]struct{}{},
		accepted: map[uint64]int{},
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	config := net.ListenConfig{KeepAliveConfig: n.keepAlive}
	listener, err := config.Listen(n.ctx, "tcp", options.Listen)
	if err != nil {
		n.cancel()
		return nil, fmt.Errorf("open raft port: %w", err)
	}
	n.listener = listener
	n.work.Go(n.acceptLoop)
	return n, nil
}

// Addr returns the address that the port is bound to.
func (n *Network) Addr() net.Addr { return n.listener.Addr() }

// Handle sets who serves the connections of a purpose. serve runs in a goroutine of its own, which Close waits for, and
// owns the connection, also after it has returned. It must end soon after its connection is closed. Until a purpose has a
// handler its connections are refused with ErrRetry.
func (n *Network) Handle(purpose Purpose, serve func(*Conn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handlers[purpose] = serve
}

// Close closes the port and every connection, and waits for their goroutines.
func (n *Network) Close() error {
	n.mu.Lock()
	closing := !n.closed
	n.closed = true
	for element := n.greeting.Front(); element != nil; element = element.Next() {
		closeQuietly(element.Value.(net.Conn))
	}
	for conn := range n.conns {
		closeQuietly(conn.raw) // not Conn.Close: TLS would wait for peers that do not read
	}
	n.mu.Unlock()
	var err error
	if closing {
		n.cancel()
		err = n.listener.Close()
	}
	n.work.Wait()
	return err
}

// closeQuietly closes a connection that is given up; nothing depends on how that ends.
func closeQuietly(conn net.Conn) { _ = conn.Close() }

// acceptLoop takes callers until the port is closed.
func (n *Network) acceptLoop() {
	const leastPause, mostPause = 5 * time.Millisecond, time.Second
	pause := leastPause
	for {
		raw, err := n.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// The process has no file left, most likely: others give theirs back.
			if events, log := n.throttle.count(throttleKey{reason: "accept"}); log {
				n.logger.Warn().Err(err).Int("count", events).Msg("raft port: a connection could not be accepted")
			}
			select {
			case <-n.ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, mostPause)
			continue
		}
		pause = leastPause
		n.work.Go(func() { n.welcome(raw) })
	}
}

// welcome takes a caller through its handshake and gives the connection to the handler of its purpose.
func (n *Network) welcome(raw net.Conn) {
	place := n.enter(raw)
	if place == nil {
		closeQuietly(raw)
		return
	}
	conn, serve, err := n.accept(raw)
	n.mu.Lock()
	n.greeting.Remove(place)
	n.mu.Unlock()
	if err != nil {
		closeQuietly(raw)
		n.logger.Debug().Err(err).Stringer("address", raw.RemoteAddr()).Msg("raft port: handshake failed")
		return
	}
	serve(conn)
}

// enter gives a caller a place among those in their handshake, nil after Close.
func (n *Network) enter(raw net.Conn) *list.Element {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	if n.greeting.Len() >= maxHandshakes {
		closeQuietly(n.greeting.Remove(n.greeting.Front()).(net.Conn))
	}
	return n.greeting.PushBack(raw)
}

// register counts a connection, so that Close finds it.
func (n *Network) register(conn *Conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	if conn.Address == "" {
		if n.accepted[conn.Remote.NodeID] >= maxConnsPerNode {
			return fmt.Errorf("%w: node %d has %d connections", ErrRetry, conn.Remote.NodeID, maxConnsPerNode)
		}
		n.accepted[conn.Remote.NodeID]++
	}
	n.conns[conn] = struct{}{}
	return nil
}

func (n *Network) unregister(conn *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, found := n.conns[conn]; !found {
		return
	}
	delete(n.conns, conn)
	if conn.Address == "" {
		if n.accepted[conn.Remote.NodeID]--; n.accepted[conn.Remote.NodeID] == 0 {
			delete(n.accepted, conn.Remote.NodeID)
		}
	}
}

// processes returns the boot nonces of the other processes of a node's incarnation that are connected here, this one
// included when the node has its identity.
func (n *Network) processes(self, remote *Hello) []string {
	var nonces []string
	add := func(other *Hello) {
		if same(other, remote) && other.BootNonce != remote.BootNonce {
			nonces = append(nonces, other.BootNonce)
		}
	}
	add(self)
	n.mu.Lock()
	defer n.mu.Unlock()
	for conn := range n.conns {
		if same(&conn.Remote, remote) && conn.gone() {
			closeQuietly(conn.raw) // it was kept for later, and nobody has noticed: a process that is no more supersedes nobody
			continue
		}
		add(&conn.Remote)
	}
	slices.Sort(nonces)
	return slices.Compact(nonces)
}

// same tells whether two processes run under one identity.
func same(a, b *Hello) bool { return a.NodeID == b.NodeID && a.Incarnation == b.Incarnation }

// Called tells whether a node keeps a connection for a purpose to this one, which it has made.
func (n *Network) Called(id uint64, purpose Purpose) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for conn := range n.conns {
		if conn.Address == "" && conn.Remote.NodeID == id && conn.Purpose == purpose {
			return true
		}
	}
	return false
}

// supersede closes the connections of older processes of a node, so that they shake hands again and learn what they are:
// the same incarnation with a lower boot counter. Mostly those are the remains of a process that was killed.
func (n *Network) supersede(newest *Hello) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for conn := range n.conns {
		if conn.Remote.NodeID == newest.NodeID && conn.Remote.Incarnation == newest.Incarnation &&
			compareNonces(conn.Remote.BootNonce, newest.BootNonce) < 0 {
			closeQuietly(conn.raw)
		}
	}
}

// Reconsider closes the connections that a new verdict on their other end does not carry any more, so that both sides shake hands
// again. judge is asked for every connection, with what the other end said when it was made.
func (n *Network) Reconsider(judge func(remote *Hello) Verdict) {
	self := n.options.Hello()
	n.mu.Lock()
	defer n.mu.Unlock()
	for conn := range n.conns {
		if !Carries(conn.Purpose, &self, &conn.Remote, judge(&conn.Remote)) {
			closeQuietly(conn.raw)
		}
	}
}

// compareNonces compares the counters of two boot nonces that were checked.
func compareNonces(a, b string) int {
	counterA, _ := identity.NonceCounter(a)
	counterB, _ := identity.NonceCounter(b)
	return cmp.Compare(counterA, counterB)
}

// refuse logs and counts a refusal and returns it as an error.
func (n *Network) refuse(r *refusal) error {
	key := throttleKey{peer: r.Peer, reason: r.Reason}
	if r.Remote == nil && !r.ByPeer && (r.Peer == 0 || len(n.options.Addresses(r.Peer)) == 0) {
		// Whoever reaches the port may claim any id: it is no label of a metric, and has no line of its own.
		key.peer = 0
		key.host, _, _ = net.SplitHostPort(r.address)
	}
	if n.options.Refused != nil {
		n.options.Refused(key.peer, r.Reason)
	}
	if events, log := n.throttle.count(key); log {
		event := n.logger.Warn().Int("count", events)
		r.details(event)
		event.Msg(r.line())
	}
	return &r.RefusedError
}

// settle decides, when both verdicts are known, whether a connection serves its purpose. Both ends decide alike.
func (n *Network) settle(conn *Conn, self *Hello, connected []string) error {
	if n.options.Met != nil {
		n.options.Met(conn.Remote, conn.Verdict, conn.Judged)
	}
	n.settings.compare(self, &conn.Remote)
	if Carries(conn.Purpose, self, &conn.Remote, conn.Verdict, conn.Judged) {
		n.supersede(&conn.Remote)
		return nil
	}
	address := conn.Address
	if address == "" {
		address = conn.RemoteAddr().String()
	}
	found := func(verdict Verdict, byPeer bool) error {
		return n.refuse(&refusal{
			RefusedError: RefusedError{Peer: conn.Remote.NodeID, Reason: string(verdict), ByPeer: byPeer, Remote: &conn.Remote},
			self:         self, address: address, connected: connected,
		})
	}
	err := fmt.Errorf("%w: node %d or this one belongs to no cluster", ErrRetry, conn.Remote.NodeID)
	if conn.Judged != OK {
		err = found(conn.Judged, false)
	}
	// What the peer found about this node is what the caller must learn, so it is the one that is returned.
	if conn.Verdict != OK {
		if conn.Verdict == conn.Judged && conn.Verdict == Foreign {
			return &RefusedError{Peer: conn.Remote.NodeID, Reason: string(Foreign), ByPeer: true, Remote: &conn.Remote}
		}
		err = found(conn.Verdict, true)
	}
	return err
}
