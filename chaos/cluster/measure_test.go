package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// The tests of this file measure one thing on a cluster that has nothing else to do. Their books are not judged.

// measured opens a cluster without load.
func measured(t *testing.T, name string, options Options) *scene {
	t.Helper()
	needAsked(t)
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	s := &scene{T: t, record: NewRecord(name, chosen), random: rand.New(rand.NewPCG(chosen, 7)), dir: directory(t)}
	options.Binary, options.Dir = brokerBinary, s.dir
	var err error
	s.Cluster, err = Start(options)
	s.must(err)
	t.Cleanup(s.close)
	began := time.Now()
	s.stalls, err = MeasureStalls(s.dir, func() time.Duration { return time.Since(began) })
	s.must(err)
	t.Cleanup(func() {
		s.must(s.stalls.Stop())
		s.Logf("record: %v", s.record)
	})
	return s
}

// entries writes one message after another through each of the nodes, until the log has so many entries more.
func (s *scene) entries(count uint64, nodes ...*Node) {
	s.Helper()
	const writers = 12
	leader := s.leading()
	before, err := leader.Health()
	s.must(err)
	var done atomic.Bool
	var failed atomic.Pointer[error]
	var writing sync.WaitGroup
	for i := range writers {
		client := nodes[i%len(nodes)].Client()
		writing.Go(func() {
			for n := 0; !done.Load(); n++ {
				item := harness.Item{Queue: "measured", Partition: fmt.Sprint("p", (n*writers+i)%1000), Payload: strings.Repeat("x", 256)}
				if reply := client.Push(item); reply.Err != nil || reply.Status != 201 {
					err := fmt.Errorf("push: %v", reply)
					failed.Store(&err)
					return
				}
			}
		})
	}
	for !done.Load() && failed.Load() == nil {
		<-time.After(100 * time.Millisecond)
		health, err := leader.Health()
		done.Store(err == nil && health.Raft.Commit >= before.Raft.Commit+count)
	}
	writing.Wait()
	if err := failed.Load(); err != nil {
		s.must(*err)
	}
}

// TestAbsenceIsMadeUpFor: a node is away for 100,000 entries and comes back to what is committed by then within 10 s of its launch, by the
// log or, when that does not wait for it, by a snapshot.
func TestAbsenceIsMadeUpFor(t *testing.T) {
	for name, c := range map[string]struct {
		env       map[string]string
		snapshots int
	}{
		"log":      {nil, 0},
		"snapshot": {map[string]string{"QUEEN_RAFT_PURGE_HOLD_S": "1", "QUEEN_RAFT_LOG_KEEP": "16", "QUEEN_RAFT_DURABLE_EVERY_MS": "1000"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := measured(t, "absence, "+name, Options{Nodes: 3, Env: c.env})
			s.entries(100, s.Nodes()...)
			away := s.follower()
			health, err := away.Health()
			s.must(err)
			away.Kill()
			s.entries(sized[uint64](100_000, 2_000), s.Others(away.ID)...)
			if c.snapshots > 0 {
				s.purged(health.Raft.Applied + 100)
			}
			there, err := s.leading().Health()
			s.must(err)
			s.record.Set("entries", there.Raft.Commit-health.Raft.Applied)
			from := s.stalls.now()
			s.must(away.Launch())
			s.must(Eventually(time.Minute, "the node to be level", func() error {
				here, err := away.Health()
				if err == nil && (!here.Healthy() || here.Raft.Applied < there.Raft.Commit) {
					err = fmt.Errorf("%v", here)
				}
				return err
			}))
			to := s.stalls.now()
			s.within("levelAfter", to-from, 10*time.Second, from, to)
			s.snapshots(away, c.snapshots, c.snapshots)
		})
	}
}

// TestLearnerIsFedBesideTheLoad: while 1 GiB of state goes to a new learner, the p99 of a push through the leader stays below twice
// what it was.
func TestLearnerIsFedBesideTheLoad(t *testing.T) {
	const fillers = 4
	s := measured(t, "learner", Options{Nodes: 3, Spares: 1})
	leader := s.leading()
	item := harness.Item{Queue: "state", Payload: strings.Repeat("x", 64<<10)}
	var pushed atomic.Int64
	var filling sync.WaitGroup
	for i := range fillers {
		filling.Go(func() {
			items := make([]harness.Item, 16)
			for pushed.Add(int64(len(items)*len(item.Payload.(string)))) <= sized[int64](1<<30, 64<<20) {
				for j := range items {
					items[j] = item
					items[j].Partition = fmt.Sprint("p", i, j)
				}
				if reply := leader.Client().Push(items...); reply.Err != nil || reply.Status != 201 {
					s.Errorf("push: %v", reply)
					return
				}
			}
		})
	}
	filling.Wait()

	measure := startPushes(leader, 10*time.Millisecond)
	defer measure.stop()
	<-time.After(sized(20*time.Second, 5*time.Second))
	before := measure.take()
	from := s.stalls.now()
	learner := s.Node(4)
	s.must(learner.Launch())
	s.changed(leader, s.AddLearner(4))
	s.must(Eventually(5*time.Minute, "the learner to be level", func() error {
		there, err := leader.Health()
		if err != nil {
			return err
		}
		here, err := learner.Health()
		if err == nil && (here.Raft.Applied == 0 || here.Raft.Applied+100 < there.Raft.Commit) {
			err = fmt.Errorf("%v", here)
		}
		return err
	}))
	to := s.stalls.now()
	meanwhile := measure.take()
	s.record.Set("fed", to-from)
	s.record.Set("p50Before", percentile(before, 50))
	s.record.Set("p50Meanwhile", percentile(meanwhile, 50))
	s.record.Set("p99Before", percentile(before, 99))
	s.record.Set("pushesMeanwhile", len(meanwhile))
	s.within("p99Meanwhile", percentile(meanwhile, 99), 2*percentile(before, 99), from, to)
	s.snapshots(learner, 1, 1)
}

// pushes are single pushes at a fixed pace, none of which waits for the one before.
type pushes struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	all []time.Duration
}

// startPushes begins to push through a node. A push counts from the instant at which it is due.
func startPushes(node *Node, every time.Duration) *pushes {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pushes{cancel: cancel}
	p.running.Go(func() {
		due := time.Now()
		for n := 0; ; n++ {
			due = due.Add(every)
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(due)):
			}
			at, partition := due, fmt.Sprint("p", n%100)
			p.running.Go(func() {
				reply := node.Client().Push(harness.Item{Queue: "paced", Partition: partition, Payload: "x"})
				took := time.Since(at)
				if reply.Err != nil || reply.Status != 201 {
					took = time.Minute // no answer is the worst of all
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				p.all = append(p.all, took)
			})
		}
	})
	return p
}

// take returns the latencies since it was called last.
func (p *pushes) take() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.all
	p.all = nil
	return taken
}

func (p *pushes) stop() {
	p.cancel()
	p.running.Wait()
}

func percentile(values []time.Duration, percent int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)*percent/100]
}
