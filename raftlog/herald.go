package raftlog

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// herald tells the other nodes of a commit at once when no entry follows that would: their clients wait for it. The library
// alone tells them with its next message, and sends one every commitTimeout.
//
// It is an empty append that names the last committed entry, so that a follower whose log differs there refuses it.
type herald struct {
	// lastIndex is the end of the log, servers the newest membership in it.
	lastIndex func() uint64
	servers   func() []raft.Server
	send      func(id raft.ServerID, target raft.ServerAddress, request *raft.AppendEntriesRequest) error
	self      raft.ServerID

	mu      sync.Mutex
	nodes   map[raft.ServerID]*herding
	closed  bool
	running sync.WaitGroup
}

// herding is the newest commit that one node is to hear of. One message is under way at a time.
type herding struct {
	newest  atomic.Pointer[commitNews]
	running atomic.Bool
}

type commitNews struct{ term, index, entryTerm uint64 }

// tell is called by the apply goroutine of the leader with the last of the entries that are committed.
func (h *herald) tell(term, index, entryTerm uint64) {
	if h.lastIndex() != index {
		return // what follows tells it
	}
	for _, server := range h.servers() {
		if server.ID == h.self {
			continue
		}
		h.mu.Lock()
		node := h.nodes[server.ID]
		if node == nil {
			node = &herding{}
			h.nodes[server.ID] = node
		}
		node.newest.Store(&commitNews{term: term, index: index, entryTerm: entryTerm})
		if !h.closed && node.running.CompareAndSwap(false, true) {
			h.running.Go(func() { h.run(node, server) })
		}
		h.mu.Unlock()
	}
}

func (h *herald) run(node *herding, server raft.Server) {
	for {
		for news := node.newest.Swap(nil); news != nil; news = node.newest.Swap(nil) {
			err := h.send(server.ID, server.Address, &raft.AppendEntriesRequest{
				RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(h.self), Addr: []byte(h.self)},
				Term:      news.term, PrevLogEntry: news.index, PrevLogTerm: news.entryTerm, LeaderCommitIndex: news.index,
			})
			if err != nil {
				break // the node hears of it when it can be reached again
			}
		}
		node.running.Store(false)
		if node.newest.Load() == nil || !node.running.CompareAndSwap(false, true) {
			return
		}
	}
}

// close sends nothing more and waits for what is under way.
func (h *herald) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.running.Wait()
}
