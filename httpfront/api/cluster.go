package api

import (
	"encoding/hex"

	"queen/httpfront"
)

// groupAnswer is one group of this node (cluster 7.1).
type groupAnswer struct {
	Group          int         `json:"group"`
	Role           string      `json:"role"`
	Leader         bool        `json:"leader"`
	LeaderID       *uint64     `json:"leaderId"`
	Term           uint64      `json:"term"`
	Applied        uint64      `json:"applied"`
	Commit         uint64      `json:"commit"`
	Lag            int64       `json:"lag"`
	LagEntries     uint64      `json:"lagEntries"`
	QuorumAckMs    int64       `json:"quorumAckMs"`
	StorageReady   bool        `json:"storageReady"`
	ClusterVersion int         `json:"clusterVersion"`
	Apply          applyAnswer `json:"apply"`
}

// raftStatus answers /api/v1/raft/status: the node as /health shows it, and its groups.
func (a *API) raftStatus(r *httpfront.Request) error {
	h := a.node.Health()
	raft := h.raft()
	return answerJSON(r, 200, struct {
		raftAnswer
		Self       uint64        `json:"self"`
		SingleNode bool          `json:"singleNode"`
		Engine     string        `json:"engine"`
		Groups     []groupAnswer `json:"groups"`
	}{
		raftAnswer: raft, Self: h.NodeID, Engine: "raft",
		SingleNode: len(h.Voters)+len(h.Learners) <= 1,
		Groups: []groupAnswer{{
			Role: raft.Role, Leader: raft.Leader, LeaderID: raft.LeaderID, Term: raft.Term, Applied: raft.Applied,
			Commit: raft.Commit, Lag: raft.Lag, LagEntries: raft.LagEntries, QuorumAckMs: raft.QuorumAckMs,
			StorageReady: raft.StorageReady, ClusterVersion: raft.ClusterVersion, Apply: raft.Apply,
		}},
	})
}

// Peer is another member, as this node knows it.
type Peer struct {
	NodeID uint64 `json:"nodeId"`
	Live   bool   `json:"live"`
	// LastAckMs is the time since the member was heard, by this node or by the leader; null when it was not.
	LastAckMs *int64 `json:"lastAckMs"`
	// ClockSkewMs is how far its wall clock is ahead of this node's; null when nobody has measured it.
	ClockSkewMs *float64 `json:"clockSkewMs"`
}

// raftLiveness answers /api/v1/raft/liveness.
func (a *API) raftLiveness(r *httpfront.Request) error {
	h := a.node.Health()
	raft := h.raft()
	return answerJSON(r, 200, struct {
		NodeID       uint64  `json:"nodeId"`
		Role         string  `json:"role"`
		Term         uint64  `json:"term"`
		LeaderID     *uint64 `json:"leaderId"`
		QuorumAckMs  int64   `json:"quorumAckMs"`
		LiveWithinMs int64   `json:"liveWithinMs"`
		Peers        []Peer  `json:"peers"`
	}{h.NodeID, raft.Role, raft.Term, raft.LeaderID, raft.QuorumAckMs, a.node.LiveWithin().Milliseconds(), orEmpty(a.node.Peers())})
}

// Members is the cluster as all its members see themselves.
type Members struct {
	ClusterID    string       `json:"clusterId"`
	ClusterEpoch uint64       `json:"clusterEpoch"`
	LeaderID     *uint64      `json:"leaderId"`
	Term         uint64       `json:"term"`
	Self         uint64       `json:"self"`
	Voters       []uint64     `json:"voters"`
	Members      []MemberView `json:"members"`
}

// MemberView is one member: what it says of itself, and from MatchIndex on what others know of it, null where nobody does.
type MemberView struct {
	NodeID uint64 `json:"nodeId"`
	// Role is "voter" or "learner". State is the member's own role, "shutdown" for one that has stopped, "unreachable" for one
	// that does not answer.
	Role      string `json:"role"`
	State     string `json:"state"`
	Reachable bool   `json:"reachable"`
	Local     bool   `json:"local"`
	MemberReport
	MatchIndex     *uint64 `json:"matchIndex"`
	HeartbeatAgeMs *int64  `json:"heartbeatAgeMs"`
	// Identity is the verdict that the member is under; null when it does not answer.
	Identity    *string  `json:"identity"`
	ClockSkewMs *float64 `json:"clockSkewMs"`
	// Error says why the member does not answer; null when it does.
	Error *string `json:"error"`
}

// MemberReport is what a member says of itself. It travels between nodes.
type MemberReport struct {
	Hostname       string      `json:"hostname"`
	HTTPAddress    string      `json:"httpAddr"`
	RaftAddress    string      `json:"raftAddr"`
	Term           uint64      `json:"term"`
	LastLogIndex   uint64      `json:"lastLogIndex"`
	AppliedIndex   uint64      `json:"appliedIndex"`
	CommittedIndex uint64      `json:"committedIndex"`
	DurableIndex   uint64      `json:"durableIndex"`
	PurgedIndex    uint64      `json:"purgedIndex"`
	SnapshotIndex  uint64      `json:"snapshotIndex"`
	LagEntries     uint64      `json:"lagEntries"`
	InFlight       int         `json:"inflight"`
	DiskPercent    float64     `json:"diskPct"`
	Log            LogReport   `json:"log"`
	Store          StoreReport `json:"store"`
	Version        string      `json:"version"`
	Kinds          int         `json:"kinds"`
	UptimeSeconds  float64     `json:"uptimeSeconds"`
	Host           HostReport  `json:"host"`
}

// LogReport is the log on disk.
type LogReport struct {
	Bytes int64 `json:"bytes"`
	Files int   `json:"files"`
}

// StoreReport is the store on disk, and the volume that it lies on.
type StoreReport struct {
	MapUsedPercent float64 `json:"mapUsedPct"`
	UsedBytes      int64   `json:"usedBytes"`
	MapBytes       int64   `json:"mapBytes"`
	ReadersInUse   int     `json:"readersInUse"`
	MaxReaders     int     `json:"maxReaders"`
	LSMBytes       int64   `json:"lsmBytes"`
	ValueLogBytes  int64   `json:"valueLogBytes"`
}

// HostReport is the machine of a member, and the process on it.
type HostReport struct {
	CPUPercent     float64 `json:"cpuPct"`
	ResidentBytes  uint64  `json:"rssBytes"`
	AnonymousBytes uint64  `json:"anonBytes"`
	MemoryBytes    uint64  `json:"memTotalBytes"`
	DiskUsedBytes  uint64  `json:"diskUsedBytes"`
	DiskTotalBytes uint64  `json:"diskTotalBytes"`
}

// raftMembers answers /api/v1/raft/members.
func (a *API) raftMembers(r *httpfront.Request) error {
	group, err := r.QueryInt("group", 0)
	if err != nil {
		return err
	}
	if group != 0 {
		return httpfront.Refuse(httpfront.CodeBadRequest, "this node has one group, 0")
	}
	members := a.node.Members()
	for i := range members.Members {
		member := &members.Members[i]
		member.DiskPercent = tenths(member.DiskPercent)
		member.Store.MapUsedPercent = tenths(member.Store.MapUsedPercent)
		member.Host.CPUPercent = tenths(member.Host.CPUPercent)
		member.UptimeSeconds = float64(int(member.UptimeSeconds))
	}
	return answerJSON(r, 200, members)
}

// stateHash answers /api/v1/system/raft/state-hash: a fingerprint of the applied state, equal on all nodes at one index. It reads
// all of the state, so one request at a time may ask.
func (a *API) stateHash(r *httpfront.Request) error {
	if !a.hashing.CompareAndSwap(false, true) {
		return httpfront.Refuse(httpfront.CodeOverloaded, "another request reads the state; wait and retry")
	}
	defer a.hashing.Store(false)
	index, hash, err := a.broker().StateHash()
	if err != nil {
		return err
	}
	return answerJSON(r, 200, struct {
		Index uint64 `json:"index"`
		Hash  string `json:"hash"`
	}{index, hex.EncodeToString(hash[:])})
}
