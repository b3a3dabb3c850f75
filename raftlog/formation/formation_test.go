package formation

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"queen/raftlog/identity"
)

const (
	linesDiffer = "peer lists differ"
	lineWaits   = "first start waits for every peer in QUEEN_RAFT_PEERS"
	lineJoins   = "this fresh node joins an existing cluster"
)

func TestAllEmptyNodesFormOneCluster(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		g := newGroup(t, nodes)
		started := map[uint64]*process{}
		for _, listed := range slices.Backward(g.peers) { // the one who makes the record comes last
			// The order of the list does not matter.
			started[listed.ID] = g.start(listed.ID, func(o *Options) {
				o.Peers = slices.Clone(g.peers)
				if listed.ID%2 == 0 {
					slices.Reverse(o.Peers)
				}
			})
		}
		record := g.formedAlike(started)
		if len(record.Members) != nodes {
			t.Fatalf("%d members of %d", len(record.Members), nodes)
		}
		for i, member := range record.Members {
			if listed := g.peers[i]; member.NodeID != listed.ID || member.Raft != listed.Raft || member.HTTP != listed.HTTP {
				t.Errorf("member %+v, listed %+v", member, listed)
			}
		}
		for id, p := range started {
			if p.outcome.Kind != Formed {
				t.Errorf("node %d: %v", id, p.outcome.Kind)
			}
			g.stop(id)
		}
		// The next start finds what was written, without asking anybody.
		again := g.start(1)
		if outcome := g.end(again); outcome.Kind != Member || !reflect.DeepEqual(outcome.Record, record) {
			t.Errorf("second start: %+v", outcome)
		}
	}
}

func TestNodeWithoutPeersFormsAtOnce(t *testing.T) {
	store, err := identity.Open(identity.Options{Dir: t.TempDir(), NodeID: 7, Groups: 1, NowMs: func() int64 { return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := Run(t.Context(), Options{Self: 7, Identity: store, Clock: &fakeClock{}})
	if err != nil {
		t.Fatal(err)
	}
	current := store.Current()
	want := []identity.FirstMember{{NodeID: 7, Incarnation: current.Incarnation}}
	if outcome.Kind != Formed || outcome.ClusterID == "" || outcome.ClusterID != current.ClusterID || current.ClusterEpoch != 1 ||
		!reflect.DeepEqual(outcome.Record.Members, want) {
		t.Errorf("outcome %+v, identity %+v", outcome, current)
	}
}

// TestFirstStartNeedsEveryPeer is the first half of R30: one of three is missing, and the line names it.
func TestFirstStartNeedsEveryPeer(t *testing.T) {
	g := newGroup(t, 3)
	started := map[uint64]*process{1: g.start(1), 3: g.start(3)}
	for id, p := range started {
		g.waitsFor(p, "2")
		g.stillWaits(id, p)
	}
	started[2] = g.start(2)
	g.formedAlike(started)
}

func TestWaitingIsSaidEveryTenSeconds(t *testing.T) {
	clock := &fakeClock{}
	process := &process{log: &logged{}}
	logger := zerolog.New(process.log)
	self := &state{NodeID: 1, Peers: []Peer{{ID: 1, Raft: "a", HTTP: "b"}}}
	found := state{NodeID: 2, Peers: []Peer{{ID: 2, Raft: "c", HTTP: "d"}}}
	var w warnings
	w.begin(clock)
	count := func() string {
		w.log(clock, &logger, self, &decision{action: differ, missing: []uint64{2, 3}, found: found})
		return fmt.Sprint(len(process.log.lines(t, lineWaits)), len(process.log.lines(t, linesDiffer)))
	}
	for i, want := range []string{"0 1", "1 1", "1 1", "1 2", "2 2", "2 3"} {
		if got := count(); got != want {
			t.Errorf("step %d: %s lines, want %s", i, got, want)
		}
		clock.advance([]time.Duration{2, 7, 1, 2, 8, 0}[i] * time.Second)
	}
	if line := process.log.lines(t, linesDiffer)[0]; line["own"] != "1=a/b" || line["theirs"] != "2=c/d" {
		t.Errorf("line %v", line)
	}
	if line := process.log.lines(t, lineWaits)[0]; line["missing"] != "2,3" {
		t.Errorf("line %v", line)
	}
}

// TestWipedNodesNeverFormBesideData is the second half of R30.
func TestWipedNodesNeverFormBesideData(t *testing.T) {
	g := newGroup(t, 3)
	first := map[uint64]*process{1: g.start(1), 2: g.start(2), 3: g.start(3)}
	record := g.formedAlike(first)
	for id := range first {
		g.stop(id)
	}
	g.wipe(1)
	g.wipe(2)
	wiped := map[uint64]*process{1: g.start(1), 2: g.start(2)}
	for id, p := range wiped {
		g.waitsFor(p, "3")
		g.stillWaits(id, p)
	}
	third := g.start(3)
	if outcome := g.end(third); outcome.Kind != Member || outcome.ClusterID != record.ClusterID {
		t.Errorf("node 3: %+v", outcome)
	}
	for id, p := range wiped {
		outcome := g.end(p)
		if outcome.Kind != Join || outcome.ClusterID != record.ClusterID || outcome.ClusterEpoch != 1 || outcome.Record != nil {
			t.Errorf("node %d: %+v", id, outcome)
		}
		if current := p.identity.Current(); current.ClusterID != "" {
			t.Errorf("node %d adopted a cluster by itself: %+v", id, current)
		}
		if lines := p.log.lines(t, lineJoins); len(lines) != 1 || lines[0]["clusterId"] != record.ClusterID {
			t.Errorf("node %d: %v", id, lines)
		}
	}
}

func TestOneWipedNodeJoins(t *testing.T) {
	g := newGroup(t, 3)
	record := g.formedAlike(map[uint64]*process{1: g.start(1), 2: g.start(2), 3: g.start(3)})
	g.stop(1)
	g.wipe(1)
	if outcome := g.end(g.start(1)); outcome.Kind != Join || outcome.ClusterID != record.ClusterID {
		t.Errorf("%+v", outcome)
	}
}

func TestDifferingListsFormNothing(t *testing.T) {
	g := newGroup(t, 3)
	renamed := slices.Clone(g.peers)
	renamed[1].HTTP = "queen-2.example:6632"
	started := map[uint64]*process{
		1: g.start(1), 2: g.start(2), 3: g.start(3, func(o *Options) { o.Peers = renamed }),
	}
	for id, p := range started {
		eventually(t, "the line about the lists", func() bool { return len(p.log.lines(t, linesDiffer)) > 0 })
		own, theirs := text(g.peers), text(renamed)
		if id == 3 {
			own, theirs = theirs, own
		}
		if line := p.log.lines(t, linesDiffer)[0]; line["own"] != own || line["theirs"] != theirs || line["level"] != "warn" {
			t.Errorf("node %d: %v", id, line)
		}
		g.stillWaits(id, p)
	}
	g.stop(3)
	started[3] = g.start(3) // with the right list
	g.formedAlike(started)
}

func TestJoinNeverForms(t *testing.T) {
	g := newGroup(t, 3)
	join := func(o *Options) { o.Join = true }
	if outcome := g.end(g.start(1, join)); outcome.Kind != Join || outcome.ClusterID != "" {
		t.Errorf("node 1: %+v", outcome)
	}
	// A listed peer that waits to be added is missing for the others: it will not be a first member.
	two, three := g.start(2), g.start(3)
	for id, p := range map[uint64]*process{2: two, 3: three} {
		g.waitsFor(p, "1")
		g.stillWaits(id, p)
	}
	alone := newGroup(t, 1)
	if outcome := alone.end(alone.start(1, join)); outcome.Kind != Join {
		t.Errorf("alone: %+v", outcome)
	}
}

// TestJoinLearnsTheCluster starts a node that is not listed anywhere but in its own list.
func TestJoinLearnsTheCluster(t *testing.T) {
	g := newGroup(t, 4)
	three := g.peers[:3]
	listed := func(o *Options) { o.Peers = three }
	record := g.formedAlike(map[uint64]*process{1: g.start(1, listed), 2: g.start(2, listed), 3: g.start(3, listed)})
	for _, settings := range [][]setting{nil, {func(o *Options) { o.Join = true }}} {
		if outcome := g.end(g.start(4, settings...)); outcome.Kind != Join || outcome.ClusterID != record.ClusterID {
			t.Errorf("%+v", outcome)
		}
		g.stop(4)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	g := newGroup(t, 2)
	p := g.start(1)
	p.cancel()
	<-p.ended
	if !errors.Is(p.err, context.Canceled) {
		t.Errorf("%v", p.err)
	}
}

// TestCrashInTheMiddleIsCompleted crashes a node at every point of the formation, starts it again, and sees one cluster.
func TestCrashInTheMiddleIsCompleted(t *testing.T) {
	for _, crash := range []struct {
		node  uint64
		point string
		nth   int
	}{
		{1, "identity.written", 1}, {1, "formation.sent", 1}, {1, "formation.sent", 2},
		{2, "identity.written", 1}, {3, "identity.written", 1},
	} {
		for _, wipe := range []bool{false, true} {
			g := newGroup(t, 3)
			started := map[uint64]*process{}
			crashed := make(chan struct{})
			for _, listed := range g.peers {
				settings := []setting{}
				if listed.ID == crash.node {
					settings = append(settings, crashAt(crash.point, crash.nth), func(o *Options) {
						faults := o.Faults
						o.Faults = func(point string) {
							back := false
							defer func() {
								if !back {
									close(crashed)
								}
							}()
							faults(point)
							back = true
						}
					})
				}
				started[listed.ID] = g.start(listed.ID, settings...)
			}
			<-crashed
			g.stop(crash.node)
			if wipe {
				g.wipe(crash.node)
			}
			started[crash.node] = g.start(crash.node)
			name := fmt.Sprintf("node %d at %s %d, wiped %v", crash.node, crash.point, crash.nth, wipe)
			if wipe && started[crash.node].waits(g) {
				// The others hold a record of its former incarnation: it comes back as a node that lost its directory.
				others := map[uint64]*process{}
				for id, p := range started {
					if id != crash.node {
						others[id] = p
					}
				}
				record := g.formedAlike(others)
				if got := started[crash.node].outcome; got.Kind != Join || got.ClusterID != record.ClusterID {
					t.Errorf("%s: %+v", name, got)
				}
			} else {
				g.formedAlike(started)
			}
			for id := range started {
				g.stop(id)
			}
		}
	}
}

// waits tells whether the outcome of a process is Join.
func (p *process) waits(g *group) bool { return g.end(p).Kind == Join }
