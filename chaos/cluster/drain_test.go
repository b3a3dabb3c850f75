package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// TestR31StopUnderParkedPops: a node is stopped in order under a thousand parked pops and steady writes.
func TestR31StopUnderParkedPops(t *testing.T) {
	play(t, "R31", stage{every: 10 * time.Millisecond}, func(s *scene) {
		s.acked(50)
		const pops = 1000
		node := s.leading()
		replies := make(chan harness.PopReply, pops)
		for i := range pops {
			queue := fmt.Sprintf("idle-%d", i%10)
			go func() { replies <- node.Client().PopContext(context.Background(), queue, "wait=true&timeout=60000") }()
		}
		s.must(Eventually(formsWithin, "parked pops", func() error {
			parked, err := node.Metric("queen_parked_long_polls", "")
			if err == nil && parked < pops {
				return fmt.Errorf("%v are parked", parked)
			}
			return err
		}))
		from := s.now()
		done := make(chan error, 1)
		go func() { done <- node.Stop() }()
		for range pops {
			if reply := <-replies; reply.Err != nil || reply.Status != 204 {
				s.Errorf("want a parked pop to be answered empty, got %v", reply)
				break
			}
		}
		to := s.now()
		s.within("popsAnsweredAfter", to-from, time.Second, from, to)
		s.must(<-done) // exit status 0
		to = s.now()
		s.within("exitAfter", to-from, stopsWithin, from, to)
		s.acked(50)
		s.start(node)
	})
}
