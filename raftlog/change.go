package raftlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Membership is the newest membership in the log of this node.
type Membership struct {
	// Index is the entry that made it; 0 while this node knows of none.
	Index     uint64
	Committed bool
	// Members are ascending by id.
	Members []GroupMember
}

// GroupMember is a server of the group.
type GroupMember struct {
	ID      uint64
	Address string
	Voter   bool
}

// ChangeOp is what a change does to one server.
type ChangeOp int

// The changes. AddLearner and AddVoter give a server that is one already another address.
const (
	AddLearner ChangeOp = iota
	AddVoter
	Demote
	Remove
)

// String returns the name of the change.
func (o ChangeOp) String() string {
	return [...]string{"add learner", "add voter", "demote", "remove"}[o]
}

// MembershipChange changes one server.
type MembershipChange struct {
	Op ChangeOp
	ID uint64
	// Address is that of the server, for AddLearner and AddVoter.
	Address string
	// Against is the Membership.Index that the change was checked against: it is refused when there is a newer one.
	Against uint64
}

// ErrMembershipChanged says that the membership is not the one that the change was checked against.
var ErrMembershipChanged = errors.New("the membership has changed")

// Membership returns the newest membership in the log.
func (n *Node) Membership() Membership {
	newest := n.log.noted.newest()
	if newest.index == 0 {
		newest = n.keeper.fsm.newest()
	}
	m := Membership{Index: newest.index, Committed: newest.index <= n.raft.CommitIndex()}
	for _, server := range newest.configuration.Servers {
		m.Members = append(m.Members, GroupMember{
			ID: nodeID(server.ID), Address: string(server.Address), Voter: server.Suffrage == raft.Voter})
	}
	slices.SortFunc(m.Members, func(a, b GroupMember) int { return cmp.Compare(a.ID, b.ID) })
	return m
}

// HandingOver tells whether leadership is being handed over.
func (n *Node) HandingOver() bool { return n.handingOver.Load() }

// changeEnqueue is how long the library may take to begin a change: it does not while another one is not committed.
const changeEnqueue = time.Second

// ChangeMembership makes one change of one server, while this node leads, and returns when it is committed. Errors:
// ErrNotLeader, ErrMembershipChanged, ErrTransferring; they mean that nothing was changed, unless ErrOutcomeUnknown is in the
// chain as well. When ctx ends, the outcome is unknown too.
func (n *Node) ChangeMembership(ctx context.Context, c MembershipChange) error {
	term, ready, _, closed := n.proposer.leadership()
	switch {
	case closed != nil:
		return closed
	case !ready || term == 0:
		return ErrNotLeader
	case n.Membership().Index != c.Against:
		return ErrMembershipChanged
	}
	future := n.change(&c)
	done := make(chan error, 1)
	// The library leaves a change unanswered only when it shuts down between its commit and its apply.
	go func() { done <- future.Error() }()
	select {
	case err := <-done:
		return n.changeError(&c, err)
	case <-ctx.Done():
		return fmt.Errorf("%s node %d: %w: %w", c.Op, c.ID, ErrOutcomeUnknown, context.Cause(ctx))
	case <-n.raftDone:
		return fmt.Errorf("%s node %d: %w: %w", c.Op, c.ID, ErrOutcomeUnknown, ErrClosed)
	}
}

func (n *Node) change(c *MembershipChange) raft.IndexFuture {
	id, address := serverID(c.ID), raft.ServerAddress(c.Address)
	switch c.Op {
	case AddLearner:
		return n.raft.AddNonvoter(id, address, c.Against, changeEnqueue)
	case AddVoter:
		return n.raft.AddVoter(id, address, c.Against, changeEnqueue)
	case Demote:
		return n.raft.DemoteVoter(id, c.Against, changeEnqueue)
	default:
		return n.raft.RemoveServer(id, c.Against, changeEnqueue)
	}
}

// changeError tells an error of the library in the words of this package (cluster 20, note 5).
func (n *Node) changeError(c *MembershipChange, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		err = errors.Join(ErrNotLeader, err)
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		err = errors.Join(ErrTransferring, err)
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, raft.ErrAbortedByRestore):
		err = errors.Join(ErrNotLeader, ErrOutcomeUnknown, err)
	case n.Membership().Index != c.Against:
		err = errors.Join(ErrMembershipChanged, err)
	}
	return fmt.Errorf("%s node %d: %w", c.Op, c.ID, err)
}

// membershipLog remembers the newest memberships in the log. At most one of them is not committed, and only the end of the log is
// ever cut, so two are enough.
type membershipLog struct {
	mu          sync.Mutex
	memberships []membership
}

func (l *membershipLog) add(m membership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memberships = append(l.memberships, m)
	l.memberships = slices.Clone(l.memberships[max(0, len(l.memberships)-2):])
}

// cut forgets what stood at the index and behind it.
func (l *membershipLog) cut(from uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memberships = slices.DeleteFunc(l.memberships, func(m membership) bool { return m.index >= from })
}

// newest returns the newest membership; index 0 when none is known.
func (l *membershipLog) newest() membership {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.memberships) == 0 {
		return membership{}
	}
	return l.memberships[len(l.memberships)-1]
}
