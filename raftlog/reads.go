package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// readIndexer answers what index a linearizable read has to wait for (cluster 9): the commit index of the leader, which makes
// sure that it still leads after the read has begun. Reads share the asking.
type readIndexer struct {
	raft     *raft.Raft
	proposer *proposer
	log      *logStore
	// leaseHolds tells whether this node is sure to lead in a term without asking; nil in a group without a network.
	leaseHolds func(term uint64) bool
	// uplink asks the leader; nil in a group without a network.
	uplink *uplink
	// rounds counts the confirmations that the lease did not give.
	rounds atomic.Uint64
	// votes asks the voters, when this node leads; leader asks the leader, when it does not.
	votes, leader rounds
}

func newReadIndexer(n *Node) *readIndexer {
	r := &readIndexer{raft: n.raft, proposer: n.proposer, log: n.log, uplink: n.uplink}
	if n.members != nil {
		r.leaseHolds = n.members.leaseHolds
	}
	r.votes.ask, r.leader.ask = r.askVoters, r.askLeader
	return r
}

// index returns a commit index that was valid after the call began. It waits for a leader as long as ctx allows. Without a network, a
// node that knows another leader answers ErrNotLeader at once, and one that the group does not count in any more ErrNoLeader.
func (r *readIndexer) index(ctx context.Context) (uint64, error) {
	for {
		term, ready, changed, closed := r.proposer.leadership()
		switch {
		case closed != nil:
			return 0, closed
		case r.proposer.stranded():
			return 0, ErrNoLeader
		case ready:
			index, err := r.confirm(ctx, term)
			if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
				return index, err
			}
		case term == 0 && r.uplink != nil:
			if _, err := r.uplink.await(ctx, changed); err == nil {
				round, err := r.leader.wait(ctx)
				if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
					return round.index, err
				}
				continue // the links have ended: the next ones are awaited
			} else if !errors.Is(err, ErrNotLeader) {
				return 0, err
			}
			continue
		case term == 0 && r.proposer.leaderElsewhere():
			return 0, ErrNotLeader
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, errors.Join(ErrNoLeader, context.Cause(ctx))
		}
	}
}

// confirm returns the commit index after making sure that this node still leads in the term.
func (r *readIndexer) confirm(ctx context.Context, term uint64) (uint64, error) {
	index := r.raft.CommitIndex()
	if r.log.soleVoter.Load() && r.raft.State() == raft.Leader && r.raft.CurrentTerm() == term {
		// Nobody else can be elected without this node: its own word is a majority.
		return index, nil
	}
	if r.leaseHolds != nil && r.leaseHolds(term) && r.raft.State() == raft.Leader && r.raft.CurrentTerm() == term {
		// The index was read before: what was committed before that, this node has committed.
		return index, nil
	}
	r.rounds.Add(1)
	round, err := r.votes.wait(ctx)
	if err == nil && round.term != term {
		return 0, ErrNotLeader
	}
	return round.index, err
}

// askVoters takes the commit index and makes sure that this node leads.
func (r *readIndexer) askVoters() (term, index uint64, err error) {
	term, index = r.raft.CurrentTerm(), r.raft.CommitIndex()
	if err := r.raft.VerifyLeader().Error(); err != nil {
		return 0, 0, errors.Join(ErrNotLeader, err)
	}
	if r.raft.CurrentTerm() != term {
		// Leadership was lost and won again: another leader may have committed in between.
		return 0, 0, ErrNotLeader
	}
	return term, index, nil
}

// readTimeout is how long the leader may take to confirm itself before its link is given up.
const readTimeout = 5 * time.Second

// askLeader asks the leader for a commit index.
func (r *readIndexer) askLeader() (term, index uint64, err error) {
	links := r.uplink.links()
	if links == nil {
		return 0, 0, ErrNotLeader
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	answer, err := links.reads.Call(ctx, nil)
	if ctx.Err() != nil {
		links.end()
		return 0, 0, fmt.Errorf("%w: the leader does not confirm itself", ErrNotLeader)
	}
	if err := links.answerOf(err); err != nil {
		return 0, 0, err
	}
	if len(answer) != 8 {
		return 0, 0, fmt.Errorf("%w: an index of %d bytes", ErrNotLeader, len(answer))
	}
	return 0, binary.BigEndian.Uint64(answer), nil
}

// answerRead answers askLeader of another node.
func (r *readIndexer) answerRead(ctx context.Context, _ []byte) ([]byte, error) {
	term, ready, _, closed := r.proposer.leadership()
	switch {
	case closed != nil:
		return nil, closed
	case !ready:
		return nil, ErrNotLeader
	}
	index, err := r.confirm(ctx, term)
	if err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint64(nil, index), nil
}

// close lets no further round begin and waits for those that are under way: the library never answers a round that it
// finds in its channel when it shuts down.
func (r *readIndexer) close() {
	r.votes.close()
	r.leader.close()
}
