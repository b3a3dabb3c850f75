package cluster

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// soon is longer than anything takes that is not held; held is how long a test looks at something that must not come.
const (
	soon = 5 * time.Second
	held = 100 * time.Millisecond
)

// echoNode takes connections as a node does: it reads the hello and sends back what follows, chunk by chunk, up to one that
// begins with "!", at which it closes the connection.
func echoNode(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = connection.Close() }()
				reader := bufio.NewReader(connection)
				var head [4]byte
				if _, err := io.ReadFull(reader, head[:]); err != nil {
					return
				}
				if _, err := io.CopyN(io.Discard, reader, int64(binary.BigEndian.Uint32(head[:]))); err != nil {
					return
				}
				chunk := make([]byte, 4096)
				for {
					count, err := reader.Read(chunk)
					if err != nil || chunk[0] == '!' {
						return
					}
					if _, err := connection.Write(chunk[:count]); err != nil {
						return
					}
				}
			})
		}
	})
	return listener
}

// echoNetwork is a network in front of nodes 1 to 3.
func echoNetwork(t *testing.T) *Network {
	t.Helper()
	targets := map[uint64]string{}
	for id := range uint64(3) {
		targets[id+1] = echoNode(t).Addr().String()
	}
	network, err := NewNetwork(targets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Close)
	return network
}

// call opens a connection from one node to another, as far as the hello.
func call(t *testing.T, network *Network, from, to uint64) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", network.Address(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	hello, err := json.Marshal(map[string]any{"type": "hello", "protocol": 1, "purpose": "raft", "identity": map[string]any{"nodeId": from}})
	if err != nil {
		t.Fatal(err)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(hello)))
	if _, err := connection.Write(append(frame, hello...)); err != nil {
		t.Fatal(err)
	}
	return connection
}

// say sends text and returns what came back within the time.
func say(t *testing.T, connection net.Conn, text string, within time.Duration) string {
	t.Helper()
	if _, err := connection.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return hear(t, connection, len(text), within)
}

func hear(t *testing.T, connection net.Conn, bytes int, within time.Duration) string {
	t.Helper()
	if err := connection.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, bytes)
	count, err := io.ReadFull(connection, answer)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return "closed"
	}
	return string(answer[:count])
}

func TestNetworkCarriesWhatNoRuleMeets(t *testing.T) {
	network := echoNetwork(t)
	network.Isolate(3)
	if got := say(t, call(t, network, 1, 2), "ping", soon); got != "ping" {
		t.Fatalf("got %q", got)
	}
}

func TestCutHoldsBytesUntilItHeals(t *testing.T) {
	for name, link := range map[string]Link{"the way there": {1, 2}, "the way back": {2, 1}} {
		t.Run(name, func(t *testing.T) {
			network := echoNetwork(t)
			connection := call(t, network, 1, 2)
			if got := say(t, connection, "ping", soon); got != "ping" {
				t.Fatalf("got %q", got)
			}
			network.Set(link, Rule{Cut: true})
			if got := say(t, connection, "held", held); got != "" {
				t.Fatalf("the link is cut, got %q", got)
			}
			if got := say(t, call(t, network, 1, 3), "ping", soon); got != "ping" {
				t.Fatalf("another link is not cut, got %q", got)
			}
			network.Heal()
			if got := hear(t, connection, 4, soon); got != "held" {
				t.Fatalf("the link is whole again, got %q", got)
			}
		})
	}
}

func TestCutLetsNoConnectionComeAbout(t *testing.T) {
	for name, link := range map[string]Link{"the way there": {1, 2}, "the way back": {2, 1}} {
		t.Run(name, func(t *testing.T) {
			network := echoNetwork(t)
			network.Set(link, Rule{Cut: true})
			waiting, leaving := call(t, network, 1, 2), call(t, network, 1, 2)
			if got := hear(t, waiting, 1, held); got != "" {
				t.Fatalf("the link is cut, got %q", got)
			}
			_ = leaving.Close() // it is forgotten, as a call that nobody took
			network.Heal()
			if got := say(t, waiting, "ping", soon); got != "ping" {
				t.Fatalf("the link is whole again, got %q", got)
			}
		})
	}
}

func TestCutHidesThatTheOtherEndIsGone(t *testing.T) {
	node := echoNode(t)
	network, err := NewNetwork(map[uint64]string{1: "127.0.0.1:1", 2: node.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Close)
	connection := call(t, network, 1, 2)
	if got := say(t, connection, "ping", soon); got != "ping" {
		t.Fatalf("got %q", got)
	}
	network.Set(Link{2, 1}, Rule{Cut: true})
	if got := say(t, connection, "!", held); got != "" {
		t.Fatalf("the end of the connection is held, got %q", got)
	}
	network.Heal()
	if got := hear(t, connection, 1, soon); got != "closed" {
		t.Fatalf("the connection is over, got %q", got)
	}
}

func TestDeafNodeHearsWhatIsShort(t *testing.T) {
	network := echoNetwork(t)
	connection := call(t, network, 1, 2)
	if got := say(t, connection, "ping", soon); got != "ping" {
		t.Fatalf("got %q", got)
	}
	long := strings.Repeat("x", 200)
	if got := say(t, connection, long, soon); got != long {
		t.Fatalf("got %q", got)
	}
	network.Deafen(1, 100)
	if got := say(t, connection, "short", soon); got != "short" {
		t.Fatalf("a short answer passes, got %q", got)
	}
	if got := say(t, connection, long, held); got != "" {
		t.Fatalf("a long answer is held, got %q", got)
	}
	if got := say(t, connection, "short", held); got != "" {
		t.Fatalf("what follows a long answer is held, got %q", got)
	}
	network.Heal()
	if got := hear(t, connection, len(long)+5, soon); got != long+"short" {
		t.Fatalf("got %q", got)
	}
}

func TestDelayedLinkIsLate(t *testing.T) {
	network := echoNetwork(t)
	connection := call(t, network, 1, 2)
	if got := say(t, connection, "ping", soon); got != "ping" {
		t.Fatalf("got %q", got)
	}
	network.Set(Link{2, 1}, Rule{Delay: 80 * time.Millisecond})
	start := time.Now()
	if got := say(t, connection, "ping", soon); got != "ping" || time.Since(start) < 80*time.Millisecond {
		t.Fatalf("got %q after %v", got, time.Since(start))
	}
}

func TestStrangerMeetsNoRule(t *testing.T) {
	network := echoNetwork(t)
	network.Isolate(2)
	connection, err := net.Dial("tcp", network.Address(2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if _, err := connection.Write([]byte("\x00\x00\x00\x02{}")); err != nil {
		t.Fatal(err)
	}
	if got := say(t, connection, "ping", soon); got != "ping" {
		t.Fatalf("got %q", got)
	}
}

func TestDeadNodeRefuses(t *testing.T) {
	node := echoNode(t)
	network, err := NewNetwork(map[uint64]string{1: "127.0.0.1:1", 2: node.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Close)
	if got := hear(t, call(t, network, 2, 1), 1, soon); got != "closed" {
		t.Fatalf("nobody listens there, got %q", got)
	}
}

func TestClosedNetworkLeavesNothingBehind(t *testing.T) {
	network := echoNetwork(t)
	open := call(t, network, 1, 2)
	if got := say(t, open, "ping", soon); got != "ping" {
		t.Fatalf("got %q", got)
	}
	network.Isolate(3)
	waiting := call(t, network, 1, 3)
	network.Close() // returns when every goroutine has ended
	for _, connection := range []net.Conn{open, waiting} {
		if got := hear(t, connection, 1, soon); got != "closed" {
			t.Errorf("got %q", got)
		}
	}
}

// reach lists the pairs that can speak, as "12" for 1 and 2, both ways.
func reach(n *Network, ids []uint64) string {
	var pairs []string
	for _, a := range ids {
		for _, b := range ids {
			if a < b && !n.rules[Link{a, b}].Cut && !n.rules[Link{b, a}].Cut {
				pairs = append(pairs, string([]byte{'0' + byte(a), '0' + byte(b)}))
			}
		}
	}
	return strings.Join(pairs, " ")
}

func TestPartitions(t *testing.T) {
	ids := []uint64{1, 2, 3, 4, 5}
	for name, example := range map[string]struct {
		apply func(*Network)
		want  string
	}{
		"none":       {func(*Network) {}, "12 13 14 15 23 24 25 34 35 45"},
		"isolated":   {func(n *Network) { n.Isolate(2) }, "13 14 15 34 35 45"},
		"split":      {func(n *Network) { n.Split([]uint64{1, 3}, []uint64{2, 4, 5}) }, "13 24 25 45"},
		"split, one": {func(n *Network) { n.Split([]uint64{1, 2, 3}) }, "12 13 23"},
		"bridge":     {func(n *Network) { n.Bridge(3, []uint64{1, 2}, []uint64{4, 5}) }, "12 13 23 34 35 45"},
		"ring":       {func(n *Network) { n.Ring([]uint64{3, 1, 4, 5, 2}) }, "13 14 23 25 45"},
		"ring of 3":  {func(n *Network) { n.Split(ids[:3]); n.Ring([]uint64{1, 2, 3}) }, "12 13 23"},
		"mute":       {func(n *Network) { n.Mute(1) }, "23 24 25 34 35 45"},
		"deaf":       {func(n *Network) { n.Deafen(1, 0) }, "23 24 25 34 35 45"},
		"healed":     {func(n *Network) { n.Isolate(1); n.Heal() }, "12 13 14 15 23 24 25 34 35 45"},
	} {
		network := &Network{listeners: map[uint64]net.Listener{}, rules: map[Link]Rule{}, changed: make(chan struct{})}
		for _, id := range ids {
			network.listeners[id] = nil
		}
		example.apply(network)
		if got := reach(network, ids); got != example.want {
			t.Errorf("%s: want %q, got %q", name, example.want, got)
		}
	}
}
