package raftlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// connectionsKept is how many idle connections to one node are kept: one for the entries, one for heartbeats, one for
	// votes or news of a commit.
	connectionsKept = 3
	// ioTimeout is how long one step of a call of the library may take: the other side fsyncs what it got before it
	// answers. A connection that hangs longer is given up, since a new one is sooner heard than what TCP sends again.
	ioTimeout = 3 * time.Second
	// probeInterval is how often a node that does not answer is dialed.
	probeInterval = 100 * time.Millisecond
)

// errGuarded is what this node answers to the library of another one while it must not count for anything there: neither as
// a vote nor as a contact (cluster 2.6).
var errGuarded = errors.New("this node takes no part in the group now")

// transport carries the calls of the library. It is the library's own network transport between nodes, with four changes:
// entries for a node that does not answer wait until it does, since the library would wait longer after each failure; a
// snapshot never travels through the library, and appends in front of the log that a state has left are rebased; calls that
// would break a lease are refused; and a guarded node answers with errors, asks for no votes and leads nobody.
type transport struct {
	*raft.NetworkTransport
	stream *streamLayer
	// guarded says whether this node takes part in nothing.
	guarded func() bool
	// base is the entry behind which this node's log begins: up to there everything is committed and applied here.
	base func() uint64
	// started is closed when refusal and takeOverTerm may be asked.
	started <-chan struct{}
	// refusal returns why a call of another node is not for the library of this one; nil when it is.
	refusal func(raft.RPC) error
	// takeOverTerm is the term in which this node hands leadership over.
	takeOverTerm func() uint64
	// install is asked about the snapshot that a leader offers; nil means that everything up to the index is here, durably.
	install func(leader uint64, index uint64) error
	// last is the end of this node's log.
	last   func() (uint64, error)
	calls  chan raft.RPC
	logger *libraryLogger

	stop    chan struct{}
	stopped sync.WaitGroup

	mu sync.Mutex
	// reached is how far each node's log goes, as far as this node has brought it outside of a pipeline.
	reached map[raft.ServerID]uint64
	// silent are the nodes that failed to answer, each with a channel that is closed when it answers again.
	silent map[raft.ServerID]chan struct{}
	// waits says that this node leads: only then does anybody wait for a silent node. ended says that it never will again.
	waits, ended bool
	// released is closed when waits ends.
	released chan struct{}
}

func newTransport(n *Node, logger *libraryLogger) *transport {
	o := &n.options
	stream := &streamLayer{
		network: o.Network, self: raft.ServerAddress(o.Address), incoming: make(chan net.Conn), closed: make(chan struct{})}
	o.Network.Handle(PurposeRaft, stream.serve)
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			ServerAddressProvider: byID{},
			Logger:                logger,
			Stream:                stream,
			MaxPool:               connectionsKept,
			// Entries are batches: one on its way while the next is prepared is enough, and more delays all of them.
			MaxRPCsInFlight: raft.DefaultMaxRPCsInFlight,
			Timeout:         ioTimeout,
		}),
		stream: stream, guarded: o.guarded, install: n.offeredState, base: n.logBase, started: n.started, refusal: n.refusal,
		takeOverTerm: n.handedOver.Load, logger: logger, calls: make(chan raft.RPC), stop: make(chan struct{}),
		silent: map[raft.ServerID]chan struct{}{}, released: make(chan struct{}), reached: map[raft.ServerID]uint64{}, last: n.log.LastIndex,
	}
	t.stopped.Go(t.receive)
	return t
}

// byID makes the transport dial nodes by their id: where a node is, the network knows.
type byID struct{}

// ServerAddr implements raft.ServerAddressProvider.
func (byID) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	return raft.ServerAddress(id), nil
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.calls }

// receive passes the calls of other nodes on to the library, save those that are not its business.
func (t *transport) receive() {
	select {
	case <-t.started:
	case <-t.stop:
		return
	}
	for {
		select {
		case call := <-t.NetworkTransport.Consumer():
			if t.guarded() {
				call.Respond(nil, errGuarded)
				continue
			}
			if err := t.refusal(call); err != nil {
				call.Respond(nil, err)
				continue
			}
			switch request := call.Command.(type) {
			case *raft.InstallSnapshotRequest:
				t.offered(call, request)
				continue
			case *raft.AppendEntriesRequest:
				rebase(request, t.base())
			}
			select {
			case t.calls <- call:
			case <-t.stop:
				call.Respond(nil, raft.ErrTransportShutdown)
				return
			}
		case <-t.stop:
			return
		}
	}
}

// takeOver makes the only voter of a group stand for election at once, as campaign does without a network.
func (t *transport) takeOver(self raft.ServerID) {
	request := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(self), Addr: []byte(t.stream.self)}}
	t.stopped.Go(func() {
		select {
		// The library answers into a channel that has room for it.
		case t.calls <- raft.RPC{Command: request, RespChan: make(chan raft.RPCResponse, 1)}:
		case <-t.stop:
		}
	})
}

// offered answers a leader that has cut its log behind what this node has. State does not travel through the library, which
// would stop applying meanwhile and cannot resume (cluster 20, note 12).
func (t *transport) offered(call raft.RPC, request *raft.InstallSnapshotRequest) {
	err := t.install(nodeID(raft.ServerID(request.ID)), request.LastLogIndex)
	if err != nil {
		call.Respond(nil, err)
		return
	}
	call.Respond(&raft.InstallSnapshotResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: request.Term, Success: true}, nil)
}

// SetHeartbeatHandler implements raft.Transport.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	if handle == nil {
		t.NetworkTransport.SetHeartbeatHandler(nil)
		return
	}
	t.NetworkTransport.SetHeartbeatHandler(func(call raft.RPC) {
		if t.guarded() {
			call.Respond(nil, errGuarded)
			return
		}
		handle(call)
	})
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, request *raft.RequestVoteRequest,
	response *raft.RequestVoteResponse) error {
	if t.guarded() {
		return errGuarded
	}
	return overStale(func() error { return t.NetworkTransport.RequestVote(id, target, request, response) })
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, request *raft.RequestPreVoteRequest,
	response *raft.RequestPreVoteResponse) error {
	if t.guarded() {
		return errGuarded
	}
	return overStale(func() error { return t.NetworkTransport.RequestPreVote(id, target, request, response) })
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, request *raft.TimeoutNowRequest,
	response *raft.TimeoutNowResponse) error {
	marked := takeOver(request, t.takeOverTerm())
	return overStale(func() error { return t.NetworkTransport.TimeoutNow(id, target, marked, response) })
}

// overStale repeats a call, which does no harm twice, over the connections that are kept to a node: all of them are dead
// when it was started again, and a vote that is lost to that costs an election time-out.
func overStale(call func() error) error {
	err := call()
	for tries := 0; tries < connectionsKept && isStale(err); tries++ {
		err = call()
	}
	return err
}

func isStale(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// AppendEntries implements raft.Transport. To a node that has not answered last time it waits until it can be reached.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, request *raft.AppendEntriesRequest,
	response *raft.AppendEntriesResponse) error {
	if t.guarded() {
		return errGuarded
	}
	if err := t.awaitNode(id); err != nil {
		return err
	}
	request.Entries = oneCall(request.Entries)
	err := t.NetworkTransport.AppendEntries(id, target, request, response)
	switch {
	case err != nil:
		t.noteSilent(id)
	case response.Success && len(request.Entries) > 0: // a heartbeat says nothing about the log
		t.mu.Lock()
		t.reached[id] = request.PrevLogEntry + uint64(len(request.Entries))
		t.mu.Unlock()
	}
	return err
}

// farBehind is how many entries a node may lack for a pipeline to it to begin: two calls full of them.
const farBehind = 2 * maxAppendEntries

// behind tells whether a node whose log will go up to an index lacks so many entries that they go to it one call after the other. In a
// pipeline the library sends one call for each new entry, or each CommitTimeout when there is none: a node that was away would wait for
// hours on a quiet leader.
func (t *transport) behind(reached uint64) bool {
	last, err := t.last()
	return err == nil && last > reached+farBehind
}

func (t *transport) reachedBy(id raft.ServerID) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reached[id]
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	if t.guarded() {
		return nil, errGuarded
	}
	if err := t.awaitNode(id); err != nil {
		return nil, err
	}
	if t.behind(t.reachedBy(id)) {
		return nil, raft.ErrPipelineReplicationNotSupported // the library goes on without one, and asks again when it is through
	}
	pipeline, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		t.noteSilent(id)
		return nil, err
	}
	return impatientPipeline{pipeline, t}, nil
}

// impatientPipeline gives a pipeline up that takes nothing any more. The library's own stops to look at answers after one that is
// adverse, and what it sends after that waits for ever: the follower gets nothing in that term, and the library never stops. It is given
// up as well when the node has fallen far behind.
type impatientPipeline struct {
	raft.AppendPipeline
	transport *transport
}

var errFarBehind = errors.New("the node is far behind: its entries go one call after the other")

// callBytes is how many bytes of entries one call carries, its first entry aside.
const callBytes = 8 << 20

// oneCall cuts what the library wants to send at once to what can be sent and fsynced within ioTimeout. It counts entries only, and 64
// may have 48 MiB each: such a call ends at its time limit, is made again, and a node that was away never gets level. The library
// goes on behind the last entry that the request holds when the call returns.
func oneCall(entries []*raft.Log) []*raft.Log {
	bytes := 0
	for i, entry := range entries {
		if bytes += len(entry.Data); bytes > callBytes && i > 0 {
			return entries[:i]
		}
	}
	return entries
}

// AppendEntries implements raft.AppendPipeline.
func (p impatientPipeline) AppendEntries(request *raft.AppendEntriesRequest, response *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	request.Entries = oneCall(request.Entries)
	if p.transport.behind(request.PrevLogEntry + uint64(len(request.Entries))) {
		return nil, errFarBehind
	}
	giveUp := time.AfterFunc(ioTimeout, func() { _ = p.Close() }) // of no interest: it is given up
	defer giveUp.Stop()
	return p.AppendPipeline.AppendEntries(request, response)
}

var errNotAwaited = errors.New("the node does not answer, and this node does not lead any more")

// awaitNode returns when a node that did not answer can be reached again.
func (t *transport) awaitNode(id raft.ServerID) error {
	t.mu.Lock()
	heard, released, waits := t.silent[id], t.released, t.waits
	t.mu.Unlock()
	switch {
	case heard == nil:
		return nil
	case !waits:
		return errNotAwaited
	}
	select {
	case <-heard:
		return nil
	case <-released:
		return errNotAwaited
	case <-t.stop:
		return raft.ErrTransportShutdown
	}
}

// noteSilent begins to look for a node that failed to answer. The library's goroutines of a term may still fail when it is over.
func (t *transport) noteSilent(id raft.ServerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waits && t.silent[id] == nil {
		heard := make(chan struct{})
		t.silent[id] = heard
		t.stopped.Go(func() { t.probe(id, heard) })
	}
}

// probe dials a silent node until it answers or the term is over.
func (t *transport) probe(id raft.ServerID, heard chan struct{}) {
	t.mu.Lock()
	released := t.released
	t.mu.Unlock()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for answered := false; !answered; {
		select {
		case <-heard: // nobody waits any more
			return
		case <-pause.C:
			pause.Reset(probeInterval)
			if conn, err := t.stream.Dial(raft.ServerAddress(id), ioTimeout); err == nil {
				answered = true
				_ = conn.Close()
			}
		case <-released:
			answered = true
		case <-t.stop:
			answered = true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hearLocked(id, heard)
}

// hearLocked ends a silence, unless that has been done.
func (t *transport) hearLocked(id raft.ServerID, heard chan struct{}) {
	if t.silent[id] == heard && heard != nil {
		close(heard)
		delete(t.silent, id)
	}
}

// forget ends the waiting for a node that is no member any more.
func (t *transport) forget(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hearLocked(serverID(id), t.silent[serverID(id)])
}

// lead begins a term in which silent nodes are waited for.
func (t *transport) lead() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits = !t.ended
}

// release ends all waiting for silent nodes; called when this node has stopped to lead.
func (t *transport) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releaseLocked()
}

func (t *transport) releaseLocked() {
	t.waits = false
	close(t.released)
	t.released = make(chan struct{})
}

// end releases whoever waits, for good. The library waits for its goroutines before it closes the transport.
func (t *transport) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.releaseLocked()
}

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.mu.Lock()
	select {
	case <-t.stop:
		t.mu.Unlock()
		return nil
	default:
	}
	close(t.stop)
	t.mu.Unlock()
	err := t.NetworkTransport.Close()
	t.CloseStreams()
	t.stopped.Wait()
	return err
}

// streamLayer gives the library's transport its connections.
type streamLayer struct {
	network  Network
	self     raft.ServerAddress
	incoming chan net.Conn
	close    sync.Once
	closed   chan struct{}
}

// serve hands a connection of another node over.
func (s *streamLayer) serve(_ uint64, conn net.Conn) {
	select {
	case s.incoming <- conn:
	case <-s.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (s *streamLayer) Accept() (net.Conn, error) {
	select {
	case conn := <-s.incoming:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *streamLayer) Close() error {
	s.close.Do(func() {
		s.network.Handle(PurposeRaft, nil)
		close(s.closed)
	})
	return nil
}

// Addr implements net.Listener: the address of this node in the membership.
func (s *streamLayer) Addr() net.Addr { return memberAddr(s.self) }

// memberAddr is an address in the membership.
type memberAddr string

// Network implements net.Addr.
func (memberAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a memberAddr) String() string { return string(a) }

// Dial implements raft.StreamLayer. The address is a node's id, see byID.
func (s *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	node, err := strconv.ParseUint(string(address), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("dial node %q: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.network.Dial(ctx, node, PurposeRaft)
}
