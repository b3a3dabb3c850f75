package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"queen/actors"
	"queen/cmd/queen/version"
	"queen/raftlog"
	"queen/raftlog/command"
	"queen/raftlog/identity"
	"queen/raftlog/membership"
	"queen/raftlog/peer"
)

// The requests between nodes about the membership, over the purpose admin.
const (
	kindHello   = "membership.hello"
	kindAdopt   = "membership.adopt"
	kindRequest = "membership.request"
)

// startMembership lets the node look after the membership while it leads.
func (n *Node) startMembership() {
	port := n.port
	options := membership.Options{
		Group: n.raft, State: replicated{n.broker}, Self: port.hello, Founders: port.founders(),
		PromoteMaxLag: uint64(n.config.RaftPromoteMaxLag), LiveWithin: n.health.LiveWithin(),
		FormatEvery: milliseconds(n.config.RaftClusterVersionMs), AutoRejoin: n.config.RaftAutoRejoin,
		Returned: n.health.handlers.MemberReturned, Applied: n.follow, Logger: n.log, Faults: faultPoints(n.config.TestFaults),
	}
	if port.admin != nil {
		options.Peers = port
	}
	service := membership.New(options)
	port.met.introduce(service)
	port.membership.Store(service)
	service.Start()
}

// follow takes in a membership that is applied here.
func (n *Node) follow(state *command.MembershipState) {
	if n.port.reconsidered.Swap(state.Index) != state.Index {
		n.port.reconsider()
	}
	status := n.port.log.Load().Status()
	if err := n.port.finishReturn(state, &status); err != nil {
		n.log.Error().Err(err).Msg("identity.json could not be written")
	}
	current := n.port.identity.Current()
	standing := n.port.standing(&current, &status)
	switch removed := standing == identityRemoved; {
	case n.port.removed.Swap(removed) == removed:
	case removed:
		n.log.Warn().Msg("this node was removed from the cluster")
	default:
		n.port.met.forgetStrangers()
	}
	if standing != identityOK {
		return
	}
	if err := n.port.confirm(state); err != nil {
		n.log.Error().Err(err).Msg("identity.json could not be written")
	}
}

// Membership answers a membership route.
func (n *Node) membership(ctx context.Context, r membership.Request) membership.Answer {
	service := n.port.membershipService()
	if service == nil {
		return membership.Refuse(membership.NoLeader, "this node is starting").Answer()
	}
	return service.Serve(ctx, r)
}

func (p *raftPort) membershipService() *membership.Service {
	if p == nil {
		return nil
	}
	return p.membership.Load()
}

// state is the members table and the plan as applied here.
func (p *raftPort) state() *command.MembershipState {
	if broker := p.broker.Load(); broker != nil {
		state, _ := broker.Membership()
		return state
	}
	return &command.MembershipState{Format: version.Format}
}

// founders are the rows that a cluster begins with.
func (p *raftPort) founders() []command.Member {
	if p.outcome.Record == nil {
		return nil
	}
	var rows []command.Member
	for _, member := range p.outcome.Record.Members {
		rows = append(rows, command.Member{NodeID: member.NodeID, Raft: member.Raft, HTTP: member.HTTP, Incarnation: member.Incarnation})
	}
	return rows
}

// standing is what this node is in its cluster, identity in /health; status is nil before the log is open.
func (p *raftPort) standing(current *identity.Identity, status *raftlog.Status) string {
	switch bound := p.binding(); {
	case bound != nil:
		return string(bound.verdict)
	case current.Returning != "":
		return current.Returning
	case p.guard != nil && p.guard.estranged():
		return string(peer.Foreign)
	}
	wasMember := current.Formation != nil || current.ConfirmedNonce != ""
	found := identityOf(current.ClusterID != "", wasMember, status)
	if found == identityOK && status != nil && current.ConfirmedNonce != "" && p.met.stranger(status.LeaderID) {
		return identityRemoved // its own log does not say so yet
	}
	return found
}

// confirm notes that the boot nonce of this node is in the members table, and the entry that wrote its incarnation there.
func (p *raftPort) confirm(state *command.MembershipState) error {
	current := p.identity.Current()
	row, known := state.Member(current.NodeID)
	if !known || row.Incarnation != current.Incarnation || !current.Confirm(row.BootNonce, row.AddedIndex) {
		return nil
	}
	return p.identity.Update(func(i *identity.Identity) { i.Confirm(row.BootNonce, row.AddedIndex) })
}

// answerMembership answers the requests of other nodes.
func (p *raftPort) answerMembership() {
	p.admin.Handle(kindHello, func(peer.Hello, []byte) ([]byte, error) { return json.Marshal(p.hello()) })
	p.admin.Handle(kindAdopt, p.adopt)
	p.admin.Handle(kindRequest, func(_ peer.Hello, body []byte) ([]byte, error) {
		var request membership.Request
		if err := json.Unmarshal(body, &request); err != nil {
			return nil, fmt.Errorf("decode request: %w", err)
		}
		service := p.membershipService()
		if service == nil {
			return json.Marshal(membership.Answer{})
		}
		left := min(time.Duration(request.LeftMs)*time.Millisecond, membership.MaxTimeout)
		ctx, cancel := context.WithTimeout(p.closing, left)
		defer cancel()
		return json.Marshal(service.Relayed(ctx, request))
	})
}

// adoption is what a leader tells a node that it adds.
type adoption struct {
	ClusterID    string `json:"clusterId"`
	ClusterEpoch uint64 `json:"clusterEpoch"`
}

var errOtherCluster = errors.New("this node belongs to another cluster")

// adopt makes this node, which belongs to no cluster, one of the cluster of the leader that asks.
func (p *raftPort) adopt(remote peer.Hello, body []byte) ([]byte, error) {
	var told adoption
	if err := json.Unmarshal(body, &told); err != nil {
		return nil, fmt.Errorf("decode adoption: %w", err)
	}
	if told.ClusterID == "" || remote.ClusterID != told.ClusterID || remote.ClusterEpoch != told.ClusterEpoch {
		return nil, fmt.Errorf("%w: %s, not %s", errOtherCluster, remote.ClusterID, told.ClusterID)
	}
	other := ""
	err := p.identity.Update(func(i *identity.Identity) {
		if other = i.ClusterID; other == "" {
			i.ClusterID, i.ClusterEpoch = told.ClusterID, told.ClusterEpoch
		}
	})
	if err == nil && other != "" && other != told.ClusterID {
		err = fmt.Errorf("%w: %s", errOtherCluster, other)
	}
	return nil, err
}

// Hello implements membership.Peers.
func (p *raftPort) Hello(ctx context.Context, id uint64, address string) (peer.Hello, error) {
	body, err := p.admin.AskAt(ctx, id, address, kindHello, nil)
	if err != nil {
		return peer.Hello{}, err
	}
	var hello peer.Hello
	if err := json.Unmarshal(body, &hello); err != nil {
		return peer.Hello{}, fmt.Errorf("decode hello of node %d: %w", id, err)
	}
	return hello, nil
}

// Adopt implements membership.Peers.
func (p *raftPort) Adopt(ctx context.Context, id uint64, address string) error {
	current := p.identity.Current()
	body, err := json.Marshal(adoption{current.ClusterID, current.ClusterEpoch})
	if err != nil {
		return fmt.Errorf("encode adoption: %w", err)
	}
	_, err = p.admin.AskAt(ctx, id, address, kindAdopt, body)
	return err
}

// Relay implements membership.Peers.
func (p *raftPort) Relay(ctx context.Context, leader uint64, r *membership.Request) (membership.Answer, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return membership.Answer{}, fmt.Errorf("encode request: %w", err)
	}
	if body, err = p.admin.Ask(ctx, leader, kindRequest, body); err != nil {
		return membership.Answer{}, err
	}
	var answer membership.Answer
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("decode answer of node %d: %w", leader, err)
	}
	return answer, nil
}

// meet takes in a handshake.
func (p *raftPort) meet(remote peer.Hello, theirs, ours peer.Verdict) {
	p.book.note(&remote)
	p.met.meet(remote, theirs, ours)
	p.guard.heard(&remote, theirs)
}

// reached takes in where a node was reached.
func (p *raftPort) reached(id uint64, address string) {
	if service := p.membership.Load(); service != nil {
		service.Reached(id, address)
	}
}

// acquaintances remember the last handshake with every node.
type acquaintances struct {
	mu      sync.Mutex
	service *membership.Service
	// handshakes are bounded: who is in them has proved to know the token.
	handshakes map[uint64]handshake
}

type handshake struct {
	remote       peer.Hello
	theirs, ours peer.Verdict
}

func (a *acquaintances) meet(remote peer.Hello, theirs, ours peer.Verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.handshakes == nil {
		a.handshakes = map[uint64]handshake{}
	}
	if _, known := a.handshakes[remote.NodeID]; !known && len(a.handshakes) >= maxAcquaintances {
		return
	}
	a.handshakes[remote.NodeID] = handshake{remote, theirs, ours}
	if a.service != nil {
		a.service.Met(&remote, ours)
	}
}

// verdictOf is what a node has said of this one last; empty when it has not been met.
func (a *acquaintances) verdictOf(id uint64) peer.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.handshakes[id].theirs
}

// maxAcquaintances is far more than a cluster has members over time.
const maxAcquaintances = 1024

// introduce tells the service of all handshakes, those before it as well.
func (a *acquaintances) introduce(service *membership.Service) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.service = service
	for _, h := range a.handshakes {
		service.Met(&h.remote, h.ours)
	}
}

// stranger tells whether this node must take itself for no member any more: no leader is known, and a member of its cluster says
// so. A node that hears a leader is a member, whatever one that lags behind says.
func (a *acquaintances) stranger(leader uint64) bool {
	if leader != 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.handshakes {
		if h.theirs == peer.Unknown {
			return true
		}
	}
	return false
}

// forgetStrangers forgets who has said that this node is no member: it was added again.
func (a *acquaintances) forgetStrangers() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, h := range a.handshakes {
		if h.theirs == peer.Unknown {
			delete(a.handshakes, id)
		}
	}
}

// replicated is the state that the broker has applied.
type replicated struct{ broker *actors.Broker }

// Membership implements membership.State.
func (r replicated) Membership() (*command.MembershipState, <-chan struct{}) {
	return r.broker.Membership()
}

// changeWithin bounds a change of the state when nothing else does.
const changeWithin = 10 * time.Second

// Change implements membership.State.
func (r replicated) Change(ctx context.Context, c *command.Membership) error {
	deadline := time.Now().Add(changeWithin)
	if earlier, bounded := ctx.Deadline(); bounded && earlier.Before(deadline) {
		deadline = earlier
	}
	_, err := r.broker.Execute(actors.Until(deadline), c)
	return err
}
