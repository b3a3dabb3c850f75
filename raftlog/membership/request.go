package membership

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"queen/raftlog/command"
)

// The bounds of cluster 4.
const (
	// MaxVoters and MaxMembers bound the membership.
	MaxVoters  = 5
	MaxMembers = 8
	// DefaultTimeout and MaxTimeout bound how long a request waits.
	DefaultTimeout = 30 * time.Second
	MaxTimeout     = 120 * time.Second
	// maxNodeID is the highest QUEEN_RAFT_NODE_ID.
	maxNodeID = 1<<32 - 1
)

// Call is one of the routes.
type Call string

// The calls.
const (
	CallView     Call = "view"
	CallChange   Call = "change"
	CallTransfer Call = "transfer"
)

// Request is what an operator asks for.
type Request struct {
	Call Call `json:"call"`
	// ID is drawn by the node that the operator has asked, and the id of the plan. See New.
	ID uint64 `json:"id"`
	// Kind is the change, for CallChange.
	Kind command.PlanKind `json:"kind,omitempty"`
	// Nodes are those to promote, or the voters that are wanted.
	Nodes []uint64 `json:"nodes,omitempty"`
	// Node is the one to add, to remove, to give other addresses, or to hand leadership to; 0 leaves that to the leader.
	Node  uint64 `json:"node,omitempty"`
	Raft  string `json:"raft,omitempty"`
	HTTP  string `json:"http,omitempty"`
	Force bool   `json:"force,omitempty"`
	// LeftMs is how long the answer may take.
	LeftMs int64 `json:"leftMs"`
	// By is the operator's name, for the log.
	By string `json:"by,omitempty"`
}

// Check refuses what no node could carry out. It sorts Nodes.
func (r *Request) Check() *Refusal {
	for _, id := range append([]uint64{r.Node}, r.Nodes...) {
		if id > maxNodeID {
			return Refuse(BadRequest, "node %d: an id is a whole number from 1 to %d", id, int64(maxNodeID))
		}
	}
	if r.Call != CallChange {
		return nil
	}
	slices.Sort(r.Nodes)
	switch r.Kind {
	case command.PlanLearner:
		if r.Raft == "" || r.HTTP == "" {
			return Refuse(BadRequest, "raft and http are missing: the addresses of the node as host:port")
		}
	case command.PlanAddress:
		if r.Raft == "" && r.HTTP == "" {
			return Refuse(BadRequest, "raft or http is missing: the new address of the node as host:port")
		}
	case command.PlanPromote:
		if len(r.Nodes) == 0 {
			return Refuse(BadRequest, "ids is missing: the learners to promote")
		}
	}
	needsNode := r.Kind != command.PlanPromote && r.Kind != command.PlanVoters
	if needsNode && r.Node == 0 || slices.Contains(r.Nodes, 0) {
		return Refuse(BadRequest, "an id is a whole number from 1 to %d", int64(maxNodeID))
	}
	if len(slices.Compact(slices.Clone(r.Nodes))) != len(r.Nodes) {
		return Refuse(BadRequest, "a node is named twice")
	}
	for _, address := range []string{r.Raft, r.HTTP} {
		if err := checkAddress(address); err != nil {
			return Refuse(BadRequest, "%v", err)
		}
	}
	return nil
}

// maxAddressBytes bounds an address: a name of 253 bytes, a colon and a port.
const maxAddressBytes = 259

func checkAddress(address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || host == "" || number == 0 || len(address) > maxAddressBytes {
		return fmt.Errorf("address %.80q: want host:port", address)
	}
	return nil
}

// about describes a change in a log line or a refusal.
func (r *Request) about() string {
	switch r.Kind {
	case command.PlanPromote, command.PlanVoters:
		return fmt.Sprintf("%s %v", KindName(r.Kind), r.Nodes)
	case command.PlanRemove:
		return fmt.Sprintf("%s %d", KindName(r.Kind), r.Node)
	case command.PlanRejoin:
		return fmt.Sprintf("replace %d", r.Node)
	}
	return fmt.Sprintf("%s %d raft=%s http=%s", KindName(r.Kind), r.Node, r.Raft, r.HTTP)
}

// KindName is the kind of a plan as the routes show it.
func KindName(k command.PlanKind) string {
	names := [...]string{"", "learner", "promote", "voters", "remove", "address", "rejoin"}
	if int(k) >= len(names) {
		return ""
	}
	return names[k]
}

// opName is a step as the routes show it.
func opName(op command.StepOp) string {
	names := [...]string{"", "add", "promote", "demote", "remove", "address", "reset"}
	if int(op) >= len(names) {
		return ""
	}
	return names[op]
}
