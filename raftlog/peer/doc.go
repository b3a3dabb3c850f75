// Package peer is the raft port: connections between the nodes of a cluster, each for one purpose, each begun by a
// handshake in which both sides prove to know the token and judge each other (cluster 2.4 and 2.6).
//
// Rules:
//
//  1. The token never crosses the wire. Each side proves it by an HMAC-SHA256 over its role, the frames of steps 1 and 2 as
//     they were sent (so: both nonces, both identities, purpose and group) and, inside TLS, the key that the channel
//     exports. A recorded proof fits no other handshake, a proof sent back to its maker fails by the role, and a relay
//     between two TLS channels fails by the key. Proofs are compared in constant time.
//  2. Before the proof of step 3 the acceptor reads two bounded frames and parses no field of the caller's. Only the line
//     that tells of a refused token looks up which id the caller claims, and that id becomes a metric label only when the
//     node knows it.
//  3. Everything is bounded: frames of 64 KiB and 5 s for the whole handshake, 256 handshakes under way (one more displaces
//     the oldest, so callers that do nothing cannot keep nodes out), 64 accepted connections per node, memory for a frame
//     as its bytes arrive. What the other end does wrong ends its connection and nothing else.
//  4. An initiator refused with token tries once more with its previous token, an acceptor takes both. So tokens rotate node
//     by node. An empty previous token is none; an empty token is an empty key, for loopback addresses and mutual TLS.
//  5. Both verdicts are exchanged, and Carries decides by them, at both ends alike: superseded and foreign carry nothing;
//     other adverse verdicts, and nodes that belong to no cluster, carry admin and status only.
//  6. Findings of the table in 2.4 are logged on both sides at WARN, one line per peer and reason every 10 s with a count,
//     and each is counted. Other ends (no handler yet, another node at the address, a broken frame) are debug lines.
//  7. An address proves nothing; the handshake decides whom it reached. A dial tries the addresses in order and takes only
//     the wanted node.
//  8. One process per incarnation: a caller with a higher boot counter closes the connections of the lower one, which then
//     learns at its next handshake that it is superseded.
//
// The handshake:
//
//	initiator                                        acceptor
//	    │ 1 hello      protocol, purpose, group, nonce, identity ▶ │
//	    │ ◀ 2 challenge                          nonce, identity   │
//	    │ 3 proof      HMAC(token, "… initiator", 1, 2)          ▶ │
//	    │ ◀ 4 proof    HMAC(token, "… acceptor", 1, 2), verdict    │   or refused {code}
//	    │ 5 verdict                                              ▶ │   or refused {code}
//
// Until step 4 has proved the acceptor, the initiator believes no refusal but token and retry, which make it try
// again. A finding such as replaced, which binds a node, comes with a proof only.
//
// Without TLS the traffic behind the handshake is neither private nor protected against whoever can change it on its way:
// the port belongs into a private network then.
//
// What this package does not do: it keeps no members table and no witnesses (Judge gets them), it decides nothing about
// what a verdict means for the node (Met tells), it does not reconnect, and it sets no deadline once the handshake is over:
// every purpose knows its own. TCP keep-alive ends a connection whose other end is gone after about 11 s.
//
// Locks: Network.mu, throttle.mu, settingsWatch.mu, Router.mu; none is held while another is taken or a function of
// Options runs.
package peer
