package peer

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// accept is the acceptor's side of the handshake (cluster 2.4). Before step 3 it reads two frames and parses neither of the
// caller's fields: what is not proved yet decides nothing.
func (n *Network) accept(raw net.Conn) (*Conn, func(*Conn), error) {
	address := raw.RemoteAddr().String()
	if err := raw.SetDeadline(time.Now().Add(n.options.handshake)); err != nil {
		return nil, nil, fmt.Errorf("limit handshake: %w", err)
	}
	channel, err := n.secureAccepted(raw)
	if err != nil {
		if isTLSFailure(err) {
			if header := (tls.RecordHeaderError{}); errors.As(err, &header) {
				refuseWith(raw, ReasonTLS) // the caller speaks in clear, and so understands this
			}
			linger(raw)
		}
		return nil, nil, n.failedTLS(&refusal{address: address, cause: err}, isTLSFailure(err))
	}
	reader := bufio.NewReader(channel)
	hello, err := readFrame(reader, maxHandshakeBytes)
	if err != nil {
		if speaksTLS(err) {
			refuseWith(channel, codeProtocol) // which is no TLS record, and says so to the other side
		}
		return nil, nil, n.failedTLS(&refusal{address: address, cause: fmt.Errorf("read hello: %w", err)}, speaksTLS(err))
	}
	self := n.options.Hello()
	challenge, err := encode(&opening{Kind: kindChallenge, Nonce: newNonce(), Identity: self})
	if err != nil {
		return nil, nil, err
	}
	if err := writeFrame(channel, challenge); err != nil {
		return nil, nil, fmt.Errorf("write challenge: %w", err)
	}
	given, err := readAnswer(reader, kindProof)
	if err != nil {
		return nil, nil, fmt.Errorf("read proof: %w", err)
	}
	proofs := &transcript{channel: channel.channel, hello: hello, challenge: challenge}
	token, proved := n.provedToken(proofs, given.Proof)
	if !proved {
		refuseWith(channel, ReasonToken)
		return nil, nil, n.refuse(&refusal{
			RefusedError: RefusedError{Peer: claimedNode(hello), Reason: ReasonToken}, self: &self, address: address,
		})
	}
	return n.acceptProved(channel, raw, reader, &self, proofs, token)
}

// acceptProved is the rest of accept: steps 4 and 5, with a caller that knows the token.
func (n *Network) acceptProved(channel secured, raw net.Conn, reader *bufio.Reader, self *Hello, proofs *transcript, token []byte,
) (*Conn, func(*Conn), error) {
	greeting, err := decodeHello(proofs.hello)
	if err != nil {
		refuseWith(channel, codeProtocol)
		return nil, nil, err
	}
	conn := &Conn{
		Conn: channel.Conn, Remote: greeting.Identity, Purpose: greeting.Purpose, Group: greeting.Group,
		network: n, raw: raw, reader: reader,
	}
	serve, err := n.handler(conn)
	if err != nil {
		refuseWith(channel, codeRetry)
		return nil, nil, err
	}
	if err := n.acceptVerdicts(conn, self, proofs.prove(token, roleAcceptor)); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, serve, nil
}

// handler registers a connection and returns who serves it.
func (n *Network) handler(conn *Conn) (func(*Conn), error) {
	n.mu.Lock()
	serve := n.handlers[conn.Purpose]
	n.mu.Unlock()
	if serve == nil {
		return nil, fmt.Errorf("%w: nobody serves %s yet", ErrRetry, conn.Purpose)
	}
	return serve, n.register(conn)
}

// acceptVerdicts exchanges the verdicts and decides by them.
func (n *Network) acceptVerdicts(conn *Conn, self *Hello, proof []byte) error {
	connected := n.processes(self, &conn.Remote)
	conn.Judged = n.options.Judge(conn.Remote, connected)
	if err := writeAnswer(conn.Conn, &answer{Kind: kindProof, Proof: proof, Verdict: conn.Judged}); err != nil {
		return fmt.Errorf("write proof: %w", err)
	}
	last, err := readAnswer(conn.reader, kindVerdict, kindRefused)
	if err != nil {
		return fmt.Errorf("read verdict: %w", err)
	}
	if last.Kind == kindRefused {
		return fmt.Errorf("node %d gave the connection up: %.20q", conn.Remote.NodeID, last.Code)
	}
	conn.Verdict = last.Verdict
	if err := n.settle(conn, self, connected); err != nil {
		return err
	}
	return clearDeadline(conn.raw)
}

// provedToken returns the token that a caller has proved to know.
func (n *Network) provedToken(t *transcript, proof []byte) ([]byte, bool) {
	if t.proves(proof, n.options.Token, roleInitiator) {
		return n.options.Token, true
	}
	previous := n.options.PreviousToken
	if len(previous) > 0 && t.proves(proof, previous, roleInitiator) {
		return previous, true
	}
	return nil, false
}

// failedTLS returns the error of a handshake that ended before its first frame, counted when TLS was the reason.
func (n *Network) failedTLS(r *refusal, isTLS bool) error {
	if !isTLS {
		return r.cause
	}
	r.Reason = ReasonTLS
	return n.refuse(r)
}

// refuseWith tells the other side why the handshake ends. It may be gone; this side ends it either way.
func refuseWith(conn net.Conn, code string) {
	_ = writeAnswer(conn, &answer{Kind: kindRefused, Code: code})
}

// linger waits until the other side has read the alert of TLS. Closing with its bytes unread would reset the connection and
// take the alert with it.
func linger(raw net.Conn) {
	const limit, most = 500 * time.Millisecond, 64 << 10
	tcp, ok := raw.(*net.TCPConn)
	if !ok || tcp.CloseWrite() != nil || raw.SetReadDeadline(time.Now().Add(limit)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, raw, most)
}

func writeAnswer(conn net.Conn, a *answer) error {
	body, err := encode(a)
	if err != nil {
		return err
	}
	return writeFrame(conn, body)
}

func readAnswer(reader *bufio.Reader, kinds ...string) (*answer, error) {
	frame, err := readFrame(reader, maxAnswerBytes)
	if err != nil {
		return nil, err
	}
	return decodeAnswer(frame, kinds...)
}

// clearDeadline lifts the limit of the handshake.
func clearDeadline(raw net.Conn) error {
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("end handshake: %w", err)
	}
	return nil
}
