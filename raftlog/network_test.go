package raftlog

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// testNetwork connects the nodes of a test over loopback sockets, and cuts them off from each other when told to.
type testNetwork struct {
	t        testing.TB
	mu       sync.Mutex
	handlers map[uint64]map[Purpose]func(uint64, net.Conn)
	conns    map[*testConn]struct{}
	cut      map[[2]uint64]bool
	serving  sync.WaitGroup
}

func newTestNetwork(t testing.TB) *testNetwork {
	n := &testNetwork{t: t, handlers: map[uint64]map[Purpose]func(uint64, net.Conn){}, conns: map[*testConn]struct{}{}, cut: map[[2]uint64]bool{}}
	t.Cleanup(n.serving.Wait)
	return n
}

// port is the raft port of one node.
func (n *testNetwork) port(node uint64) *testPort { return &testPort{network: n, node: node} }

type testPort struct {
	network *testNetwork
	node    uint64
}

type testConn struct {
	net.Conn
	network  *testNetwork
	from, to uint64
}

func (c *testConn) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}

var errCut = errors.New("the test has cut the nodes off from each other")

func (p *testPort) Dial(_ context.Context, node uint64, purpose Purpose) (net.Conn, error) {
	n := p.network
	n.mu.Lock()
	serve, cut := n.handlers[node][purpose], n.cut[[2]uint64{p.node, node}]
	n.mu.Unlock()
	if cut || serve == nil {
		return nil, errCut
	}
	near, far := n.pair()
	mine := &testConn{Conn: near, network: n, from: p.node, to: node}
	theirs := &testConn{Conn: far, network: n, from: p.node, to: node}
	n.mu.Lock()
	cut = n.cut[[2]uint64{p.node, node}] // meanwhile
	if !cut {
		n.conns[mine], n.conns[theirs] = struct{}{}, struct{}{}
	}
	n.mu.Unlock()
	if cut {
		return nil, errors.Join(errCut, near.Close(), far.Close())
	}
	n.serving.Go(func() { serve(p.node, theirs) })
	return mine, nil
}

func (n *testNetwork) pair() (near, far net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Error(err)
		return net.Pipe()
	}
	near, err = net.Dial("tcp", listener.Addr().String())
	if err != nil {
		n.t.Error(err)
		return net.Pipe()
	}
	if far, err = listener.Accept(); err != nil {
		n.t.Error(err)
	}
	if err := listener.Close(); err != nil {
		n.t.Error(err)
	}
	return near, far
}

func (p *testPort) Handle(purpose Purpose, serve func(uint64, net.Conn)) {
	n := p.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.handlers[p.node] == nil {
		n.handlers[p.node] = map[Purpose]func(uint64, net.Conn){}
	}
	n.handlers[p.node][purpose] = serve
}

// setCut cuts a node off from all others, or connects it again.
func (n *testNetwork) setCut(node uint64, cut bool) {
	n.mu.Lock()
	var broken []*testConn
	for other := range n.handlers {
		n.cut[[2]uint64{node, other}], n.cut[[2]uint64{other, node}] = cut, cut
	}
	for conn := range n.conns {
		if cut && (conn.from == node || conn.to == node) {
			broken = append(broken, conn)
		}
	}
	n.mu.Unlock()
	for _, conn := range broken {
		_ = conn.Close() // whatever it says: it is gone
	}
}
