package workload

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
)

// Load is running load. Its owner calls Stop.
type Load struct {
	plan    Plan
	clients []*harness.Client
	history *ledger.History
	gate    *Gate

	// pushing ends before consuming, so that the last messages are consumed under the same rules.
	stopPushing, stopConsuming context.CancelFunc
	producers, consumers       sync.WaitGroup
}

// Prepare configures the queues and registers the groups on the empty broker, so that every group reads everything.
func Prepare(client *harness.Client, plan Plan) error {
	for _, queue := range plan.Queues {
		if reply := client.Configure(queue.Name, queue.options()); reply.Err != nil || reply.Status != 200 {
			return fmt.Errorf("configure %s: %v", queue.Name, reply)
		}
		for _, group := range queue.Groups {
			reply := client.Pop(queue.Name, "subscriptionMode=all&consumerGroup="+group)
			if reply.Err != nil || reply.Status != 204 {
				return fmt.Errorf("register %s on %s: %v", group, queue.Name, reply)
			}
		}
	}
	return nil
}

// Start puts the load on a broker, or on all nodes of a cluster through one client each, until Stop. The gate belongs to the
// caller, who closes it while nobody can answer.
func Start(clients []*harness.Client, plan Plan, history *ledger.History, gate *Gate, seed uint64) *Load {
	load := &Load{plan: plan, clients: clients, history: history, gate: gate}
	var pushing, consuming context.Context
	pushing, load.stopPushing = context.WithCancel(context.Background())
	consuming, load.stopConsuming = context.WithCancel(context.Background())
	random := func(role string, i int) *rand.Rand {
		hash := fnv.New64a()
		_, _ = fmt.Fprint(hash, role, i) // a hash does not fail
		return rand.New(rand.NewPCG(seed, hash.Sum64()))
	}
	for i := range plan.Producers {
		producer := &producer{load: load, via: load.route(i), name: fmt.Sprintf("p%d", i), random: random("producer", i)}
		load.producers.Go(func() { producer.run(pushing) })
	}
	for _, queue := range plan.Queues {
		for _, group := range queue.Groups {
			for i := range plan.ConsumersPer {
				name := fmt.Sprintf("%s@%s#%d", group, queue.Name, i)
				consumer := &consumer{load: load, via: load.route(i), name: name, queue: queue, group: group, random: random(name, i)}
				load.consumers.Go(func() { consumer.run(consuming) })
			}
		}
	}
	return load
}

// StopPushing ends the producers and waits for them. The gate must be open.
func (l *Load) StopPushing() {
	l.stopPushing()
	l.producers.Wait()
}

// Stop ends all of the load and waits for it. The gate must be open.
func (l *Load) Stop() {
	l.StopPushing()
	l.stopConsuming()
	l.consumers.Wait()
}

// queue returns a queue of the plan by name.
func (p Plan) queue(name string) Queue {
	for _, queue := range p.Queues {
		if queue.Name == name {
			return queue
		}
	}
	panic("BUG: the plan has no queue " + name)
}

// pause waits; false means that the context ended first.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
