package node

import (
	"slices"

	"queen/cmd/queen/config"
	"queen/raftlog"
)

// The verdicts on this node that are no verdict of another one (cluster 7.1, identity).
const (
	identityOK      = "ok"
	identityJoining = "joining"
	identityRemoved = "removed"
)

// readiness is what the ready rule looks at (cluster 7.2).
type readiness struct {
	// booting is set until the node can serve, and while it installs a snapshot.
	booting  bool
	identity string
	// voter and caughtUp: a learner is ready once it has caught up.
	voter, caughtUp bool
	// leader is set while a leader is known, led once one was.
	leader, led bool
	// quorumAckMs is the age of the newest quorum acknowledgement; -1 for none.
	quorumAckMs int64
	lagEntries  uint64
	lagMs       int64
	// storageFailed and applyFailed tell why the node has stopped.
	storageFailed, applyFailed bool
	stopping                   bool
}

// limits are the settings of the rule.
type limits struct {
	quorumMs, lagMs, lagEntries int64
}

func limitsOf(c *config.Config) limits {
	return limits{
		quorumMs: int64(c.RaftReadyQuorumMs), lagMs: int64(c.RaftReadyLagMs), lagEntries: c.RaftReadyLagEntries,
	}
}

// reasons is the ready rule: why the node is not ready, nothing when it is.
func (r *readiness) reasons(l limits) []string {
	var reasons []string
	because := func(holds bool, reason string) {
		if holds && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	because(r.booting, "booting")
	because(r.identity != identityOK, "identity")
	because(!r.led, "no_leader")
	if l.quorumMs > 0 {
		because(r.quorumAckMs < 0 || r.quorumAckMs > l.quorumMs, "quorum")
	} else {
		because(!r.leader, "no_leader")
	}
	because(r.identity == identityOK && !r.voter && !r.caughtUp, "lag")
	because(int64(r.lagEntries) >= l.lagEntries && r.lagMs > l.lagMs, "lag")
	because(r.storageFailed, "storage")
	because(r.applyFailed, "apply_failure")
	because(r.stopping, "stopping")
	return reasons
}

// identityOf is what this node is to its cluster. inCluster tells that it has a cluster id, wasMember that it belonged to the
// members before; status is nil before the log is open.
func identityOf(inCluster, wasMember bool, status *raftlog.Status) string {
	switch {
	case !inCluster:
		return identityJoining
	case status == nil || status.Member:
		return identityOK
	case wasMember:
		return identityRemoved
	}
	return identityJoining
}
