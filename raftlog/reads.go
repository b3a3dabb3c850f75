package raftlog

import (
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/raft"
)

// readIndexer answers what index a linearizable read has to wait for. Reads that ask while a round to the voters is under
// way share the next one.
type readIndexer struct {
	raft     *raft.Raft
	proposer *proposer
	log      *logStore

	mu      sync.Mutex
	next    *readRound
	running bool
	closed  bool
	rounds  sync.WaitGroup
}

// readRound is one confirmation of leadership, shared by all reads that came before it began.
type readRound struct {
	done        chan struct{}
	term, index uint64
	err         error
}

// index returns a commit index that was valid after the call began. It waits for leadership as long as ctx allows; a node
// that knows another leader answers ErrNotLeader at once.
func (r *readIndexer) index(ctx context.Context) (uint64, error) {
	for {
		term, ready, changed, closed := r.proposer.leadership()
		if closed != nil {
			return 0, closed
		}
		if ready {
			index, err := r.confirm(ctx, term)
			if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
				return index, err
			}
		} else if term == 0 && r.proposer.leaderElsewhere() {
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
	round, err := r.join()
	if err != nil {
		return 0, err
	}
	select {
	case <-round.done:
		if round.err == nil && round.term != term {
			return 0, ErrNotLeader
		}
		return round.index, round.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (r *readIndexer) join() (*readRound, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if r.next == nil {
		r.next = &readRound{done: make(chan struct{})}
	}
	if !r.running {
		r.running = true
		r.rounds.Go(r.run)
	}
	return r.next, nil
}

func (r *readIndexer) run() {
	for {
		r.mu.Lock()
		round := r.next
		r.next = nil
		if round == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		round.term = r.raft.CurrentTerm()
		round.index = r.raft.CommitIndex()
		if err := r.raft.VerifyLeader().Error(); err != nil {
			round.err = errors.Join(ErrNotLeader, err)
		} else if r.raft.CurrentTerm() != round.term {
			// Leadership was lost and won again: another leader may have committed in between.
			round.err = ErrNotLeader
		}
		close(round.done)
	}
}

// close lets no further round begin and waits for the one that is under way: the library never answers a round that it
// finds in its channel when it shuts down.
func (r *readIndexer) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.rounds.Wait()
}
