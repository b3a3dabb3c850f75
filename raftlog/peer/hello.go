package peer

import (
	"errors"
	"fmt"

	"queen/raftlog/identity"
)

// Purpose is what a connection is for.
type Purpose string

// The purposes of cluster 2.4.
const (
	Raft      Purpose = "raft"
	Status    Purpose = "status"
	Command   Purpose = "command"
	Read      Purpose = "read"
	Snapshot  Purpose = "snapshot"
	Admin     Purpose = "admin"
	Ephemeral Purpose = "ephemeral"
	Budget    Purpose = "budget"
)

// known tells whether the purpose is one of this protocol.
func (p Purpose) known() bool {
	switch p {
	case Raft, Status, Command, Read, Snapshot, Admin, Ephemeral, Budget:
		return true
	}
	return false
}

const (
	highestNodeID = 1<<32 - 1
	highestGroup  = 63
)

// Hello is what a node says of itself in a handshake (cluster 2.4). Beyond the fields of the specification it carries the
// lineage, which a refusal of a foreign node names, the cluster's version, which a refusal of an old build names, and the
// entry that added it, which protects it from judges that lag behind.
type Hello struct {
	ClusterID      string              `json:"clusterId"`
	ClusterEpoch   uint64              `json:"clusterEpoch"`
	NodeID         uint64              `json:"nodeId"`
	Incarnation    string              `json:"incarnation"`
	BootNonce      string              `json:"bootNonce"`
	ConfirmedNonce string              `json:"confirmedNonce,omitempty"`
	PendingNonces  []string            `json:"pendingNonces,omitempty"`
	Lineage        []identity.Ancestor `json:"lineage,omitempty"`
	// AddedIndex is the entry that wrote this incarnation into the members table, as applied here once; 0 before.
	AddedIndex uint64 `json:"addedIndex,omitempty"`
	// Kinds is the highest format that the build reads, ClusterVersion what the cluster writes as far as this node knows; 0
	// when it does not.
	Kinds          uint32   `json:"kinds"`
	ClusterVersion uint32   `json:"clusterVersion,omitempty"`
	Groups         int      `json:"groups"`
	KeyIDs         []string `json:"keyIds,omitempty"`
	// CurrentTerm and the last log entry are those of group 0. LastLogIndex counts the snapshot and the applied index of the
	// store as well, whichever is highest.
	CurrentTerm  uint64 `json:"currentTerm"`
	LastLogIndex uint64 `json:"lastLogIndex"`
	LastLogTerm  uint64 `json:"lastLogTerm"`
	// Raft and HTTP are the node's own addresses.
	Raft    string `json:"raft"`
	HTTP    string `json:"http"`
	Version string `json:"version"`
	// Settings are the values of rule 1.1.10 by the names of their variables.
	Settings map[string]string `json:"settings,omitempty"`
}

// Identify fills in the fields that identity.json gives.
func (h *Hello) Identify(i identity.Identity) {
	h.ClusterID, h.ClusterEpoch = i.ClusterID, i.ClusterEpoch
	h.NodeID, h.Incarnation = i.NodeID, i.Incarnation
	h.BootNonce, h.ConfirmedNonce, h.PendingNonces = i.BootNonce, i.ConfirmedNonce, i.PendingNonces
	h.AddedIndex, h.Lineage = i.AddedIndex, i.Lineage
}

var errHello = errors.New("the identity fields are malformed")

// check refuses fields that no node sends of itself.
func (h *Hello) check() error {
	switch {
	case h.NodeID < 1 || h.NodeID > highestNodeID:
		return fmt.Errorf("%w: node id %d", errHello, h.NodeID)
	case h.Incarnation == "":
		return fmt.Errorf("%w: no incarnation", errHello)
	}
	if _, ok := identity.NonceCounter(h.BootNonce); !ok {
		return fmt.Errorf("%w: boot nonce %.40q", errHello, h.BootNonce)
	}
	return nil
}
