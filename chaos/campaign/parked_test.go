package campaign

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

const (
	parkedPops = 300
	// parkedWait is far longer than any answer that these tests wait for.
	parkedWait = 45 * time.Second
	// atOnce is how soon a parked pop must be answered when there is a reason, on a busy machine.
	atOnce = 5 * time.Second
	// queuesOfParked is over how many queues the pops spread: each of queue mode and one group.
	queuesOfParked = 10
)

// parked is a crowd of pops that wait.
type parked struct {
	group   sync.WaitGroup
	mutex   sync.Mutex
	replies []harness.PopReply
}

// park sends the pops and returns once the broker has them all.
func park(t *testing.T, client *harness.Client) *parked {
	t.Helper()
	crowd := &parked{}
	for i := range parkedPops {
		crowd.group.Go(func() { // ends with its pop
			query := fmt.Sprintf("wait=true&timeout=%d&batch=1&leaseSeconds=30", parkedWait.Milliseconds())
			if i%2 == 1 {
				query += "&consumerGroup=g&subscriptionMode=all"
			}
			reply := client.Pop(parkedQueue(i), query)
			crowd.mutex.Lock()
			defer crowd.mutex.Unlock()
			crowd.replies = append(crowd.replies, reply)
		})
	}
	deadline := time.Now().Add(atOnce)
	for {
		count, err := parkedNow(client)
		switch {
		case err != nil:
			t.Fatal(err)
		case count >= parkedPops:
			return crowd
		case time.Now().After(deadline):
			t.Fatalf("only %d of %d pops are parked", count, parkedPops)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func parkedQueue(i int) string { return fmt.Sprintf("parked-%d", i/2%queuesOfParked) }

// parkedNow reads how many pops wait at the broker.
func parkedNow(client *harness.Client) (int, error) {
	reply := client.Get("/metrics/prometheus")
	if reply.Err != nil || reply.Status != 200 {
		return 0, fmt.Errorf("read metrics: %v", reply)
	}
	for line := range strings.Lines(string(reply.Body)) {
		if value, found := strings.CutPrefix(line, "queen_parked_long_polls "); found {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, errors.New("read metrics: queen_parked_long_polls is missing")
}

// answered waits for all pops.
func (p *parked) answered(t *testing.T, within time.Duration) []harness.PopReply {
	t.Helper()
	done := make(chan struct{})
	go func() { // ends with the pops
		p.group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return p.replies
	case <-time.After(within):
		p.mutex.Lock()
		defer p.mutex.Unlock()
		t.Fatalf("after %v only %d of %d parked pops are answered", within, len(p.replies), parkedPops)
		return nil
	}
}

// TestStopAnswersParkedPopsEmptyAtOnce: cluster.md 17.1 rule 3.
func TestStopAnswersParkedPopsEmptyAtOnce(t *testing.T) {
	broker := start(t)
	client := broker.Client()
	defer client.Close()
	crowd := park(t, client)
	if err := broker.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, reply := range crowd.answered(t, atOnce) {
		if reply.Err != nil || reply.Status != 204 {
			t.Fatalf("want an empty answer, got %v", reply)
		}
	}
}

// TestPopsParkedAtTheEndHoldNothingAfterwards: whatever way the process ended, the pops that were parked then hold no
// lease and no place in a row: those that are parked in the next process get every message, as its first delivery.
func TestPopsParkedAtTheEndHoldNothingAfterwards(t *testing.T) {
	for name, interrupt := range map[string]Interruption{"kill -9": Kill, "stop": Stop} {
		t.Run(name, func(t *testing.T) {
			broker := start(t)
			client := broker.Client()
			defer client.Close()
			before := park(t, client)
			if err := interrupt(broker, nil); err != nil {
				t.Fatal(err)
			}
			before.answered(t, atOnce)
			if err := broker.Start(); err != nil {
				t.Fatal(err)
			}
			after := park(t, client)
			var items []harness.Item
			for queue := range queuesOfParked {
				for partition := range parkedPops {
					items = append(items, harness.Item{
						Queue: parkedQueue(2 * queue), Partition: fmt.Sprint(partition), Payload: 1,
					})
				}
			}
			if reply := client.Push(items...); reply.Err != nil || reply.Status != 201 {
				t.Fatalf("push: %v", reply)
			}
			leases := map[string]bool{}
			for _, reply := range after.answered(t, atOnce) {
				if reply.Err != nil || reply.Status != 200 || len(reply.Messages) != 1 || reply.Messages[0].DeliveryAttempt != 1 || leases[reply.LeaseID] {
					t.Fatalf("want one message, delivered for the first time under a lease of its own, got %v", reply)
				}
				leases[reply.LeaseID] = true
			}
		})
	}
}
