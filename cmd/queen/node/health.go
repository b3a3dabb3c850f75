package node

import (
	"sync/atomic"

	"queen/actors"
	"queen/cmd/queen/config"
	"queen/cmd/queen/version"
	"queen/httpfront/api"
	"queen/raftlog"
)

// health answers what /health shows (cluster 7), from memory, at once.
type health struct {
	config   *config.Config
	handlers *api.API
	raft     atomic.Pointer[raftlog.Node]
	port     atomic.Pointer[raftPort]
	ready    atomic.Bool
	// led is set once a leader was known.
	led      atomic.Bool
	stopping atomic.Bool
	disk     *diskGate
	lag      lag
	failure  atomic.Pointer[error]
}

func newHealth(c *config.Config) *health { return &health{config: c} }

// broken tells that the node has no state any more that it could serve; the process goes on, to be asked about it.
func (h *health) broken(err error) { h.failure.Store(&err) }

func (h *health) connect(raft *raftlog.Node) { h.raft.Store(raft) }

// Health implements api.Node.
func (h *health) Health() api.Health {
	out := api.Health{
		Version: version.Get().Version, NodeID: uint64(h.config.RaftNodeID), ClusterVersion: version.Format,
		Kinds: version.Format, Identity: "ok", StorageReady: true, Role: string(raftlog.RoleFollower),
	}
	if port := h.port.Load(); port != nil {
		current := port.identity.Current()
		out.ClusterID, out.ClusterEpoch = current.ClusterID, current.ClusterEpoch
		if current.ClusterID == "" {
			out.Identity = "joining"
		}
	}
	if err := h.failure.Load(); err != nil {
		out.Role, out.StorageReady = string(raftlog.RoleStopped), false
		out.Reasons = append(out.Reasons, "storage")
		return out
	}
	raft := h.raft.Load()
	if raft == nil {
		out.Reasons = append(out.Reasons, "booting")
		return out
	}
	status := raft.Status()
	out.Role, out.Term = string(status.Role), status.Term
	out.LeaderID = status.LeaderID
	out.Applied, out.Commit = status.AppliedIndex, status.CommitIndex
	out.QuorumAckMs = status.QuorumAckMs
	out.Voters, out.Learners = status.Voters, status.Learners
	out.Status = status
	out.LagEntries, out.LagMs = h.lag.measure(&status, uint64(h.config.RaftNodeID))
	h.judge(&out, &status)
	return out
}

// judge is the ready rule (cluster 7.2).
func (h *health) judge(out *api.Health, status *raftlog.Status) {
	because := func(holds bool, reason string) {
		if holds {
			out.Reasons = append(out.Reasons, reason)
		}
	}
	out.StorageReady = status.Failure == nil
	because(!h.ready.Load(), "booting")
	because(out.Identity != "ok", "identity")
	because(status.LeaderID == 0 && !h.led.Load(), "no_leader")
	if status.LeaderID != 0 {
		h.led.Store(true)
	}
	because(int64(out.LagEntries) >= h.config.RaftReadyLagEntries && out.LagMs > int64(h.config.RaftReadyLagMs), "lag")
	quorum := int64(h.config.RaftReadyQuorumMs)
	because(quorum > 0 && (status.QuorumAckMs < 0 || status.QuorumAckMs > quorum), "quorum")
	because(quorum == 0 && status.LeaderID == 0, "quorum")
	local := status.ApplyFailure != nil && actors.StorageFailed(status.ApplyFailure.Err)
	because(status.ApplyFailure != nil && !local, "apply_failure")
	because(status.Failure != nil && (status.ApplyFailure == nil || local), "storage")
	because(h.stopping.Load(), "stopping")
	if f := status.ApplyFailure; f != nil {
		class := "deterministic"
		if local {
			class = "node-local"
		}
		out.ApplyFailure = &api.ApplyFailure{Class: class, Index: f.Index, Term: f.Term, Digest: f.Digest, Error: f.Err.Error()}
	}
	if h.disk != nil {
		out.DiskPercent, out.StorageFull = h.disk.Percent(), h.disk.Full()
	}
}
