package raftlog

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// LeaderFrame is what the leader tells each member (cluster 2.5).
type LeaderFrame struct {
	Term   uint64 `json:"term"`
	Commit uint64 `json:"commit"`
	// QuorumAckMs is the age of the newest quorum acknowledgement; -1 before the first.
	QuorumAckMs int64 `json:"quorumAckMs"`
	// KeepFrom is the lowest index that every log must keep (cluster 12).
	KeepFrom uint64 `json:"keepFrom"`
	// Full is the voter whose disk closes the gate, 0 while it is open (cluster 11.3).
	Full        uint64  `json:"full"`
	FullPercent float64 `json:"fullPct"`
	// TimeMicros is the time of the group (cluster 10).
	TimeMicros uint64        `json:"timeMicros"`
	Members    []MemberState `json:"members"`
	// Witnesses are what the members have shown.
	Witnesses []Witness `json:"witnesses,omitempty"`
}

// MemberFrame is what a member answers.
type MemberFrame struct {
	Term uint64 `json:"term"`
	// Leader is the node whose leadership the member recognises, HeardMs how long ago the library heard of it; -1 never.
	Leader  uint64 `json:"leader"`
	HeardMs int64  `json:"heardMs"`
	LastLog uint64 `json:"lastLog"`
	Applied uint64 `json:"applied"`
	Durable uint64 `json:"durable"`
	// Resting tells that the member has handed leadership off, not long ago (cluster 5.5).
	Resting bool `json:"resting,omitempty"`
	// Full tells that the member's own disk is beyond its mark.
	Full        bool    `json:"full"`
	DiskPercent float64 `json:"diskPct"`
	Kinds       int     `json:"kinds"`
	WallMicros  uint64  `json:"wallMicros"`
	// Incarnation and BootNonce are the directory and the process.
	Incarnation string `json:"incarnation,omitempty"`
	BootNonce   string `json:"bootNonce,omitempty"`
}

// MemberState is a member as the leader sees it.
type MemberState struct {
	ID    uint64 `json:"id"`
	Voter bool   `json:"voter"`
	// Address is the raft address in the membership.
	Address string `json:"raft"`
	Live    bool   `json:"live"`
	// LastAckMs is the time since the member answered; -1 when it has not in this term. The fields below are of that answer.
	LastAckMs   int64   `json:"lastAckMs"`
	LastLog     uint64  `json:"lastLog"`
	Applied     uint64  `json:"applied"`
	Durable     uint64  `json:"durable"`
	DiskPercent float64 `json:"diskPct"`
	// Full tells that its disk is beyond its mark.
	Full  bool `json:"full"`
	Kinds int  `json:"kinds"`
	// ClockSkewMs is how far the member's wall clock is ahead of the leader's, give or take half a round trip.
	ClockSkewMs float64 `json:"clockSkewMs"`
}

// Disk is the state of a node's data volume (cluster 11.3).
type Disk struct {
	Percent float64
	// Full tells that the gate is to close.
	Full bool
}

const (
	// livenessFloor and livenessElections give how long a silent member is live (cluster 0).
	livenessFloor     = 2 * time.Second
	livenessElections = 3
	// reportLife is how long a report of a disk counts (cluster 11.3).
	reportLife = 10 * time.Second
)

// members knows what the nodes of the group have said of themselves, and what follows from it.
type members struct {
	node *Node
	// servers is the newest membership in the log.
	servers func() []raft.Server
	liveFor time.Duration
	hold    time.Duration

	mu sync.Mutex
	// term is the one in which this node leads, began when it began to, and reports what the members have answered in it.
	term    uint64
	began   time.Duration
	reports map[uint64]*report
	clocks  *peerClocks
	// said is what the leader told last, at saidAt, and leader who that was.
	said   LeaderFrame
	saidAt time.Duration
	leader uint64
	// sent is the entry up to which a state was last opened for a node that needs it, sentAt when.
	sent   uint64
	sentAt time.Duration
	// quorumAt is the newest instant at which a majority is known to have recognised a leader.
	quorumAt time.Duration
}

// report is what a member answered last. Instants are of the Clock's monotonic time, here and below.
type report struct {
	frame       MemberFrame
	sent, heard time.Duration
	skew        time.Duration
}

// longAgo is an instant before all others.
const longAgo time.Duration = math.MinInt64 / 2

func newMembers(n *Node) *members {
	return &members{
		node: n, servers: n.servers, reports: map[uint64]*report{}, saidAt: longAgo, quorumAt: longAgo,
		liveFor: LiveWithin(n.options.ElectionMs),
		hold:    time.Duration(n.options.PurgeHoldSeconds) * time.Second,
		clocks:  newPeerClocks(n.options.Clock, time.Duration(n.options.MaxClockSkewMs)*time.Millisecond, n.options.Logger),
	}
}

func (m *members) now() time.Duration { return m.node.options.Clock.Monotonic() }

// lead forgets what was reported to other terms.
func (m *members) lead(term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term, m.began, m.reports = term, m.now(), map[uint64]*report{}
}

func (m *members) forget(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reports, id)
	m.clocks.forget(id)
}

// question is a frame that was sent to a member: when, by either clock.
type question struct {
	sent time.Duration
	wall time.Time
}

func (m *members) ask() question { return question{sent: m.now(), wall: m.node.options.Clock.Wall()} }

// heard takes in the answer of a member to a frame of this leader.
func (m *members) heard(term, id uint64, frame *MemberFrame, asked question) {
	m.node.witnesses.note(frame.showing(id))
	now := m.now()
	middle := asked.wall.Add((now - asked.sent) / 2)
	skew := time.Duration(int64(frame.WallMicros)-middle.UnixMicro()) * time.Microsecond
	m.mu.Lock()
	defer m.mu.Unlock()
	if term != m.term {
		return
	}
	m.reports[id] = &report{frame: *frame, sent: asked.sent, heard: now, skew: skew}
	m.clocks.note(id, skew, (now-asked.sent)/2)
	m.quorumAt = max(m.quorumAt, m.quorumLocked(now))
}

// quorumLocked returns the newest instant at which a majority of the voters is known to have recognised this leader in its
// term: for each voter the sending of the request that it answered, less the age of what it had heard by then (cluster 9).
func (m *members) quorumLocked(now time.Duration) time.Duration {
	var at []time.Duration
	for _, server := range m.servers() {
		if server.Suffrage != raft.Voter {
			continue
		}
		if server.ID == m.node.self {
			at = append(at, now)
			continue
		}
		at = append(at, m.reports[nodeID(server.ID)].recognised(m.node.options.NodeID, m.term))
	}
	return quorumInstant(at)
}

// recognised returns the instant at which the member is known to have recognised the leadership of a node in a term.
func (r *report) recognised(leader, term uint64) time.Duration {
	if r == nil || r.frame.Leader != leader || r.frame.Term != term || r.frame.HeardMs < 0 {
		return longAgo
	}
	return r.sent - time.Duration(r.frame.HeardMs)*time.Millisecond
}

// quorumInstant returns the instant that a majority of the voters has reached, each of which is known to have recognised the
// leader at the given one.
func quorumInstant(at []time.Duration) time.Duration {
	if len(at) == 0 {
		return longAgo
	}
	slices.SortFunc(at, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return at[len(at)/2]
}

// quorumAckMs is the age of the newest quorum acknowledgement that this node knows of; -1 for none.
func (m *members) quorumAckMs() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.quorumAckLocked(m.now())
}

func (m *members) quorumAckLocked(now time.Duration) int64 {
	if m.quorumAt == longAgo {
		return -1
	}
	return max((now - m.quorumAt).Milliseconds(), 0)
}

// quorumAge is the age of that acknowledgement; the time since an instant when there is none.
func (m *members) quorumAge(without time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.now()-max(m.quorumAt, without), 0)
}

// told takes in what a leader says. An older leader is not listened to.
func (m *members) told(from uint64, frame *LeaderFrame) {
	now := m.now()
	m.mu.Lock()
	if frame.Term < m.said.Term {
		m.mu.Unlock()
		return
	}
	m.said, m.saidAt, m.leader = *frame, now, from
	if frame.QuorumAckMs >= 0 {
		m.quorumAt = max(m.quorumAt, now-time.Duration(frame.QuorumAckMs)*time.Millisecond)
	}
	leads := m.node.proposerTerm() != 0
	m.mu.Unlock()
	m.node.witnesses.note(frame.Witnesses...)
	m.node.level.told(frame.Commit)
	if !leads {
		m.node.time.adopt(frame.TimeMicros)
	}
}

// leaderFrame is what this leader has to say.
func (m *members) leaderFrame(term uint64) *LeaderFrame {
	states := m.states()
	m.node.witnesses.note(m.memberFrame().showing(m.node.options.NodeID))
	known := m.node.witnesses.all()
	m.mu.Lock()
	defer m.mu.Unlock()
	frame := &LeaderFrame{
		Term: term, Commit: m.node.raft.CommitIndex(), QuorumAckMs: m.quorumAckLocked(m.now()),
		KeepFrom: m.keepFromLocked(m.now()), TimeMicros: m.node.Now(), Members: states, Witnesses: known,
	}
	frame.Full, frame.FullPercent = m.fullLocked(m.now())
	return frame
}

// memberFrame is what this member answers.
func (m *members) memberFrame() *MemberFrame {
	n := m.node
	applied := n.gate.index.Load()
	last, _ := n.log.LastIndex() // 0 after Close
	frame := &MemberFrame{
		Term: n.raft.CurrentTerm(), HeardMs: -1, LastLog: last, Applied: applied, Durable: n.keeper.durable.Load(),
		Incarnation: n.options.Incarnation, BootNonce: n.options.BootNonce,
		Resting: n.resting(), Kinds: n.options.Kinds, WallMicros: uint64(n.options.Clock.Wall().UnixMicro()),
	}
	disk := n.options.disk()
	frame.DiskPercent, frame.Full = disk.Percent, disk.Full
	if leader := n.otherLeader(); leader != 0 {
		heard := n.raft.LastContact()
		// Asked again: the contact must not be that of another leader than the one that is named.
		if n.otherLeader() == leader && n.raft.CurrentTerm() == frame.Term {
			frame.Leader = leader
			if !heard.IsZero() {
				frame.HeardMs = time.Since(heard).Milliseconds() + 1 // rounded up, never down
			}
		}
	}
	return frame
}

// keepFromLocked returns the lowest index that a member may still need: one that is live, or was heard within
// QUEEN_RAFT_PURGE_HOLD_S (cluster 12).
func (m *members) keepFromLocked(now time.Duration) uint64 {
	hold := m.hold
	if m.node.options.disk().Percent >= m.node.options.DiskLowPercent {
		hold = 0 // an absent node must not fill the disk
	}
	keep := m.node.gate.index.Load() + 1
	if m.sent > 0 && now-m.sentAt < sentStateHolds {
		keep = min(keep, m.sent+1)
	}
	for _, server := range m.servers() {
		if server.ID == m.node.self {
			continue
		}
		known := m.reports[nodeID(server.ID)]
		switch {
		case known == nil && now-m.began < max(hold, m.liveFor):
			return 0
		case known != nil && now-known.heard < max(hold, m.liveFor):
			keep = min(keep, known.frame.Applied+1)
		}
	}
	return keep
}

// keepFrom is the lowest index that this node's log must keep; 0 keeps everything.
func (m *members) keepFrom() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.node.proposerTerm() != 0 {
		return m.keepFromLocked(m.now())
	}
	return m.said.KeepFrom
}

// sending is told that a state up to the index goes to a node, which will need what follows.
func (m *members) sending(index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent, m.sentAt = index, m.now()
}

// fullLocked returns the voter whose disk closes the gate.
func (m *members) fullLocked(now time.Duration) (id uint64, percent float64) {
	for _, server := range m.servers() {
		disk := m.node.options.disk()
		if server.ID != m.node.self {
			known := m.reports[nodeID(server.ID)]
			if known == nil || now-known.heard >= min(m.liveFor, reportLife) {
				continue
			}
			disk = Disk{Percent: known.frame.DiskPercent, Full: known.frame.Full}
		}
		if server.Suffrage == raft.Voter && disk.Full && disk.Percent >= percent {
			id, percent = nodeID(server.ID), disk.Percent
		}
	}
	return id, percent
}

// full returns the voter whose disk closes the gate, as the leader says; known is false without one.
func (m *members) full() (id uint64, percent float64, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.node.proposerTerm() != 0 {
		id, percent = m.fullLocked(m.now())
		return id, percent, true
	}
	if m.now()-m.saidAt >= reportLife {
		return 0, 0, false
	}
	return m.said.Full, m.said.FullPercent, true
}

// commit is the commit index that the leader has told.
func (m *members) commit() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said.Commit
}

// answered is what a member last said of itself; ok is false when that is longer ago than the time.
func (m *members) answered(id uint64, within time.Duration) (frame MemberFrame, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.reports[id]
	if known == nil {
		return MemberFrame{}, false
	}
	return known.frame, m.now()-known.heard < within
}

// states lists the members, ascending by id, as the leader sees them, this node included; as it last said when another node
// leads.
func (m *members) states() []MemberState {
	if m.node.proposerTerm() == 0 {
		return m.toldStates()
	}
	own := m.memberFrame()
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	var states []MemberState
	for _, server := range m.servers() {
		state := MemberState{
			ID: nodeID(server.ID), Voter: server.Suffrage == raft.Voter, Address: string(server.Address), LastAckMs: -1}
		switch known := m.reports[state.ID]; {
		case server.ID == m.node.self:
			state.Live, state.LastAckMs = true, 0
			state.take(own)
		case known != nil:
			state.LastAckMs = (now - known.heard).Milliseconds()
			state.Live = now-known.heard < m.liveFor
			state.ClockSkewMs = float64(known.skew.Microseconds()) / 1000
			state.take(&known.frame)
		}
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b MemberState) int { return cmp.Compare(a.ID, b.ID) })
	return states
}

// toldStates is what the leader said last of the members, and of itself by saying it, older by the time since.
func (m *members) toldStates() []MemberState {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := slices.Clone(m.said.Members)
	since := m.now() - m.saidAt
	for i := range states {
		state := &states[i]
		if state.LastAckMs >= 0 {
			state.LastAckMs += since.Milliseconds()
		}
		state.Live = state.LastAckMs >= 0 && time.Duration(state.LastAckMs)*time.Millisecond < m.liveFor
	}
	return states
}

func (s *MemberState) take(frame *MemberFrame) {
	s.LastLog, s.Applied, s.Durable = frame.LastLog, frame.Applied, frame.Durable
	s.DiskPercent, s.Full, s.Kinds = frame.DiskPercent, frame.Full, frame.Kinds
}

// Members lists the members as the leader sees them, or as it last told this node; empty before it did.
func (n *Node) Members() []MemberState {
	if n.members == nil {
		return nil
	}
	return n.members.states()
}

// Peer is another member, as this node knows it.
type Peer struct {
	ID   uint64
	Live bool
	// LastAckMs is the time since it was heard: by the leader, as far as that has told; -1 when it was not.
	LastAckMs int64
	// SkewMs is how far its wall clock is ahead of this node's; Measured tells whether that is known.
	SkewMs   float64
	Measured bool
}

// Peers lists the other members, ascending by id.
func (n *Node) Peers() []Peer {
	states := n.Members()
	if len(states) == 0 { // nobody has said anything yet
		for _, server := range n.servers() {
			states = append(states, MemberState{ID: nodeID(server.ID), LastAckMs: -1})
		}
	}
	return peersOf(states, n.options.NodeID)
}

// peersOf turns what the leader has measured into what a node knows of the others: skews are against its own clock.
func peersOf(states []MemberState, self uint64) []Peer {
	own := slices.IndexFunc(states, func(s MemberState) bool { return s.ID == self })
	var peers []Peer
	for i, state := range states {
		if i == own {
			continue
		}
		peer := Peer{ID: state.ID, Live: state.Live, LastAckMs: state.LastAckMs}
		if own >= 0 && states[own].LastAckMs >= 0 && state.LastAckMs >= 0 {
			peer.SkewMs, peer.Measured = state.ClockSkewMs-states[own].ClockSkewMs, true
		}
		peers = append(peers, peer)
	}
	return peers
}

// MembersAgeMs is the time since the leader described the members, as Members lists them; 0 on the leader, and before it did.
func (n *Node) MembersAgeMs() int64 {
	if n.members == nil || n.proposerTerm() != 0 {
		return 0
	}
	n.members.mu.Lock()
	defer n.members.mu.Unlock()
	if n.members.saidAt == longAgo {
		return 0
	}
	return (n.members.now() - n.members.saidAt).Milliseconds()
}

// DiskGate returns the voter whose data volume closes the gate of the group, 0 while it is open. known is false while no leader
// says so: then each node judges its own disk.
func (n *Node) DiskGate() (id uint64, percent float64, known bool) {
	if n.members == nil {
		return 0, 0, false
	}
	return n.members.full()
}
