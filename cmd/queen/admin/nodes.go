package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Nodes is what the asked node learnt from every member over the raft port (cluster 7.3). It names what Survey uses.
type Nodes struct {
	Self    uint64 `json:"self"`
	Members []Node `json:"members"`
}

// Node is one of them.
type Node struct {
	NodeID       uint64   `json:"nodeId"`
	Role         string   `json:"role"`  // voter or learner
	State        string   `json:"state"` // leader, follower, candidate, learner, shutdown or unreachable
	Reachable    bool     `json:"reachable"`
	HTTPAddr     string   `json:"httpAddr"`
	AppliedIndex *uint64  `json:"appliedIndex"`
	LagEntries   *uint64  `json:"lagEntries"`
	Identity     string   `json:"identity"`
	ClockSkewMs  *float64 `json:"clockSkewMs"`
	DiskPct      *float64 `json:"diskPct"`
	Version      string   `json:"version"`
	Error        string   `json:"error"`
}

// nodes asks for the nodes as whichever server answers sees them.
func (c *Client) nodes(ctx context.Context) (Nodes, json.RawMessage, error) {
	raw, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/raft/members"})
	if err != nil {
		return Nodes{}, nil, err
	}
	var nodes Nodes
	if err := json.Unmarshal(raw, &nodes); err != nil {
		return Nodes{}, nil, fmt.Errorf("read nodes: %w", err)
	}
	return nodes, raw, nil
}

// Health is the part of /health that tells whether a node serves (cluster 7.1).
type Health struct {
	Status  string   `json:"status"`
	Reasons []string `json:"reasons"`
	Raft    struct {
		NodeID      uint64 `json:"nodeId"`
		StorageFull bool   `json:"storageFull"`
		Apply       struct {
			Failure *struct {
				Class string `json:"class"`
				Index uint64 `json:"index"`
			} `json:"failure"`
		} `json:"apply"`
	} `json:"raft"`
}
