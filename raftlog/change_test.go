package raftlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// join opens a fourth node that waits to be added.
func (c *testCluster) join(t *testing.T) {
	t.Helper()
	o := testOptions(t)
	o.ElectionMs = 300
	id := uint64(len(c.nodes) + 1)
	o.NodeID, o.Address, o.Join, o.Network = id, fmt.Sprintf("node-%d", id), true, c.network.port(id)
	c.options = append(c.options, o)
	c.machines = append(c.machines, &recorder{})
	c.nodes = append(c.nodes, c.open(t, len(c.nodes)))
}

// change makes a change on the leader, whoever that is by then.
func (c *testCluster) change(t *testing.T, op ChangeOp, id uint64, address string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s %d", op, id), func() bool {
		leader := c.nodes[c.leader(t, -1)]
		err := leader.ChangeMembership(testContext(t), MembershipChange{Op: op, ID: id, Address: address, Against: leader.Membership().Index})
		if err != nil && !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrMembershipChanged) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func (c *testCluster) wantMembers(t *testing.T, want ...GroupMember) {
	t.Helper()
	for _, member := range want {
		node := c.nodes[member.ID-1]
		eventually(t, fmt.Sprintf("node %d to know %v", member.ID, want), func() bool {
			m := node.Membership()
			return m.Committed && slices.Equal(m.Members, want)
		})
	}
}

func voter(id uint64) GroupMember {
	return GroupMember{ID: id, Address: fmt.Sprintf("node-%d", id), Voter: true}
}

func TestMembershipChangesUnderLoad(t *testing.T) {
	c := openCluster(t)
	c.join(t)
	number := uint64(0)
	load := func() {
		for range 20 {
			number++
			mustPropose(t, c.nodes[number%3], extend(number))
		}
	}
	load()
	if status := c.nodes[3].Status(); status.Role != RoleLearner || status.Term != 0 {
		t.Fatalf("a node that waits is %s in term %d", status.Role, status.Term)
	}
	c.change(t, AddLearner, 4, "node-4")
	load()
	c.wantMembers(t, voter(1), voter(2), voter(3), GroupMember{ID: 4, Address: "node-4"})
	c.change(t, AddVoter, 4, "node-4")
	load()
	c.wantMembers(t, voter(1), voter(2), voter(3), voter(4))
	c.change(t, AddVoter, 2, "moved")
	load()
	c.wantMembers(t, voter(1), GroupMember{ID: 2, Address: "moved", Voter: true}, voter(3), voter(4))
	c.wantAll(t, number)
	leader := c.leader(t, -1)
	gone := uint64((leader+1)%4 + 1)
	c.change(t, Remove, gone, "")
	left := slices.DeleteFunc([]GroupMember{voter(1), {ID: 2, Address: "moved", Voter: true}, voter(3), voter(4)}, func(m GroupMember) bool { return m.ID == gone })
	c.wantMembers(t, left...)
}

func TestMembershipChangeIsRefused(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	index := c.nodes[leader].Membership().Index
	change := MembershipChange{Op: AddLearner, ID: 9, Address: "node-9", Against: index}
	if err := c.nodes[(leader+1)%3].ChangeMembership(testContext(t), change); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("by a follower: %v", err)
	}
	stale := change
	stale.Against = index + 1
	if err := c.nodes[leader].ChangeMembership(testContext(t), stale); !errors.Is(err, ErrMembershipChanged) {
		t.Fatalf("against another membership: %v", err)
	}
	if got := c.nodes[leader].Membership(); got.Index != index || len(got.Members) != 3 {
		t.Fatalf("%+v", got)
	}
}

// TestNobodyWaitsAtANodeThatIsOutside: what waits at a node that the group does not count in any more, and what comes after that,
// hears of it, and does not wait for a leader.
func TestNobodyWaitsAtANodeThatIsOutside(t *testing.T) {
	var outside atomic.Bool
	c := openClusterWith(t, newTestNetwork(t), func(o *Options) { o.Outside = outside.Load })
	at := (c.leader(t, -1) + 1) % 3
	c.isolate(at)
	dropped, read := make(chan error, 1), make(chan error, 1)
	waiting := extend(1)
	waiting.Dropped = func(reason error) { dropped <- reason }
	mustPropose(t, c.nodes[at], waiting)
	go func() {
		_, err := c.nodes[at].ReadIndex(testContext(t))
		read <- err
	}()
	outside.Store(true)
	for what, outcome := range map[string]chan error{"a write": dropped, "a read": read} {
		select {
		case err := <-outcome:
			if !errors.Is(err, ErrNoLeader) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s ended with %v", what, err)
			}
		case <-testContext(t).Done():
			t.Fatalf("%s waits for ever", what)
		}
	}
	if err := c.nodes[at].Propose(extend(2)); !errors.Is(err, ErrNoLeader) {
		t.Errorf("a later write got %v", err)
	}
	outside.Store(false)
	c.connect(at)
	eventually(t, "a write at a node that is counted in again", func() bool { return c.nodes[at].Propose(extend(3)) == nil })
	eventually(t, "its applying", func() bool { return slices.Contains(c.machines[at].numbers(), 3) })
}

// TestGuardedNodeIsNoCandidate: it hears nobody and asks nobody for a vote (cluster 2.6).
func TestGuardedNodeIsNoCandidate(t *testing.T) {
	var guarded atomic.Int64
	c := openClusterWith(t, newTestNetwork(t), func(o *Options) {
		id := int64(o.NodeID)
		o.Guarded = func() bool { return guarded.Load() == id }
	})
	at := (c.leader(t, -1) + 1) % 3
	guarded.Store(int64(at + 1))
	eventually(t, "the library to look for a leader", func() bool { return c.nodes[at].raft.State() == raft.Candidate })
	if role := c.nodes[at].Status().Role; role != RoleFollower {
		t.Errorf("its role is %s", role)
	}
}

// A change without a majority is not committed, and its outcome unknown; another leader may undo it.
func TestUncommittedMembershipIsTakenBack(t *testing.T) {
	c := openCluster(t)
	old := c.leader(t, -1)
	index := c.nodes[old].Membership().Index
	c.isolate(old)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	err := c.nodes[old].ChangeMembership(ctx, MembershipChange{Op: AddLearner, ID: 9, Address: "node-9", Against: index})
	if !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrNotLeader) {
		t.Fatalf("without a majority: %v", err)
	}
	if got := c.nodes[old].Membership(); got.Index != index && got.Committed {
		t.Fatalf("committed without a majority: %+v", got)
	}
	next := c.leader(t, old)
	mustPropose(t, c.nodes[next], extend(1))
	c.connect(old)
	c.wantAll(t, 1)
	c.wantMembers(t, voter(1), voter(2), voter(3))
}

func TestMembershipLogKeepsTheNewestTwo(t *testing.T) {
	var l membershipLog
	if got := l.newest(); got.index != 0 {
		t.Fatalf("%+v", got)
	}
	for _, index := range []uint64{1, 5, 9} {
		l.add(membership{index, raft.Configuration{}})
	}
	l.cut(10)
	if got := l.newest(); got.index != 9 {
		t.Fatalf("%+v", got)
	}
	l.cut(9)
	if got := l.newest(); got.index != 5 {
		t.Fatalf("%+v", got)
	}
	l.cut(1)
	if got := l.newest(); got.index != 0 {
		t.Fatalf("%+v", got)
	}
}
