package raftlog

import (
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Role is what a node is in its group (cluster 7.1).
type Role string

// The roles.
const (
	RoleLeader    Role = "leader"
	RoleFollower  Role = "follower"
	RoleLearner   Role = "learner"
	RoleCandidate Role = "candidate"
	RoleStopped   Role = "stopped"
)

// Status describes the group as this node sees it.
type Status struct {
	Role Role
	// Ready says that this node leads and has applied the first entry of its term.
	Ready bool
	Term  uint64
	// LeaderID is 0 while no leader is known. This node counts itself as leader from Ready on.
	LeaderID uint64
	// FirstIndex and LastIndex are those of the log; 0 when it is empty.
	FirstIndex, LastIndex uint64
	CommitIndex           uint64
	AppliedIndex          uint64
	DurableIndex          uint64
	// SnapshotIndex is the index from which the library starts.
	SnapshotIndex uint64
	// QuorumAckMs is the age of the newest quorum acknowledgement that this node knows of; -1 when it knows of none.
	QuorumAckMs int64
	// LastCommitMs is the time since an entry was last applied here; -1 when none was since the start.
	LastCommitMs int64
	LogBytes     int64
	LogFiles     int
	// LagEntries is how many entries are known to be committed and not applied here, LagMs the time since there were none;
	// both 0 on the leader. CaughtUp tells whether there were none at any moment since the start.
	LagEntries uint64
	LagMs      int64
	CaughtUp   bool
	// Voters and Learners are the ids of the committed membership as applied here, ascending.
	Voters, Learners []uint64
	// Member tells whether this node is one of them.
	Member bool
	// WaitingCommands and InFlightEntries are those of the proposer.
	WaitingCommands, InFlightEntries int
	// Forwarded counts what went between this node and others since its start.
	Forwarded Forwarded
	// LeaderChanges counts the leaders that this node has heard of since its start.
	LeaderChanges uint64
	// Failure is why this node stopped; nil while it has not. ApplyFailure is set when it was an entry.
	Failure      error
	ApplyFailure *ApplyFailure
}

// Forwarded counts commands that were sent to a leader, those of other nodes that this one has proposed or refused, and the streams
// that were opened to a leader.
type Forwarded struct{ Sent, Served, StreamsOpened uint64 }

// forwardCounts is Forwarded as it counts.
type forwardCounts struct{ sent, served, streams atomic.Uint64 }

// Status returns the present state. It takes no part in the write path and never waits for the disk's flushes.
func (n *Node) Status() Status {
	s := Status{Term: n.raft.CurrentTerm(), QuorumAckMs: -1, LastCommitMs: -1}
	// Each index is read after those that never pass it, so that they never do in what is shown. After Close the log answers
	// an error, and zeros are right.
	s.FirstIndex, _ = n.log.FirstIndex()
	s.SnapshotIndex = n.snapshots.current().Index
	s.DurableIndex = n.keeper.durable.Load()
	s.AppliedIndex = n.gate.index.Load()
	s.CommitIndex = max(n.raft.CommitIndex(), s.AppliedIndex)
	s.LastIndex, _ = n.log.LastIndex()
	s.LogBytes, s.LogFiles = n.log.size()
	s.WaitingCommands, s.InFlightEntries = n.proposer.depth()
	s.LeaderChanges = n.leaders.Load()
	s.Forwarded = Forwarded{Sent: n.counts.sent.Load(), Served: n.counts.served.Load(), StreamsOpened: n.counts.streams.Load()}
	term, ready, _, _ := n.proposer.leadership()
	s.Ready = ready && term == s.Term
	n.describeMembership(&s)

	n.mu.Lock()
	s.Failure, s.ApplyFailure = n.failure, n.applyFailure
	closing := n.closing
	n.mu.Unlock()
	if last := n.lastCommit.Load(); last > 0 {
		s.LastCommitMs = (n.options.Clock.Monotonic() - time.Duration(last)).Milliseconds()
	}
	if s.Failure != nil || closing {
		s.Role, s.Ready, s.LeaderID = RoleStopped, false, 0
		return s
	}
	if n.members != nil {
		s.QuorumAckMs = n.members.quorumAckMs()
		s.CommitIndex = max(s.CommitIndex, n.members.commit())
	}
	n.describeLeader(&s)
	n.describeLag(&s)
	return s
}

func (n *Node) describeLag(s *Status) {
	n.level.committed(s.CommitIndex)
	s.LagEntries, s.LagMs, s.CaughtUp = n.level.lag()
	if s.LeaderID == n.options.NodeID {
		s.LagEntries, s.LagMs, s.CaughtUp = 0, 0, true
	}
}

// describeLeader fills in role, leader and the age of the quorum acknowledgement.
func (n *Node) describeLeader(s *Status) {
	state := n.raft.State()
	if state == raft.Candidate && n.options.guarded() {
		state = raft.Follower // it asks nobody for a vote
	}
	switch state {
	case raft.Leader:
		s.Role = RoleLeader
		if s.Ready {
			s.LeaderID = n.options.NodeID
		}
		if n.log.soleVoter.Load() {
			s.QuorumAckMs = 0
		}
		return
	case raft.Candidate:
		s.Role = RoleCandidate
	default:
		s.Role = RoleFollower
		if !slices.Contains(s.Voters, n.options.NodeID) {
			s.Role = RoleLearner // or no member at all, which receives no more than one
		}
	}
	if _, leader := n.raft.LeaderWithID(); leader != "" && leader != n.self {
		s.LeaderID = nodeID(leader)
	}
}

func (n *Node) describeMembership(s *Status) {
	s.Member = n.fsm.member.Load()
	for _, server := range n.fsm.committedServers() {
		if server.Suffrage == raft.Voter {
			s.Voters = append(s.Voters, nodeID(server.ID))
		} else {
			s.Learners = append(s.Learners, nodeID(server.ID))
		}
	}
	slices.Sort(s.Voters)
	slices.Sort(s.Learners)
}

// Member tells at once whether this node is in the newest membership that is committed and applied here.
func (n *Node) Member() bool { return n.fsm.member.Load() }

// QuorumAge is the time since the newest quorum acknowledgement that this node knows of; since the start when it knows of
// none. It is 0 for the only voter of a group.
func (n *Node) QuorumAge() time.Duration {
	if n.log.soleVoter.Load() {
		return 0
	}
	if n.members == nil {
		return n.options.Clock.Monotonic() - n.openedAt
	}
	return n.members.quorumAge(n.openedAt)
}

// LeaderChanges counts the leaders that this node has heard of since its start.
func (n *Node) LeaderChanges() uint64 { return n.leaders.Load() }

// LiveWithin is how long a silent member is live (cluster 0).
func LiveWithin(electionMs int) time.Duration {
	return max(livenessFloor, livenessElections*time.Duration(electionMs)*time.Millisecond)
}

// Position is the term of this node and its last log entry, the applied ones included.
func (n *Node) Position() (term, lastIndex, lastTerm uint64) {
	held, heldTerm := n.machine.AppliedIndex()
	lastIndex, lastTerm = held, heldTerm
	var entry raft.Log
	if last, err := n.log.LastIndex(); err == nil && last > held && n.log.GetLog(last, &entry) == nil {
		lastIndex, lastTerm = last, entry.Term
	}
	return n.raft.CurrentTerm(), lastIndex, lastTerm
}

// MemberAddress is the raft address of a node in the newest membership in the log; empty for a stranger.
func (n *Node) MemberAddress(id uint64) string {
	for _, server := range n.servers() {
		if nodeID(server.ID) == id {
			return string(server.Address)
		}
	}
	return ""
}

func serverID(id uint64) raft.ServerID { return raft.ServerID(strconv.FormatUint(id, 10)) }

// nodeID returns the number in a server id, 0 when it is none of ours.
func nodeID(id raft.ServerID) uint64 {
	number, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// Failed returns why this node stopped, and nil while it has not. errors.Is tells ErrStorage from ErrApply.
func (n *Node) Failed() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.failure)
}
