package peer

import (
	"encoding/json"
	"errors"
	"fmt"
)

const (
	// protocol is the version of the handshake.
	protocol = 1
	// nonceBytes is the size of both nonces.
	nonceBytes = 32
	// maxHandshakeBytes bounds a handshake frame (cluster 2.4).
	maxHandshakeBytes = 64 << 10
	// maxAnswerBytes bounds the frames that carry a proof, a verdict or a refusal, which are small.
	maxAnswerBytes = 1 << 10
)

// The kinds of handshake frames.
const (
	kindHello     = "hello"
	kindChallenge = "challenge"
	kindProof     = "proof"
	kindVerdict   = "verdict"
	kindRefused   = "refused"
)

// ErrProtocol says that the other side does not speak this protocol, or another version of it.
var ErrProtocol = errors.New("the peer does not speak this protocol")

// opening is the frame of step 1 or 2. Protocol, Purpose and Group are set in a hello only.
type opening struct {
	Kind     string  `json:"type"`
	Protocol int     `json:"protocol,omitempty"`
	Purpose  Purpose `json:"purpose,omitempty"`
	Group    int     `json:"group,omitempty"`
	Nonce    []byte  `json:"nonce"`
	Identity Hello   `json:"identity"`
}

// answer is the frame of step 3, 4 or 5, or a refusal.
type answer struct {
	Kind    string  `json:"type"`
	Proof   []byte  `json:"proof,omitempty"`
	Verdict Verdict `json:"verdict,omitempty"`
	Code    string  `json:"code,omitempty"`
}

func decodeOpening(frame []byte, kind string) (*opening, error) {
	var o opening
	if err := json.Unmarshal(frame, &o); err != nil {
		return nil, fmt.Errorf("%w: decode %s: %w", ErrProtocol, kind, err)
	}
	if o.Kind != kind || len(o.Nonce) != nonceBytes {
		return nil, fmt.Errorf("%w: want a %s with a nonce of %d bytes, got type %.20q with %d",
			ErrProtocol, kind, nonceBytes, o.Kind, len(o.Nonce))
	}
	if err := o.Identity.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return &o, nil
}

// decodeHello reads the frame of step 1.
func decodeHello(frame []byte) (*opening, error) {
	o, err := decodeOpening(frame, kindHello)
	if err != nil {
		return nil, err
	}
	if o.Protocol != protocol || !o.Purpose.known() || o.Group < 0 || o.Group > highestGroup {
		return nil, fmt.Errorf("%w: protocol %d, purpose %.20q, group %d", ErrProtocol, o.Protocol, o.Purpose, o.Group)
	}
	return o, nil
}

// claimedNode returns the node id that a hello names, 0 when it names none. Nothing proves it.
func claimedNode(frame []byte) uint64 {
	var o struct {
		Identity struct {
			NodeID uint64 `json:"nodeId"`
		} `json:"identity"`
	}
	if json.Unmarshal(frame, &o) != nil {
		return 0
	}
	return o.Identity.NodeID
}

// decodeAnswer reads a frame of one of the given kinds. A verdict is a known one; the proof of step 3 comes without.
func decodeAnswer(frame []byte, kinds ...string) (*answer, error) {
	var a answer
	if err := json.Unmarshal(frame, &a); err != nil {
		return nil, fmt.Errorf("%w: decode %v: %w", ErrProtocol, kinds, err)
	}
	for _, kind := range kinds {
		if a.Kind != kind {
			continue
		}
		if !a.Verdict.known() && (a.Verdict != "" || kind == kindVerdict) {
			return nil, fmt.Errorf("%w: verdict %.20q", ErrProtocol, a.Verdict)
		}
		return &a, nil
	}
	return nil, fmt.Errorf("%w: want %v, got %.20q", ErrProtocol, kinds, a.Kind)
}

// encode turns a frame of the handshake into bytes. Only an identity with thousands of keys can be too large.
func encode(frame any) ([]byte, error) {
	body, err := json.Marshal(frame)
	if err != nil {
		return nil, fmt.Errorf("encode handshake: %w", err)
	}
	if len(body) > maxHandshakeBytes {
		return nil, fmt.Errorf("encode handshake: %d bytes: %w", len(body), ErrFrameTooLarge)
	}
	return body, nil
}
