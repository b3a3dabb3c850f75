package peer

import (
	"cmp"
	"crypto/tls"
	"errors"
	"time"

	"github.com/rs/zerolog"
)

// The bounds of the raft port.
const (
	// handshakeTimeout is how long a whole handshake may take, TLS included (cluster 2.4).
	handshakeTimeout = 5 * time.Second
	// addressTimeout is how long an address is tried while another one is left (cluster 3.3).
	addressTimeout = 2 * time.Second
	// maxHandshakes is how many callers may be in their handshake. One more displaces the one that has taken longest: a
	// node needs milliseconds, and callers that do nothing cannot keep nodes out.
	maxHandshakes = 256
	// maxConnsPerNode is how many connections of one node are accepted: the 64 that QUEEN_RAFT_FWD_STREAMS allows, as many that they
	// take the place of and that have not ended yet, and some for everything else.
	maxConnsPerNode = 160
	// maxCallBytes bounds the answer of Call.
	maxCallBytes = 16 << 20
	// A connection whose other end is gone without a word is noticed after about 11 s.
	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 2 * time.Second
	keepAliveCount    = 3
)

// Clock is where the throttling of log lines takes the time from.
type Clock interface {
	// Monotonic returns the time since some fixed instant.
	Monotonic() time.Duration
}

// Options are the settings of a Network. Listen, Hello, Addresses, Judge and Clock are required.
type Options struct {
	// Listen is QUEEN_RAFT_LISTEN.
	Listen string
	// Token is QUEEN_RAFT_TOKEN. Without one the key of the proofs is empty, which is for loopback addresses and mutual TLS.
	// PreviousToken is a second one that is accepted, and tried when the first is refused; empty means none.
	Token, PreviousToken []byte
	// ServerTLS and ClientTLS are set or nil together; TLS makes them. Nil is a port in clear.
	ServerTLS, ClientTLS *tls.Config
	// Hello describes this node. It is asked at every handshake, from several goroutines.
	Hello func() Hello
	// Addresses returns where a node may be, in order of preference, empty for a node that nobody has named.
	Addresses func(id uint64) []string
	// Judge returns this node's verdict on another. connected are the boot nonces of the other processes of that node's
	// incarnation that are connected here: View.Connected.
	Judge func(remote Hello, connected []string) Verdict
	// Met is told of every handshake in which both sides proved to know the token, whether its connection is carried or
	// not: theirs is the peer's verdict on this node, ours this node's on the peer. Nil does nothing.
	Met func(remote Hello, theirs, ours Verdict)
	// Reached is told at which address a node was reached, when both sides accept each other. Nil does nothing.
	Reached func(id uint64, address string)
	// Refused counts refusals: queen_raft_peer_refused_total. The peer is 0 when an unknown one calls. Nil does nothing.
	Refused func(peer uint64, reason string)
	// Clock is the monotonic clock.
	Clock Clock
	// Logger receives the lines of cluster 2.4.
	Logger zerolog.Logger
	// handshake and address are handshakeTimeout and addressTimeout, except in tests.
	handshake, address time.Duration
}

// complete fills in the limits and returns an error that names every option that is missing.
func (o *Options) complete() error {
	o.handshake = cmp.Or(o.handshake, handshakeTimeout)
	o.address = cmp.Or(o.address, addressTimeout)
	var problems []error
	require := func(ok bool, text string) {
		if !ok {
			problems = append(problems, errors.New(text))
		}
	}
	require(o.Listen != "", "option Listen is empty")
	require(o.Hello != nil, "option Hello is nil")
	require(o.Addresses != nil, "option Addresses is nil")
	require(o.Judge != nil, "option Judge is nil")
	require(o.Clock != nil, "option Clock is nil")
	require((o.ServerTLS == nil) == (o.ClientTLS == nil), "one of the options ServerTLS and ClientTLS is nil")
	return errors.Join(problems...)
}
