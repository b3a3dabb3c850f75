package formation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"queen/raftlog/identity"
	"queen/raftlog/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testDeadline is generous: the machine may be busy.
const testDeadline = 30 * time.Second

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

// logged collects the log of a process.
type logged struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

// lines returns the lines with a message.
func (l *logged) lines(t *testing.T, message string) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]any
	for _, text := range strings.Split(strings.TrimSpace(l.buffer.String()), "\n") {
		var line map[string]any
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["message"] == message {
			found = append(found, line)
		}
	}
	return found
}

// group is the machines of a test: directories that outlive their processes.
type group struct {
	t     *testing.T
	root  string
	peers []Peer
	wiped int

	mu        sync.Mutex
	addresses map[uint64]string
	processes map[uint64]*process
	dirs      map[uint64]string
}

func newGroup(t *testing.T, nodes int) *group {
	g := &group{
		t: t, root: t.TempDir(), addresses: map[uint64]string{}, processes: map[uint64]*process{}, dirs: map[uint64]string{},
	}
	for id := uint64(1); id <= uint64(nodes); id++ {
		g.peers = append(g.peers, Peer{ID: id, Raft: fmt.Sprintf("queen-%d:7400", id), HTTP: fmt.Sprintf("queen-%d:6632", id)})
		g.dirs[id] = filepath.Join(g.root, fmt.Sprint(id))
	}
	t.Cleanup(func() {
		for id := range g.dirs {
			g.stop(id)
		}
	})
	return g
}

// process is one run of a node.
type process struct {
	clock    *fakeClock
	log      *logged
	identity *identity.Store
	network  *peer.Network
	cancel   context.CancelFunc
	ended    chan struct{}
	// After ended: crashed says that Run never returned.
	outcome Outcome
	err     error
	crashed bool
}

type setting func(*Options)

// crashAt ends the process at the nth passage of a point: the goroutine that passes it never comes back.
func crashAt(point string, nth int) setting {
	var mu sync.Mutex
	return func(o *Options) {
		o.Faults = func(passed string) {
			mu.Lock()
			if passed == point {
				nth--
			}
			now := nth == 0 && passed == point
			mu.Unlock()
			if now {
				runtime.Goexit()
			}
		}
	}
}

// start runs a node with an own view of the peer list.
func (g *group) start(id uint64, settings ...setting) *process {
	g.t.Helper()
	p := &process{clock: &fakeClock{}, log: &logged{}, ended: make(chan struct{})}
	options := Options{
		Self: id, Peers: g.peers, Interval: 5 * time.Millisecond, Clock: p.clock,
		Logger: zerolog.New(p.log).Level(zerolog.InfoLevel), Faults: func(string) {},
	}
	for _, set := range settings {
		set(&options)
	}
	opened := false
	var err error
	p.identity, err = identity.Open(identity.Options{
		Dir: g.dirs[id], NodeID: id, Groups: 1, NowMs: func() int64 { return 1 },
		Faults: func(point string) {
			if opened { // the boot nonce is not what these tests are about
				options.Faults(point)
			}
		},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	opened = true
	p.network, err = peer.Listen(peer.Options{
		Listen: "127.0.0.1:0", Token: []byte("token"),
		Hello: func() peer.Hello {
			hello := peer.Hello{Kinds: 7, Groups: 1}
			hello.Identify(p.identity.Current())
			return hello
		},
		Addresses: func(id uint64) []string {
			g.mu.Lock()
			defer g.mu.Unlock()
			if address := g.addresses[id]; address != "" {
				return []string{address}
			}
			return []string{"127.0.0.1:1"} // nobody listens there
		},
		Judge: func(remote peer.Hello, connected []string) peer.Verdict {
			self := peer.Hello{}
			current := p.identity.Current()
			self.Identify(current)
			view := peer.View{Connected: connected}
			if current.Formation != nil {
				for _, m := range current.Formation.Members {
					view.Members = append(view.Members, peer.Member{NodeID: m.NodeID, Incarnation: m.Incarnation})
				}
			}
			return peer.Judge(&self, &remote, &view)
		},
		Clock: p.clock, Logger: zerolog.Nop(),
	})
	if err != nil {
		g.t.Fatal(err)
	}
	options.Identity, options.Admin = p.identity, peer.NewRouter(p.network, peer.Admin)
	g.mu.Lock()
	g.addresses[id], g.processes[id] = p.network.Addr().String(), p
	g.mu.Unlock()
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.crashed = true
	go func() {
		defer close(p.ended)
		p.outcome, p.err = Run(ctx, options)
		p.crashed = false
	}()
	return p
}

// stop ends a process as a kill does, for the others.
func (g *group) stop(id uint64) {
	g.mu.Lock()
	p := g.processes[id]
	delete(g.processes, id)
	delete(g.addresses, id)
	g.mu.Unlock()
	if p == nil {
		return
	}
	p.cancel()
	if err := p.network.Close(); err != nil {
		g.t.Error(err)
	}
	<-p.ended
}

// wipe empties the directory of a node that is stopped.
func (g *group) wipe(id uint64) {
	g.wiped++
	g.dirs[id] = filepath.Join(g.root, fmt.Sprintf("%d-wiped-%d", id, g.wiped))
}

// end waits until Run has returned.
func (g *group) end(p *process) Outcome {
	g.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(testDeadline):
		g.t.Fatalf("no outcome within %v", testDeadline)
	}
	if p.err != nil {
		g.t.Fatal(p.err)
	}
	return p.outcome
}

// waitsFor expects the line that names the missing nodes.
func (g *group) waitsFor(p *process, missing string) {
	g.t.Helper()
	eventually(g.t, "the line about missing node "+missing, func() bool {
		p.clock.advance(warnEvery)
		for _, line := range p.log.lines(g.t, lineWaits) {
			if line["missing"] == missing && line["level"] == "warn" {
				return true
			}
		}
		return false
	})
}

// stillWaits tells that Run goes on, and the directory is empty.
func (g *group) stillWaits(id uint64, p *process) {
	g.t.Helper()
	select {
	case <-p.ended:
		g.t.Fatalf("node %d ended with %+v, %v", id, p.outcome, p.err)
	default:
	}
	if current := p.identity.Current(); current.ClusterID != "" {
		g.t.Fatalf("node %d belongs to cluster %s", id, current.ClusterID)
	}
}

// formedAlike checks that nodes formed one cluster, with the incarnations that they have.
func (g *group) formedAlike(processes map[uint64]*process) *identity.Formation {
	g.t.Helper()
	var record *identity.Formation
	for id, p := range processes {
		outcome := g.end(p)
		current := p.identity.Current()
		if outcome.ClusterID == "" || outcome.ClusterEpoch != 1 || outcome.Record == nil || current.ClusterID != outcome.ClusterID {
			g.t.Fatalf("node %d: %+v, identity %+v", id, outcome, current)
		}
		if record == nil {
			record = outcome.Record
		}
		if !reflect.DeepEqual(record, outcome.Record) {
			g.t.Fatalf("node %d has record %+v, another %+v", id, outcome.Record, record)
		}
		if member, found := record.Member(id); !found || member.Incarnation != current.Incarnation {
			g.t.Errorf("node %d with incarnation %s is %+v in the record", id, current.Incarnation, member)
		}
	}
	return record
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
