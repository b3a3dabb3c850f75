package identity

import (
	"slices"
)

// maxPendingNonces bounds PendingNonces, so that the fields fit into a handshake frame of 64 KiB. A node that is started
// more often than this without hearing from its cluster drops the oldest, and is judged rolled_back if the cluster had
// seen just that one: it then returns by itself (cluster 2.6).
const maxPendingNonces = 1000

// Identity is the content of identity.json.
type Identity struct {
	// ClusterID is the UUID of the cluster, empty until the node belongs to one.
	ClusterID string `json:"clusterId"`
	// ClusterEpoch is 1 at formation and one higher after each forced recovery or restore as a new cluster; 0 without one.
	ClusterEpoch uint64 `json:"clusterEpoch"`
	// NodeID is QUEEN_RAFT_NODE_ID.
	NodeID uint64 `json:"nodeId"`
	// Incarnation is the UUID of this directory, minted with an empty one and again when it is reset.
	Incarnation string `json:"incarnation"`
	// BootNonce is "<boot counter>-<16 hex>", new at every Open.
	BootNonce string `json:"bootNonce"`
	// ConfirmedNonce is the last boot nonce that this node knows to be in the members table.
	ConfirmedNonce string `json:"confirmedNonce"`
	// AddedIndex is the entry that wrote Incarnation into the members table, as this node has seen it applied; 0 while it has not. The
	// store may forget that it has, in a crash before its next durable point: here it stays, and tells a judge whose own store
	// has forgotten more that its row is the older one.
	AddedIndex uint64 `json:"addedIndex,omitempty"`
	// PendingNonces are the boot nonces since then, oldest first, without the present one.
	PendingNonces []string `json:"pendingNonces"`
	// Lineage are the clusters that this directory stems from, oldest first.
	Lineage []Ancestor `json:"lineage"`
	// Formation is the record that this node was formed with; nil for a node that was added to a cluster.
	Formation *Formation `json:"formation,omitempty"`
	// Began says that the log of group 0 exists: from then on a missing one is damage, whatever Formation says.
	Began bool `json:"began"`
	// Resetting says that a reset was begun: what the groups hold is being deleted.
	Resetting bool `json:"resetting,omitempty"`
	// Returning is the verdict for which this directory was reset, until the node is what it was before.
	Returning string `json:"returning,omitempty"`
}

// Ancestor is a cluster that a forced recovery or a restore has left behind.
type Ancestor struct {
	ClusterID    string `json:"clusterId"`
	ClusterEpoch uint64 `json:"clusterEpoch"`
	// AtMs is when it was left, in ms since the Unix epoch.
	AtMs int64 `json:"atMs"`
}

// Formation is what makes the first entry of a cluster's log identical on every node (cluster 3.2).
type Formation struct {
	ClusterID    string `json:"clusterId"`
	ClusterEpoch uint64 `json:"clusterEpoch"`
	// Members are the first voters, by ascending id.
	Members []FirstMember `json:"members"`
}

// FirstMember is a voter of the first configuration. The addresses are empty for a node without QUEEN_RAFT_PEERS.
type FirstMember struct {
	NodeID      uint64 `json:"nodeId"`
	Raft        string `json:"raft"`
	HTTP        string `json:"http"`
	Incarnation string `json:"incarnation"`
}

// Member returns the row of a node.
func (f *Formation) Member(id uint64) (FirstMember, bool) {
	for _, member := range f.Members {
		if member.NodeID == id {
			return member, true
		}
	}
	return FirstMember{}, false
}

// Confirm notes that a boot nonce of this node is in the members table, and the entry that wrote its incarnation there. It returns
// whether that changed anything; a nonce that this directory does not know changes nothing.
func (i *Identity) Confirm(nonce string, addedIndex uint64) bool {
	switch at := slices.Index(i.PendingNonces, nonce); {
	case nonce == "" || nonce == i.ConfirmedNonce && addedIndex == i.AddedIndex:
		return false
	case nonce == i.ConfirmedNonce:
	case nonce == i.BootNonce:
		i.PendingNonces = nil
	case at >= 0:
		i.PendingNonces = slices.Clone(i.PendingNonces[at+1:])
	default:
		return false
	}
	i.ConfirmedNonce, i.AddedIndex = nonce, addedIndex
	return true
}

// boot replaces the boot nonce and remembers the former one.
func (i *Identity) boot(nonce string) {
	if i.BootNonce != "" && i.BootNonce != i.ConfirmedNonce {
		i.PendingNonces = append(i.PendingNonces, i.BootNonce)
		if excess := len(i.PendingNonces) - maxPendingNonces; excess > 0 {
			i.PendingNonces = slices.Clone(i.PendingNonces[excess:])
		}
	}
	i.BootNonce = nonce
}

// clone returns a copy that shares no memory.
func (i *Identity) clone() Identity {
	other := *i
	other.PendingNonces = slices.Clone(i.PendingNonces)
	other.Lineage = slices.Clone(i.Lineage)
	if i.Formation != nil {
		formation := *i.Formation
		formation.Members = slices.Clone(formation.Members)
		other.Formation = &formation
	}
	return other
}
