package peer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"queen/raftlog/identity"
)

// The reasons of refusals besides the adverse verdicts.
const (
	ReasonToken = "token"
	ReasonTLS   = "tls"
)

// The codes of refusals that are no finding about the node, and are neither counted nor logged as such.
const (
	codeRetry     = "retry"
	codeProtocol  = "protocol"
	codeOtherNode = "other_node"
)

var (
	// ErrRetry says that the peer, or this node, cannot serve the purpose now: it is starting, has too many connections, or
	// belongs to no cluster yet.
	ErrRetry = errors.New("the peer cannot serve this purpose now")
	// ErrOtherNode says that another node than the wanted one answers at an address.
	ErrOtherNode = errors.New("another node answers at this address")
	// ErrNoAddress says that no address of a node is known.
	ErrNoAddress = errors.New("no address of the node is known")
	// ErrClosed says that the network is closed.
	ErrClosed = errors.New("the raft port is closed")
)

// RefusedError is a handshake that ended in a finding of the table in cluster 2.4.
type RefusedError struct {
	// Peer is the node at the other end: the dialled one, or the one that called and may only claim to be it.
	Peer uint64
	// Reason is ReasonToken, ReasonTLS or a verdict.
	Reason string
	// ByPeer says that the peer refused this node, and not the other way round.
	ByPeer bool
	// Remote is what the peer says of itself, nil when it has not proved to know the token.
	Remote *Hello
}

func (e *RefusedError) Error() string {
	if e.ByPeer {
		return fmt.Sprintf("node %d refused this node: %s", e.Peer, e.Reason)
	}
	return fmt.Sprintf("node %d is refused: %s", e.Peer, e.Reason)
}

// refusal is what is logged of a RefusedError.
type refusal struct {
	RefusedError
	self      *Hello
	address   string
	connected []string
	cause     error
}

// line returns the text of cluster 2.4: its first column for the side that was refused, the second for the side that
// refused.
func (r *refusal) line() string {
	switch reason := r.Reason; {
	case reason == ReasonToken && r.ByPeer:
		return fmt.Sprintf("node %d refused this node's QUEEN_RAFT_TOKEN", r.Peer)
	case reason == ReasonToken:
		return "refused a peer's QUEEN_RAFT_TOKEN"
	case reason == ReasonTLS && r.ByPeer:
		return fmt.Sprintf("raft TLS to node %d failed", r.Peer)
	case reason == ReasonTLS:
		return fmt.Sprintf("raft TLS from %s failed", r.address)
	case reason == string(Foreign):
		return fmt.Sprintf("node %d belongs to another cluster", r.Peer)
	case reason == string(Replaced) && r.ByPeer:
		return fmt.Sprintf("this node's directory is not the one node %d knows", r.Peer)
	case reason == string(Replaced):
		return fmt.Sprintf("node %d came back with another directory", r.Peer)
	case reason == string(RolledBack) && r.ByPeer:
		return fmt.Sprintf("this node's directory is older than what node %d has seen", r.Peer)
	case reason == string(RolledBack):
		return fmt.Sprintf("node %d came back with an older directory", r.Peer)
	case reason == string(Superseded):
		return "another process runs under this node's identity"
	case reason == string(TooOld) && r.ByPeer:
		return fmt.Sprintf("this build reads format %d, the cluster writes %d", r.self.Kinds, r.Remote.ClusterVersion)
	case reason == string(TooOld):
		return fmt.Sprintf("node %d: this build reads format %d, the cluster writes %d",
			r.Peer, r.Remote.Kinds, r.self.ClusterVersion)
	case reason == string(Unknown) && r.ByPeer:
		return "this node is not a member"
	case reason == string(Unknown):
		return fmt.Sprintf("node %d is not a member", r.Peer)
	}
	panic("BUG: a refusal without a line: " + r.Reason)
}

// details adds what the line does not say.
func (r *refusal) details(event *zerolog.Event) {
	event.Uint64("peer", r.Peer).Str("reason", r.Reason).Str("address", r.address)
	if r.cause != nil {
		event.AnErr("err", r.cause)
	}
	switch r.Reason {
	case string(Foreign):
		event.Str("clusterId", r.self.ClusterID).Uint64("clusterEpoch", r.self.ClusterEpoch).
			Str("peerClusterId", r.Remote.ClusterID).Uint64("peerClusterEpoch", r.Remote.ClusterEpoch)
		if ancestor, found := commonAncestor(r.self, r.Remote); found {
			event.Str("ancestorClusterId", ancestor.ClusterID).Uint64("ancestorClusterEpoch", ancestor.ClusterEpoch)
		}
	case string(Superseded):
		event.Str("bootNonce", r.self.BootNonce).Str("peerBootNonce", r.Remote.BootNonce)
		if len(r.connected) > 0 {
			event.Strs("otherBootNonces", r.connected)
		}
	case string(Replaced):
		event.Str("incarnation", r.self.Incarnation).Str("peerIncarnation", r.Remote.Incarnation)
	}
}

// commonAncestor returns the newest cluster that both nodes stem from or belong to.
func commonAncestor(a, b *Hello) (identity.Ancestor, bool) {
	lineA, lineB := line(a), line(b)
	for _, cluster := range slices.Backward(lineA) {
		for _, other := range lineB {
			if cluster.ClusterID == other.ClusterID && cluster.ClusterEpoch == other.ClusterEpoch {
				return cluster, true
			}
		}
	}
	return identity.Ancestor{}, false
}

// line returns a node's clusters, oldest first, with the present one.
func line(h *Hello) []identity.Ancestor {
	return append(slices.Clone(h.Lineage), identity.Ancestor{ClusterID: h.ClusterID, ClusterEpoch: h.ClusterEpoch})
}
