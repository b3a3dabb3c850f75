package peer

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// stranger is a connection of somebody who does not know the token.
type stranger struct {
	t *testing.T
	net.Conn
}

func knock(t *testing.T, n *node) *stranger {
	t.Helper()
	conn, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQuietly(conn) })
	if err := conn.SetDeadline(time.Now().Add(testDeadline)); err != nil {
		t.Fatal(err)
	}
	return &stranger{t, conn}
}

// ended waits until the node has closed the connection, and returns what it said before.
func (s *stranger) ended() []byte {
	s.t.Helper()
	said, err := io.ReadAll(s.Conn)
	var network *net.OpError
	if err != nil && (!errors.As(err, &network) || network.Timeout()) {
		s.t.Fatalf("the node keeps the connection: %v", err)
	}
	return said
}

func (s *stranger) frame(payload []byte) {
	s.t.Helper()
	if err := writeFrame(s.Conn, payload); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stranger) read() []byte {
	s.t.Helper()
	frame, err := readFrame(s.Conn, maxHandshakeBytes)
	if err != nil {
		s.t.Fatal(err)
	}
	return frame
}

func encoded(t *testing.T, frame any) []byte {
	t.Helper()
	body, err := json.Marshal(frame)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func helloOf(t *testing.T, change func(*opening)) []byte {
	hello := &opening{
		Kind: kindHello, Protocol: protocol, Purpose: Raft, Nonce: newNonce(),
		Identity: Hello{ClusterID: "cluster", ClusterEpoch: 1, NodeID: 1, Incarnation: "i", BootNonce: nonce(1, "a"), Kinds: 7},
	}
	if change != nil {
		change(hello)
	}
	return encoded(t, hello)
}

func TestGarbageEndsOnlyItsOwnConnection(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	header := func(size uint32) []byte { return binary.BigEndian.AppendUint32(nil, size) }
	var addresses book
	one := start(t, &addresses, 1, nil)
	two := start(t, &addresses, 2, func(o *Options, _ *Hello) { o.handshake = 200 * time.Millisecond }).echoes(Raft)
	one.options.handshake = testDeadline
	for name, bytes := range map[string][]byte{
		"noise":              noise,
		"http":               []byte("GET / HTTP/1.1\r\nHost: queen\r\n\r\n"),
		"largest length":     header(1<<32 - 1),
		"length above limit": header(maxHandshakeBytes + 1),
		"half a header":      {0, 0},
		"half a frame":       append(header(1000), "half"...),
		"nothing":            nil,
	} {
		s := knock(t, two)
		if _, err := s.Write(bytes); err != nil {
			t.Fatal(err)
		}
		if said := s.ended(); len(said) > 0 {
			// Whatever looks like a frame is answered with the challenge, and then comes no proof.
			if _, err := decodeOpening(said[frameHeaderBytes:], kindChallenge); err != nil && name != "noise" {
				t.Errorf("%s: the node says %q", name, said)
			}
		}
	}
	if got := two.refusals(); len(got) > 1 {
		t.Errorf("counted as refused: %v", got)
	}
	echo(t, dial(t, one, 2, Raft))
}

func TestWrongProofsAreRefused(t *testing.T) {
	var addresses book
	two := start(t, &addresses, 2, nil).echoes(Raft)
	token := two.options.Token
	for name, proof := range map[string]func(hello, challenge []byte) any{
		"no proof":          func(_, _ []byte) any { return answer{Kind: kindProof} },
		"of another token":  func(h, c []byte) any { return prove(h, c, []byte("guess"), roleInitiator) },
		"of the other role": func(h, c []byte) any { return prove(h, c, token, roleAcceptor) },
		"of another hello":  func(_, c []byte) any { return prove([]byte("other"), c, token, roleInitiator) },
		"of an old one":     func(h, _ []byte) any { return prove(h, []byte("old"), token, roleInitiator) },
		"cut": func(h, c []byte) any {
			whole := prove(h, c, token, roleInitiator)
			whole.Proof = whole.Proof[:16]
			return whole
		},
	} {
		s := knock(t, two)
		hello := helloOf(t, func(o *opening) { o.Identity.NodeID = 77 })
		s.frame(hello)
		s.frame(encoded(t, proof(hello, s.read())))
		got, err := decodeAnswer(s.read(), kindRefused)
		if err != nil || got.Code != ReasonToken {
			t.Errorf("%s: answered %+v, %v", name, got, err)
		}
		if rest := s.ended(); len(rest) > 0 {
			t.Errorf("%s: the node goes on: %q", name, rest)
		}
	}
	// The claimed id is in the line; it is no label of the metric, because nobody has named a node 77.
	expectLine(t, two, "refused a peer's QUEEN_RAFT_TOKEN", 77)
	if got := two.refusals(); len(got) != 1 || got["0 token"] != 6 {
		t.Errorf("counted %v, want 6 of node 0", got)
	}
}

func prove(hello, challenge, token []byte, role string) answer {
	return answer{Kind: kindProof, Proof: (&transcript{hello: hello, challenge: challenge}).prove(token, role)}
}

// TestReplayedHandshakeFails records a good handshake and sends the initiator's part again.
func TestReplayedHandshakeFails(t *testing.T) {
	var addresses book
	two := start(t, &addresses, 2, nil).echoes(Raft)
	s := knock(t, two)
	hello := helloOf(t, nil)
	s.frame(hello)
	proof := encoded(t, prove(hello, s.read(), two.options.Token, roleInitiator))
	s.frame(proof)
	if got, err := decodeAnswer(s.read(), kindProof); err != nil || got.Verdict != OK {
		t.Fatalf("the recorded handshake: %+v, %v", got, err)
	}
	again := knock(t, two)
	again.frame(hello)
	again.read()
	again.frame(proof)
	if got, err := decodeAnswer(again.read(), kindRefused); err != nil || got.Code != ReasonToken {
		t.Errorf("the replay: %+v, %v", got, err)
	}
}

// TestKnownTokenWithBrokenFields proves to know the token and then sends what no node sends.
func TestKnownTokenWithBrokenFields(t *testing.T) {
	var addresses book
	two := start(t, &addresses, 2, nil).echoes(Raft)
	for name, hello := range map[string][]byte{
		"no JSON":        []byte("\x00\x01"),
		"no object":      []byte(`[[[[[[`),
		"deep":           []byte(strings.Repeat("[", 60_000)),
		"other protocol": helloOf(t, func(o *opening) { o.Protocol = 2 }),
		"other purpose":  helloOf(t, func(o *opening) { o.Purpose = "shell" }),
		"negative group": helloOf(t, func(o *opening) { o.Group = -1 }),
		"group too high": helloOf(t, func(o *opening) { o.Group = 64 }),
		"no node":        helloOf(t, func(o *opening) { o.Identity.NodeID = 0 }),
		"node too high":  helloOf(t, func(o *opening) { o.Identity.NodeID = 1 << 32 }),
		"no incarnation": helloOf(t, func(o *opening) { o.Identity.Incarnation = "" }),
		"no boot nonce":  helloOf(t, func(o *opening) { o.Identity.BootNonce = "x" }),
		"short nonce":    helloOf(t, func(o *opening) { o.Nonce = o.Nonce[:31] }),
		"a challenge":    helloOf(t, func(o *opening) { o.Kind = kindChallenge }),
	} {
		s := knock(t, two)
		s.frame(hello)
		s.frame(encoded(t, prove(hello, s.read(), two.options.Token, roleInitiator)))
		if got, err := decodeAnswer(s.read(), kindRefused); err != nil || got.Code != codeProtocol {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if rest := s.ended(); len(rest) > 0 {
			t.Errorf("%s: the node goes on: %q", name, rest)
		}
	}
}

// TestLastFrameIsAVerdict proves to know the token, and then sends something else in step 5.
func TestLastFrameIsAVerdict(t *testing.T) {
	var addresses book
	two := start(t, &addresses, 2, nil).echoes(Raft)
	for _, last := range []string{`{"type":"verdict"}`, `{"type":"verdict","verdict":"wiped"}`, `{"type":"proof","verdict":"ok"}`, `{"type":"refused"}`, `{}`, ``} {
		s := knock(t, two)
		hello := helloOf(t, nil)
		s.frame(hello)
		s.frame(encoded(t, prove(hello, s.read(), two.options.Token, roleInitiator)))
		if got, err := decodeAnswer(s.read(), kindProof); err != nil || got.Verdict != OK {
			t.Fatalf("step 4: %+v, %v", got, err)
		}
		s.frame([]byte(last))
		if rest := s.ended(); len(rest) > 0 {
			t.Errorf("after %s the node goes on: %q", last, rest)
		}
	}
	if got := two.meetings(); len(got) != 0 {
		t.Errorf("met %v", got)
	}
}

// TestSilentCallersKeepNobodyOut fills every place with callers that say nothing, and more.
func TestSilentCallersKeepNobodyOut(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	two := start(t, &addresses, 2, nil).echoes(Raft) // with the generous limit: only displacing helps
	first := knock(t, two)
	for range maxHandshakes + 20 {
		knock(t, two)
	}
	echo(t, dial(t, one, 2, Raft))
	first.ended()
	two.Network.mu.Lock()
	defer two.Network.mu.Unlock()
	if got := two.greeting.Len(); got > maxHandshakes {
		t.Errorf("%d handshakes under way", got)
	}
}

// TestSlowCallersAreCut sends a hello byte by byte, each in time, and never to its end.
func TestSlowCallersAreCut(t *testing.T) {
	var addresses book
	two := start(t, &addresses, 2, func(o *Options, _ *Hello) { o.handshake = 100 * time.Millisecond })
	s := knock(t, two)
	if _, err := s.Write(binary.BigEndian.AppendUint32(nil, maxHandshakeBytes)); err != nil {
		t.Fatal(err)
	}
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for range maxHandshakeBytes {
		<-pace.C
		if _, err := s.Write([]byte{'x'}); err != nil {
			return // the node has closed it
		}
	}
	t.Error("the node listens to a slow caller to the end")
}

// impostor accepts one call and runs script on it.
func impostor(t *testing.T, addresses *book, id uint64, script func(*stranger)) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(testDeadline))
		script(&stranger{t, conn})
		closeQuietly(conn)
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	addresses.set(id, listener.Addr().String())
}

func TestInitiatorBelievesNoImpostor(t *testing.T) {
	challenge := func(t *testing.T) []byte {
		return helloOf(t, func(o *opening) { o.Kind, o.Protocol, o.Purpose, o.Identity.NodeID = kindChallenge, 0, "", 2 })
	}
	for name, row := range map[string]struct {
		script func(t *testing.T, s *stranger)
		want   func(error) bool
	}{
		"finding without a proof": {func(t *testing.T, s *stranger) {
			s.read()
			s.frame(challenge(t))
			s.read()
			s.frame(encoded(t, answer{Kind: kindRefused, Code: string(Replaced)}))
		}, func(err error) bool { return errors.Is(err, ErrProtocol) }},
		"verdict with a wrong proof": {func(t *testing.T, s *stranger) {
			s.read()
			s.frame(challenge(t))
			s.read()
			s.frame(encoded(t, answer{Kind: kindProof, Proof: make([]byte, 32), Verdict: Replaced}))
		}, func(err error) bool { var r *RefusedError; return errors.As(err, &r) && r.Reason == ReasonToken }},
		"proof sent back": {func(t *testing.T, s *stranger) {
			s.read()
			s.frame(challenge(t))
			s.frame(s.read())
		}, func(err error) bool { var r *RefusedError; return errors.As(err, &r) && r.Reason == ReasonToken }},
		"endless challenge": {func(_ *testing.T, s *stranger) {
			s.read()
			_, _ = s.Write([]byte{0xff, 0xff, 0xff, 0xff})
		}, func(err error) bool { return errors.Is(err, ErrFrameTooLarge) }},
		"noise": {func(_ *testing.T, s *stranger) {
			s.read()
			s.frame([]byte("{}"))
		}, func(err error) bool { return errors.Is(err, ErrProtocol) }},
		"unknown verdict": {func(t *testing.T, s *stranger) {
			s.read()
			s.frame(challenge(t))
			s.read()
			s.frame([]byte(`{"type":"proof","verdict":"wiped"}`))
		}, func(err error) bool { return errors.Is(err, ErrProtocol) }},
		"proof without a verdict": {func(t *testing.T, s *stranger) {
			hello, ours := s.read(), challenge(t)
			s.frame(ours)
			s.read()
			s.frame(encoded(t, prove(hello, ours, []byte("a token of the cluster"), roleAcceptor)))
		}, func(err error) bool { return errors.Is(err, ErrProtocol) }},
		"hang up": {func(_ *testing.T, s *stranger) { s.read() }, func(err error) bool { return errors.Is(err, io.EOF) }},
	} {
		var addresses book
		one := start(t, &addresses, 1, nil)
		impostor(t, &addresses, 2, func(s *stranger) { row.script(t, s) })
		conn, err := one.Dial(ctxFor(t), 2, Raft, 0)
		if conn != nil || !row.want(err) {
			t.Errorf("%s: %v", name, err)
		}
		if got := one.meetings(); len(got) != 0 {
			t.Errorf("%s: an impostor counts as met: %v", name, got)
		}
	}
}

// TestDialEndsWithItsContext calls somebody who accepts and never says a word.
func TestDialEndsWithItsContext(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	called := make(chan struct{})
	ctx, cancel := context.WithCancel(ctxFor(t))
	impostor(t, &addresses, 2, func(s *stranger) {
		s.read()
		close(called)
		_, _ = io.Copy(io.Discard, s.Conn)
	})
	failed := make(chan error, 1)
	go func() {
		_, err := one.Dial(ctx, 2, Raft, 0)
		failed <- err
	}()
	<-called
	cancel()
	if err := <-failed; !errors.Is(err, ctx.Err()) {
		t.Errorf("dial after its context: %v", err)
	}
}

// TestFrameMemoryFollowsTheBytes announces a large frame and sends little of it.
func TestFrameMemoryFollowsTheBytes(t *testing.T) {
	stream := append(binary.BigEndian.AppendUint32(nil, 1<<30), make([]byte, 1000)...)
	const runs = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if _, err := readFrame(bytes.NewReader(stream), 1<<30); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	allocated := (after.TotalAlloc - before.TotalAlloc) / runs
	if allocated > 2*frameChunkBytes {
		t.Errorf("%d bytes allocated for a frame of which 1000 bytes came", allocated)
	}
}
