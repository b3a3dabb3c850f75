package raftlog

import (
	"context"
	"errors"
	"net"

	"github.com/hashicorp/raft"

	"queen/raftlog/link"
)

// connect builds what a group with a network has besides.
func (n *Node) connect() {
	n.herald = &herald{lastIndex: n.raft.LastIndex, servers: n.servers, self: n.self, nodes: map[raft.ServerID]*herding{}, send: n.transport.tell}
	n.uplink = &uplink{
		network: n.options.Network, counts: &n.counts, streams: n.options.ForwardStreams, logger: n.logger,
		leader: n.otherLeader, forward: n.proposer.forward, lost: n.proposer.takeBack,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}),
	}
	n.uplink.refused = n.proposer.refusedBy(n.uplink.links)
	n.proposer.toLeader = n.uplink.signal
	n.members = newMembers(n)
	n.exchange = newExchange(n, n.members)
	n.states = n.newStateSender()
	n.keeper.keepFrom = n.members.keepFrom
}

// serveLinks lets other nodes in, which take this one for the leader.
func (n *Node) serveLinks() {
	commands := func(from uint64) *link.Handler {
		take := func(c link.Command, refused func(link.Reason)) { n.takeForwarded(from, c, refused) }
		return &link.Handler{Command: take, Call: n.answerCall, Reason: reasonOf}
	}
	reads := func(uint64) *link.Handler {
		return &link.Handler{Command: refuseCommand, Call: n.reads.answerRead, Reason: reasonOf}
	}
	n.options.Network.Handle(PurposeCommand, n.serveWith(commands))
	n.options.Network.Handle(PurposeRead, n.serveWith(reads))
	n.options.Network.Handle(PurposeStatus, n.serveConn(n.exchange.answer))
	n.options.Network.Handle(PurposeSnapshot, n.serveConn(n.serveState))
}

func (n *Node) serveWith(handler func(from uint64) *link.Handler) func(uint64, net.Conn) {
	return n.serveConn(func(ctx context.Context, from uint64, conn net.Conn) {
		err := link.Serve(ctx, conn, handler(from))
		n.logger.Debug().Err(err).Uint64("node", from).Msg("raft: link ended")
	})
}

// serveConn serves a connection until it ends or the node stops.
func (n *Node) serveConn(serve func(ctx context.Context, from uint64, conn net.Conn)) func(uint64, net.Conn) {
	return func(from uint64, conn net.Conn) {
		n.mu.Lock()
		if n.closing || n.failure != nil {
			n.mu.Unlock()
			_ = conn.Close()
			return
		}
		n.serving.Add(1)
		n.mu.Unlock()
		defer n.serving.Done()
		serve(n.links, from, conn)
	}
}

// stopServing ends the links of other nodes, and with them their calls, which ask the next leader.
func (n *Node) stopServing() {
	if n.options.Network == nil {
		return
	}
	for _, purpose := range []Purpose{PurposeCommand, PurposeRead, PurposeStatus, PurposeSnapshot} {
		n.options.Network.Handle(purpose, nil)
	}
	n.closeLinks()
	n.serving.Wait()
	n.states.Close()
}

func refuseCommand(_ link.Command, refused func(link.Reason)) { refused(reasonOf(ErrNotLeader)) }

var errNoCalls = errors.New("this node answers no calls")

// answerCall answers CallLeader of another node.
func (n *Node) answerCall(ctx context.Context, request []byte) ([]byte, error) {
	term, _, _, closed := n.proposer.leadership()
	switch {
	case closed != nil:
		return nil, closed
	case term == 0:
		return nil, ErrNotLeader
	case n.options.Call == nil:
		return nil, errNoCalls
	}
	return n.options.Call(ctx, request)
}

// tell sends news of a commit. A node that does not answer has it later.
func (t *transport) tell(id raft.ServerID, target raft.ServerAddress, request *raft.AppendEntriesRequest) error {
	t.mu.Lock()
	silent := t.silent[id] != nil
	t.mu.Unlock()
	if silent {
		return errSilent
	}
	var response raft.AppendEntriesResponse
	return t.NetworkTransport.AppendEntries(id, target, request, &response)
}

var errSilent = errors.New("the node does not answer")
