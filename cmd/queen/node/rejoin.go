package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"queen/raftlog"
	"queen/raftlog/command"
	"queen/raftlog/formation"
	"queen/raftlog/identity"
	"queen/raftlog/membership"
	"queen/raftlog/peer"
)

// kindReset orders a node to empty its directory, over the purpose admin.
const kindReset = "membership.reset"

var (
	errNotOrdered = errors.New("the order to reset is not for this node")
	errEngineBusy = errors.New("this node is starting, stopping, or putting a state in place")
)

// Reset implements membership.Peers.
func (p *raftPort) Reset(ctx context.Context, id uint64, address string, order membership.ResetOrder) (peer.Hello, error) {
	body, err := json.Marshal(order)
	if err != nil {
		return peer.Hello{}, fmt.Errorf("encode order: %w", err)
	}
	if body, err = p.admin.AskAt(ctx, id, address, kindReset, body); err != nil {
		return peer.Hello{}, err
	}
	var empty peer.Hello
	if err := json.Unmarshal(body, &empty); err != nil {
		return empty, fmt.Errorf("decode answer of node %d: %w", id, err)
	}
	return empty, nil
}

// Serves implements membership.Peers: whoever takes part keeps links for its commands to its leader.
func (p *raftPort) Serves(id uint64) bool { return p.network.Called(id, peer.Command) }

// answerReset empties the directory of this node for the leader of its cluster, in the running process (cluster 2.6).
func (n *Node) answerReset(remote peer.Hello, body []byte) ([]byte, error) {
	var order membership.ResetOrder
	if err := json.Unmarshal(body, &order); err != nil {
		return nil, fmt.Errorf("decode order: %w", err)
	}
	// A start holds the lock until it is over, and a stop waits for whoever has it.
	if !n.engine.TryLock() {
		return nil, errEngineBusy
	}
	defer n.engine.Unlock()
	if n.halted {
		return nil, errEngineBusy
	}
	current, verdict := n.port.identity.Current(), n.port.met.verdictOf(remote.NodeID)
	if err := obeys(&current, &remote, verdict, &order); err != nil {
		return nil, err
	}
	if err := n.reset(&order, verdict); err != nil {
		n.log.Error().Err(err).Msg("raft: this node could not be reset")
		return nil, err
	}
	return json.Marshal(n.port.hello())
}

// obeys returns why a node does not empty its directory on an order; nil when it does. Only its own cluster may order that, only
// somebody who takes the directory for one that has no place in it, and only for the directory that the order names.
func obeys(current *identity.Identity, remote *peer.Hello, verdict peer.Verdict, order *membership.ResetOrder) error {
	switch {
	case order.ClusterID == "" || remote.ClusterID != order.ClusterID || remote.ClusterEpoch != order.ClusterEpoch:
		return fmt.Errorf("%w: it is of cluster %q, its sender of %q", errNotOrdered, order.ClusterID, remote.ClusterID)
	case current.ClusterID != "" && current.ClusterID != order.ClusterID:
		return fmt.Errorf("%w: %s", errOtherCluster, current.ClusterID)
	case verdict != peer.Replaced && verdict != peer.RolledBack:
		return fmt.Errorf("%w: node %d says %q of it", errNotOrdered, remote.NodeID, verdict)
	case current.Incarnation != order.Incarnation:
		return fmt.Errorf("%w: its incarnation is %s, not %s", errNotOrdered, current.Incarnation, order.Incarnation)
	}
	return nil
}

// reset empties the directory and opens it again, to be fed. The caller holds the lock.
func (n *Node) reset(order *membership.ResetOrder, verdict peer.Verdict) error {
	began := time.Now()
	p := n.port
	err := n.reopenEngine(n.running, func() error {
		n.health.disconnect()
		p.broker.Store(nil)
		if err := p.identity.Reset(order.ClusterID, order.ClusterEpoch, string(verdict)); err != nil {
			return err
		}
		p.returning.Store(true)
		// There is no formation record any more: an empty log waits to be fed, and never begins by itself.
		p.outcome = formation.Outcome{Kind: formation.Join, ClusterID: order.ClusterID, ClusterEpoch: order.ClusterEpoch}
		return nil
	})
	if err != nil {
		return err
	}
	n.log.Warn().Str("clusterId", order.ClusterID).Str("incarnation", p.identity.Current().Incarnation).
		Int64("ms", time.Since(began).Milliseconds()).Msg("raft: this node was reset: it has an empty directory")
	return nil
}

// returned tells whether the return of a node is over, from what is applied there: it is in the table with its new directory, and is
// a voter, or nobody is about to make it one.
func returned(current *identity.Identity, state *command.MembershipState, status *raftlog.Status) bool {
	row, known := state.Member(current.NodeID)
	if !known || row.Incarnation != current.Incarnation {
		return false
	}
	pending := state.Plan != nil && state.Plan.Kind == command.PlanRejoin && state.Plan.Node == current.NodeID
	return slices.Contains(status.Voters, current.NodeID) || status.Member && !pending
}

// finishReturn notes that this node has returned, once it has.
func (p *raftPort) finishReturn(state *command.MembershipState, status *raftlog.Status) error {
	if !p.returning.Load() {
		return nil
	}
	current := p.identity.Current()
	if !returned(&current, state, status) {
		return nil
	}
	if err := p.identity.Update(func(i *identity.Identity) { i.Returning = "" }); err != nil {
		return err
	}
	p.returning.Store(false)
	return nil
}
