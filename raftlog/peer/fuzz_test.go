package peer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// FuzzHandshakeFrames feeds the decoders what may come over the wire: they refuse it with ErrProtocol, or they return what
// their callers rely on, and it survives being sent again.
func FuzzHandshakeFrames(f *testing.F) {
	hello := opening{
		Kind: kindHello, Protocol: protocol, Purpose: Raft, Group: 1, Nonce: make([]byte, nonceBytes),
		Identity: Hello{
			ClusterID: "c", ClusterEpoch: 1, NodeID: 3, Incarnation: "i", BootNonce: nonce(2, "a"),
			PendingNonces: []string{nonce(1, "b")}, KeyIDs: []string{"k"}, Settings: map[string]string{"QUEEN_RAFT_GROUPS": "1"},
		},
	}
	challenge := opening{Kind: kindChallenge, Nonce: hello.Nonce, Identity: hello.Identity}
	for _, frame := range []any{
		hello, challenge, answer{Kind: kindProof, Proof: []byte("proof"), Verdict: OK},
		answer{Kind: kindVerdict, Verdict: Replaced}, answer{Kind: kindRefused, Code: ReasonToken},
	} {
		body, err := json.Marshal(frame)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"type":"hello","protocol":1,"purpose":"raft","nonce":null,"identity":null}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if got, err := decodeHello(frame); err == nil {
			if got.Protocol != protocol || !got.Purpose.known() || got.Group < 0 || got.Group > highestGroup {
				t.Errorf("accepted %+v", got)
			}
			if claimed := claimedNode(frame); claimed != got.Identity.NodeID {
				t.Errorf("claims node %d, is node %d", claimed, got.Identity.NodeID)
			}
			resend(t, got, kindHello)
		} else if !errors.Is(err, ErrProtocol) {
			t.Errorf("hello: %v", err)
		}
		if got, err := decodeOpening(frame, kindChallenge); err == nil {
			resend(t, got, kindChallenge)
		} else if !errors.Is(err, ErrProtocol) {
			t.Errorf("challenge: %v", err)
		}
		got, err := decodeAnswer(frame, kindProof, kindVerdict, kindRefused)
		if err == nil && !got.Verdict.known() && (got.Verdict != "" || got.Kind == kindVerdict) || err != nil && !errors.Is(err, ErrProtocol) {
			t.Errorf("answer: %+v, %v", got, err)
		}
	})
}

func resend(t *testing.T, o *opening, kind string) {
	if err := o.Identity.check(); err != nil || len(o.Nonce) != nonceBytes {
		t.Errorf("accepted %+v: %v", o, err)
	}
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeOpening(body, kind)
	if err != nil {
		t.Fatalf("sent again: %v", err)
	}
	body2, err := json.Marshal(again)
	if err != nil || !bytes.Equal(body, body2) {
		t.Errorf("sent again as %s, before %s: %v", body2, body, err)
	}
}

// FuzzReadFrame reads frames from any stream.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 'h', 'i'}, 10)
	f.Add([]byte{0, 0, 0, 0}, 0)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 1<<20)
	f.Add([]byte{0, 0, 1, 0, 'x'}, 1000)
	f.Fuzz(func(t *testing.T, stream []byte, maxBytes int) {
		frame, err := readFrame(bytes.NewReader(stream), maxBytes)
		if err != nil {
			return
		}
		size := int(binary.BigEndian.Uint32(stream))
		if len(frame) > max(maxBytes, 0) || !reflect.DeepEqual(frame, stream[frameHeaderBytes:frameHeaderBytes+size]) {
			t.Errorf("frame of %d bytes, allowed %d, of a stream of %d", len(frame), maxBytes, len(stream))
		}
	})
}
