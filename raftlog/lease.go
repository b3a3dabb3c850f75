package raftlog

import (
	"errors"
	"strconv"
	"time"

	"github.com/hashicorp/raft"
)

// The lease lets the leader confirm itself without asking anybody (cluster 9): a majority of the voters is known to have
// recognised it so recently that none of them can have voted for another node since. It rests on what a voter does:
//
//  1. A voter that recognises a leader votes for nobody else until it has heard nothing of it for QUEEN_RAFT_ELECTION_MS, which
//     is longer than the lease, except for a node to which that leader hands over. The library sees to it.
//  2. A leader that has begun to hand over uses no lease for the rest of the term. A request to take over that comes late, in a
//     later term, is refused: it would make its receiver ask for votes that voters give in spite of rule 1.
//  3. A voter that was started again has forgotten whom it recognised, so it votes for nobody for that long.

// defaultLeaseMs is QUEEN_CONSUME_LEADER_LEASE_MS, where the election time-out allows it.
const defaultLeaseMs = 400

// lease is how old a quorum acknowledgement may be for the lease to hold.
func (o *Options) lease() time.Duration {
	ms := o.LeaderLeaseMs
	if ms == 0 {
		ms = min(defaultLeaseMs, o.ElectionMs*4/5)
	}
	return time.Duration(ms) * time.Millisecond
}

// leaseHolds tells whether this node is sure to lead in the term, without asking anybody.
func (m *members) leaseHolds(term uint64) bool {
	if m.node.handedOver.Load() == term {
		return false
	}
	now := exactly(m.node.options.Clock)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term == term && now-m.quorumLocked(now) < m.node.options.lease()
}

var (
	// errNewcomer is what a voter answers that may have forgotten whom it recognised.
	errNewcomer = errors.New("this node has just been started, and may have recognised a leader before")
	// errLateTakeOver is what a node answers that is asked to take over by somebody else than its leader, or by that in an
	// earlier term.
	errLateTakeOver = errors.New("the request to take over is not of the leader that this node recognises")
)

// firstVote is the monotonic instant before which this node votes for nobody: an election time-out after its start, unless it has
// never taken part in an election.
func (n *Node) firstVote() time.Duration {
	if n.raft.CurrentTerm() <= firstTerm {
		return longAgo
	}
	return n.openedAt + time.Duration(n.options.ElectionMs)*time.Millisecond
}

// refusal returns why a call of another node's library is not for this node's; nil when it is.
func (n *Node) refusal(call raft.RPC) error {
	switch request := call.Command.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest:
		if n.options.Clock.Monotonic() < n.votesFrom {
			return errNewcomer
		}
	case *raft.TimeoutNowRequest:
		leader, term := readTakeOver(request)
		if leader == 0 || leader != n.otherLeader() || term != n.raft.CurrentTerm() {
			return errLateTakeOver
		}
	}
	return nil
}

// takeOver is the request to take over, with the term in which it is made where the library has an address that nobody reads.
func takeOver(request *raft.TimeoutNowRequest, term uint64) *raft.TimeoutNowRequest {
	header := request.RPCHeader
	header.Addr = strconv.AppendUint(nil, term, 10)
	return &raft.TimeoutNowRequest{RPCHeader: header}
}

func readTakeOver(request *raft.TimeoutNowRequest) (leader, term uint64) {
	term, err := strconv.ParseUint(string(request.Addr), 10, 64)
	if err != nil {
		return 0, 0
	}
	return nodeID(raft.ServerID(request.ID)), term
}
