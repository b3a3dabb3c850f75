package cluster

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// helloMaxBytes bounds the first frame of a connection (cluster.md 2.4).
	helloMaxBytes = 64 << 10
	// helloWithin bounds the wait for it.
	helloWithin = 10 * time.Second
	// dialWithin bounds the way from the proxy to the node, on one machine.
	dialWithin = 2 * time.Second
	// chunkBytes is the most that one direction of a connection holds back.
	chunkBytes = 64 << 10
)

// stranger is the caller of a connection whose first frame names nobody, such as one inside TLS. No rule meets it.
const stranger = 0

// Network carries the traffic between the nodes of a cluster through one proxy per node, at an address that stays the same
// over all restarts. The first frame of a connection says who calls; so every ordered pair of nodes is a link with a rule of
// its own, as if each packet passed a firewall that knows both ends.
//
// What a rule stops is held, not lost, as TCP holds what it has to send again: it arrives once the rule is lifted, unless one of
// the ends gave up meanwhile. The end of a connection is held like its bytes, so that a peer behind a cut does not learn that
// the other one has died. All methods may be called from any goroutine.
type Network struct {
	listeners map[uint64]net.Listener

	mutex   sync.Mutex
	rules   map[Link]Rule
	changed chan struct{} // closed at every change of the rules
	open    map[net.Conn]struct{}
	closed  bool

	running sync.WaitGroup
}

// Link is the way from one node to another.
type Link struct {
	From, To uint64
}

// Rule says what happens to the bytes on a link. The zero value lets them pass.
type Rule struct {
	Cut bool
	// Deaf holds chunks of so many bytes and more, with everything behind them on their connection; 0 holds none. It is what a
	// firewall does that drops packets by their length.
	Deaf int
	// Delay holds every chunk for so long. What arrives meanwhile follows it in one piece, so a byte waits for at most twice that.
	Delay time.Duration
}

func (r Rule) holds(bytes int) bool { return r.Cut || r.Deaf > 0 && bytes >= r.Deaf }

// NewNetwork opens a proxy in front of each of the nodes, whose own addresses are given by id.
func NewNetwork(nodes map[uint64]string) (*Network, error) {
	n := &Network{
		listeners: map[uint64]net.Listener{}, rules: map[Link]Rule{}, changed: make(chan struct{}), open: map[net.Conn]struct{}{},
	}
	for id, address := range nodes {
		if err := n.listen(id, address); err != nil {
			n.Close()
			return nil, err
		}
	}
	return n, nil
}

// listen opens a proxy at an address of its own in front of a node.
func (n *Network) listen(id uint64, address string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open proxy of node %d: %w", id, err)
	}
	n.mutex.Lock()
	n.listeners[id] = listener
	n.mutex.Unlock()
	n.running.Go(func() { n.accept(listener, id, address) })
	return nil
}

// Move gives a node that does not run another address, in front of its own one. Nobody answers at the former address any more.
func (n *Network) Move(id uint64, address string) error {
	n.mutex.Lock()
	former := n.listeners[id]
	n.mutex.Unlock()
	if err := n.listen(id, address); err != nil {
		return err
	}
	if err := former.Close(); err != nil {
		return fmt.Errorf("close former proxy of node %d: %w", id, err)
	}
	return nil
}

// Address is where the other nodes find a node.
func (n *Network) Address(id uint64) string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.listeners[id].Addr().String()
}

// Set gives a link a rule.
func (n *Network) Set(link Link, rule Rule) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.rules[link] = rule
	n.announce()
}

// Heal lifts all rules.
func (n *Network) Heal() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.rules = map[Link]Rule{}
	n.announce()
}

// Close ends all connections and waits for what carries them.
func (n *Network) Close() {
	n.mutex.Lock()
	n.closed = true
	for connection := range n.open {
		_ = connection.Close()
	}
	n.announce()
	n.mutex.Unlock()
	for _, listener := range n.listeners {
		_ = listener.Close()
	}
	n.running.Wait()
}

// announce wakes everybody who waits for a rule. The mutex is held.
func (n *Network) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// rule returns the rule of a link and a channel that is closed when it may have changed.
func (n *Network) rule(link Link) (Rule, <-chan struct{}, bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.rules[link], n.changed, !n.closed
}

// keep notes an open connection, which Close ends; false means that the network is closed.
func (n *Network) keep(connection net.Conn) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.closed {
		_ = connection.Close()
		return false
	}
	n.open[connection] = struct{}{}
	return true
}

func (n *Network) drop(connection net.Conn) {
	_ = connection.Close()
	n.mutex.Lock()
	defer n.mutex.Unlock()
	delete(n.open, connection)
}

// accept takes the connections to one node until its listener is closed.
func (n *Network) accept(listener net.Listener, to uint64, address string) {
	for {
		caller, err := listener.Accept()
		if err != nil {
			return
		}
		if !n.keep(caller) {
			return
		}
		n.running.Go(func() {
			defer n.drop(caller)
			n.carry(caller, to, address)
		})
	}
}

// carry takes one connection to its node, for as long as it lives.
func (n *Network) carry(caller net.Conn, to uint64, address string) {
	reader := bufio.NewReaderSize(caller, helloMaxBytes+4+1)
	if caller.SetReadDeadline(time.Now().Add(helloWithin)) != nil {
		return
	}
	from, helloBytes, err := peekCaller(reader)
	if err != nil || caller.SetReadDeadline(time.Time{}) != nil {
		return
	}
	// A connection comes about only when packets pass both ways.
	for _, link := range []Link{{from, to}, {to, from}} {
		if !n.awaitOpening(caller, reader, helloBytes, link) {
			return
		}
	}
	node, err := net.DialTimeout("tcp", address, dialWithin)
	if err != nil || !n.keep(node) {
		return
	}
	defer n.drop(node)
	pair := &pair{network: n, gone: make(chan struct{}), ends: []net.Conn{caller, node}}
	var both sync.WaitGroup
	both.Go(func() { pair.pump(Link{from, to}, reader, node) })
	both.Go(func() { pair.pump(Link{to, from}, node, caller) })
	both.Wait()
}

// peekCaller finds the caller in the first frame and its length, without taking it out of the reader.
func peekCaller(reader *bufio.Reader) (caller uint64, frameBytes int, err error) {
	head, err := reader.Peek(4)
	if err != nil {
		return stranger, 0, fmt.Errorf("read first frame: %w", err)
	}
	length := binary.BigEndian.Uint32(head)
	if length > helloMaxBytes {
		return stranger, 4, nil // no frame of ours
	}
	frame, err := reader.Peek(4 + int(length))
	if err != nil {
		return stranger, 0, fmt.Errorf("read first frame: %w", err)
	}
	var hello struct {
		Identity struct {
			NodeID uint64 `json:"nodeId"`
		} `json:"identity"`
	}
	if json.Unmarshal(frame[4:], &hello) != nil {
		return stranger, len(frame), nil
	}
	return hello.Identity.NodeID, len(frame), nil
}

// awaitOpening waits until a link lets a new connection pass; false means that the caller has given up first.
func (n *Network) awaitOpening(caller net.Conn, reader *bufio.Reader, helloBytes int, link Link) bool {
	if rule, _, alive := n.rule(link); alive && !rule.holds(0) {
		return true
	}
	// The caller says nothing before it is answered: whatever can be read now is its end.
	left := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		defer close(left)
		_, _ = reader.Peek(helloBytes + 1)
	})
	opened := n.await(link, 0, left)
	_ = caller.SetReadDeadline(time.Unix(1, 0)) // ends the watch
	watch.Wait()
	return opened && caller.SetReadDeadline(time.Time{}) == nil
}

// await waits until so many bytes may pass a link; false means that the connection or the network is gone.
func (n *Network) await(link Link, bytes int, gone <-chan struct{}) bool {
	for {
		rule, changed, alive := n.rule(link)
		if !alive {
			return false
		}
		if !rule.holds(bytes) {
			return wait(rule.Delay, gone)
		}
		select {
		case <-changed:
		case <-gone:
			return false
		}
	}
}

// wait lets time pass; false means that the channel was closed first.
func wait(duration time.Duration, gone <-chan struct{}) bool {
	if duration <= 0 {
		return true
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
		return false
	}
}

// pair is one connection and its continuation behind the proxy.
type pair struct {
	network *Network
	once    sync.Once
	gone    chan struct{}
	ends    []net.Conn
}

// pump carries one direction until an end of the connection has become known to the other one.
func (p *pair) pump(link Link, source io.Reader, target net.Conn) {
	defer p.end()
	buffer := make([]byte, chunkBytes)
	for {
		count, err := source.Read(buffer)
		if count > 0 {
			if !p.network.await(link, count, p.gone) {
				return
			}
			if _, err := target.Write(buffer[:count]); err != nil {
				// The target answers that it is gone, and the answer goes the other way.
				p.network.await(Link{link.To, link.From}, 0, p.gone)
				return
			}
		}
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			p.network.await(link, 0, p.gone)
			return
		}
	}
}

func (p *pair) end() {
	p.once.Do(func() {
		close(p.gone)
		for _, connection := range p.ends {
			_ = connection.Close()
		}
	})
}
