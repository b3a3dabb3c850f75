package membership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"queen/raftlog"
	"queen/raftlog/command"
	"queen/raftlog/peer"
)

// world is a cluster without log or network: the services of its nodes share one replicated state and one membership, and who leads is
// said by the test. Its time is that of a synctest bubble.
type world struct {
	t *testing.T

	mu      sync.Mutex
	leader  uint64
	leading map[uint64]chan raftlog.LeadershipChange
	state   *command.MembershipState
	changed chan struct{}
	entries uint64
	members []raftlog.GroupMember
	index   uint64
	// silent do not answer; behind lack as many entries of the leader's log.
	silent map[uint64]bool
	behind map[uint64]uint64
	// serving take part in the group; resets counts the directories that were emptied, auto is QUEEN_RAFT_AUTO_REJOIN.
	serving map[uint64]bool
	resets  int
	auto    bool
	// returned are the returns that the leaders have driven.
	returned []uint64
	// hellos are the processes at their raft addresses.
	hellos map[string]peer.Hello
	// frozen lets no change of the membership commit.
	frozen bool
	// points are the crash points passed, lines what was logged at WARN; at is called at crash points.
	points []string
	log    strings.Builder
	at     func(point string)
	nodes  map[uint64]*Service
	// planned is called, with the lock, in the instant in which a plan is recorded: before anybody can have seen it.
	planned func()
}

const lastLog = 5000

func newWorld(t *testing.T, voters ...uint64) *world { return newWorldWith(t, true, voters...) }

// newWorldWith makes the nodes with QUEEN_RAFT_AUTO_REJOIN as told.
func newWorldWith(t *testing.T, auto bool, voters ...uint64) *world {
	w := &world{
		t: t, leading: map[uint64]chan raftlog.LeadershipChange{}, state: &command.MembershipState{Format: 7}, changed: make(chan struct{}), index: 1,
		silent: map[uint64]bool{}, behind: map[uint64]uint64{}, hellos: map[string]peer.Hello{}, nodes: map[uint64]*Service{}, at: func(string) {}, planned: func() {}, serving: map[uint64]bool{}, auto: auto,
	}
	var founders []command.Member
	for _, id := range voters {
		w.members = append(w.members, raftlog.GroupMember{ID: id, Address: raftOf(id), Voter: true})
		founders = append(founders, command.Member{NodeID: id, Raft: raftOf(id), HTTP: httpOf(id), Incarnation: fmt.Sprint("dir", id)})
		w.hellos[raftOf(id)] = w.hello(id, "cluster")
	}
	for _, id := range voters {
		w.start(id, founders)
	}
	w.lead(voters[0])
	return w
}

func (w *world) hello(id uint64, cluster string) peer.Hello {
	h := peer.Hello{ClusterID: cluster, NodeID: id, Incarnation: fmt.Sprint("dir", id), BootNonce: "1-0011223344556677", Kinds: 7, Groups: 1,
		Raft: raftOf(id), HTTP: httpOf(id)}
	if cluster != "" {
		h.ClusterEpoch = 1
	}
	return h
}

// start runs the service of a node until the end of the test.
func (w *world) start(id uint64, founders []command.Member) {
	leadership := make(chan raftlog.LeadershipChange, 1)
	w.mu.Lock()
	w.leading[id] = leadership
	w.mu.Unlock()
	group := &worldGroup{w, id}
	service := New(Options{
		Group: group, State: worldState{w}, Peers: worldPeers{w}, Self: func() peer.Hello { return w.at1(raftOf(id)) }, Founders: founders,
		PromoteMaxLag: 1000, LiveWithin: 2 * time.Second, FormatEvery: time.Second, Logger: zerolog.New(w),
		Faults: w.passed, AutoRejoin: w.auto, Returned: func(node uint64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.returned = append(w.returned, node)
		},
	})
	w.mu.Lock()
	w.nodes[id] = service
	w.mu.Unlock()
	service.Start()
	w.t.Cleanup(service.Close)
}

func (w *world) at1(address string) peer.Hello {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hellos[address]
}

// fresh starts a process that waits to be added.
func (w *world) fresh(id uint64) {
	w.mu.Lock()
	w.hellos[raftOf(id)] = w.hello(id, "")
	w.mu.Unlock()
	w.start(id, nil)
}

// lead makes another node lead; 0 is nobody.
func (w *world) lead(id uint64) {
	w.mu.Lock()
	w.leader = id
	channels := slices.Collect(maps.Values(w.leading))
	w.mu.Unlock()
	for _, channel := range channels {
		select {
		case channel <- raftlog.LeadershipChange{}:
		default:
		}
	}
}

func (w *world) passed(point string) {
	w.mu.Lock()
	w.points = append(w.points, point)
	at := w.at
	w.mu.Unlock()
	at(point)
}

// Write implements io.Writer for the logger.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) voters() (voters []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, member := range w.members {
		if member.Voter {
			voters = append(voters, member.ID)
		}
	}
	return voters
}

func (w *world) table() *command.MembershipState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// ask sends a request through a node.
func (w *world) ask(through uint64, r Request) Answer {
	ctx, cancel := context.WithTimeout(context.Background(), DefaultTimeout)
	defer cancel()
	r.ID = Draw()
	return w.nodes[through].Serve(ctx, r)
}

// must sends a request that is carried out.
func (w *world) must(through uint64, r Request) {
	w.t.Helper()
	if answer := w.ask(through, r); answer.Status != 200 {
		w.t.Fatalf("%s: %d %s\n%s", r.about(), answer.Status, answer.Body, w.logged())
	}
}

func (w *world) mustRefuse(through uint64, r Request, code Code) {
	w.t.Helper()
	if answer := w.ask(through, r); answer.Status != code.Status() || !strings.Contains(string(answer.Body), `"`+string(code)+`"`) {
		w.t.Fatalf("%s: %d %s, want %s", r.about(), answer.Status, answer.Body, code)
	}
}

func (w *world) wantVoters(want ...uint64) {
	w.t.Helper()
	synctest.Wait()
	if got := w.voters(); !slices.Equal(got, want) || w.table().Plan != nil {
		w.t.Fatalf("voters %v, want %v, plan %+v\n%s", got, want, w.table().Plan, w.logged())
	}
}

// worldGroup is the Raft group as one node sees it.
type worldGroup struct {
	*world
	self uint64
}

func (g *worldGroup) Leads() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leader == g.self
}

func (g *worldGroup) Leadership() <-chan raftlog.LeadershipChange {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leading[g.self]
}

func (g *worldGroup) Status() raftlog.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	return raftlog.Status{LeaderID: g.leader, LastIndex: lastLog, Term: 3, CommitIndex: lastLog}
}

func (g *worldGroup) Membership() raftlog.Membership {
	g.mu.Lock()
	defer g.mu.Unlock()
	return raftlog.Membership{Index: g.index, Committed: true, Members: slices.Clone(g.world.members)}
}

func (g *worldGroup) Members() []raftlog.MemberState {
	g.mu.Lock()
	defer g.mu.Unlock()
	var states []raftlog.MemberState
	for _, member := range g.world.members {
		state := raftlog.MemberState{ID: member.ID, Voter: member.Voter, Live: !g.silent[member.ID], LastLog: lastLog - g.behind[member.ID]}
		if g.silent[member.ID] {
			state.LastAckMs = -1
		}
		states = append(states, state)
	}
	return states
}

func (g *worldGroup) MembersAgeMs() int64 { return 0 }
func (g *worldGroup) HandingOver() bool   { return false }
func (g *worldGroup) Now() uint64         { return uint64(time.Now().UnixMicro()) }

func (g *worldGroup) ChangeMembership(ctx context.Context, c raftlog.MembershipChange) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.leader != g.self:
		return raftlog.ErrNotLeader
	case c.Against != g.index:
		return raftlog.ErrMembershipChanged
	case g.frozen:
		return context.DeadlineExceeded
	}
	at := slices.IndexFunc(g.world.members, func(m raftlog.GroupMember) bool { return m.ID == c.ID })
	members := slices.Clone(g.world.members)
	switch {
	case c.Op == raftlog.Remove:
		members = slices.Delete(members, at, at+1)
	case c.Op == raftlog.Demote:
		members[at].Voter = false
	case at < 0:
		members = append(members, raftlog.GroupMember{ID: c.ID, Address: c.Address, Voter: c.Op == raftlog.AddVoter})
	default:
		members[at].Address, members[at].Voter = c.Address, members[at].Voter || c.Op == raftlog.AddVoter
	}
	if c.Op == raftlog.AddLearner && at < 0 {
		// The row of a member is committed before its first change, and it has been told where it belongs.
		if row, known := g.state.Member(c.ID); !known || row.Raft != c.Address || g.hellos[c.Address].ClusterID != "cluster" {
			g.t.Errorf("node %d is added with the row %+v and the hello %+v", c.ID, row, g.hellos[c.Address])
		}
	}
	slices.SortFunc(members, func(a, b raftlog.GroupMember) int { return int(a.ID) - int(b.ID) })
	g.entries++
	g.world.members, g.index = members, g.index+1
	return nil
}

func (g *worldGroup) TransferTo(_ context.Context, to uint64) (raftlog.Transfer, error) {
	if !g.Leads() {
		return raftlog.Transfer{}, raftlog.ErrNotLeader
	}
	if to == g.self {
		return raftlog.Transfer{From: to, To: to, Term: 3}, nil
	}
	for _, id := range g.voters() {
		if id != g.self && (to == 0 || id == to) && !g.silent[id] {
			g.lead(id)
			return raftlog.Transfer{From: g.self, To: id, Term: 4, Took: 38 * time.Millisecond}, nil
		}
	}
	return raftlog.Transfer{}, raftlog.ErrNoTarget
}

// worldState is the replicated state. It follows the rules of the machine that applies command.Membership.
type worldState struct{ *world }

func (s worldState) Membership() (*command.MembershipState, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

func (s worldState) Change(_ context.Context, c *command.Membership) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Expect != s.state.Index || c.Begin != nil && s.state.Plan != nil && c.End == command.PlanGoesOn {
		return &command.Refusal{Code: "membership_changed", Text: "another change was faster"}
	}
	s.entries++
	next := &command.MembershipState{
		Index: s.entries, Format: max(c.Format, s.state.Format), Plan: s.state.Plan, Ended: slices.Clone(s.state.Ended),
		Members: slices.Clone(s.state.Members),
	}
	for _, row := range c.Put {
		next.Members = slices.DeleteFunc(next.Members, func(m command.Member) bool { return m.NodeID == row.NodeID })
		if old, known := s.state.Member(row.NodeID); known && old.Incarnation == row.Incarnation {
			row.AddedIndex = old.AddedIndex
		} else {
			row.AddedIndex = next.Index
		}
		next.Members = append(next.Members, row)
	}
	for _, id := range c.Delete {
		next.Members = slices.DeleteFunc(next.Members, func(m command.Member) bool { return m.NodeID == id })
	}
	if c.End != command.PlanGoesOn && next.Plan != nil {
		next.Ended = append(next.Ended, command.EndedPlan{ID: next.Plan.ID, End: c.End})
		next.Plan = nil
	}
	if c.Begin != nil {
		plan := *c.Begin
		plan.StartedMs = uint64(time.Now().UnixMilli())
		next.Plan = &plan
		s.planned()
	}
	s.state = next
	close(s.world.changed)
	s.world.changed = make(chan struct{})
	return nil
}

// worldPeers are the other nodes.
type worldPeers struct{ *world }

var errNobody = errors.New("nobody answers")

func (p worldPeers) Hello(_ context.Context, id uint64, address string) (peer.Hello, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hello, there := p.hellos[address]
	if !there || hello.NodeID != id {
		return hello, errNobody
	}
	return hello, nil
}

func (p worldPeers) Serves(id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serving[id]
}

// Reset follows the rules of a node: it obeys nobody of another cluster, and empties only the directory that is named.
func (p worldPeers) Reset(_ context.Context, id uint64, address string, order ResetOrder) (peer.Hello, error) {
	p.mu.Lock()
	hello, there := p.hellos[address]
	if row, _ := p.state.Member(id); !strings.HasSuffix(row.Incarnation, ":"+order.Incarnation) || !awaitsReset(row.Incarnation) || p.voter(id) {
		p.t.Errorf("node %d is ordered to reset with the row %+v, voter %t", id, row, p.voter(id))
	}
	if !there || hello.NodeID != id || hello.ClusterID != "" && hello.ClusterID != order.ClusterID || hello.Incarnation != order.Incarnation {
		p.mu.Unlock()
		return hello, errNobody
	}
	p.resets++
	hello.ClusterID, hello.ClusterEpoch = order.ClusterID, order.ClusterEpoch
	hello.Incarnation, hello.AddedIndex = fmt.Sprintf("%s, reset %d", hello.Incarnation, p.resets), 0
	p.hellos[address] = hello
	p.mu.Unlock()
	p.passed("rejoin.reset")
	return hello, nil
}

// voter tells whether a node votes; the caller holds the lock.
func (w *world) voter(id uint64) bool {
	return slices.ContainsFunc(w.members, func(m raftlog.GroupMember) bool { return m.ID == id && m.Voter })
}

// judge lets every node meet a process, as handshakes would, and returns the verdict.
func (w *world) judge(id uint64) peer.Verdict {
	w.mu.Lock()
	remote, self := w.hellos[raftOf(id)], peer.Hello{ClusterID: "cluster", ClusterEpoch: 1}
	view := &peer.View{ClusterVersion: w.state.Format, AppliedIndex: w.state.Index}
	for _, row := range w.state.Members {
		view.Members = append(view.Members, peer.Member{
			NodeID: row.NodeID, Incarnation: row.Incarnation, BootNonce: row.BootNonce, AddedIndex: row.AddedIndex})
	}
	services := maps.Clone(w.nodes)
	w.mu.Unlock()
	verdict := peer.Judge(&self, &remote, view)
	for other, service := range services {
		if other != id {
			service.Met(&remote, verdict)
		}
	}
	return verdict
}

// meets goes on judging a node until the end of the test.
func (w *world) meets(id uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	var judging sync.WaitGroup
	judging.Go(func() {
		for ctx.Err() == nil {
			w.judge(id)
			time.Sleep(100 * time.Millisecond)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		judging.Wait()
	})
}

// wiped takes the directory of a node away.
func (w *world) wiped(id uint64, another string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hello := w.hello(id, "")
	hello.Incarnation = another
	w.hellos[raftOf(id)] = hello
}

func (p worldPeers) Adopt(_ context.Context, id uint64, address string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	hello := p.hellos[address]
	if hello.NodeID != id || hello.ClusterID != "" {
		return errNobody
	}
	hello.ClusterID, hello.ClusterEpoch = "cluster", 1
	p.hellos[address] = hello
	return nil
}

func (p worldPeers) Relay(ctx context.Context, leader uint64, r *Request) (Answer, error) {
	p.mu.Lock()
	service, silent := p.nodes[leader], p.silent[leader]
	p.mu.Unlock()
	if service == nil || silent {
		return Answer{}, errNobody
	}
	return service.Relayed(ctx, *r), nil
}
