package raftlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// leaseRig is the leader of term 5 among three voters, with a clock that stands still.
func leaseRig() (*members, *fakeClock) {
	clock := newFakeClock()
	n := &Node{options: Options{NodeID: 1, Clock: clock, ElectionMs: 500}, self: serverID(1)}
	m := newMembers(n)
	m.servers = func() []raft.Server {
		return []raft.Server{{ID: "1"}, {ID: "2"}, {ID: "3"}, {ID: "4", Suffrage: raft.Nonvoter}}
	}
	m.lead(5)
	return m, clock
}

func TestLeaseHoldsWhileAMajorityRecognisesTheLeader(t *testing.T) {
	const ms = time.Millisecond
	ok := MemberFrame{Leader: 1, Term: 5, HeardMs: 10}
	for name, c := range map[string]struct {
		from         uint64
		frame        MemberFrame
		answered     time.Duration // after the question was sent
		before, last time.Duration // after that: the lease holds until last, and no longer
	}{
		"counts from the sending":       {2, ok, 300 * ms, 0, 89 * ms},
		"an answer that came too late":  {2, ok, 390 * ms, 0, -1},
		"the other voter does as well":  {3, ok, 0, 0, 389 * ms},
		"a learner does not":            {4, ok, 0, 0, -1},
		"nor who recognises another":    {2, MemberFrame{Leader: 3, Term: 5}, 0, 0, -1},
		"nor who recognises nobody":     {2, MemberFrame{Term: 5, HeardMs: -1}, 0, 0, -1},
		"nor who is in another term":    {2, MemberFrame{Leader: 1, Term: 4}, 0, 0, -1},
		"nor who has not heard it long": {2, MemberFrame{Leader: 1, Term: 5, HeardMs: 400}, 0, 0, -1},
	} {
		m, clock := leaseRig()
		if m.leaseHolds(5) {
			t.Fatalf("%s: it holds without an answer", name)
		}
		asked := m.ask()
		clock.advance(c.answered)
		m.heard(5, c.from, &c.frame, asked)
		if c.last < 0 {
			if m.leaseHolds(5) {
				t.Errorf("%s: it holds", name)
			}
			continue
		}
		clock.advance(c.last)
		if !m.leaseHolds(5) {
			t.Errorf("%s: it does not hold for %v", name, c.last)
		}
		clock.advance(ms)
		if m.leaseHolds(5) {
			t.Errorf("%s: it holds for longer than %v", name, c.last)
		}
	}
}

func TestLeaseEndsWithItsTermAndWithAHandOver(t *testing.T) {
	m, clock := leaseRig()
	answer := func(term uint64) { m.heard(term, 2, &MemberFrame{Leader: 1, Term: term}, m.ask()) }
	answer(5)
	if !m.leaseHolds(5) || m.leaseHolds(4) || m.leaseHolds(6) {
		t.Fatal("the lease is of term 5 alone")
	}
	clock.jumpWall(-time.Hour)
	if !m.leaseHolds(5) {
		t.Error("a wall clock ended the lease")
	}
	m.node.handedOver.Store(5)
	answer(5)
	if m.leaseHolds(5) {
		t.Error("it holds although a hand-over has begun")
	}
	m.lead(7)
	if m.leaseHolds(7) {
		t.Error("answers of another term count")
	}
	answer(7)
	if !m.leaseHolds(7) {
		t.Error("a later term has no lease")
	}
}

func TestLeaseIsShorterThanAnElection(t *testing.T) {
	for _, c := range []struct{ electionMs, leaseMs, want int }{{500, 0, 400}, {300, 0, 240}, {150, 0, 120}, {1000, 0, 400}, {1000, 700, 700}} {
		o := DefaultOptions("d", 1)
		o.ElectionMs, o.LeaderLeaseMs = c.electionMs, c.leaseMs
		if got := o.lease(); got != time.Duration(c.want)*time.Millisecond || o.Validate() != nil {
			t.Errorf("%+v: got %v", c, got)
		}
	}
	o := DefaultOptions("d", 1)
	o.LeaderLeaseMs = o.ElectionMs*4/5 + 1
	if o.Validate() == nil {
		t.Error("a lease beyond four fifths of the election time-out is taken")
	}
}

func TestReadsUnderTheLeaseAskNobody(t *testing.T) {
	c := openCluster(t)
	// On a busy machine the leader may change at any time, so whoever leads is asked.
	read := func(n *Node) (term, rounds uint64) {
		before := n.reads.rounds.Load()
		term = n.proposerTerm()
		if _, err := n.ReadIndex(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if n.proposerTerm() != term {
			return 0, 0
		}
		return term, n.reads.rounds.Load() - before
	}
	eventually(t, "a read that asks nobody", func() bool {
		term, rounds := read(c.nodes[c.leader(t, -1)])
		return term != 0 && rounds == 0
	})
	eventually(t, "a round of a leader that has begun a hand-over", func() bool {
		leader := c.nodes[c.leader(t, -1)]
		leader.handedOver.Store(leader.proposerTerm())
		term, rounds := read(leader)
		if term != 0 && term == leader.handedOver.Load() && rounds == 0 {
			t.Fatal("a leader that has begun a hand-over answers without a round")
		}
		return rounds > 0
	})
}

// TestCallsThatWouldBreakALeaseAreRefused: rules 2 and 3 of the lease.
func TestCallsThatWouldBreakALeaseAreRefused(t *testing.T) {
	c := openCluster(t)
	at := c.leader(t, -1)
	leader, follower := c.nodes[at], c.nodes[(at+1)%3]
	eventually(t, "the follower to know its leader", func() bool { return follower.OtherLeader() == uint64(at+1) })
	term := leader.raft.CurrentTerm()
	asked := func(from int, term uint64) raft.RPC {
		request := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ID: []byte(serverID(uint64(from + 1)))}}
		return raft.RPC{Command: takeOver(request, term)}
	}
	for name, call := range map[string]raft.RPC{
		"another node than the leader": asked((at+2)%3, term),
		"the leader, in a term before": asked(at, term-1),
		"no term at all":               {Command: &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ID: []byte(leader.self), Addr: []byte("node-1")}}},
	} {
		if err := follower.refusal(call); !errors.Is(err, errLateTakeOver) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := follower.refusal(asked(at, term)); err != nil {
		t.Errorf("the leader, now: %v", err)
	}
	votes := []any{&raft.RequestVoteRequest{}, &raft.RequestPreVoteRequest{}}
	clock := newFakeClock()
	for _, vote := range votes {
		newcomer := &Node{options: Options{Clock: clock}, votesFrom: clock.Monotonic() + 1}
		if err := newcomer.refusal(raft.RPC{Command: vote}); !errors.Is(err, errNewcomer) {
			t.Errorf("%T soon after the start: %v", vote, err)
		}
		newcomer.votesFrom = clock.Monotonic()
		if err := newcomer.refusal(raft.RPC{Command: vote}); err != nil {
			t.Errorf("%T later: %v", vote, err)
		}
	}
	if leader.votesFrom != longAgo {
		t.Error("a node that was never elected anybody has somebody to forget")
	}
	// The same directory once more: the process may have recognised somebody.
	i := (at + 1) % 3
	closeNode(t, follower)
	if again := c.open(t, i); again.votesFrom != again.openedAt+time.Duration(c.options[i].ElectionMs)*time.Millisecond {
		t.Errorf("a voter that was started again votes from %v, opened at %v", again.votesFrom, again.openedAt)
	}
}

// lineBuffer collects log lines.
type lineBuffer struct {
	mu    sync.Mutex
	lines []string
}

func (b *lineBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(line))
	return len(line), nil
}

func (b *lineBuffer) with(text string) (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

var _ io.Writer = (*lineBuffer)(nil)

// TestLeaderWithoutAMajorityStepsDown: cluster 5.2, the line is stable.
func TestLeaderWithoutAMajorityStepsDown(t *testing.T) {
	var lines lineBuffer
	c := openClusterWith(t, newTestNetwork(t), func(o *Options) { o.Logger = zerolog.New(&lines) })
	leader := c.leader(t, -1)
	const phrase = `"level":"warn","message":"raft: no quorum acknowledgement: this leader steps down"`
	if found := lines.with(phrase); len(found) > 0 {
		t.Fatalf("before anything happened: %s", found)
	}
	c.isolate(leader)
	eventually(t, "the leader to step down", func() bool { return c.nodes[leader].raft.State() != raft.Leader })
	if found := lines.with(phrase); len(found) != 1 {
		t.Errorf("the line came %d times", len(found))
	}
	if role := c.nodes[leader].Status().Role; role == RoleLeader {
		t.Errorf("role %s", role)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.nodes[leader].ReadIndex(ctx); err == nil {
		t.Error("it answers a read")
	}
}

func TestLibraryWarnsOnceOfANodeAndAReason(t *testing.T) {
	var lines lineBuffer
	clock := newFakeClock()
	logger := newLibraryLogger(zerolog.New(&lines), clock, "raft").Named("test")
	fail := func(text, node string) {
		logger.Error(text, "peer", raft.Server{ID: raft.ServerID(node)}, "error", "refused")
	}
	logger.Error("failed to make requestVote RPC", "peer", "2", "error", fmt.Errorf("call: %w", errGuarded))
	if got := lines.with(`"level":"warn"`); len(got) != 0 {
		t.Fatalf("a node that takes no part warns of what it does not send: %s", got)
	}
	for range 50 {
		fail("failed to appendEntries to", "2")
		fail("failed to appendEntries to", "3")
		fail("failed to heartbeat to", "2")
		logger.Warn("no matter", "peer", "2")
	}
	if got := len(lines.with(`"level":"warn"`)); got != 3 {
		t.Fatalf("%d lines, want one for each of two nodes and one for another reason", got)
	}
	clock.advance(libraryLinesEvery - 1)
	fail("failed to appendEntries to", "2")
	if got := len(lines.with("appendEntries")); got != 2 {
		t.Fatalf("%d lines before the time is over", got)
	}
	clock.advance(1)
	fail("failed to appendEntries to", "2")
	if got := lines.with(`"count":51`); len(got) != 1 {
		t.Fatalf("the line does not say for how many it stands: %s", lines.with("appendEntries"))
	}
	for i := range 2 * maxSaidLines {
		fail("failed to appendEntries to", hclog.Fmt("%d", i)[0].(string)+time.Duration(i).String())
	}
	if got := len(logger.(*libraryLogger).said.lines); got > maxSaidLines {
		t.Errorf("%d lines are remembered", got)
	}
}
