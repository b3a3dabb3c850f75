package formation

import (
	"slices"

	"queen/raftlog/identity"
)

// state is the answer to the question who a node is.
type state struct {
	NodeID      uint64 `json:"nodeId"`
	Incarnation string `json:"incarnation"`
	Peers       []Peer `json:"peers"`
	// Joins says that the node belongs to no cluster, and waits to be added to one.
	Joins bool `json:"joins,omitempty"`
	// ClusterID is empty for a node that belongs to no cluster.
	ClusterID    string `json:"clusterId,omitempty"`
	ClusterEpoch uint64 `json:"clusterEpoch,omitempty"`
	// Record is the formation record, when it names the asking node with its incarnation.
	Record *identity.Formation `json:"record,omitempty"`
}

// action is what a node does after a round.
type action int

const (
	// wait asks again: nodes are missing.
	wait action = iota
	// adopt takes the record.
	adopt
	// join waits to be added to a cluster that exists.
	join
	// differ asks again: the lists disagree.
	differ
	// await asks again: another node makes the record.
	await
	// form makes the record.
	form
)

// decision is an action and what it is about.
type decision struct {
	action  action
	missing []uint64            // wait, differ
	record  *identity.Formation // adopt
	found   state               // adopt, join: who told; differ: whose list
}

// decide judges one round: self is this empty node, answers are those of the listed peers that answered. It is a pure
// function; its cases are numbered as in the package's description.
func decide(self *state, answers map[uint64]state) decision {
	var formed *state
	var missing []uint64
	var other *state
	for _, peer := range self.Peers {
		if peer.ID == self.NodeID {
			continue
		}
		answer, found := answers[peer.ID]
		switch {
		case !found || answer.ClusterID == "" && answer.Joins:
			missing = append(missing, peer.ID)
		case answer.ClusterID == "":
			if other == nil && !slices.Equal(answer.Peers, self.Peers) {
				other = &answer
			}
		case answer.Record != nil && names(answer.Record, self):
			return decision{action: adopt, record: answer.Record, found: answer}
		case formed == nil:
			formed = &answer
		}
	}
	switch {
	case formed != nil:
		return decision{action: join, found: *formed}
	case other != nil:
		return decision{action: differ, missing: missing, found: *other}
	case len(missing) > 0:
		return decision{action: wait, missing: missing}
	case self.Peers[0].ID != self.NodeID:
		return decision{action: await}
	}
	return decision{action: form}
}

// names tells whether a record is for this node in this incarnation.
func names(record *identity.Formation, node *state) bool {
	member, found := record.Member(node.NodeID)
	return found && member.Incarnation == node.Incarnation && record.ClusterID != ""
}
