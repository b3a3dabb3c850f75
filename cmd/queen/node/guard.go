package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"queen/raftlog"
	"queen/raftlog/peer"
)

// guard keeps this node out of its group (cluster 2.6): while it starts, until enough voters have accepted it, and from then on as
// long as a member says that its directory is not the right one. The transport of the log asks it about every call. What follows from
// what others have said is decided in package peer.
type guard struct {
	port *raftPort
	log  zerolog.Logger
	// shut is asked by the transport; bound is the verdict that binds, nil for none.
	shut  atomic.Bool
	bound atomic.Pointer[binding]
	// kick wakes run.
	kick chan struct{}

	mu sync.Mutex
	// said is what the others have said last. It is bounded as acquaintances are.
	said map[uint64]peer.Judgement
	// opened is set once this node was accepted, or needs nobody to accept it; opening runs then.
	opened  bool
	opening func()
}

// binding is an adverse verdict, and whose it is.
type binding struct {
	verdict peer.Verdict
	by      uint64
}

const (
	// guardEvery is the pause between two rounds of a node that starts, boundEvery of one that is bound, unheardEvery of one that takes
	// part, supersededEvery of one whose identity another process has (cluster 2.6).
	guardEvery      = 100 * time.Millisecond
	boundEvery      = time.Second
	unheardEvery    = time.Second
	supersededEvery = 10 * time.Second
	// othersWithin is how long a node that enough voters have accepted waits for what the others say.
	othersWithin = 500 * time.Millisecond
	// judgeWithin is how long another node may take to say what it thinks.
	judgeWithin = 2 * time.Second
)

func newGuard(port *raftPort, log zerolog.Logger) *guard {
	g := &guard{port: port, log: log, kick: make(chan struct{}, 1), said: map[uint64]peer.Judgement{}}
	g.shut.Store(true)
	return g
}

// heard takes in what another node says of this one.
func (g *guard) heard(remote *peer.Hello, theirs peer.Verdict) {
	g.mu.Lock()
	if _, known := g.said[remote.NodeID]; known || len(g.said) < maxAcquaintances {
		g.said[remote.NodeID] = peer.Judgement{By: *remote, Verdict: theirs, Incarnation: g.port.identity.Current().Incarnation}
	}
	g.mu.Unlock()
	g.judge()
}

// judge draws the conclusion from what has been said.
func (g *guard) judge() {
	self := g.self()
	g.mu.Lock()
	verdict, by := peer.Bound(&self, g.judgementsLocked())
	before := g.bound.Load()
	var now *binding
	if verdict != peer.OK {
		now = &binding{verdict, by}
	}
	g.bound.Store(now)
	g.shut.Store(now != nil || !g.opened)
	g.mu.Unlock()
	if (now == nil) == (before == nil) && (now == nil || now.verdict == before.verdict) {
		return
	}
	g.wake()
	switch {
	case now == nil:
		g.log.Info().Msg("this node is accepted by the members of its cluster")
	case g.port.returning.Load(): // it is empty, and not in the table yet
	default:
		g.log.Error().Str("verdict", string(verdict)).Uint64("peer", by).Str("remedy", remedy(verdict, self.NodeID)).Msg(complaint(now))
	}
}

// self is as much of this node as its judges' words are measured by.
func (g *guard) self() (self peer.Hello) {
	self.Identify(g.port.identity.Current())
	return self
}

func (g *guard) judgementsLocked() []peer.Judgement {
	var all []peer.Judgement
	for _, j := range g.said {
		all = append(all, j)
	}
	return all
}

// complaint is the phrase of operations 3.6.
func complaint(b *binding) string {
	switch b.verdict {
	case peer.Replaced:
		return fmt.Sprintf("this node's directory is not the one node %d knows", b.by)
	case peer.RolledBack:
		return fmt.Sprintf("this node's directory is older than what node %d has seen", b.by)
	}
	return "another process runs under this node's identity"
}

func remedy(verdict peer.Verdict, id uint64) string {
	if verdict == peer.Superseded {
		return "stop one of the two processes"
	}
	return fmt.Sprintf("none with QUEEN_RAFT_AUTO_REJOIN at the leader: the node returns by itself; else: queen cluster replace %d", id)
}

func (g *guard) wake() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// logOpened is told that the log is open. Whoever has accepted this node before did not know where its log ends.
func (g *guard) logOpened() {
	g.mu.Lock()
	if !g.opened {
		for id, j := range g.said {
			if j.Verdict == peer.OK {
				delete(g.said, id)
			}
		}
	}
	g.mu.Unlock()
	g.wake()
}

// open lets the node take part, unless it is bound.
func (g *guard) open() {
	g.mu.Lock()
	g.opened = true
	run := g.opening
	g.opening = nil
	g.mu.Unlock()
	g.judge()
	if run != nil {
		run()
	}
}

// whenOpen runs a function once the node may take part, at once if it may already. It takes the place of the one before; nil is none.
func (g *guard) whenOpen(run func()) {
	g.mu.Lock()
	opened := g.opened
	if !opened {
		g.opening = run
	}
	g.mu.Unlock()
	if opened && run != nil {
		run()
	}
}

// estranged tells whether this node has found none but nodes of other clusters since its start.
func (g *guard) estranged() bool {
	self := g.self()
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.opened && peer.Estranged(&self, g.judgementsLocked())
}

// run asks the others what they think of this node, as long as that matters.
func (g *guard) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.kick:
		case <-timer.C:
		}
		timer.Reset(g.round(ctx))
	}
}

// round asks once, where there is a reason, and returns how long to wait for the next time.
func (g *guard) round(ctx context.Context) time.Duration {
	const never = time.Hour
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	log := g.port.log.Load()
	switch bound := g.bound.Load(); {
	case !opened && log != nil:
		g.seekAcceptance(ctx, log)
		return guardEvery
	case !opened:
		return never // the log will open, and says so
	case bound == nil && log != nil:
		if g.port.unheard(log) {
			g.askAll(ctx, g.port.others())
		}
		return unheardEvery
	case bound == nil:
		return never // the log will open again, and says so
	case bound.verdict == peer.Superseded:
		g.askAll(ctx, g.port.others())
		return supersededEvery
	}
	g.askAll(ctx, g.port.others())
	return boundEvery
}

// seekAcceptance opens the guard of a node that starts when a majority of the voters has accepted it.
func (g *guard) seekAcceptance(ctx context.Context, log *raftlog.Node) {
	self := g.self()
	var voters []uint64
	for _, member := range log.Membership().Members {
		if member.Voter {
			voters = append(voters, member.ID)
		}
	}
	if !slices.Contains(voters, self.NodeID) || len(voters) == 1 {
		g.open() // nobody counts on it, or it counts on nobody
		return
	}
	// Who was away while hosts were exchanged knows voters that are gone; its leader tells it of the present ones.
	var told []uint64
	for _, member := range log.Members() {
		if member.Voter {
			told = append(told, member.ID)
		}
	}
	others := slices.DeleteFunc(slices.Concat(voters, told), func(id uint64) bool { return id == self.NodeID })
	slices.Sort(others)
	others = slices.Compact(others)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make(chan struct{})
	go func() {
		defer close(all)
		g.askAll(ctx, others)
	}()
	quorate := func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		said := g.judgementsLocked()
		return peer.Quorate(&self, voters, said) || slices.Contains(told, self.NodeID) && peer.Quorate(&self, told, said)
	}
	look := time.NewTicker(guardEvery / 10)
	defer look.Stop()
	var since time.Time
	for asked := false; !asked && (since.IsZero() || time.Since(since) < othersWithin); {
		select {
		case <-all:
			asked = true
		case <-look.C:
		}
		if since.IsZero() && quorate() {
			since = time.Now()
		}
	}
	cancel()
	<-all
	if quorate() {
		g.open()
	}
}

// unheard tells whether nobody has a reason to talk to this node, and nobody has told it why: it hears no leader, and it asks nobody for
// votes. It may have been removed without having heard of that (cluster 3.1).
func (p *raftPort) unheard(log *raftlog.Node) bool {
	current := p.identity.Current()
	if log.OtherLeader() != 0 || current.ConfirmedNonce == "" || p.met.stranger(0) {
		return false
	}
	return !slices.ContainsFunc(log.Membership().Members, func(m raftlog.GroupMember) bool { return m.Voter && m.ID == current.NodeID })
}

// askAll shakes hands with nodes; what they say comes in by heard.
func (g *guard) askAll(ctx context.Context, nodes []uint64) {
	ctx, cancel := context.WithTimeout(ctx, judgeWithin)
	defer cancel()
	var asking sync.WaitGroup
	for _, id := range nodes {
		asking.Go(func() {
			conn, err := g.port.network.Dial(ctx, id, peer.Admin, 0)
			if err != nil {
				return // also of one that refuses this node, and has been heard
			}
			_ = conn.Close() // nothing else was wanted of it
		})
	}
	asking.Wait()
}

// refused tells at once whether this node takes part in nothing because others do not accept its directory.
func (p *raftPort) refused() bool {
	return p.returning.Load() || p.binding() != nil
}

// binding is the verdict that keeps this node out of its group; nil for none.
func (p *raftPort) binding() *binding {
	if p.guard == nil {
		return nil
	}
	return p.guard.bound.Load()
}

// returns tells whether this node has been emptied to come back.
func (p *raftPort) returns() bool { return p != nil && p.returning.Load() }

// others lists the other nodes that this one has heard of.
func (p *raftPort) others() []uint64 {
	var ids []uint64
	for _, row := range p.config.RaftPeers {
		ids = append(ids, uint64(row.ID))
	}
	for _, row := range p.state().Members {
		ids = append(ids, row.NodeID)
	}
	if log := p.log.Load(); log != nil {
		for _, member := range log.Membership().Members {
			ids = append(ids, member.ID)
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id uint64) bool { return id == uint64(p.config.RaftNodeID) })
}
