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
	// now is the time of the group as this node knows it.
	now func() uint64
	// uplink asks the leader; nil in a group without a network.
	uplink *uplink
	// rounds counts the confirmations that the lease did not give.
	rounds atomic.Uint64
	// votes asks the voters, when this node leads; leader asks the leader, when it does not.
	votes, leader rounds
}

// readPoint is what a read waits for: that the entry at index is applied. nowMicros is the time of the leader of the term at an
// instant after the read began, at which it still led.
type readPoint struct{ term, index, nowMicros uint64 }

func newReadIndexer(n *Node) *readIndexer {
	r := &readIndexer{raft: n.raft, proposer: n.proposer, log: n.log, now: n.Now, uplink: n.uplink}
	if n.members != nil {
		r.leaseHolds = n.members.leaseHolds
	}
	r.votes.ask, r.leader.ask = r.askVoters, r.askLeader
	return r
}

// point returns a commit index that was valid after the call began. It waits for a leader as long as ctx allows. Without a network, a
// node that knows another leader answers ErrNotLeader at once, and one that the group does not count in any more ErrNoLeader.
func (r *readIndexer) point(ctx context.Context) (readPoint, error) {
	for {
		term, ready, changed, closed := r.proposer.leadership()
		switch {
		case closed != nil:
			return readPoint{}, closed
		case r.proposer.stranded():
			return readPoint{}, ErrNoLeader
		case ready:
			point, err := r.confirm(ctx, term)
			if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
				return point, err
			}
		case term == 0 && r.uplink != nil:
			if _, err := r.uplink.await(ctx, changed); err == nil {
				round, err := r.leader.wait(ctx)
				if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
					return round.readPoint, err
				}
				continue // the links have ended: the next ones are awaited
			} else if !errors.Is(err, ErrNotLeader) {
				return readPoint{}, err
			}
			continue
		case term == 0 && r.proposer.leaderElsewhere():
			return readPoint{}, ErrNotLeader
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return readPoint{}, errors.Join(ErrNoLeader, context.Cause(ctx))
		}
	}
}

// confirm returns the commit index after making sure that this node still leads in the term.
func (r *readIndexer) confirm(ctx context.Context, term uint64) (readPoint, error) {
	point := readPoint{term: term, index: r.raft.CommitIndex(), nowMicros: r.now()}
	if r.log.soleVoter.Load() && r.raft.State() == raft.Leader && r.raft.CurrentTerm() == term {
		// Nobody else can be elected without this node: its own word is a majority.
		return point, nil
	}
	if r.leaseHolds != nil && r.leaseHolds(term) && r.raft.State() == raft.Leader && r.raft.CurrentTerm() == term {
		// The index was read before: what was committed before that, this node has committed.
		return point, nil
	}
	r.rounds.Add(1)
	round, err := r.votes.wait(ctx)
	if err == nil && round.term != term {
		return readPoint{}, ErrNotLeader
	}
	return round.readPoint, err
}

// askVoters takes the commit index and makes sure that this node leads.
func (r *readIndexer) askVoters() (readPoint, error) {
	point := readPoint{term: r.raft.CurrentTerm(), index: r.raft.CommitIndex(), nowMicros: r.now()}
	if err := r.raft.VerifyLeader().Error(); err != nil {
		return readPoint{}, errors.Join(ErrNotLeader, err)
	}
	if r.raft.CurrentTerm() != point.term {
		// Leadership was lost and won again: another leader may have committed in between.
		return readPoint{}, ErrNotLeader
	}
	return point, nil
}

// readTimeout is how long the leader may take to confirm itself before its link is given up.
const readTimeout = 5 * time.Second

// A read point on its way to another node is index and time, of eight bytes each. The time is left out for a node that does not
// ask for it, as those do that know nothing of it, and by such a leader.
const (
	readIndexBytes = 8
	readPointBytes = 16
)

// askForTime is the request of a node that wants the time too.
var askForTime = []byte{1}

// askLeader asks the leader for a commit index and its time.
func (r *readIndexer) askLeader() (readPoint, error) {
	links := r.uplink.links()
	if links == nil {
		return readPoint{}, ErrNotLeader
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	answer, err := links.reads.Call(ctx, askForTime)
	if ctx.Err() != nil {
		links.end()
		return readPoint{}, fmt.Errorf("%w: the leader does not confirm itself", ErrNotLeader)
	}
	if err := links.answerOf(err); err != nil {
		return readPoint{}, err
	}
	switch len(answer) {
	case readIndexBytes:
		return readPoint{index: binary.BigEndian.Uint64(answer)}, nil
	case readPointBytes:
		return readPoint{index: binary.BigEndian.Uint64(answer), nowMicros: binary.BigEndian.Uint64(answer[readIndexBytes:])}, nil
	default:
		return readPoint{}, fmt.Errorf("%w: a read point of %d bytes", ErrNotLeader, len(answer))
	}
}

// answerRead answers askLeader of another node.
func (r *readIndexer) answerRead(ctx context.Context, request []byte) ([]byte, error) {
	term, ready, _, closed := r.proposer.leadership()
	switch {
	case closed != nil:
		return nil, closed
	case !ready:
		return nil, ErrNotLeader
	}
	point, err := r.confirm(ctx, term)
	if err != nil {
		return nil, err
	}
	answer := binary.BigEndian.AppendUint64(make([]byte, 0, readPointBytes), point.index)
	if len(request) > 0 {
		answer = binary.BigEndian.AppendUint64(answer, point.nowMicros)
	}
	return answer, nil
}

// close lets no further round begin and waits for those that are under way: the library never answers a round that it
// finds in its channel when it shuts down.
func (r *readIndexer) close() {
	r.votes.close()
	r.leader.close()
}
