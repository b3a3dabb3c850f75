package peer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
)

// The role words keep one side's proof from being sent back to it as the other's.
const (
	roleInitiator = "queen raft 1 initiator"
	roleAcceptor  = "queen raft 1 acceptor"
)

const (
	// channelLabel and channelBytes name the key that TLS exports for the proofs.
	channelLabel = "EXPORTER-queen-raft-handshake"
	channelBytes = 32
)

// transcript is what the proofs of one handshake cover besides the role: the frames of steps 1 and 2 as they crossed the
// wire, with both nonces and both identities, and the exported key of the TLS channel, empty without TLS.
type transcript struct{ channel, hello, challenge []byte }

// prove returns the HMAC-SHA256 of role and transcript under a token. Every part is preceded by its length, so that no
// two transcripts give the same input.
func (t *transcript) prove(token []byte, role string) []byte {
	mac := hmac.New(sha256.New, token)
	for _, part := range [][]byte{[]byte(role), t.channel, t.hello, t.challenge} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// proves compares in constant time.
func (t *transcript) proves(proof, token []byte, role string) bool {
	return hmac.Equal(proof, t.prove(token, role))
}

// channelKey returns the key that both ends of a TLS connection, and nobody between them, can compute.
func channelKey(conn *tls.Conn) ([]byte, error) {
	state := conn.ConnectionState()
	key, err := state.ExportKeyingMaterial(channelLabel, nil, channelBytes)
	if err != nil {
		return nil, fmt.Errorf("export channel key: %w", err)
	}
	return key, nil
}

func newNonce() []byte {
	nonce := make([]byte, nonceBytes)
	rand.Read(nonce) //nolint:errcheck // never fails: it ends the process instead
	return nonce
}
