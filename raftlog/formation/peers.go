package formation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Peer is a row of QUEEN_RAFT_PEERS.
type Peer struct {
	ID   uint64 `json:"id"`
	Raft string `json:"raft"`
	HTTP string `json:"http"`
}

// sorted returns the list by ascending id: the order of QUEEN_RAFT_PEERS does not matter.
func sorted(peers []Peer) []Peer {
	peers = slices.Clone(peers)
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return peers
}

// text writes a list as it stands in QUEEN_RAFT_PEERS.
func text(peers []Peer) string {
	rows := make([]string, len(peers))
	for i, peer := range peers {
		rows[i] = fmt.Sprintf("%d=%s/%s", peer.ID, peer.Raft, peer.HTTP)
	}
	return strings.Join(rows, ",")
}
