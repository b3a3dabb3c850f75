package node

import (
	"slices"
	"sync/atomic"
	"time"

	"queen/actors"
	"queen/cmd/queen/config"
	"queen/cmd/queen/version"
	"queen/httpfront"
	"queen/httpfront/api"
	"queen/raftlog"
	"queen/raftlog/peer"
	"queen/store"
)

// health answers what /health shows (cluster 7), from memory, at once.
type health struct {
	config   *config.Config
	limits   limits
	handlers *api.API
	raft     atomic.Pointer[raftlog.Node]
	port     atomic.Pointer[raftPort]
	store    atomic.Pointer[store.Store]
	// admin asks other nodes; nil without a raft port.
	admin atomic.Pointer[peer.Router]
	ready atomic.Bool
	// installing is set while the state of the leader comes in (cluster 12).
	installing atomic.Bool
	// led is set once a leader was known.
	led      atomic.Bool
	stopping atomic.Bool
	disk     *diskGate
	host     *host
	// failure is why there is no state to serve from.
	failure atomic.Pointer[error]
}

func newHealth(c *config.Config) *health {
	return &health{config: c, limits: limitsOf(c), host: newHost(c.RaftDirectory)}
}

// broken tells that the node has no state any more that it could serve; the process goes on, to be asked about it.
func (h *health) broken(err error) { h.failure.Store(&err) }

// mended tells that it has one again.
func (h *health) mended() { h.failure.Store(nil) }

func (h *health) connect(raft *raftlog.Node) { h.raft.Store(raft) }

// disconnect tells that there is no log and no state any more.
func (h *health) disconnect() {
	h.raft.Store(nil)
	h.store.Store(nil)
}

// Health implements api.Node.
func (h *health) Health() api.Health {
	out := api.Health{
		Version: version.Get().Version, NodeID: uint64(h.config.RaftNodeID), ClusterVersion: version.Format,
		Kinds: version.Format, StorageReady: true, QuorumAckMs: -1, Role: string(raftlog.RoleFollower),
	}
	if h.disk != nil {
		out.DiskPercent, out.StorageFull = h.disk.Percent(), h.disk.Full()
	}
	var status *raftlog.Status
	if raft := h.raft.Load(); raft != nil {
		current := raft.Status()
		status = &current
	}
	out.ClusterID, out.ClusterEpoch, out.Identity = h.identity(status)
	port := h.port.Load()
	if port != nil {
		out.ClusterVersion = int(port.state().Format)
	}
	rule := readiness{booting: !h.ready.Load() || h.installing.Load(), identity: out.Identity, quorumAckMs: -1, stopping: h.stopping.Load(), voter: true}
	if status == nil {
		if out.Identity == identityJoining || port.returns() {
			out.Role, rule.voter = string(raftlog.RoleLearner), false
			out.LagMs = time.Now().UnixMilli() // it has applied nothing, ever
		}
		if h.failure.Load() != nil {
			out.Role, out.StorageReady, rule.storageFailed = string(raftlog.RoleStopped), false, true
		}
		out.Reasons = rule.reasons(h.limits)
		return out
	}
	h.describe(&out, status)
	if out.Identity == identityRemoved {
		out.Role = string(raftlog.RoleLearner) // it may not have heard of it in its log
	}
	rule.judge(&out, h.led.Load())
	out.Reasons = rule.reasons(h.limits)
	return out
}

// identity returns the cluster that this node belongs to, and what it is to it.
func (h *health) identity(status *raftlog.Status) (clusterID string, epoch uint64, verdict string) {
	port := h.port.Load()
	if port == nil {
		return "", 0, identityOK // booting: nothing is known yet
	}
	current := port.identity.Current()
	return current.ClusterID, current.ClusterEpoch, port.standing(&current, status)
}

// describe fills in what the log says.
func (h *health) describe(out *api.Health, status *raftlog.Status) {
	out.Status = *status
	out.Role, out.Term, out.LeaderID = string(status.Role), status.Term, status.LeaderID
	out.Applied, out.Commit, out.QuorumAckMs = status.AppliedIndex, status.CommitIndex, status.QuorumAckMs
	out.LagEntries, out.LagMs = status.LagEntries, status.LagMs
	out.Voters, out.Learners = status.Voters, status.Learners
	out.StorageReady = status.Failure == nil && h.failure.Load() == nil
	if status.LeaderID != 0 {
		h.led.Store(true)
	}
	if f := status.ApplyFailure; f != nil {
		class := "deterministic"
		if actors.StorageFailed(f.Err) {
			class = classLocal
		}
		out.ApplyFailure = &api.ApplyFailure{
			Class: class, Command: f.Command, Effect: f.Effect, Index: f.Index, Term: f.Term, Digest: f.Digest, Error: f.Err.Error()}
	}
}

// classLocal is the class of an apply failure that this node's disk is to blame for.
const classLocal = "node-local"

// judge takes in what the rule looks at.
func (r *readiness) judge(out *api.Health, led bool) {
	r.voter, r.caughtUp = slices.Contains(out.Voters, out.NodeID), out.Status.CaughtUp
	r.leader, r.led = out.LeaderID != 0, led
	r.quorumAckMs, r.lagEntries, r.lagMs = out.QuorumAckMs, out.LagEntries, out.LagMs
	local := out.ApplyFailure != nil && out.ApplyFailure.Class == classLocal
	r.applyFailed = out.ApplyFailure != nil && !local
	r.storageFailed = !out.StorageReady && (out.ApplyFailure == nil || local)
}

// unavailable refuses client routes while this node is no member (cluster 3.1), or applies nothing because it fetches the state of the
// leader (cluster 9); nil otherwise. It is asked with every request.
func (h *health) unavailable() *httpfront.Error {
	port := h.port.Load()
	if port == nil {
		return nil // booting
	}
	if port.refused() {
		return httpfront.Refuse(httpfront.CodeRetry, "this node's directory is not the one that its cluster knows: it takes no part")
	}
	if h.installing.Load() {
		refusal := httpfront.Refuse(httpfront.CodeRetry, "this node fetches the state of its leader")
		refusal.Leader = h.Leader()
		return refusal
	}
	raft := h.raft.Load()
	if raft == nil && port.inCluster() || raft != nil && raft.Member() && !port.removed.Load() {
		return nil
	}
	return httpfront.Refuse(httpfront.CodeNoLeader, "this node is not a member of a cluster")
}

// Leader implements api.Node.
func (h *health) Leader() string {
	raft, port := h.raft.Load(), h.port.Load()
	if raft == nil || port == nil {
		return ""
	}
	leader := raft.OtherLeader()
	if leader == 0 {
		return ""
	}
	return port.httpAddress(leader)
}

// LeaderChanges implements api.Node.
func (h *health) LeaderChanges() uint64 {
	if raft := h.raft.Load(); raft != nil {
		return raft.LeaderChanges()
	}
	return 0
}

// LiveWithin implements api.Node.
func (h *health) LiveWithin() time.Duration { return raftlog.LiveWithin(int(h.config.RaftElectionMs)) }

// quorumAge is the time since the newest quorum acknowledgement.
func (h *health) quorumAge() time.Duration {
	if raft := h.raft.Load(); raft != nil {
		return raft.QuorumAge()
	}
	return 0
}
