package contract

import (
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// pastRetention is the time in which a broker with a retention pass every 100 ms would have removed what is due.
const pastRetention = 3 * time.Second

// retentionBroker has a retention pass often enough for a test.
func retentionBroker(t *testing.T) *harness.Client {
	t.Helper()
	return privateBroker(t, map[string]string{"RETENTION_INTERVAL": "100"}).Client()
}

// needRetainedFor polls for the time and ends the test when the queue retains another number of messages.
func needRetainedFor(t *testing.T, s *scene, n int, during time.Duration) {
	t.Helper()
	deadline := time.Now().Add(during)
	eventually(t, during+delivery, func() (bool, string) {
		if total := queueDetail(t, s.client, s.queue).Totals.Total; total != n {
			t.Fatalf("want %d messages to be retained, got %d", n, total)
		}
		return time.Now().After(deadline), "the time is not over"
	})
}

// TestRetention plays the rules of section 15 against one broker, side by side.
func TestRetention(t *testing.T) {
	t.Parallel()
	client := retentionBroker(t)
	enabled := func(more map[string]any) map[string]any {
		more["retentionEnabled"] = true
		return more
	}
	t.Run("rules", func(t *testing.T) { // the broker lives until all of them are through
		t.Run("15 rule 1 removes consumed or not", func(t *testing.T) {
			s := newSceneAt(t, client, enabled(map[string]any{"retentionSeconds": 1}), 3)
			awaitRetained(t, s, 0)
			s.needNothing()
			need(t, client.Configure(s.queue, map[string]any{"retentionEnabled": false}), 200)
			s.push(1) // offsets go on
			s.redelivered(3, 3, 1)
		})
		t.Run("15 rule 1 does nothing when retention is not enabled", func(t *testing.T) {
			s := newSceneAt(t, client, map[string]any{"retentionSeconds": 1, "completedRetentionSeconds": 1}, 3)
			needVerdicts(t, s.claim(2, 0, 1, 1).ack(completed(1)), released)
			needRetainedFor(t, s, 3, pastRetention)
			s.redelivered(2, 2, 1)
		})
		t.Run("15 rule 2 keeps what a cursor has not passed", func(t *testing.T) {
			s := newSceneAt(t, client, enabled(map[string]any{"completedRetentionSeconds": 1}), 2)
			s.push(2)
			fast, slow := s.as("fast"), s.as("slow")
			needVerdicts(t, fast.redelivered(0, 3, 1).ack(completed(3)), released)
			needVerdicts(t, slow.claim(2, 0, 1, 1).ack(completed(1)), released)
			awaitRetained(t, s, 2) // the first append is passed by both
			needRetainedFor(t, s, 2, pastRetention)
			needVerdicts(t, slow.redelivered(2, 3, 1).ack(completed(2)), kept)
			needRetainedFor(t, s, 2, pastRetention) // an append goes whole
			needVerdicts(t, slow.ackUnfenced(completed(3)), released)
			awaitRetained(t, s, 0)
		})
		t.Run("15 rule 2 keeps everything without any cursor", func(t *testing.T) {
			s := newSceneAt(t, client, enabled(map[string]any{"completedRetentionSeconds": 1}), 3)
			needRetainedFor(t, s, 3, pastRetention)
		})
		t.Run("15 rule 2 counts a registered group without a cursor", func(t *testing.T) {
			s := newSceneAt(t, client, enabled(map[string]any{"completedRetentionSeconds": 1}), 0)
			late := s.as("late")
			late.needNothing() // registers it as all
			s.push(2)
			reader := s.as("reader")
			needVerdicts(t, reader.needClaim(reader.pinned(10), 0, 1, 1).ack(completed(1)), released)
			needRetainedFor(t, s, 2, pastRetention)
			needVerdicts(t, late.redelivered(0, 1, 1).ack(completed(1)), released)
			awaitRetained(t, s, 0)
		})
		t.Run("15 maxWaitTimeSeconds evicts under a live lease, without a dead letter and without the switch", func(t *testing.T) {
			s := newSceneAt(t, client, map[string]any{"maxWaitTimeSeconds": 2}, 2)
			batch := s.redelivered(0, 1, 1)
			awaitRetained(t, s, 0)
			s.needDeadLetters()
			reply := batch.ack(completed(0, 1))
			need(t, reply.Response, 200)
			for _, item := range reply.Items { // acks of removed messages are stale failures or no-ops
				if got := verdictOf(item); got != noop && got != unresolvable && got != released && got != badLease {
					t.Errorf("got %+v", got)
				}
			}
			need(t, client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 0}), 200)
			s.push(1)
			needVerdicts(t, s.ackUnfenced(completed(2)), kept) // the cursor resumes at the log start, whatever became of the lease
			s.needCursor(3)
		})
		t.Run("15 the sink holds rules 1 and 2 back", func(t *testing.T) {
			s := newSceneAt(t, client, enabled(map[string]any{
				"retentionSeconds": 1, "completedRetentionSeconds": 1, "retentionSinkHold": "sink", "retentionSinkHoldMaxSeconds": 3600,
			}), 2)
			s.push(2)
			needRetainedFor(t, s, 4, pastRetention) // without a cursor of the sink any append is held
			needVerdicts(t, s.as("other").redelivered(0, 3, 1).ack(completed(3)), released)
			sink := s.as("sink")
			needVerdicts(t, sink.claim(2, 0, 1, 1).ack(completed(1)), released)
			awaitRetained(t, s, 2)
			needRetainedFor(t, s, 2, pastRetention)
			needVerdicts(t, sink.redelivered(2, 3, 1).ack(completed(3)), released)
			awaitRetained(t, s, 0)
		})
		t.Run("15 the sink does not hold maxWaitTimeSeconds back", func(t *testing.T) {
			s := newSceneAt(t, client, map[string]any{"maxWaitTimeSeconds": 1, "retentionSinkHold": "sink"}, 2)
			awaitRetained(t, s, 0)
		})
		t.Run("4.6 a duplicate of a removed message is a duplicate while the window lasts", func(t *testing.T) {
			s := newSceneAt(t, client, map[string]any{"maxWaitTimeSeconds": 1}, 0)
			original := pushOne(t, client, harness.Item{Queue: s.queue, Payload: 0, TransactionID: "m0"})
			awaitRetained(t, s, 0)
			reply := client.Push(harness.Item{Queue: s.queue, Payload: 0, TransactionID: "m0"})
			if need(t, reply.Response, 201); reply.Items[0].Status != "duplicate" || reply.Items[0].MessageID != original.MessageID || *reply.Items[0].Offset != 0 {
				t.Fatalf("want a duplicate of %+v, got %v", original, reply)
			}
		})
		t.Run("9.5 counting follows the log start", func(t *testing.T) {
			s := newSceneAt(t, client, nil, 3)
			needVerdicts(t, s.claim(1, 0, 0, 1).ack(completed(0)), released)
			need(t, client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 1}), 200)
			awaitRetained(t, s, 0)
			needCounted(t, s, 0, 0, 0, 0)
			need(t, client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 0}), 200)
			s.push(2)
			needCounted(t, s, 2, 2, 0, 0)
		})
	})
}

// TestDueMessagesAreNotDelivered: section 15, what is due under rule 1 or maxWaitTimeSeconds is not delivered any
// more, even before a pass has removed it. This broker makes no pass within the test.
func TestDueMessagesAreNotDelivered(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"RETENTION_INTERVAL": "3600000"}).Client()
	cases := map[string]map[string]any{
		"maxWaitTimeSeconds": {"maxWaitTimeSeconds": 2},
		"rule 1":             {"retentionEnabled": true, "retentionSeconds": 2},
	}
	t.Run("rules", func(t *testing.T) { // the broker lives until all of them are through
		for name, options := range cases {
			t.Run("15 "+name, func(t *testing.T) {
				s := newSceneAt(t, client, nil, 2)
				need(t, client.Configure(s.queue, options), 200)
				eventually(t, delivery, func() (bool, string) { // each look is a reader of its own, from the beginning
					reply := client.Pop(s.queue, fmt.Sprintf("consumerGroup=%s&subscriptionMode=all", uniqueName(t)))
					return reply.Status == 204, reply.String()
				})
				needEmpty(t, s.pop(10))
				need(t, client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 0, "retentionEnabled": false}), 200)
				s.redelivered(0, 1, 1) // they were there all the time
			})
		}
	})
}

// TestSinkHoldEnds: section 15 and 9.2, what the sink has not committed is due once it is older than
// retentionSinkHoldMaxSeconds.
func TestSinkHoldEnds(t *testing.T) {
	t.Parallel()
	if !longRun() {
		t.Skip("the shortest hold is a minute: QUEEN_CONTRACT_LONG=1")
	}
	const hold = time.Minute
	s := newSceneAt(t, retentionBroker(t), map[string]any{
		"retentionEnabled": true, "retentionSeconds": 1, "retentionSinkHold": "sink", "retentionSinkHoldMaxSeconds": hold.Seconds(),
	}, 2)
	stamp := stampOf(t, s, 0)
	needRetainedFor(t, s, 2, hold-time.Since(stamp)-time.Second)
	awaitRetained(t, s, 0)
	if waited := time.Since(stamp); waited < hold-stampSlack {
		t.Fatalf("removed after %v, the hold is %v", waited, hold)
	}
}
