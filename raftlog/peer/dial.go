package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dial connects to a node for a purpose of a group. It tries the node's addresses one after the other, each for at most 2 s
// while another one is left; an address where another node answers counts as one where nobody does. A finding about this
// node or the other is a *RefusedError in the chain, ErrRetry means that the peer cannot serve the purpose yet.
func (n *Network) Dial(ctx context.Context, id uint64, purpose Purpose, group int) (*Conn, error) {
	return n.dialAny(ctx, id, purpose, group, n.options.Addresses(id))
}

func (n *Network) dialAny(ctx context.Context, id uint64, purpose Purpose, group int, addresses []string) (*Conn, error) {
	if len(addresses) == 0 {
		return nil, fmt.Errorf("reach node %d: %w", id, ErrNoAddress)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	var failures []error
	for i, address := range addresses {
		limit := n.options.handshake
		if i < len(addresses)-1 {
			limit = n.options.address
		}
		conn, err := n.dialAddress(ctx, call{id: id, address: address, purpose: purpose, group: group, limit: limit})
		if err == nil {
			return conn, nil
		}
		failures = append(failures, fmt.Errorf("at %s: %w", address, err))
		if ctx.Err() != nil {
			break
		}
	}
	if n.ctx.Err() != nil {
		failures = append(failures, ErrClosed)
	}
	return nil, fmt.Errorf("reach node %d: %w", id, errors.Join(failures...))
}

// Call sends one request over a connection of its own and returns the answer, of at most 16 MiB.
func (n *Network) Call(ctx context.Context, id uint64, purpose Purpose, request []byte) ([]byte, error) {
	return n.call(ctx, id, purpose, request, n.options.Addresses(id))
}

// CallAt is Call with a node that is expected at one address.
func (n *Network) CallAt(ctx context.Context, id uint64, address string, purpose Purpose, request []byte) ([]byte, error) {
	return n.call(ctx, id, purpose, request, []string{address})
}

func (n *Network) call(ctx context.Context, id uint64, purpose Purpose, request []byte, addresses []string) ([]byte, error) {
	conn, err := n.dialAny(ctx, id, purpose, 0, addresses)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { closeQuietly(conn.raw) })()
	answer, err := exchange(conn, request)
	if closeErr := conn.Close(); err == nil && closeErr != nil {
		n.logger.Debug().Err(closeErr).Uint64("peer", id).Msg("raft port: close after a call")
	}
	if err != nil {
		return nil, fmt.Errorf("call node %d for %s: %w", id, purpose, errors.Join(ctx.Err(), err))
	}
	return answer, nil
}

func exchange(conn *Conn, request []byte) ([]byte, error) {
	if err := conn.WriteFrame(request); err != nil {
		return nil, err
	}
	return conn.ReadFrame(maxCallBytes)
}

// call is one attempt to reach a node at one address.
type call struct {
	id      uint64
	address string
	purpose Purpose
	group   int
	limit   time.Duration
}

// dialAddress tries the token, and the previous one when the first is refused.
func (n *Network) dialAddress(ctx context.Context, c call) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	conn, err := n.dialWith(ctx, c, n.options.Token)
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Reason == ReasonToken && len(n.options.PreviousToken) > 0 {
		return n.dialWith(ctx, c, n.options.PreviousToken)
	}
	return conn, err
}

func (n *Network) dialWith(ctx context.Context, c call, token []byte) (*Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: n.keepAlive}
	raw, err := dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { closeQuietly(raw) })
	conn, err := n.initiate(ctx, raw, c, token)
	if !stop() && err == nil {
		err = errors.Join(ctx.Err(), conn.Close())
	}
	if err != nil {
		closeQuietly(raw)
		if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, err
	}
	return conn, nil
}

// initiate is the initiator's side of the handshake (cluster 2.4).
func (n *Network) initiate(ctx context.Context, raw net.Conn, c call, token []byte) (*Conn, error) {
	if err := raw.SetDeadline(time.Now().Add(n.options.handshake)); err != nil {
		return nil, fmt.Errorf("limit handshake: %w", err)
	}
	self := n.options.Hello()
	byPeer := func(reason string, cause error) error {
		return n.refuse(&refusal{
			RefusedError: RefusedError{Peer: c.id, Reason: reason, ByPeer: true}, self: &self, address: c.address, cause: cause,
		})
	}
	channel, err := n.secureDialled(ctx, raw, c.address)
	if err != nil {
		if isTLSFailure(err) {
			return nil, byPeer(ReasonTLS, err)
		}
		return nil, fmt.Errorf("raft TLS: %w", err)
	}
	hello, err := encode(&opening{
		Kind: kindHello, Protocol: protocol, Purpose: c.purpose, Group: c.group, Nonce: newNonce(), Identity: self,
	})
	if err != nil {
		return nil, err
	}
	if err := writeFrame(channel, hello); err != nil {
		return nil, fmt.Errorf("write hello: %w", err)
	}
	reader := bufio.NewReader(channel)
	challenge, err := readFrame(reader, maxHandshakeBytes)
	if isTLSAlert(err) || speaksTLS(err) {
		return nil, byPeer(ReasonTLS, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read challenge: %w", err)
	}
	if early, err := decodeAnswer(challenge, kindRefused); err == nil && early.Code == ReasonTLS {
		return nil, byPeer(ReasonTLS, errors.New("the peer has TLS on its raft port, this node has not"))
	}
	greeting, err := decodeOpening(challenge, kindChallenge)
	if err != nil {
		return nil, err
	}
	proofs := &transcript{channel: channel.channel, hello: hello, challenge: challenge}
	if err := writeAnswer(channel, &answer{Kind: kindProof, Proof: proofs.prove(token, roleInitiator)}); err != nil {
		return nil, fmt.Errorf("write proof: %w", err)
	}
	given, err := readAnswer(reader, kindProof, kindRefused)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read proof: %w", err)
	case given.Kind == kindRefused && given.Code == ReasonToken:
		return nil, byPeer(ReasonToken, nil)
	case given.Kind == kindRefused && given.Code == codeRetry:
		return nil, fmt.Errorf("node %d: %w", c.id, ErrRetry)
	case given.Kind == kindRefused:
		return nil, fmt.Errorf("node %d: %w: it answers %.20q", c.id, ErrProtocol, given.Code)
	case !proofs.proves(given.Proof, token, roleAcceptor):
		return nil, byPeer(ReasonToken, errors.New("the peer does not know the token itself"))
	case given.Verdict == "":
		return nil, fmt.Errorf("node %d: %w: a proof without a verdict", c.id, ErrProtocol)
	}
	conn := &Conn{
		Conn: channel.Conn, Remote: greeting.Identity, Purpose: c.purpose, Group: c.group, Verdict: given.Verdict,
		Address: c.address, network: n, raw: raw, reader: reader,
	}
	return conn, n.initiateVerdict(conn, c.id, &self)
}

// initiateVerdict is step 5, with a peer that knows the token.
func (n *Network) initiateVerdict(conn *Conn, wanted uint64, self *Hello) error {
	if conn.Remote.NodeID != wanted {
		refuseWith(conn.Conn, codeOtherNode)
		return fmt.Errorf("%w: node %d", ErrOtherNode, conn.Remote.NodeID)
	}
	connected := n.processes(self, &conn.Remote)
	conn.Judged = n.options.Judge(conn.Remote, connected)
	if err := writeAnswer(conn.Conn, &answer{Kind: kindVerdict, Verdict: conn.Judged}); err != nil {
		return fmt.Errorf("write verdict: %w", err)
	}
	if err := n.settle(conn, self, connected); err != nil {
		return err
	}
	if err := n.register(conn); err != nil {
		return err
	}
	if err := clearDeadline(conn.raw); err != nil {
		return errors.Join(err, conn.Close())
	}
	if n.options.Reached != nil && conn.Verdict == OK && conn.Judged == OK {
		n.options.Reached(wanted, conn.Address)
	}
	return nil
}
