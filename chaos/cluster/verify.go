package cluster

import (
	"fmt"
	"net/http"
	"time"

	"queen/chaos/ledger"
	"queen/chaos/workload"
)

const (
	// readyWithin bounds the way of every member back to 200 at the end of a scenario.
	readyWithin = 30 * time.Second
	// levelWithin bounds the wait for the same applied index on all nodes.
	levelWithin = 15 * time.Second
	// stateHashPath answers {"index","hash"}: the hash over everything replicated that the node holds at that index.
	stateHashPath = "/api/v1/system/raft/state-hash"
)

// Verify is the comparison of operations.md 10.1 on a healed cluster whose load has stopped and whose groups have drained
// their queues: every node is ready, all have applied the same and hold the same, and each of them, read by itself, agrees with the
// books. Nothing is read from one node and believed of another.
func Verify(nodes []*Node, plan workload.Plan, history *ledger.History) ([]ledger.Violation, error) {
	if err := awaitReady(readyWithin, nodes); err != nil {
		return nil, err
	}
	apart := awaitSame(nodes) // what they hold is read all the same: it tells more than two hashes
	books := history.Books()
	states := map[string]ledger.State{}
	for _, node := range nodes {
		state, err := workload.ReadState(node.Client(), plan)
		if err != nil {
			return nil, fmt.Errorf("read the state through node %d: %w", node.ID, err)
		}
		states[fmt.Sprintf("node %d", node.ID)] = state
	}
	found := ledger.CheckReplicas(states)
	if len(found) == 0 { // they are the same, so one stands for all
		return ledger.Check(books, states[fmt.Sprintf("node %d", nodes[0].ID)]), apart
	}
	for name, state := range states {
		for _, violation := range ledger.Check(books, state) {
			violation.Detail = name + ": " + violation.Detail
			found = append(found, violation)
		}
	}
	return found, apart
}

// awaitSame waits until all nodes give the same hash for the same index. A difference at one index is final: apply is a function
// of the log.
func awaitSame(nodes []*Node) error {
	return Eventually(levelWithin, "the state hashes of the nodes", func() error {
		hashes, err := stateHashes(nodes)
		if err != nil {
			return err
		}
		level := true
		for _, other := range hashes[1:] {
			switch {
			case other.Index != hashes[0].Index:
				level = false
			case other.Hash != hashes[0].Hash:
				return fmt.Errorf("the nodes hold different states at one index: %v: %w", hashes, errFinal)
			}
		}
		if !level {
			return fmt.Errorf("the nodes are at different indexes: %v", hashes)
		}
		return nil
	})
}

// stateHash is what a node answers about its replicated state.
type stateHash struct {
	Index uint64 `json:"index"`
	Hash  string `json:"hash"`
}

func stateHashes(nodes []*Node) ([]stateHash, error) {
	hashes := make([]stateHash, len(nodes))
	for i, node := range nodes {
		reply := node.Client().Get(stateHashPath)
		if reply.Status == http.StatusNotFound {
			return nil, fmt.Errorf("state hash of node %d: %v: %w", node.ID, reply, errFinal)
		}
		if err := reply.Decode(&hashes[i]); err != nil {
			return nil, fmt.Errorf("state hash of node %d: %w", node.ID, err)
		}
		if reply.Status != http.StatusOK || hashes[i].Hash == "" {
			return nil, fmt.Errorf("state hash of node %d: %v", node.ID, reply)
		}
	}
	return hashes, nil
}
