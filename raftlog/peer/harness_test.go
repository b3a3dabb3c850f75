package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testDeadline is generous: the machine may be busy.
const testDeadline = 20 * time.Second

type fakeClock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *fakeClock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += by
}

// lines collects log lines.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

// warnings returns the lines at WARN, decoded.
func (l *lines) warnings(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]any
	for _, text := range strings.Split(strings.TrimSpace(l.buffer.String()), "\n") {
		if text == "" {
			continue
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["level"] == "warn" {
			found = append(found, line)
		}
	}
	return found
}

// node is a Network under test and what it has told.
type node struct {
	*Network
	clock *fakeClock
	log   *lines

	mu      sync.Mutex
	hello   Hello
	verdict Verdict
	refused map[string]int // "peer reason"
	met     []string       // "id theirs ours"
}

func nonce(counter int, letter string) string {
	return fmt.Sprintf("%d-%s", counter, strings.Repeat(letter, 16))
}

// book is where nodes find each other.
type book struct {
	mu        sync.Mutex
	addresses map[uint64][]string
}

func (b *book) of(id uint64) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addresses[id]
}

func (b *book) set(id uint64, addresses ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.addresses == nil {
		b.addresses = map[uint64][]string{}
	}
	b.addresses[id] = addresses
}

// start opens a node of one cluster. adjust may change its options and what it says of itself.
func start(t *testing.T, addresses *book, id uint64, adjust func(*Options, *Hello)) *node {
	t.Helper()
	n := &node{clock: &fakeClock{}, log: &lines{}, verdict: OK, refused: map[string]int{}}
	n.hello = Hello{
		ClusterID: "cluster", ClusterEpoch: 1, NodeID: id, Incarnation: fmt.Sprintf("incarnation-%d", id),
		BootNonce: nonce(1, "a"), Kinds: 7, ClusterVersion: 7, Groups: 1, Version: "test",
	}
	options := Options{
		Listen: "127.0.0.1:0", Token: []byte("a token of the cluster"),
		Hello: func() Hello {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.hello
		},
		Addresses: addresses.of,
		Judge: func(Hello, []string) Verdict {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.verdict
		},
		Met: func(remote Hello, theirs, ours Verdict) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.met = append(n.met, fmt.Sprintf("%d %s %s", remote.NodeID, theirs, ours))
		},
		Refused: func(peer uint64, reason string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.refused[fmt.Sprintf("%d %s", peer, reason)]++
		},
		Clock: n.clock, Logger: zerolog.New(n.log).Level(zerolog.WarnLevel),
		handshake: testDeadline,
	}
	if adjust != nil {
		adjust(&options, &n.hello)
	}
	network, err := Listen(options)
	if err != nil {
		t.Fatal(err)
	}
	n.Network = network
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	if len(addresses.of(id)) == 0 {
		addresses.set(id, network.Addr().String())
	}
	return n
}

func (n *node) change(change func(*Hello)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.hello)
}

func (n *node) judges(verdict Verdict) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.verdict = verdict
}

func (n *node) refusals() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.refused)
}

func (n *node) meetings() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.met...)
}

// echoes serves a purpose by sending every frame back.
func (n *node) echoes(purpose Purpose) *node {
	n.Handle(purpose, func(conn *Conn) {
		defer conn.Close()
		for {
			frame, err := conn.ReadFrame(1 << 20)
			if err != nil {
				return
			}
			if conn.WriteFrame(frame) != nil {
				return
			}
		}
	})
	return n
}

func ctxFor(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	t.Cleanup(cancel)
	return ctx
}

// echo sends one frame and expects it back.
func echo(t *testing.T, conn *Conn) {
	t.Helper()
	if err := conn.WriteFrame([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if got, err := conn.ReadFrame(16); err != nil || string(got) != "ping" {
		t.Fatalf("echo: %q, %v", got, err)
	}
}

func dial(t *testing.T, from *node, id uint64, purpose Purpose) *Conn {
	t.Helper()
	conn, err := from.Dial(ctxFor(t), id, purpose, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQuietly(conn) })
	return conn
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(testDeadline)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("%s did not happen within %v", what, testDeadline)
		case <-tick.C:
		}
	}
}
