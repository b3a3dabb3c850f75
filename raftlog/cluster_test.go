package raftlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"queen/raftlog/command"
)

// testCluster is three voters in this process, connected by the library's in-memory transport.
type testCluster struct {
	nodes      []*Node
	machines   []*recorder
	transports []*raft.InmemTransport
}

func openCluster(t *testing.T) *testCluster {
	t.Helper()
	const voters = 3
	c := &testCluster{}
	var servers []raft.Server
	for i := range voters {
		address, transport := raft.NewInmemTransport(raft.ServerAddress(fmt.Sprintf("node-%d", i+1)))
		c.transports = append(c.transports, transport)
		servers = append(servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(fmt.Sprint(i + 1)), Address: address})
	}
	for i := range voters {
		c.connect(i)
	}
	for i := range voters {
		o := testOptions(t)
		// Three nodes share the cores with the other tests of a busy machine.
		o.ElectionMs = 300
		o.NodeID, o.Transport, o.Voters = uint64(i+1), c.transports[i], servers
		c.machines = append(c.machines, &recorder{})
		c.nodes = append(c.nodes, openNode(t, o, c.machines[i]))
	}
	return c
}

func (c *testCluster) connect(i int) {
	for j, other := range c.transports {
		if i != j {
			c.transports[i].Connect(other.LocalAddr(), other)
			other.Connect(c.transports[i].LocalAddr(), c.transports[i])
		}
	}
}

func (c *testCluster) isolate(i int) {
	c.transports[i].DisconnectAll()
	for j, other := range c.transports {
		if i != j {
			other.Disconnect(c.transports[i].LocalAddr())
		}
	}
}

// leader waits for a leader among the nodes, other than the excluded one.
func (c *testCluster) leader(t *testing.T, except int) int {
	t.Helper()
	leader := -1
	eventually(t, "leadership", func() bool {
		for i, n := range c.nodes {
			if i != except && n.Status().Ready {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

func TestFollowersApplyWhatTheLeaderProposes(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	for i := uint64(1); i <= 300; i++ {
		mustPropose(t, c.nodes[leader], extend(i))
	}
	for i, machine := range c.machines {
		wantNumbers(t, machine, 300)
		if i == leader {
			continue
		}
		var err error
		eventually(t, "knowledge of the leader", func() bool {
			err = c.nodes[i].Propose(extend(1000))
			return errors.Is(err, ErrNotLeader)
		})
		if _, err := c.nodes[i].ReadIndex(testContext(t)); !errors.Is(err, ErrNotLeader) {
			t.Fatalf("read on a follower: err = %v", err)
		}
		if status := c.nodes[i].Status(); status.Role != RoleFollower || status.LeaderID != uint64(leader+1) {
			t.Fatalf("status = %+v", status)
		}
	}
	index, err := c.nodes[leader].ReadIndex(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if held, _ := c.machines[leader].AppliedIndex(); held < index {
		t.Fatalf("read at %d, applied %d", index, held)
	}
}

func TestConcurrentReadsShareRounds(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			if _, err := c.nodes[leader].ReadIndex(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestIsolatedLeaderAcknowledgesNothingAndItsCommandsAreReported(t *testing.T) {
	c := openCluster(t)
	old := c.leader(t, -1)
	mustPropose(t, c.nodes[old], extend(1))
	for _, machine := range c.machines {
		wantNumbers(t, machine, 1)
	}
	c.isolate(old)
	reasons := make(chan error, 1)
	cut := extend(2)
	cut.Dropped = func(reason error) { reasons <- reason }
	mustPropose(t, c.nodes[old], cut)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	if _, err := c.nodes[old].ReadIndex(ctx); err == nil {
		t.Fatal("an isolated leader answers a read")
	}
	cancel()

	next := c.leader(t, old)
	mustPropose(t, c.nodes[next], extend(2))
	mustPropose(t, c.nodes[next], extend(3))
	wantNumbers(t, c.machines[next], 3)
	if got := c.machines[old].numbers(); len(got) != 1 {
		t.Fatalf("the isolated leader applied %v", got)
	}
	c.connect(old)
	select {
	case reason := <-reasons:
		if !errors.Is(reason, ErrNotLeader) || !errors.Is(reason, ErrOutcomeUnknown) {
			t.Fatalf("dropped for %v", reason)
		}
	case <-testContext(t).Done():
		t.Fatal("the command was forgotten")
	}
	// The entry of the old term is gone from its log, and that of the new term took its place.
	wantNumbers(t, c.machines[old], 3)
	assertSameHistory(t, c.machines)
}

func TestCommandOfALeaderThatComesBackIsProposedAgain(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	// Nobody else can lead: both followers are cut off, so the leader steps down, and leads again when they are back.
	for i := range c.nodes {
		if i != leader {
			c.isolate(i)
		}
	}
	mustPropose(t, c.nodes[leader], extend(1))
	eventually(t, "stepping down", func() bool { return !c.nodes[leader].Status().Ready })
	for i := range c.nodes {
		c.connect(i)
	}
	// Whoever leads now: the command is applied at least once, or its origin heard of it (here: nobody listens).
	next := c.leader(t, -1)
	mustPropose(t, c.nodes[next], extend(2))
	for _, machine := range c.machines {
		eventually(t, "applying", func() bool {
			numbers := machine.numbers()
			return len(numbers) > 0 && numbers[len(numbers)-1] == 2
		})
	}
	assertSameHistory(t, c.machines)
}

// assertSameHistory compares what the nodes applied, as far as all of them are, and checks that every term began with
// TermStart and that stamps rose.
func assertSameHistory(t *testing.T, machines []*recorder) {
	t.Helper()
	for _, m := range machines {
		m.mu.Lock()
		defer m.mu.Unlock()
	}
	first := machines[0]
	for i, m := range machines {
		common := min(len(m.items), len(first.items))
		for j := range common {
			if fmt.Sprint(m.items[j], m.terms[j], m.stamps[j]) != fmt.Sprint(first.items[j], first.terms[j], first.stamps[j]) {
				t.Fatalf("command %d is %+v on node %d and %+v on node 1", j, m.items[j], i+1, first.items[j])
			}
			if j > 0 && m.stamps[j] <= m.stamps[j-1] {
				t.Fatalf("stamp %d does not rise", j)
			}
			if j == 0 || m.terms[j] != m.terms[j-1] {
				if _, ok := m.items[j].Command.(command.TermStart); !ok {
					t.Fatalf("term %d begins with %T", m.terms[j], m.items[j].Command)
				}
			}
		}
	}
}
