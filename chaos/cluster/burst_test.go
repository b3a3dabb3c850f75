package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
	"queen/chaos/workload"
)

// burst is a number of pushes through one node which are not sent again.
type burst struct {
	waiting      sync.WaitGroup
	acknowledged atomic.Int64
	replies      chan harness.PushReply
}

// wait returns how many were acknowledged, once all are answered.
func (b *burst) wait() int {
	b.waiting.Wait()
	return int(b.acknowledged.Load())
}

// push sends so many pushes at once through a node, in the books like everything else.
func (s *scene) push(node *Node, count int) *burst {
	b := &burst{replies: make(chan harness.PushReply, count)}
	client := node.Client().WithDeadline(writeDeadline).WithTimeout(giveUpAfter)
	queue := s.plan.Queues[0]
	partition := ledger.Partition{Queue: queue.Name, Name: "p0"}
	s.bursts++
	for i := range count {
		token := fmt.Sprintf("burst-%d-%d", s.bursts, i)
		b.waiting.Go(func() {
			reply, outcome := workload.PushOne(client, s.history, s.plan, partition, token)
			if outcome == ledger.Done {
				b.acknowledged.Add(1)
			}
			b.replies <- reply
		})
	}
	return b
}

// ackedThrough waits until so many writes that were due from now on are acknowledged which did not begin at the given node.
func (s *scene) ackedThrough(not *Node, count int) {
	s.Helper()
	from := s.now()
	s.must(Eventually(formsWithin, fmt.Sprintf("%d writes through the others", count), func() error {
		acknowledged := 0
		for _, beat := range s.pulse.Beats() {
			if beat.Start >= from && beat.End > 0 && s.Founders()[beat.Node] != not {
				acknowledged++
			}
		}
		if acknowledged < count {
			return fmt.Errorf("%d are acknowledged", acknowledged)
		}
		return nil
	}))
}
