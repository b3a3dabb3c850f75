package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"queen/chaos/campaign"
	"queen/chaos/ledger"
	"queen/chaos/workload"
)

// consistency are the workloads of operations.md 10.5 that concern messages.
var consistency = []struct {
	name string
	plan func() workload.Plan
}{
	{"W1", workload.Pushes}, {"W2", workload.Leases}, {"W7", workload.Relay}, {"W8", workload.Repeats},
}

// recoversWithin is how long the nodes may take to be ready again after a harm.
const recoversWithin = 30 * time.Second

// TestWorkloads runs each consistency workload for the given time, under the given nemesis or under one after the other, in an order
// that the seed chooses.
func TestWorkloads(t *testing.T) {
	for _, one := range consistency {
		t.Run(one.name, func(t *testing.T) {
			on := stage{plan: one.plan(), nodes: sized(5, 3), every: -1, flushes: true, power: *power, env: map[string]string{
				"QUEEN_RAFT_LOG_KEEP": "16", "QUEEN_RAFT_PURGE_HOLD_S": "5",
			}}
			play(t, "TestWorkloads/"+one.name, on, func(s *scene) {
				s.expected = []string{wipedLine}
				reading := s.readAll()
				s.torment(*nemeses, *duration)
				reading()
			})
		})
	}
}

// torment does harm for a while, waits after each until the cluster has recovered, and notes what it did.
func (s *scene) torment(name string, lasting time.Duration) {
	s.Helper()
	nodes := len(s.Founders())
	kinds := slices.DeleteFunc(Nemeses(s.cutPower != nil), func(n Nemesis) bool { return n.Voters > nodes || name != "" && n.Name != name })
	if len(kinds) == 0 {
		s.Fatalf("there is no nemesis %q for %d nodes", name, nodes)
	}
	harm := &Harm{Cluster: s.Cluster, Random: s.random, History: s.history, HoldMin: 500 * time.Millisecond, HoldMax: sized(10*time.Second, 3*time.Second), CutPower: s.cutPower}
	var done []string
	for end := s.now() + lasting; s.now() < end || len(done) == 0; {
		nemesis := kinds[s.random.IntN(len(kinds))]
		from := s.now()
		if err := nemesis.Do(harm); err != nil {
			s.must(fmt.Errorf("%s: %w", nemesis.Name, err))
		}
		if err := s.AwaitHealthy(recoversWithin, s.Founders()...); err != nil {
			s.must(fmt.Errorf("after %s: %w", nemesis.Name, err))
		}
		s.Logf("%v to %v: %s", from.Round(time.Millisecond), s.now().Round(time.Millisecond), nemesis.Name)
		done = append(done, nemesis.Name)
	}
	s.record.Set("nemeses", done)
}

// readAll reads all logs through one node after the other while the load goes on, and judges them against the books and against what the
// nodes before have shown. The returned function ends it.
func (s *scene) readAll() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	random := rand.New(rand.NewPCG(s.random.Uint64(), 0))
	reads := 0
	reading.Go(func() {
		var seen map[ledger.Partition]ledger.Log
		before := "nobody"
		known := map[uint64]map[ledger.Partition]ledger.Log{} // what each node has shown itself
		for ctx.Err() == nil {
			nodes := s.Founders()
			node := nodes[random.IntN(len(nodes))]
			books := s.history.Books()
			from := known[node.ID]
			if random.IntN(rereadOneIn) == 0 {
				from = nil
			}
			logs, err := workload.ReadLogs(node.Client().WithTimeout(giveUpAfter), s.plan, from)
			known[node.ID] = logs // after an error everything is read again
			if err != nil {
				if !wait(pollEvery, ctx.Done()) {
					return
				}
				continue // the node is gone, or behind a cut
			}
			name := fmt.Sprintf("node %d", node.ID)
			found := ledger.CheckLogs(books, s.history.Books(), logs)
			found = append(found, ledger.CheckPrefixes(before, name, seen, logs)...)
			if err := campaign.Explain(append(found, shrunk(name, seen, logs)...)); err != nil {
				s.Errorf("read through %s under load:\n%v", name, err)
				return
			}
			seen, before = logs, name
			reads++
		}
	})
	return func() {
		cancel()
		reading.Wait()
		s.record.Set("reads", reads)
	}
}

// rereadOneIn is how many reads go on from what a node has shown before to one that reads everything again.
const rereadOneIn = 8

// shrunk finds logs that are shorter than what another read has seen before: reads are linearizable on every node.
func shrunk(node string, seen, logs map[ledger.Partition]ledger.Log) []ledger.Violation {
	var found []ledger.Violation
	for partition, log := range seen {
		if was, is := len(log.Records), len(logs[partition].Records); is < was {
			found = append(found, ledger.Violation{Rule: "stale", Detail: fmt.Sprintf("%v has %d records on %s, %d were read before", partition, is, node, was)})
		}
	}
	return found
}
