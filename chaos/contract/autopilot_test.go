package contract

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// awaitParked waits until a private broker has so many pops parked. The gauge tells that they have arrived; what little
// they have still to do then is done in the time that the broker needs for two more answers.
func awaitParked(t *testing.T, client *harness.Client, count int) {
	t.Helper()
	eventually(t, promptly, func() (bool, string) {
		for line := range strings.Lines(string(client.Get("/metrics/prometheus").Body)) {
			if value, found := strings.CutPrefix(line, "queen_parked_long_polls "); found {
				parked, _ := strconv.Atoi(strings.TrimSpace(value))
				return parked == count, line
			}
		}
		return false, "the gauge is missing"
	})
	needEmpty(t, client.PopPartition("none", "none", "wait=true&timeout=50"))
}

// chosen are the partitions and the batch that autopilot shows it has chosen, nothing else stands beside them (5.10).
func chosen(t *testing.T, popped harness.PopReply) (partitions, batch int) {
	t.Helper()
	need(t, popped.Response, 200)
	object, _ := popped.Object()["autopilot"].(map[string]any)
	needExactKeys(t, object, "partitions", "batch")
	return *popped.Autopilot.Partitions, *popped.Autopilot.Batch
}

// TestAutopilotSharesReadyPartitionsAmongThePops: 5.10, partitions = ready partitions / autopilot pops in flight.
func TestAutopilotSharesReadyPartitionsAmongThePops(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	const pops = 4
	// The delay makes all partitions of a push ready at one instant.
	need(t, client.Configure("q", map[string]any{"delayedProcessing": 1}), 200)
	waiting := make(parked, pops)
	park := func(count int) {
		t.Helper()
		for range count {
			go func() { waiting <- client.Pop("q", "autopilot=true&leaseSeconds=600&wait=true&timeout=30000") }()
		}
		awaitParked(t, client, pops)
	}
	needShares := func(items []harness.Item, want ...int) {
		t.Helper()
		pushAll(t, client, items...)
		var shares []int
		for range want {
			popped := <-waiting
			share, batch := chosen(t, popped)
			if batch != 100 || popped.PartitionsClaimed != share || len(popped.Messages) != share {
				t.Fatalf("want %d partitions and a batch of 100, got %v", share, popped)
			}
			shares = append(shares, share)
		}
		if slices.Sort(shares); !slices.Equal(shares, want) {
			t.Fatalf("want %v, got %v", want, shares)
		}
	}
	park(pops)
	needShares(spread("q", 9, 1), 2, 2, 2, 3) // 9/4, 7/3, 5/2 and 3/1
	park(pops)
	needShares(numbered("q", "x", "x", 1), 1) // never less than one
	park(1)
	needShares([]harness.Item{{Queue: "q", Partition: "y", Payload: 1}, {Queue: "q", Partition: "z", Payload: 1}}, 1, 1)
}

// TestAutopilotChoosesWithinItsBounds: 5.10, at most 64 partitions, and nothing is shown where nothing was chosen.
func TestAutopilotChoosesWithinItsBounds(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 70, 2)...)
	popped := suite.client.Pop(queue, "autopilot=true&subscriptionMode=all&consumerGroup=g&leaseSeconds=600")
	if partitions, batch := chosen(t, popped); partitions != 64 || batch != 100 || len(popped.Messages) != 100 || popped.PartitionsClaimed != 50 {
		t.Fatalf("want 100 messages of 64 partitions at most, got %d of %d: %v", len(popped.Messages), popped.PartitionsClaimed, popped.Object()["autopilot"])
	}
	t.Run("5.10 the batch of 100 is a choice, not a default", func(t *testing.T) {
		rest := suite.client.Pop(queue, "autopilot=1&consumerGroup=g&batch=1000&leaseSeconds=600")
		if needMessageCount(t, rest, 40); rest.PartitionsClaimed != 20 || *rest.Autopilot.Partitions != 20 {
			t.Fatalf("want the other 20 partitions, got %v", rest.Object()["autopilot"])
		}
	})
	t.Run("5.10 an empty pop stays a 204", func(t *testing.T) {
		needEmpty(t, suite.client.Pop(queue, "autopilot=true&consumerGroup=g"))
	})
	t.Run("5.10 not on discovery", func(t *testing.T) {
		popped := suite.client.Discover("autopilot=true&subscriptionMode=all&consumerGroup=d&namespace=" + queue)
		if needMessageCount(t, popped, 2); popped.Autopilot != nil || popped.PartitionsClaimed != 1 {
			t.Fatalf("want the defaults of 5.2, got %v", popped)
		}
	})
}

// TestAutopilotFollowsTheDrainRate: 5.10, batch = drain rate of the group x 200 ms, at most 1,000: a group that drains more than
// 5,000 messages a second comes to that, and no further.
func TestAutopilotFollowsTheDrainRate(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 0)
	const rounds, perRound = 4, 20_000
	for range rounds {
		s.push(perRound)
	}
	probe := func(s *scene) int {
		t.Helper()
		popped := s.learn(s.client.Pop(s.queue, "autopilot=true&commitOnDelivery=true&subscriptionMode=all&consumerGroup="+s.group))
		_, batch := chosen(t, popped)
		if batch < 100 || batch > 1000 || len(popped.Messages) != batch {
			t.Fatalf("want 100 to 1,000 and as many messages, got %d and %d", batch, len(popped.Messages))
		}
		return batch
	}
	if batch := probe(s); batch != 100 {
		t.Fatalf("it begins with 100, got %d", batch)
	}
	// One ack passes all messages of a round, however few it names.
	for round, done := 1, false; !done; round++ {
		needVerdicts(t, s.ackUnfenced(completed(round*perRound-1_001)), kept)
		elapse(t, 1100*time.Millisecond) // a rate needs a second
		batch := probe(s)
		if done = batch == 1000; round == rounds && !done {
			t.Fatalf("a group that drains many thousand messages a second gets batches of %d", batch)
		}
	}
	if batch := probe(s.as("idle")); batch != 100 {
		t.Errorf("the rate of another group counts for none, got %d", batch)
	}
}
