package raftlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen/raftlog/command"
)

// testCluster is three voters in this process.
type testCluster struct {
	network  *testNetwork
	options  []Options
	nodes    []*Node
	machines []*recorder
}

func openCluster(t *testing.T) *testCluster {
	t.Helper()
	return openClusterWith(t, newTestNetwork(t), func(*Options) {})
}

func openClusterWith(t *testing.T, network *testNetwork, change func(*Options)) *testCluster {
	t.Helper()
	const voters = 3
	c := &testCluster{network: network}
	var members []Voter
	for id := uint64(1); id <= voters; id++ {
		members = append(members, Voter{ID: id, Address: fmt.Sprintf("node-%d", id)})
	}
	for i, member := range members {
		o := testOptions(t)
		// Three nodes share the cores with the other tests of a busy machine.
		o.ElectionMs = 300
		o.NodeID, o.Address, o.Voters, o.Network = member.ID, member.Address, members, c.network.port(member.ID)
		o.Call = func(_ context.Context, request []byte) ([]byte, error) {
			return append([]byte(fmt.Sprintf("node %d heard ", member.ID)), request...), nil
		}
		change(&o)
		c.options = append(c.options, o)
		c.machines = append(c.machines, &recorder{})
		c.nodes = append(c.nodes, c.open(t, i))
	}
	return c
}

func (c *testCluster) open(t *testing.T, i int) *Node {
	node := openNode(t, c.options[i], c.machines[i])
	c.machines[i].applied = func(item *command.Item) { node.Settled(item.Request) }
	return node
}

func (c *testCluster) connect(i int) { c.network.setCut(uint64(i+1), false) }

func (c *testCluster) isolate(i int) { c.network.setCut(uint64(i+1), true) }

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

// wantAll waits until every command from 1 to count is applied on every node.
func (c *testCluster) wantAll(t *testing.T, count uint64) {
	t.Helper()
	for i, machine := range c.machines {
		eventually(t, fmt.Sprintf("applying of all commands on node %d", i+1), func() bool {
			seen := map[uint64]bool{}
			for _, number := range machine.numbers() {
				seen[number] = true
			}
			return len(seen) == int(count)
		})
	}
	assertSameHistory(t, c.machines)
}

func TestCommandsOfEveryNodeAreAppliedOnEveryNode(t *testing.T) {
	c := openCluster(t)
	for i := uint64(1); i <= 900; i++ {
		mustPropose(t, c.nodes[i%3], extend(i))
	}
	c.wantAll(t, 900)
	for i, node := range c.nodes {
		eventually(t, fmt.Sprintf("node %d to forget what is applied", i+1), func() bool {
			node.proposer.mu.Lock()
			defer node.proposer.mu.Unlock()
			return len(node.proposer.sent) == 0 && node.proposer.queue.len() == 0
		})
		if got := len(c.machines[i].numbers()); got != 900 {
			t.Fatalf("node %d applied %d commands: some twice, though nobody stopped leading", i+1, got)
		}
	}
}

func TestReadOnAnyNodeSeesWhatWasAnsweredBefore(t *testing.T) {
	c := openCluster(t)
	for i := uint64(1); i <= 100; i++ {
		writer, reader := c.machines[i%3], c.machines[(i+1)%3]
		mustPropose(t, c.nodes[i%3], extend(i))
		eventually(t, "applying on the writing node", func() bool { return len(writer.numbers()) == int(i) })
		if _, err := c.nodes[(i+1)%3].ReadIndex(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if got := len(reader.numbers()); got != int(i) {
			t.Fatalf("a read on another node saw %d commands, want %d", got, i)
		}
	}
}

// TestReadPointIsOfTheLeadersTime: what a read is judged at does not depend on the clock of the node that serves it (state 2.7), and
// never goes back, whatever node is asked.
func TestReadPointIsOfTheLeadersTime(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	last := uint64(0)
	for i := range 30 {
		mustPropose(t, c.nodes[leader], extend(uint64(i+1)))
		before := c.nodes[leader].Now()
		_, now, err := c.nodes[i%3].ReadPoint(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if now < before || now > c.nodes[leader].Now() || now < last {
			t.Fatalf("a read through node %d has the time %d: the leader's was %d before, and the last read's %d", i%3+1, now, before, last)
		}
		last = now
	}
	// A node of an older build asks without wanting the time.
	for request, bytes := range map[string]int{"": readIndexBytes, string(askForTime): readPointBytes} {
		if answer, err := c.nodes[leader].reads.answerRead(testContext(t), []byte(request)); err != nil || len(answer) != bytes {
			t.Errorf("the answer to %q has %d bytes: %v", request, len(answer), err)
		}
	}
}

func TestCallsReachTheLeader(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	for i, node := range c.nodes {
		answer, err := node.CallLeader(testContext(t), []byte("hello"))
		if i == leader {
			if !errors.Is(err, ErrNotLeader) {
				t.Fatalf("the leader calls itself: %q, %v", answer, err)
			}
			continue
		}
		if want := fmt.Sprintf("node %d heard hello", leader+1); err != nil || string(answer) != want {
			t.Fatalf("got %q, %v, want %q", answer, err, want)
		}
	}
}

// TestCallWaitsAMomentForALeader: however long its caller has, a call that finds no leader says so.
func TestCallWaitsAMomentForALeader(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	cut := (leader + 1) % 3
	c.isolate(cut)
	eventually(t, "a node that knows no leader", func() bool { return c.nodes[cut].otherLeader() == 0 })
	if _, err := c.nodes[cut].CallLeader(context.Background(), []byte("hello")); !errors.Is(err, ErrNoLeader) {
		t.Fatalf("got %v", err)
	}
}

// TestCommandsOutliveTheirLeader: cluster 8.4, the serving node sends what is not answered to the next leader.
func TestCommandsOutliveTheirLeader(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	survivor := c.nodes[(leader+1)%3]
	for i := uint64(1); i <= 200; i++ {
		mustPropose(t, survivor, extend(i))
		if i == 100 {
			c.isolate(leader)
		}
	}
	c.leader(t, leader)
	c.connect(leader)
	c.wantAll(t, 200)
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

func TestIsolatedLeaderAcknowledgesNothing(t *testing.T) {
	c := openCluster(t)
	old := c.leader(t, -1)
	mustPropose(t, c.nodes[old], extend(1))
	for _, machine := range c.machines {
		wantNumbers(t, machine, 1)
	}
	c.isolate(old)
	mustPropose(t, c.nodes[old], extend(2))

	next := c.leader(t, old)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	if _, err := c.nodes[old].ReadIndex(ctx); err == nil {
		t.Fatal("an isolated leader answers a read although there is another one")
	}
	cancel()
	mustPropose(t, c.nodes[next], extend(3))
	eventually(t, "applying on the new leader", func() bool { return len(c.machines[next].numbers()) == 2 })
	if got := c.machines[old].numbers(); len(got) != 1 {
		t.Fatalf("the isolated leader applied %v", got)
	}
	c.connect(old)
	// The entry of the old term is gone from its log; its command went to the new leader.
	c.wantAll(t, 3)
}

func TestCommandThatCannotBeProposedInTimeIsDropped(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	other := (leader + 1) % 3
	for i := range c.nodes {
		c.isolate(i)
	}
	reasons := make(chan error, 1)
	late := extend(1)
	late.DeadlineMonotonic = c.nodes[other].Monotonic() + 200*time.Millisecond
	late.Dropped = func(reason error) { reasons <- reason }
	mustPropose(t, c.nodes[other], late)
	select {
	case reason := <-reasons:
		if !errors.Is(reason, ErrDeadline) {
			t.Fatalf("dropped for %v", reason)
		}
	case <-testContext(t).Done():
		t.Fatal("the command was forgotten")
	}
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

// TestLeadershipMovesUnderLoad: cluster 5.4, nothing is lost or waits for an election.
func TestLeadershipMovesUnderLoad(t *testing.T) {
	c := openCluster(t)
	number := uint64(0)
	for round := range 5 {
		leader := c.leader(t, -1)
		for range 30 {
			number++
			mustPropose(t, c.nodes[number%3], extend(number))
		}
		to := uint64(0)
		if round%2 == 1 {
			to = uint64((leader+1)%3 + 1)
		}
		done, err := c.nodes[leader].TransferTo(testContext(t), to)
		if err != nil {
			t.Fatalf("right after its election node %d finds nobody: %v", leader+1, err)
		}
		if done.From != uint64(leader+1) || done.To == done.From || (to != 0 && done.To != to) {
			t.Fatalf("asked node %d for %d, got %+v", leader+1, to, done)
		}
		eventually(t, "the new leader", func() bool { return c.nodes[done.To-1].Status().Ready })
	}
	c.wantAll(t, number)
}

// TestLeadershipMovesRightAfterAnElection: a node that has just begun to lead has heard of no other, and waits until it has.
func TestLeadershipMovesRightAfterAnElection(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	m := c.nodes[leader].members
	m.mu.Lock()
	clear(m.reports)
	m.mu.Unlock()
	if done, err := c.nodes[leader].TransferTo(testContext(t), 0); err != nil || done.To == done.From {
		t.Fatalf("%+v, %v", done, err)
	}
}

// TestLeadershipIsNotHandedBackAtOnce: cluster 5.5. The third hand-over finds only nodes that have had it, and is not refused.
func TestLeadershipIsNotHandedBackAtOnce(t *testing.T) {
	c := openCluster(t)
	led := []int{c.leader(t, -1)}
	for range 3 {
		last := led[len(led)-1]
		done, err := c.nodes[last].TransferTo(testContext(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		next := int(done.To - 1)
		if len(led) < 3 && slices.Contains(led, next) {
			t.Fatalf("node %d leads again, after %v", next, led)
		}
		eventually(t, "the new leader", func() bool { return c.nodes[next].Status().Ready })
		led = append(led, next)
	}
	// By name it goes back at once.
	last := led[len(led)-1]
	if done, err := c.nodes[last].TransferTo(testContext(t), uint64(led[2]+1)); err != nil || done.To != uint64(led[2]+1) {
		t.Fatalf("%+v, %v", done, err)
	}
}

// TestRestEnds: a node may lead again a minute after it has handed leadership off.
func TestRestEnds(t *testing.T) {
	m, clock := leaseRig()
	n := m.node
	if n.resting() {
		t.Error("it never led")
	}
	n.resigned.Store(int64(clock.Monotonic()))
	if clock.advance(restTime - 1); !n.resting() {
		t.Error("the minute is not over")
	}
	if clock.advance(1); n.resting() {
		t.Error("the minute is over")
	}
}

func TestTransferIsRefused(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	if done, err := c.nodes[leader].TransferTo(testContext(t), uint64(leader+1)); err != nil || done.Took != 0 {
		t.Fatalf("to itself: %+v, %v", done, err)
	}
	if _, err := c.nodes[leader].TransferTo(testContext(t), 9); !errors.Is(err, ErrNotAVoter) {
		t.Fatalf("to a stranger: %v", err)
	}
	if _, err := c.nodes[(leader+1)%3].TransferTo(testContext(t), 0); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("by a follower: %v", err)
	}
	c.isolate((leader + 1) % 3)
	eventually(t, "the target to be silent for a second", func() bool {
		_, err := c.nodes[leader].TransferTo(testContext(t), uint64((leader+1)%3+1))
		return errors.Is(err, ErrNoTarget)
	})
}

// TestStoppedNodeClosesNoGate: a node that has stopped for its full disk is not live, and the others serve (cluster 11.4).
func TestStoppedNodeClosesNoGate(t *testing.T) {
	var full atomic.Uint64
	c := openClusterWith(t, newTestNetwork(t), func(o *Options) {
		id := o.NodeID
		o.Disk = func() Disk { return Disk{Percent: 99, Full: full.Load() == id} }
	})
	leader := c.leader(t, -1)
	stopping := (leader + 1) % 3
	full.Store(uint64(stopping + 1))
	closes := func(want uint64) func() bool {
		return func() bool {
			id, _, known := c.nodes[c.leader(t, stopping)].DiskGate()
			return known && id == want
		}
	}
	eventually(t, "the full disk to close the gate", closes(uint64(stopping+1)))
	c.machines[stopping].mu.Lock()
	c.machines[stopping].failAt = 7
	c.machines[stopping].mu.Unlock()
	mustPropose(t, c.nodes[leader], extend(7))
	eventually(t, "the node to stop", func() bool { return c.nodes[stopping].Status().Role == RoleStopped })
	eventually(t, "the gate to open", closes(0))
	for _, member := range c.nodes[c.leader(t, stopping)].Members() {
		if stopped := member.ID == uint64(stopping+1); member.Live == stopped {
			t.Errorf("member %d, stopped %t: live %t", member.ID, stopped, member.Live)
		}
	}
}

func TestMembersKnowEachOther(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	mustPropose(t, c.nodes[leader], extend(1))
	for i, node := range c.nodes {
		eventually(t, fmt.Sprintf("node %d to know all members", i+1), func() bool {
			members := node.Members()
			for _, member := range members {
				if !member.Live || member.Applied == 0 || member.LastAckMs < 0 {
					return false
				}
			}
			status := node.Status()
			return len(members) == 3 && status.QuorumAckMs >= 0 && status.LeaderID == uint64(leader+1)
		})
	}
	c.isolate(leader)
	eventually(t, "the old leader's quorum to age", func() bool { return c.nodes[leader].Status().QuorumAckMs > 500 })
}

// TestLogWaitsForASilentMember: cluster 12.
func TestLogWaitsForASilentMember(t *testing.T) {
	network := newTestNetwork(t)
	c := openClusterWith(t, network, func(o *Options) {
		o.fileBytes, o.DurableEveryMs, o.LogKeepEntries = 4096, 10, 16
	})
	leader := c.leader(t, -1)
	silent := (leader + 1) % 3
	c.isolate(silent)
	for i := uint64(1); i <= 600; i++ {
		mustPropose(t, c.nodes[leader], extend(i))
		if i%10 == 0 {
			eventually(t, "applying", func() bool { return len(c.machines[leader].numbers()) >= int(i) })
		}
	}
	held, _ := c.machines[silent].AppliedIndex()
	if first := c.nodes[leader].Status().FirstIndex; first > held+1 {
		t.Fatalf("the log begins at %d, the silent member has applied %d", first, held)
	}
	c.connect(silent)
	c.wantAll(t, 600)
	eventually(t, "the log to be cut when everybody has it", func() bool { return c.nodes[leader].Status().FirstIndex > held+1 })
}

// TestNodeThatWasAwayIsNotFedThroughAPipeline: on a leader to whom nothing new comes, a pipeline takes one call each CommitTimeout.
func TestNodeThatWasAwayIsNotFedThroughAPipeline(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	mustPropose(t, c.nodes[leader], extend(1))
	c.wantAll(t, 1)
	away := (leader + 1) % 3
	c.isolate(away)
	const commands = 4 * farBehind
	for i := uint64(2); i <= commands; i++ {
		mustPropose(t, c.nodes[leader], extend(i))
		eventually(t, "applying", func() bool { return len(c.machines[leader].numbers()) >= int(i) }) // an entry each
	}
	c.connect(away)
	c.wantAll(t, commands)
	leader = c.leader(t, -1)
	transport := c.nodes[leader].transport
	last, err := c.nodes[leader].log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	transport.mu.Lock()
	defer transport.mu.Unlock()
	if reached := transport.reached[serverID(uint64(away+1))]; reached+farBehind < last {
		t.Errorf("the log of the node was brought to %d outside of a pipeline, and ends at %d", reached, last)
	}
}
