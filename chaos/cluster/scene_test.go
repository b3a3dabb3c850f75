package cluster

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"queen/chaos/campaign"
	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
	"queen/chaos/workload"
)

var (
	seed     = flag.Uint64("seed", 0, "seed of the first run; 0 picks one and prints it")
	runs     = flag.Int("runs", 1, "how often each scenario runs, each time with the next seed")
	full     = flag.Bool("full", false, "the sizes and times of the specification instead of the short ones")
	duration = flag.Duration("duration", 8*time.Second, "how long a consistency workload lasts")
	nemeses  = flag.String("nemesis", "", "the nemesis of the consistency workloads; empty takes one after the other")
	given    = flag.String("queen", "", "path of the broker binary to test; empty builds the checkout")
	power    = flag.Bool("power", false, "let the nemeses of the consistency workloads cut the power; needs root and loop devices")
	keep     = flag.Bool("keep", false, "keep the directories of failed runs")
)

// brokerBinary is the path of what is tested.
var brokerBinary string

func TestMain(m *testing.M) {
	LaunchIfAsked()
	flushIfAsked()
	tellTimeIfAsked()
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if *given != "" {
		brokerBinary = *given
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "queen-cluster-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory for the binary:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if brokerBinary, err = harness.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

const (
	// writeDeadline goes with every write of the load, so that one of unknown outcome is settled soon.
	writeDeadline = 5 * time.Second
	// giveUpAfter is when a client of the load turns to another node.
	giveUpAfter = writeDeadline + time.Second
	// formsWithin bounds whatever a scenario waits for without measuring it.
	formsWithin = 30 * time.Second
)

// errTooFew is the state of something that has to happen more often.
var errTooFew = errors.New("too few so far")

// scene is a cluster under load, with everything that watches it. Its methods are called from the test's goroutine.
type scene struct {
	*testing.T
	*Cluster
	record  *Record
	random  *rand.Rand
	plan    workload.Plan
	history *ledger.History
	load    *workload.Load
	// gate holds the load back while no node can answer.
	gate   *workload.Gate
	pulse  *workload.Pulse
	watch  *Watch
	stalls *Stalls
	bursts int
	dir    string
	// cutPower is that of a Harm.
	cutPower func(*Node) error
	// expected are phrases of ERROR lines that the scenario provokes.
	expected []string
}

// stage says what a scene is made of. The zero value of a field means its default.
type stage struct {
	nodes  int // 3
	spares int
	env    map[string]string
	envOf  map[uint64]map[string]string
	// flushes puts the flushes of the nodes under control.
	flushes bool
	// power gives each node a volume of its own.
	power bool
	plan  workload.Plan // workload.Steady
	// every is the pace of the pulse, 25 ms: the 40 writes per second of operations.md 10.1.
	every time.Duration
}

// needAsked skips a scenario that nobody has asked for by -run: all of them take longer than a run of everything should.
func needAsked(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" {
		t.Skip("a scenario of several nodes: name it with -run")
	}
}

// play runs a scenario as often as asked for, each time on a cluster of its own.
func play(t *testing.T, name string, on stage, act func(*scene)) {
	t.Helper()
	needAsked(t)
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	for run := range *runs {
		chosen := first + uint64(run)
		t.Run(fmt.Sprintf("run %d", run+1), func(t *testing.T) {
			t.Logf("reproduce the mixture with -run %s -seed %d", name, chosen)
			s := open(t, name, on, chosen)
			act(s)
			s.finish()
		})
	}
}

// open starts the cluster and the load.
func open(t *testing.T, name string, on stage, seed uint64) *scene {
	t.Helper()
	if on.nodes == 0 {
		on.nodes = 3
	}
	if on.plan.Queues == nil {
		on.plan = workload.Steady()
	}
	if on.every == 0 {
		on.every = 25 * time.Millisecond
	}
	s := &scene{T: t, record: NewRecord(name, seed), random: rand.New(rand.NewPCG(seed, 7)), plan: on.plan}
	s.dir = directory(t)
	if on.power {
		on.envOf = s.powered(on.nodes, seed)
	}
	var err error
	s.Cluster, err = Start(Options{Binary: brokerBinary, Dir: s.dir, Nodes: on.nodes, Spares: on.spares, Env: on.env, EnvOf: on.envOf, Flushes: on.flushes})
	s.must(err)
	t.Cleanup(s.close)
	s.history = ledger.NewReplicatedHistory(s.plan.Rules(), ledger.Replication{Deadline: writeDeadline})
	s.must(workload.Prepare(s.Founders()[0].Client(), s.plan))
	s.stalls, err = MeasureStalls(s.dir, s.history.Now)
	s.must(err)
	s.watch = StartWatch(s.Nodes(), s.history.Now)
	s.begin(s.Founders(), on.every, seed)
	return s
}

// begin puts load on the nodes.
func (s *scene) begin(nodes []*Node, every time.Duration, seed uint64) {
	clients := Clients(nodes)
	for i, client := range clients {
		clients[i] = client.WithDeadline(writeDeadline).WithTimeout(giveUpAfter)
	}
	s.gate = workload.NewGate()
	s.load = workload.Start(clients, s.plan, s.history, s.gate, seed)
	if every > 0 {
		s.pulse = workload.StartPulse(clients, s.plan, s.history, every)
	}
	s.Cleanup(func() { // after a failure; twice does no harm
		s.close() // what the load waits for ends with the nodes
		s.load.Stop()
		if s.pulse != nil {
			s.pulse.Abandon()
		}
	})
}

// finish heals the cluster, lets the load end and makes the comparison of operations.md 10.1.
func (s *scene) finish() {
	s.Helper()
	members := s.members()
	s.heal(members)
	s.must(s.AwaitHealthy(formsWithin, members...))
	if s.pulse != nil {
		s.pulse.Stop()
	}
	s.load.Stop()
	s.must(s.load.Drain())
	s.verify(members)
	s.watch.Stop()
	s.must(s.stalls.Stop())
	s.judgePulse()
	s.record.Set("passed", !s.Failed())
	s.Logf("record: %v", s.record)
}

// close takes the cluster away.
func (s *scene) close() {
	if err := s.Close(); err != nil {
		s.Error(err)
	}
}

// judgePulse checks that every write of the pulse went through in the end.
func (s *scene) judgePulse() {
	s.Helper()
	if s.pulse == nil {
		return
	}
	if skipped := s.pulse.Skipped(); skipped > 0 {
		s.Errorf("%d writes were left out because too many waited", skipped)
	}
	acknowledged := s.pulse.Acknowledged()
	if sent := len(s.pulse.Beats()); acknowledged < sent {
		s.Errorf("%d of %d writes were never acknowledged", sent-acknowledged, sent)
	}
	s.record.Set("acknowledged", acknowledged)
}

// verify reads everything through each of the nodes and judges it, and the logs.
func (s *scene) verify(members []*Node) {
	s.Helper()
	violations, err := Verify(members, s.plan, s.history)
	if err != nil {
		s.Error(err)
	}
	if err := campaign.Explain(violations); err != nil {
		s.Errorf("%d violations:\n%v", len(violations), err)
	}
	if err := s.CheckLogs(s.expected...); err != nil {
		s.Error(err)
	}
	if s.Failed() && *keep {
		s.keepBooks()
	}
}

// keepBooks writes the history of a failed run beside the directories of its nodes.
func (s *scene) keepBooks() {
	books, err := json.Marshal(s.history.Books())
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "books.json"), books, 0o644)
	}
	if err != nil {
		s.Error(err)
	}
}

// members are the founders and the spares that were launched.
func (s *scene) members() []*Node {
	members := append([]*Node(nil), s.Founders()...)
	for _, node := range s.Nodes()[s.founded:] {
		if node.broker.Running() {
			members = append(members, node)
		}
	}
	return members
}

// heal makes the network whole and lets every member run.
func (s *scene) heal(members []*Node) {
	s.Helper()
	s.Network.Heal()
	for _, node := range members {
		s.must(node.Resume())
		if !node.broker.Running() {
			s.must(node.Launch())
		}
	}
}

// must ends the test on an error, with the ends of all logs.
func (s *scene) must(err error) {
	s.Helper()
	if err == nil {
		return
	}
	if s.Cluster != nil {
		err = errors.Join(err, s.LogTails())
	}
	s.Fatal(err)
}

// now is the instant on the clock that all meters share.
func (s *scene) now() time.Duration { return s.history.Now() }

// leading returns the leader.
func (s *scene) leading() *Node {
	s.Helper()
	leader, err := s.AwaitLeader(formsWithin)
	s.must(err)
	return leader
}

// follower returns a running node, at random, that does not lead.
func (s *scene) follower() *Node {
	s.Helper()
	others := s.Others(s.leading().ID)
	return others[s.random.IntN(len(others))]
}

// acked waits until so many more writes of the pulse are acknowledged.
func (s *scene) acked(more int) {
	s.Helper()
	from := s.pulse.Acknowledged()
	s.must(Eventually(2*time.Minute, fmt.Sprintf("%d more writes", more), func() error {
		if got := s.pulse.Acknowledged() - from; got < more {
			return fmt.Errorf("%d are acknowledged", got)
		}
		return nil
	}))
}

// passes waits until the clock of the scene shows an instant.
func (s *scene) passes(at time.Duration) {
	if wait := at - s.now(); wait > 0 {
		<-time.After(wait)
	}
}

// start launches a node and waits until it is ready.
func (s *scene) start(node *Node) {
	s.Helper()
	s.must(node.Launch())
	s.must(s.AwaitHealthy(formsWithin, node))
}

// within compares a measured time with its limit, to which comes what the machine stood still between two instants.
func (s *scene) within(name string, got, limit, from, to time.Duration) {
	s.Helper()
	allowance := s.stalls.Allowance(from, to)
	s.record.Set(name, got)
	if allowance > 0 {
		s.record.Set(name+"Stall", allowance)
	}
	if got > limit+allowance {
		s.Errorf("%s: %v, want at most %v and %v for the stalls of the machine", name, got.Round(time.Millisecond), limit, allowance.Round(time.Millisecond))
	}
}

// stayedReady checks that the nodes answered 200 all the time between two instants. A node that the machine kept from answering in
// time is no finding.
func (s *scene) stayedReady(nodes []*Node, from, to time.Duration) {
	s.Helper()
	for _, node := range nodes {
		for _, look := range s.watch.Looks(node.ID, from) {
			if look.At > to {
				break
			}
			if look.Health.Status == 503 {
				s.Errorf("node %d was not ready at %v: %v", node.ID, look.At.Round(time.Millisecond), look.Health)
				break
			}
		}
	}
}

// directory makes one for a run, which goes with it.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "queen-cluster-data-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && *keep {
			t.Logf("the directories are kept: %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// sized gives the size of the specification, or a short one for the everyday run.
func sized[T any](specified, short T) T {
	if *full {
		return specified
	}
	return short
}

// TestTheResultIsOfTheseSources makes go test run the package again when the broker has changed.
func TestTheResultIsOfTheseSources(t *testing.T) {
	if err := harness.LookAtSources(); err != nil {
		t.Fatal(err)
	}
}
