package raftlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// Transfer is a leadership that was handed over.
type Transfer struct {
	From, To uint64
	// Term is the term of the new leader, as far as this node knows.
	Term uint64
	Took time.Duration
}

// transferLimit is how long a hand-over is tried (cluster 5.4).
const transferLimit = 3 * time.Second

// restTime is how long a node that has handed leadership off is not chosen for it again, unless nobody else is there
// (cluster 5.5). A restart ends it: a rolling restart hands leadership off once for each node, and would be left with nobody.
const restTime = time.Minute

// answersCount is how long the answer of a voter shows that it can take over (cluster 5.4).
const answersCount = time.Second

// Errors of TransferTo, beside ErrNotLeader.
var (
	// ErrNoTarget says that no other voter answers.
	ErrNoTarget = errors.New("no other voter is live")
	// ErrNotAVoter says that the target is no voter of the group.
	ErrNotAVoter = errors.New("the target is no voter")
	// ErrTransferring says that leadership is being handed over already.
	ErrTransferring = errors.New("leadership is being handed over already")
	// ErrTransferFailed says that the target did not take over in time; this node may still lead.
	ErrTransferFailed = errors.New("the target did not take over in time")
)

// TransferTo hands leadership to a voter; 0 is the most caught-up one that answered within a second and does not rest (restTime). What is proposed commits first, what
// waits goes to the new leader (cluster 5.4). A transfer to the node that leads is nothing.
func (n *Node) TransferTo(ctx context.Context, to uint64) (Transfer, error) {
	began := time.Now()
	term, ready, _, closed := n.proposer.leadership()
	switch {
	case closed != nil:
		return Transfer{}, closed
	case !ready:
		return Transfer{}, ErrNotLeader
	case to == n.options.NodeID:
		return Transfer{From: to, To: to, Term: term}, nil
	case n.members == nil:
		return Transfer{}, ErrNoTarget
	}
	if !n.transferring.TryLock() {
		return Transfer{}, ErrTransferring
	}
	n.handingOver.Store(true)
	defer func() {
		n.handingOver.Store(false)
		n.transferring.Unlock()
	}()
	target, err := n.awaitTarget(ctx, to)
	if err != nil {
		return Transfer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, transferLimit)
	defer cancel()
	n.handedOver.Store(term) // before the library hears of it: from here on no lease holds
	n.options.fault("transfer.started")
	n.proposer.hold(ctx)
	defer n.proposer.unhold()
	for {
		err := n.raft.LeadershipTransferToServer(target.ID, target.Address).Error()
		if err == nil {
			break
		}
		n.logger.Debug().Err(err).Str("node", string(target.ID)).Msg("raft: leadership was not handed off")
		if n.raft.State() != raft.Leader && n.ledBy(ctx, nodeID(target.ID)) {
			break // it took over although the library had given up
		}
		if n.raft.State() != raft.Leader || ctx.Err() != nil {
			return Transfer{}, fmt.Errorf("%w: %w", ErrTransferFailed, err)
		}
	}
	took := time.Since(began)
	n.resigned.Store(int64(n.options.Clock.Monotonic()))
	n.ledBy(ctx, nodeID(target.ID)) // which says that the new term is known here
	done := Transfer{From: n.options.NodeID, To: nodeID(target.ID), Term: n.raft.CurrentTerm(), Took: took}
	n.logger.Info().Msg(fmt.Sprintf("raft: leadership handed off to=%d ms=%d", done.To, done.Took.Milliseconds()))
	return done, nil
}

// ledBy waits until another node leads, as far as this one knows, and tells whether it is the one.
func (n *Node) ledBy(ctx context.Context, id uint64) bool {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		if leader := n.otherLeader(); leader != 0 {
			return leader == id
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

// awaitTarget chooses who is to lead next. A node that has just begun to lead has heard of nobody yet, so it waits for as long as
// an answer counts.
func (n *Node) awaitTarget(ctx context.Context, to uint64) (raft.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, answersCount)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		target, err := n.target(to)
		if !errors.Is(err, ErrNoTarget) || n.isSoleVoter() || n.raft.State() != raft.Leader {
			return target, err
		}
		select {
		case <-ctx.Done():
			return target, err
		case <-ticker.C:
		}
	}
}

// isSoleVoter tells whether nobody else could ever lead.
func (n *Node) isSoleVoter() bool {
	return !slices.ContainsFunc(n.servers(), func(s raft.Server) bool { return s.Suffrage == raft.Voter && s.ID != n.self })
}

// target chooses who is to lead next among those that have answered.
func (n *Node) target(to uint64) (raft.Server, error) {
	var candidates []candidate
	known := false
	for _, server := range n.servers() {
		id := nodeID(server.ID)
		if server.Suffrage != raft.Voter || server.ID == n.self || (to != 0 && id != to) {
			continue
		}
		known = true
		if frame, live := n.members.answered(id, answersCount); live {
			candidates = append(candidates, candidate{server, frame.LastLog, frame.Resting})
		}
	}
	switch {
	case to != 0 && !known:
		return raft.Server{}, fmt.Errorf("%w: node %d", ErrNotAVoter, to)
	case len(candidates) == 0:
		return raft.Server{}, ErrNoTarget
	}
	return slices.MaxFunc(candidates, candidate.compare).server, nil
}

// candidate is a voter that could lead next.
type candidate struct {
	server  raft.Server
	lastLog uint64
	resting bool
}

// compare puts who is to lead rather behind: the most caught-up of those that have not just handed leadership off, if there are any.
func (c candidate) compare(other candidate) int {
	if c.resting != other.resting {
		if c.resting {
			return -1
		}
		return 1
	}
	return cmp.Compare(c.lastLog, other.lastLog)
}

// resting tells whether this node has handed leadership off within restTime.
func (n *Node) resting() bool {
	resigned := time.Duration(n.resigned.Load())
	return resigned > 0 && n.options.Clock.Monotonic()-resigned < restTime
}

// hold keeps what comes in the queue, and waits until what is proposed has committed, at most drainTime.
func (p *proposer) hold(ctx context.Context) {
	p.mu.Lock()
	p.held = true
	p.mu.Unlock()
	draining, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	p.waitIdle(draining)
}

func (p *proposer) unhold() {
	p.mu.Lock()
	p.held = false
	p.mu.Unlock()
	p.signal()
}
