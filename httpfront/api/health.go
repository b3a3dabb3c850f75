package api

import (
	"encoding/json"
	"time"

	"queen/httpfront"
	"queen/raftlog"
)

// Node is what the handlers ask of the node itself.
type Node interface {
	Health() Health
	// Leader is the HTTP address of the node that leads, for clients; empty while none is known, or it is this node.
	Leader() string
	// LeaderChanges counts the leaders that this node has heard of since its start.
	LeaderChanges() uint64
	// Members asks every member how it is, and answers within about a second.
	Members() Members
	// Peers are the other members as this node knows them.
	Peers() []Peer
	// LiveWithin is how long a silent member is live.
	LiveWithin() time.Duration
}

// Health is the state of a node as /health shows it (cluster 7.1).
type Health struct {
	Version        string
	Reasons        []string
	Role           string
	LeaderID       uint64
	Term           uint64
	Applied        uint64
	Commit         uint64
	LagMs          int64
	LagEntries     uint64
	QuorumAckMs    int64
	StorageReady   bool
	ClusterVersion int
	Kinds          int
	ClusterID      string
	ClusterEpoch   uint64
	NodeID         uint64
	Identity       string
	Voters         []uint64
	Learners       []uint64
	DiskPercent    float64
	StorageFull    bool
	ApplyFailure   *ApplyFailure
	Status         raftlog.Status
}

// ApplyFailure is the entry at which a node stopped applying.
type ApplyFailure struct {
	// Class is deterministic when every node stops at the entry, node-local when only this disk is to blame.
	Class string `json:"class"`
	// Command is the name of the entry's first command, Effect says how many it has of each name.
	Command string `json:"command"`
	Digest  string `json:"digest"`
	Effect  string `json:"effect"`
	Error   string `json:"error"`
	Index   uint64 `json:"index"`
	Term    uint64 `json:"term"`
}

// Ready tells whether the node answers 200.
func (h *Health) Ready() bool { return len(h.Reasons) == 0 }

type healthAnswer struct {
	Status  string     `json:"status"`
	Engine  string     `json:"engine"`
	Version string     `json:"version"`
	Reasons []string   `json:"reasons"`
	Raft    raftAnswer `json:"raft"`
}

type raftAnswer struct {
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
	Kinds          int         `json:"kinds"`
	ClusterID      string      `json:"clusterId"`
	ClusterEpoch   uint64      `json:"clusterEpoch"`
	NodeID         uint64      `json:"nodeId"`
	Identity       string      `json:"identity"`
	Voters         []uint64    `json:"voters"`
	Learners       []uint64    `json:"learners"`
	DiskPct        float64     `json:"diskPct"`
	StorageFull    bool        `json:"storageFull"`
	Apply          applyAnswer `json:"apply"`
}

type applyAnswer struct {
	Failure *ApplyFailure `json:"failure"`
	Skipped []struct{}    `json:"skipped"`
}

func (h *Health) raft() raftAnswer {
	answer := raftAnswer{
		Role: h.Role, Leader: h.LeaderID != 0, Term: h.Term, Applied: h.Applied, Commit: h.Commit, Lag: h.LagMs,
		LagEntries: h.LagEntries, QuorumAckMs: h.QuorumAckMs, StorageReady: h.StorageReady,
		ClusterVersion: h.ClusterVersion, Kinds: h.Kinds, ClusterID: h.ClusterID, ClusterEpoch: h.ClusterEpoch,
		NodeID: h.NodeID, Identity: h.Identity, Voters: orEmpty(h.Voters), Learners: orEmpty(h.Learners),
		DiskPct: tenths(h.DiskPercent), StorageFull: h.StorageFull,
		Apply: applyAnswer{Failure: h.ApplyFailure, Skipped: []struct{}{}},
	}
	if h.LeaderID != 0 {
		answer.LeaderID = &h.LeaderID
	}
	return answer
}

// tenths cuts a percentage to one place.
func tenths(percent float64) float64 { return float64(int(percent*10)) / 10 }

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// health answers /health: 200 when the node is ready, else 503 with the reasons.
func (a *API) health(r *httpfront.Request) error {
	h := a.node.Health()
	answer := healthAnswer{Status: "healthy", Engine: "raft", Version: h.Version, Reasons: orEmpty(h.Reasons), Raft: h.raft()}
	status := 200
	if !h.Ready() {
		answer.Status, status = "settling", 503
		r.Ctx.Response.Header.Set("Retry-After", "1")
	}
	return answerJSON(r, status, answer)
}

// status answers /status.
func (a *API) status(r *httpfront.Request) error {
	r.JSON(200, []byte(`{"status":"ok","engine":"raft"}`))
	return nil
}

// answerJSON encodes answers that are not on the hot path.
func answerJSON(r *httpfront.Request, status int, answer any) error {
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	r.JSONOwned(status, body)
	return nil
}
