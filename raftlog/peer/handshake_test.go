package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"queen/raftlog/identity"
)

func TestNodesMeet(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	two := start(t, &addresses, 2, func(_ *Options, hello *Hello) {
		hello.Incarnation, hello.KeyIDs, hello.Raft, hello.HTTP = "other", []string{"k"}, "two:7400", "two:6632"
		hello.CurrentTerm, hello.LastLogIndex, hello.LastLogTerm = 3, 90, 2
		hello.Lineage = []identity.Ancestor{{ClusterID: "former", ClusterEpoch: 1, AtMs: 5}}
	})
	served := make(chan *Conn, 1)
	two.Handle(Command, func(conn *Conn) { served <- conn })
	conn, err := one.Dial(ctxFor(t), 2, Command, 3)
	if err != nil {
		t.Fatal(err)
	}
	other := <-served
	if !reflect.DeepEqual(conn.Remote, two.hello) || !reflect.DeepEqual(other.Remote, one.hello) {
		t.Errorf("met %+v and %+v", conn.Remote, other.Remote)
	}
	if other.Purpose != Command || other.Group != 3 || other.Address != "" || conn.Address != two.Addr().String() ||
		conn.Verdict != OK || conn.Judged != OK || other.Verdict != OK || other.Judged != OK {
		t.Errorf("dialled %+v, accepted %+v", conn, other)
	}
	// The connection is the handler's, also after serve has returned; it carries frames and plain bytes both ways.
	if err := conn.WriteFrame(nil); err != nil {
		t.Fatal(err)
	}
	if frame, err := other.ReadFrame(0); err != nil || len(frame) != 0 {
		t.Errorf("empty frame: %v, %v", frame, err)
	}
	large := strings.Repeat("x", 300_000)
	go func() { _ = other.WriteFrame([]byte(large)) }()
	if frame, err := conn.ReadFrame(len(large)); err != nil || string(frame) != large {
		t.Errorf("large frame: %d bytes, %v", len(frame), err)
	}
	if _, err := other.Write([]byte("plain")); err != nil {
		t.Fatal(err)
	}
	plain := make([]byte, 5)
	if _, err := io.ReadFull(conn, plain); err != nil || string(plain) != "plain" {
		t.Errorf("plain bytes: %q, %v", plain, err)
	}
	if err := conn.WriteFrame([]byte("four")); err != nil {
		t.Fatal(err)
	}
	if _, err := other.ReadFrame(3); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("frame above the limit: %v", err)
	}
	if err := errors.Join(conn.Close(), conn.Close()); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(other); err != nil {
		t.Error(err)
	}
	closeQuietly(other)
	for _, n := range []*node{one, two} {
		n.Network.mu.Lock()
		if len(n.conns) != 0 || len(n.accepted) != 0 || n.greeting.Len() != 0 {
			t.Errorf("node %d still counts %d connections, %v, %d", n.hello.NodeID, len(n.conns), n.accepted, n.greeting.Len())
		}
		n.Network.mu.Unlock()
	}
}

func TestTokens(t *testing.T) {
	const current, former, other = "the present token", "the former token", "another token"
	for _, row := range []struct {
		dialled, dialledPrevious, accepting, acceptingPrevious string
		refusals                                               int // on each side
		ok                                                     bool
	}{
		{current, "", current, "", 0, true},
		{"", "", "", "", 0, true},
		{current, "", other, "", 1, false},
		{current, "", "", "", 1, false},
		{"", "", current, "", 1, false},
		{"", "", current, former, 1, false},
		// A rotation, node by node: the acceptor has the new token already, or the initiator.
		{former, "", current, former, 0, true},
		{current, former, former, "", 1, true},
		{current, former, current, former, 0, true},
		{current, former, other, "", 2, false},
		// An empty previous token is none.
		{current, "", former, "", 1, false},
	} {
		var addresses book
		one := start(t, &addresses, 1, func(o *Options, _ *Hello) {
			o.Token, o.PreviousToken = []byte(row.dialled), []byte(row.dialledPrevious)
		})
		two := start(t, &addresses, 2, func(o *Options, _ *Hello) {
			o.Token, o.PreviousToken = []byte(row.accepting), []byte(row.acceptingPrevious)
		}).echoes(Raft)
		conn, err := one.Dial(ctxFor(t), 2, Raft, 0)
		if row.ok {
			if err != nil {
				t.Errorf("%+v: %v", row, err)
				continue
			}
			echo(t, conn)
			closeQuietly(conn)
		} else {
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Reason != ReasonToken || !refused.ByPeer || refused.Remote != nil {
				t.Errorf("%+v: %v", row, err)
			}
		}
		if got := one.refusals()["2 token"]; got != row.refusals {
			t.Errorf("%+v: the initiator counts %d refusals", row, got)
		}
		eventually(t, "counting at the acceptor", func() bool { return two.refusals()["1 token"] == row.refusals })
		if row.refusals > 0 {
			expectLine(t, one, "node 2 refused this node's QUEEN_RAFT_TOKEN", 2)
			expectLine(t, two, "refused a peer's QUEEN_RAFT_TOKEN", 1)
		}
	}
}

// expectLine waits for a line at WARN of a peer.
func expectLine(t *testing.T, n *node, text string, peer uint64) map[string]any {
	t.Helper()
	var found map[string]any
	eventually(t, fmt.Sprintf("the line %q", text), func() bool {
		for _, line := range n.log.warnings(t) {
			if line["message"] == text && line["peer"] == float64(peer) {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// TestRefusalsAreLoggedOnBothSides has the table of cluster 2.4, with either side as the one that refuses.
func TestRefusalsAreLoggedOnBothSides(t *testing.T) {
	for verdict, want := range map[Verdict]struct{ refused, refusing string }{
		Foreign:    {"node %d belongs to another cluster", "node %d belongs to another cluster"},
		Replaced:   {"this node's directory is not the one node %d knows", "node %d came back with another directory"},
		RolledBack: {"this node's directory is older than what node %d has seen", "node %d came back with an older directory"},
		Superseded: {"another process runs under this node's identity", "another process runs under this node's identity"},
		TooOld:     {"this build reads format 7, the cluster writes 7", "node %d: this build reads format 7, the cluster writes 7"},
		Unknown:    {"this node is not a member", "node %d is not a member"},
	} {
		for _, initiatorRefuses := range []bool{false, true} {
			var addresses book
			one := start(t, &addresses, 1, nil)
			two := start(t, &addresses, 2, nil).echoes(Raft)
			refused, refusing := one, two
			if initiatorRefuses {
				refused, refusing = two, one
			}
			refusing.judges(verdict)
			_, err := one.Dial(ctxFor(t), 2, Raft, 0)
			var finding *RefusedError
			if !errors.As(err, &finding) {
				t.Fatalf("%s: %v", verdict, err)
			}
			if finding.Peer != 2 || finding.Reason != string(verdict) || finding.ByPeer == initiatorRefuses ||
				finding.Remote.Incarnation != two.hello.Incarnation {
				t.Errorf("%s: %+v", verdict, finding)
			}
			fill := func(text string, id uint64) string {
				if strings.Contains(text, "%d") {
					return fmt.Sprintf(text, id)
				}
				return text
			}
			expectLine(t, refused, fill(want.refused, refusing.hello.NodeID), refusing.hello.NodeID)
			expectLine(t, refusing, fill(want.refusing, refused.hello.NodeID), refused.hello.NodeID)
			for _, n := range []*node{one, two} {
				key := fmt.Sprintf("%d %s", 3-n.hello.NodeID, verdict)
				if got := n.refusals(); len(got) != 1 || got[key] != 1 {
					t.Errorf("%s: node %d counts %v", verdict, n.hello.NodeID, got)
				}
			}
			// Both are told of both verdicts, whatever became of the connection.
			if want := fmt.Sprintf("%d %s ok", refusing.hello.NodeID, verdict); !reflect.DeepEqual(refused.meetings(), []string{want}) {
				t.Errorf("%s: the refused node met %v", verdict, refused.meetings())
			}
			if want := fmt.Sprintf("%d ok %s", refused.hello.NodeID, verdict); !reflect.DeepEqual(refusing.meetings(), []string{want}) {
				t.Errorf("%s: the refusing node met %v", verdict, refusing.meetings())
			}
		}
	}
}

func TestForeignNamesTheCommonAncestor(t *testing.T) {
	var addresses book
	common := identity.Ancestor{ClusterID: "common", ClusterEpoch: 2}
	fork := func(id string) func(*Options, *Hello) {
		return func(_ *Options, hello *Hello) {
			hello.ClusterID, hello.ClusterEpoch = id, 3
			hello.Lineage = []identity.Ancestor{{ClusterID: "oldest", ClusterEpoch: 1}, common}
		}
	}
	one := start(t, &addresses, 1, fork("left"))
	two := start(t, &addresses, 2, fork("right")).echoes(Raft)
	one.judges(Foreign)
	two.judges(Foreign)
	if _, err := one.Dial(ctxFor(t), 2, Raft, 0); err == nil {
		t.Fatal("two clusters are connected")
	}
	for _, n := range []*node{one, two} {
		line := expectLine(t, n, fmt.Sprintf("node %d belongs to another cluster", 3-n.hello.NodeID), 3-n.hello.NodeID)
		if line["ancestorClusterId"] != "common" || line["ancestorClusterEpoch"] != float64(2) ||
			line["clusterId"] != n.hello.ClusterID || line["peerClusterEpoch"] != float64(3) {
			t.Errorf("node %d: %v", n.hello.NodeID, line)
		}
		if got := n.refusals()[fmt.Sprintf("%d foreign", 3-n.hello.NodeID)]; got != 1 {
			t.Errorf("node %d counts %d refusals for one handshake", n.hello.NodeID, got)
		}
	}
}

func TestAdverseVerdictsCarryAdminAndStatus(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	two := start(t, &addresses, 2, nil).echoes(Admin).echoes(Status)
	two.judges(Replaced)
	for _, purpose := range []Purpose{Admin, Status} {
		conn := dial(t, one, 2, purpose)
		echo(t, conn)
		if conn.Verdict != Replaced || conn.Judged != OK {
			t.Errorf("%s: verdicts %s and %s", purpose, conn.Verdict, conn.Judged)
		}
	}
	if got := two.refusals(); len(got) != 0 {
		t.Errorf("what is carried is counted as refused: %v", got)
	}
	two.judges(Superseded)
	var refused *RefusedError
	if _, err := one.Dial(ctxFor(t), 2, Admin, 0); !errors.As(err, &refused) || refused.Reason != string(Superseded) {
		t.Errorf("superseded over admin: %v", err)
	}
}

func TestNodesWithoutAClusterTalkOverAdminOnly(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, func(_ *Options, hello *Hello) { hello.ClusterID = "" })
	start(t, &addresses, 2, nil).echoes(Admin).echoes(Raft)
	echo(t, dial(t, one, 2, Admin))
	if _, err := one.Dial(ctxFor(t), 2, Raft, 0); !errors.Is(err, ErrRetry) {
		t.Errorf("raft of a node without a cluster: %v", err)
	}
	if got := one.refusals(); len(got) != 0 {
		t.Errorf("counted as refused: %v", got)
	}
}

func TestRefusalLinesAreThrottledWithACount(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	two := start(t, &addresses, 2, nil).echoes(Raft)
	two.judges(Unknown)
	refuse := func(times int) {
		for range times {
			if _, err := one.Dial(ctxFor(t), 2, Raft, 0); err == nil {
				t.Fatal("not refused")
			}
		}
	}
	counts := func() []any {
		var found []any
		for _, line := range one.log.warnings(t) {
			found = append(found, line["count"])
		}
		return found
	}
	refuse(3)
	one.clock.advance(throttleInterval - 1)
	refuse(2)
	if got := fmt.Sprint(counts()); got != "[1]" {
		t.Errorf("counts %s within the interval, want [1]", got)
	}
	one.clock.advance(1)
	refuse(2)
	if got := fmt.Sprint(counts()); got != "[1 5]" {
		t.Errorf("counts %s after the interval, want [1 5]", got)
	}
	if got := one.refusals()["2 unknown"]; got != 7 {
		t.Errorf("%d refusals counted, want all 7", got)
	}
}

func TestThrottleIsBounded(t *testing.T) {
	clock := &fakeClock{}
	throttle := newThrottle(clock)
	for peer := range uint64(10 * maxThrottled) {
		throttle.count(throttleKey{peer: peer + 1, reason: "a"})
	}
	if len(throttle.keys) > maxThrottled+1 {
		t.Errorf("%d keys", len(throttle.keys))
	}
	if _, log := throttle.count(throttleKey{peer: 1, reason: "a"}); log {
		t.Error("a known key is not throttled any more")
	}
	clock.advance(throttleInterval)
	if events, log := throttle.count(throttleKey{peer: 1 << 40, reason: "a"}); !log || events != 1 {
		t.Errorf("a new key after the interval: %d, %v", events, log)
	}
	if len(throttle.keys) != 1 {
		t.Errorf("%d keys after the interval, want those that matter", len(throttle.keys))
	}
}

func TestDialTakesTheWantedNodeOnly(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	two := start(t, &addresses, 2, nil).echoes(Raft)
	three := start(t, &addresses, 3, nil).echoes(Raft)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its backlog, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	// The member moved: another node has its address, or nobody, and the list of peers has the new one (cluster 3.3).
	for _, former := range []string{three.Addr().String(), silent.Addr().String(), "127.0.0.1:1"} {
		one.options.address = 50 * time.Millisecond
		addresses.set(2, former, two.Addr().String())
		conn := dial(t, one, 2, Raft)
		echo(t, conn)
		if conn.Address != two.Addr().String() {
			t.Errorf("reached at %s", conn.Address)
		}
	}
	addresses.set(2, three.Addr().String())
	if _, err := one.Dial(ctxFor(t), 2, Raft, 0); !errors.Is(err, ErrOtherNode) {
		t.Errorf("another node: %v", err)
	}
	if _, err := one.Dial(ctxFor(t), 9, Raft, 0); !errors.Is(err, ErrNoAddress) {
		t.Errorf("a node without address: %v", err)
	}
	if got := one.refusals(); len(got) != 0 {
		t.Errorf("counted as refused: %v", got)
	}
}

func TestPurposeWithoutHandlerIsRetried(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	two := start(t, &addresses, 2, nil)
	if _, err := one.Dial(ctxFor(t), 2, Raft, 0); !errors.Is(err, ErrRetry) {
		t.Errorf("no handler: %v", err)
	}
	two.echoes(Raft)
	echo(t, dial(t, one, 2, Raft))
}

func TestConnectionsOfOneNodeAreBounded(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	three := start(t, &addresses, 3, nil)
	start(t, &addresses, 2, nil).echoes(Raft)
	var last *Conn
	for range maxConnsPerNode {
		last = dial(t, one, 2, Raft)
		echo(t, last)
	}
	if _, err := one.Dial(ctxFor(t), 2, Raft, 0); !errors.Is(err, ErrRetry) {
		t.Errorf("one connection more: %v", err)
	}
	echo(t, dial(t, three, 2, Raft))
	closeQuietly(last)
	eventually(t, "a place for a connection", func() bool {
		conn, err := one.Dial(ctxFor(t), 2, Raft, 0)
		if err != nil {
			return false
		}
		closeQuietly(conn)
		return true
	})
}

// TestProcessThatIsGoneSupersedesNobody: a connection that this side has dialled and keeps for later is read by nobody, so its end shows
// to nobody. A process that begins where an older copy of the directory ended has the same boot counter.
func TestProcessThatIsGoneSupersedesNobody(t *testing.T) {
	var addresses book
	recorded := nonce(3, "b")
	view := &View{Members: []Member{{NodeID: 1, Incarnation: "incarnation-1", BootNonce: recorded}}}
	judge := start(t, &addresses, 2, func(o *Options, self *Hello) {
		o.Judge = func(remote Hello, connected []string) Verdict {
			seen := *view
			seen.Connected = connected
			return Judge(self, &remote, &seen)
		}
	}).echoes(Raft)
	gone := start(t, &addresses, 1, func(_ *Options, h *Hello) { h.BootNonce = recorded }).echoes(Raft)
	kept := dial(t, judge, 1, Raft)
	echo(t, kept)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	copied := start(t, &addresses, 1, func(_ *Options, h *Hello) { h.BootNonce = nonce(3, "c") })
	eventually(t, "the copy is judged by its directory", func() bool {
		_, err := copied.Dial(ctxFor(t), 2, Raft, 0)
		var refused *RefusedError
		return errors.As(err, &refused) && refused.Reason == string(RolledBack)
	})
}

// TestNewerProcessSupersedesTheOlder runs two processes under one identity: the one with the newer boot nonce serves.
func TestNewerProcessSupersedesTheOlder(t *testing.T) {
	var addresses book
	view := &View{Members: []Member{{NodeID: 1, Incarnation: "incarnation-1", BootNonce: nonce(2, "a")}}}
	judge := start(t, &addresses, 2, func(o *Options, self *Hello) {
		o.Judge = func(remote Hello, connected []string) Verdict {
			seen := *view
			seen.Connected = connected
			return Judge(self, &remote, &seen)
		}
	}).echoes(Raft)
	older := start(t, &addresses, 1, func(_ *Options, h *Hello) {
		h.BootNonce, h.ConfirmedNonce = nonce(3, "b"), nonce(2, "a")
	})
	newer := start(t, &addresses, 1, func(_ *Options, h *Hello) {
		h.BootNonce, h.ConfirmedNonce = nonce(4, "c"), nonce(2, "a")
	})
	first := dial(t, older, 2, Raft)
	echo(t, first)
	second := dial(t, newer, 2, Raft)
	echo(t, second)
	if _, err := first.ReadFrame(1); err == nil {
		t.Error("the older process is still connected")
	}
	var refused *RefusedError
	if _, err := older.Dial(ctxFor(t), 2, Raft, 0); !errors.As(err, &refused) || refused.Reason != string(Superseded) {
		t.Fatalf("the older process: %v", err)
	}
	line := expectLine(t, judge, "another process runs under this node's identity", 1)
	if line["peerBootNonce"] != nonce(3, "b") || fmt.Sprint(line["otherBootNonces"]) != fmt.Sprint([]string{nonce(4, "c")}) {
		t.Errorf("line without both boot nonces: %v", line)
	}
	echo(t, second)
	closeQuietly(second)
	eventually(t, "the older process may ask again", func() bool {
		conn, err := older.Dial(ctxFor(t), 2, Raft, 0)
		if err != nil {
			return false
		}
		closeQuietly(conn)
		return true
	})
}

func TestCloseEndsEverything(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	two := start(t, &addresses, 2, nil).echoes(Raft)
	conn := dial(t, one, 2, Raft)
	idle, err := net.Dial("tcp", two.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	eventually(t, "a caller in its handshake", func() bool {
		two.Network.mu.Lock()
		defer two.Network.mu.Unlock()
		return two.greeting.Len() == 1
	})
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ReadFrame(1); err == nil {
		t.Error("a connection survived")
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("a handshake survived")
	}
	if _, err := two.Dial(ctxFor(t), 1, Raft, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("dial of a closed network: %v", err)
	}
}

func TestDifferentSettingsAreWarnedOfOnce(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, func(_ *Options, h *Hello) {
		h.Settings = map[string]string{"QUEEN_RAFT_GROUPS": "1", "QUEEN_TENANT_GROUPS": ""}
	})
	two := start(t, &addresses, 2, func(_ *Options, h *Hello) {
		h.Settings = map[string]string{"QUEEN_RAFT_GROUPS": "2", "QUEEN_TENANT_GROUPS": "", "QUEEN_NEWER": "1"}
	}).echoes(Raft)
	meet := func() {
		conn := dial(t, one, 2, Raft)
		echo(t, conn)
		closeQuietly(conn)
	}
	messages := func() []string {
		var found []string
		for _, line := range one.log.warnings(t) {
			found = append(found, line["message"].(string))
		}
		return found
	}
	meet()
	meet()
	want := []string{"config: node 2 runs with QUEEN_RAFT_GROUPS=2, this node with 1"}
	if got := messages(); !reflect.DeepEqual(got, want) {
		t.Errorf("lines %q", got)
	}
	two.change(func(h *Hello) { h.Settings = map[string]string{"QUEEN_RAFT_GROUPS": "1"} })
	meet()
	two.change(func(h *Hello) { h.Settings = map[string]string{"QUEEN_RAFT_GROUPS": "2"} })
	meet()
	if got := messages(); len(got) != 2 {
		t.Errorf("lines after the second change: %q", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := Listen(Options{ServerTLS: nil})
	for _, name := range []string{"Listen", "Hello", "Addresses", "Judge", "Clock"} {
		if err == nil || !strings.Contains(err.Error(), "option "+name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
