package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"queen/chaos/ledger"
)

const (
	drainBatch = 1000
	// quietFor is how much longer than a lease a group must find nothing before its queue counts as drained.
	quietFor = 2 * time.Second
	// drainWithin bounds a drain.
	drainWithin = 120 * time.Second
)

// Drain consumes what is left, for every group, in booked calls. The load must have stopped; leases that it left
// behind run out meanwhile.
func (l *Load) Drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	var (
		group sync.WaitGroup
		mutex sync.Mutex
		all   error
	)
	for _, queue := range l.plan.Queues {
		for _, reader := range queue.Groups {
			group.Go(func() {
				if err := l.drain(ctx, l.route(0), queue, reader); err != nil {
					mutex.Lock()
					all = errors.Join(all, err)
					mutex.Unlock()
				}
			})
		}
	}
	group.Wait()
	return all
}

func (l *Load) drain(ctx context.Context, via *route, queue Queue, group string) error {
	wait := queue.Lease + quietFor
	query := fmt.Sprintf("wait=true&timeout=%d&batch=%d&partitions=64", wait.Milliseconds(), drainBatch)
	for {
		batches, outcome, reply := l.pop(ctx, via, queue, group, query)
		switch {
		case outcome != ledger.Done:
			return fmt.Errorf("drain %s for %s: the pop is %v: %v", queue.Name, group, outcome, reply)
		case len(batches) == 0:
			return nil
		}
		for _, one := range batches {
			if outcome := l.ack(via, group, one, all("completed", len(one.messages))); outcome != ledger.Done {
				return fmt.Errorf("drain %s for %s: the ack is %v", queue.Name, group, outcome)
			}
		}
	}
}
