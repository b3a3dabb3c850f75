package cluster

import (
	"fmt"
	"net/http"
	"time"
)

// healthWithin bounds a look at /health: it is answered at once or by nobody.
const healthWithin = time.Second

// Health is what a node says of itself (cluster.md 7.1).
type Health struct {
	Status  int      `json:"-"` // of the answer
	Reasons []string `json:"reasons"`
	Raft    struct {
		Role       string   `json:"role"`
		LeaderID   uint64   `json:"leaderId"` // 0 when it knows none
		Term       uint64   `json:"term"`
		Applied    uint64   `json:"applied"`
		Commit     uint64   `json:"commit"`
		LagEntries uint64   `json:"lagEntries"`
		Identity   string   `json:"identity"`
		ClusterID  string   `json:"clusterId"`
		Voters     []uint64 `json:"voters"`
		// StorageReady is false while the node cannot store anything.
		StorageReady bool     `json:"storageReady"`
		Learners     []uint64 `json:"learners"`
	} `json:"raft"`
}

// Healthy tells whether the node answered 200.
func (h Health) Healthy() bool { return h.Status == http.StatusOK }

// Leads tells whether the node leads in its own eyes.
func (h Health) Leads() bool { return h.Raft.Role == "leader" }

// String shows what matters for a failure message.
func (h Health) String() string {
	return fmt.Sprintf("status %d %v, %s of term %d under %d, applied %d of %d, identity %s", h.Status, h.Reasons,
		h.Raft.Role, h.Raft.Term, h.Raft.LeaderID, h.Raft.Applied, h.Raft.Commit, h.Raft.Identity)
}

// Health asks the node. Only an answer of another kind than 200 and 503 is an error.
func (n *Node) Health() (Health, error) {
	reply := n.Client().WithTimeout(healthWithin).Get("/health")
	var health Health
	if err := reply.Decode(&health); err != nil {
		return health, fmt.Errorf("health of node %d: %w", n.ID, err)
	}
	if reply.Status != http.StatusOK && reply.Status != http.StatusServiceUnavailable {
		return health, fmt.Errorf("health of node %d: %v", n.ID, reply)
	}
	health.Status = reply.Status
	return health, nil
}

// Purged asks the node how far its log is cut off at the beginning.
func (n *Node) Purged() (uint64, error) {
	reply := n.Client().Get("/api/v1/raft/members")
	var answer struct {
		Members []struct {
			Local       bool   `json:"local"`
			PurgedIndex uint64 `json:"purgedIndex"`
		} `json:"members"`
	}
	if reply.Err != nil || reply.Status != http.StatusOK {
		return 0, fmt.Errorf("members through node %d: %v", n.ID, reply)
	}
	if err := reply.Decode(&answer); err != nil {
		return 0, fmt.Errorf("members through node %d: %w", n.ID, err)
	}
	for _, member := range answer.Members {
		if member.Local {
			return member.PurgedIndex, nil
		}
	}
	return 0, fmt.Errorf("node %d does not list itself: %v", n.ID, reply)
}
