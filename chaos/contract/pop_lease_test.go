package contract

import (
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// leaseLeft measures how long the lease of a pop still lasts: an extend by the shortest time never shortens and shows
// the expiry (section 7).
func leaseLeft(t *testing.T, popped harness.PopReply) time.Duration {
	t.Helper()
	reply := suite.client.Extend(popped.LeaseID, `{"seconds":1}`)
	need(t, reply.Response, 200)
	if !reply.Success || reply.NewExpiresAt == nil {
		t.Fatalf("the lease is not live: %v", reply)
	}
	return time.Until(*reply.NewExpiresAt)
}

func TestLengthOfALease_5_6(t *testing.T) {
	t.Parallel()
	configured := uniqueName(t)
	need(t, suite.client.Configure(configured, map[string]any{"leaseTime": 500, "namespace": configured}), 200)
	implicit := uniqueName(t)
	cases := []struct {
		rule, queue, query string
		want               time.Duration
	}{
		{"leaseSeconds wins", configured, "leaseSeconds=90", 90 * time.Second},
		{"else the queue's leaseTime", configured, "", 500 * time.Second},
		{"leaseSeconds 0 counts as absent", configured, "leaseSeconds=0", 500 * time.Second},
		{"negative leaseSeconds count as absent", configured, "leaseSeconds=-7", 500 * time.Second},
		{"60 s for an implicit queue", implicit, "", 60 * time.Second},
		{"discovery without leaseSeconds: 60 s", "", "namespace=" + configured, 60 * time.Second},
		{"discovery with leaseSeconds 0", "", "leaseSeconds=0&namespace=" + configured, 60 * time.Second},
		{"discovery with leaseSeconds", "", "leaseSeconds=90&namespace=" + configured, 90 * time.Second},
	}
	for i, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			queue, partition := c.queue, fmt.Sprint(i)
			if queue == "" {
				queue = configured
			}
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: partition, Payload: 1})
			var popped harness.PopReply
			if c.queue == "" {
				popped = suite.client.Discover(c.query)
			} else {
				popped = suite.client.PopPartition(queue, partition, c.query)
			}
			needMessageCount(t, popped, 1)
			if left := leaseLeft(t, popped); left > c.want+time.Second || left < c.want-20*time.Second {
				t.Fatalf("want about %v, got %v", c.want, left)
			}
			needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
		})
	}
}

func TestExpiredLease_5_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"leaseTime": 1, "retryLimit": 0}), 200)
	pushAll(t, suite.client, numbered(queue, "", "m", 3)...)
	claimed := time.Now()
	first := suite.client.Pop(queue, "")
	needMessageCount(t, first, 3)
	for attempt := 2; attempt <= 3; attempt++ { // with retryLimit 0 a charge would have dead-lettered
		again := suite.client.Pop(queue, "wait=true&timeout=20000")
		needMessages(t, again, "m0", "m1", "m2")
		// Every lease so far lasted 1 s from its own claim on.
		if held, least := time.Since(claimed), time.Duration(attempt-1)*time.Second; held < least {
			t.Fatalf("attempt %d after %v, the lease lasts 1 s", attempt, held)
		}
		if again.LeaseID == first.LeaseID {
			t.Fatal("a new claim has a new lease id")
		}
		for _, message := range again.Messages {
			if message.DeliveryAttempt != attempt {
				t.Fatalf("want attempt %d, got %d", attempt, message.DeliveryAttempt)
			}
		}
	}
	t.Run("the old lease id is invalid", func(t *testing.T) {
		reply := suite.client.AckMessages("completed", first.Messages[0])
		need(t, reply.Response, 200)
		if verdict := reply.Items[0]; verdict.Success || verdict.Error == nil || *verdict.Error != "invalid or expired lease" {
			t.Fatalf("got %v", reply)
		}
		if reply := suite.client.Extend(first.LeaseID, nil); reply.Success {
			t.Fatalf("got %v", reply)
		}
	})
}

func TestDeliveryAttempt_5_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 6)...)
	pop := func(batch, attempt int, ids ...string) harness.PopReply {
		t.Helper()
		popped := suite.client.Pop(queue, fmt.Sprint("leaseSeconds=60&batch=", batch))
		needMessages(t, popped, ids...)
		for _, message := range popped.Messages {
			if message.DeliveryAttempt != attempt {
				t.Fatalf("want attempt %d of %v, got %d", attempt, ids, message.DeliveryAttempt)
			}
		}
		return popped
	}
	popped := pop(3, 1, "m0", "m1", "m2")
	needAcked(t, suite.client.AckMessages("retry", popped.Messages[0]))
	popped = pop(3, 2, "m0", "m1", "m2")
	needAcked(t, suite.client.AckMessages("failed", popped.Messages[0]))
	popped = pop(2, 3, "m0", "m1")
	// A part is acked: what remains counts as delivered before.
	needAcked(t, suite.client.AckMessages("completed", popped.Messages[0]))
	needAcked(t, suite.client.AckMessages("retry", popped.Messages[1]))
	popped = pop(2, 4, "m1", "m2")
	needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
	popped = pop(2, 1, "m3", "m4") // the group has moved on
	needAcked(t, suite.client.AckMessages("completed", popped.Messages[0]))
	needAcked(t, suite.client.AckMessages("retry", popped.Messages[1]))
	pop(2, 2, "m4", "m5")
	t.Run("it is counted per group", func(t *testing.T) {
		other := suite.client.Pop(queue, "consumerGroup=g&subscriptionMode=all")
		if needMessageCount(t, other, 6); other.Messages[0].DeliveryAttempt != 1 {
			t.Fatalf("got %d", other.Messages[0].DeliveryAttempt)
		}
	})
}

func TestCommitOnDelivery_5_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 4)...)
	popped := suite.client.Pop(queue, "commitOnDelivery=true&batch=2")
	needMessages(t, popped, "m0", "m1")
	t.Run("there is no lease", func(t *testing.T) {
		if popped.LeaseID != "" {
			t.Fatalf("got %q", popped.LeaseID)
		}
		for _, message := range popped.Messages {
			if message.LeaseID != "" || message.DeliveryAttempt != 1 {
				t.Fatalf("got %+v", message)
			}
		}
	})
	t.Run("an ack is a no-op", func(t *testing.T) {
		reply := suite.client.AckMessages("completed", popped.Messages...)
		needAcked(t, reply)
		for _, verdict := range reply.Items {
			if !verdict.Noop || verdict.LeaseReleased {
				t.Fatalf("got %+v", verdict)
			}
		}
	})
	t.Run("the cursor is past the batch", func(t *testing.T) {
		leased := suite.client.Pop(queue, "batch=1&leaseSeconds=60")
		needMessages(t, leased, "m2")
		t.Run("a live lease makes the partition not ready", func(t *testing.T) {
			needEmpty(t, suite.client.Pop(queue, "commitOnDelivery=true"))
		})
		needAcked(t, suite.client.AckMessages("retry", leased.Messages...))
		again := suite.client.Pop(queue, "commitOnDelivery=true")
		needMessages(t, again, "m2", "m3")
		if again.Messages[0].DeliveryAttempt != 1 {
			t.Fatalf("delivery on commit is attempt 1, got %d", again.Messages[0].DeliveryAttempt)
		}
	})
	t.Run("other groups are not affected", func(t *testing.T) {
		needMessageCount(t, suite.client.Pop(queue, "consumerGroup=g&subscriptionMode=all&commitOnDelivery=true"), 4)
	})
}

func TestAckUnderAPopThatOnlyTheClientCallsAutomatic_5_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
	popped := suite.client.Pop(queue, "autoAck=false&leaseSeconds=60")
	needMessageCount(t, popped, 1)
	reply := suite.client.AckMessages("completed", popped.Messages...)
	if needAcked(t, reply); !reply.Items[0].LeaseReleased {
		t.Fatalf("the message was leased, got %v", reply)
	}
}
