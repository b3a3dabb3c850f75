package contract

import (
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// TestRetentionIsNeverEarly: section 15, an append goes only when it is older than the rule says, and what is younger
// stays.
func TestRetentionIsNeverEarly(t *testing.T) {
	t.Parallel()
	const age = 2 * time.Second
	client := retentionBroker(t)
	cases := map[string]map[string]any{
		"rule 1":               {"retentionEnabled": true, "retentionSeconds": 2},
		"rule 2":               {"retentionEnabled": true, "completedRetentionSeconds": 2},
		"maxWaitTimeSeconds":   {"maxWaitTimeSeconds": 2},
		"the lowest of them":   {"retentionEnabled": true, "retentionSeconds": 3600, "completedRetentionSeconds": 3600, "maxWaitTimeSeconds": 2},
		"rule 2 before rule 1": {"retentionEnabled": true, "retentionSeconds": 3600, "completedRetentionSeconds": 2},
		"rule 1 before rule 2": {"retentionEnabled": true, "retentionSeconds": 2, "completedRetentionSeconds": 3600},
	}
	t.Run("rules", func(t *testing.T) { // the broker lives until all of them are through
		for name, options := range cases {
			t.Run("15 "+name, func(t *testing.T) {
				s := newSceneAt(t, client, options, 0)
				first := time.Now()
				s.push(2)
				needVerdicts(t, s.redelivered(0, 1, 1).ack(completed(1)), released)
				eventually(t, delivery, func() (bool, string) { return time.Since(first) > age/2, "half the age is not over" })
				second := time.Now()
				s.push(1)
				needVerdicts(t, s.redelivered(2, 2, 1).ack(completed(2)), released)
				eventually(t, delivery, func() (bool, string) {
					entry := fetchAt(t, client, s.queue, s.partition, 0)
					since := map[int64]time.Time{0: time.Now().Add(-age - time.Hour), 2: first, 3: second}[entry.LogStartOffset]
					if lived := time.Since(since); lived < age-stampSlack {
						t.Fatalf("the log starts at %d after %v", entry.LogStartOffset, lived)
					}
					return entry.LogStartOffset == 3, fmt.Sprintf("got %+v", entry)
				})
			})
		}
	})
}

// TestRetentionBatchBoundsOneStep: section 15 and cluster 1.8, a pass removes RETENTION_BATCH_SIZE appends of a
// partition and looks at it again after 40 ms, not only with the next pass.
func TestRetentionBatchBoundsOneStep(t *testing.T) {
	t.Parallel()
	const appends, pause = 25, 40 * time.Millisecond
	const pass = 4 * time.Second
	client := privateBroker(t, map[string]string{"RETENTION_BATCH_SIZE": "1", "RETENTION_INTERVAL": fmt.Sprint(pass.Milliseconds())}).Client()
	s := newSceneAt(t, client, nil, 0)
	for range appends {
		s.push(2)
	}
	need(t, client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 1}), 200)
	var seenAt time.Time
	seenLeft := 0
	eventually(t, delivery, func() (bool, string) {
		asked := time.Now()
		total := queueDetail(t, client, s.queue).Totals.Total
		if total%2 != 0 {
			t.Fatalf("an append goes whole, %d messages are left", total)
		}
		left := total / 2
		if seenLeft == 0 && left < appends {
			seenAt, seenLeft = asked, left
		}
		return left == 0, fmt.Sprintf("%d appends are left", left)
	})
	if seenLeft == 0 {
		t.Fatalf("all %d appends went in one step", appends)
	}
	if took, least := time.Since(seenAt), time.Duration(seenLeft-1)*pause; took < least {
		t.Fatalf("%d appends went in %v, one every %v", seenLeft, took, pause)
	}
}

// TestWhatIsNotDueIsDelivered: section 15, only rule 1 and maxWaitTimeSeconds hide what a pass has not removed yet:
// not rule 2, and not what a sink holds. This broker makes no pass within the test.
func TestWhatIsNotDueIsDelivered(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"RETENTION_INTERVAL": "3600000"}).Client()
	cases := map[string]struct {
		options   map[string]any
		sink      bool // whether a sink has committed the first append
		delivered []int
	}{
		"rule 2":                   {map[string]any{"completedRetentionSeconds": 1}, false, []int{0, 1, 2, 3}},
		"rule 1 held, no cursor":   {map[string]any{"retentionSeconds": 1, "retentionSinkHold": "sink"}, false, []int{0, 1, 2, 3}},
		"rule 1 held, half passed": {map[string]any{"retentionSeconds": 1, "retentionSinkHold": "sink"}, true, []int{2, 3}},
		"evicted although held":    {map[string]any{"maxWaitTimeSeconds": 1, "retentionSinkHold": "sink"}, false, nil},
	}
	t.Run("rules", func(t *testing.T) { // the broker lives until all of them are through
		for name, c := range cases {
			t.Run("15 "+name, func(t *testing.T) {
				s := newSceneAt(t, client, nil, 2)
				s.push(2)
				needVerdicts(t, s.as("other").redelivered(0, 3, 1).ack(completed(3)), released)
				if c.sink {
					needVerdicts(t, s.as("sink").claim(2, 0, 1, 1).ack(completed(1)), released)
				}
				c.options["retentionEnabled"] = true
				need(t, client.Configure(s.queue, c.options), 200)
				// A queue of the same age under maxWaitTimeSeconds alone tells when a second has passed for the broker.
				clock := newSceneAt(t, client, map[string]any{"maxWaitTimeSeconds": 1}, 1)
				eventually(t, delivery, func() (bool, string) {
					reply := client.Pop(clock.queue, fmt.Sprintf("consumerGroup=%s&subscriptionMode=all", uniqueName(t)))
					return reply.Status == 204, reply.String()
				})
				if c.delivered == nil {
					s.needNothing()
					return
				}
				s.redelivered(c.delivered[0], c.delivered[len(c.delivered)-1], 1)
			})
		}
	})
}

// TestEmptiedPartitionStaysWithinItsDays: section 15, a partition that retention has emptied is not deleted before
// PARTITION_CLEANUP_DAYS: it keeps its ids and its offsets.
func TestEmptiedPartitionStaysWithinItsDays(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{
		"RETENTION_INTERVAL": "100", "PARTITION_CLEANUP_DAYS": "1", "QUEEN_RAFT_TXN_WINDOW_MIN_S": "0",
	})
	s := newSceneAt(t, broker.Client(), map[string]any{"maxWaitTimeSeconds": 1, "dedupWindowSeconds": 0}, 0)
	pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: 0})
	before := partitionRows(t, s.client, s.queue)
	awaitRetained(t, s, 0)
	deadline := time.Now().Add(time.Second) // ten passes
	eventually(t, delivery, func() (bool, string) {
		rows := partitionRows(t, s.client, s.queue)
		if len(rows) != 1 || rows[0].PartitionID != before[0].PartitionID {
			t.Fatalf("want the partition %+v, got %+v", before, rows)
		}
		return time.Now().After(deadline), "the time is not over"
	})
	if again := pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: 0}); *again.Offset != 1 {
		t.Fatalf("offsets go on, got %+v", again)
	}
}

// TestEveryReaderCountsForRule2: section 15 and 5.8, queue mode like a group, and a registered group without a cursor
// with the one that its registration would give it: nothing goes that it is still to receive, and what it is never to
// receive does not stay for it.
func TestEveryReaderCountsForRule2(t *testing.T) {
	t.Parallel()
	client := retentionBroker(t)
	past, future := "2001-01-01T00:00:00Z", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	cases := map[string]struct {
		other string // the query of the other reader's pop
		first bool   // whether it asks before the messages are there
		held  bool
	}{
		"queue mode at its start":                   {"batch=1", false, true},
		"queue mode at the end":                     {"autoAck=true", false, false},
		"registered as all":                         {"consumerGroup=late&subscriptionMode=all", true, true},
		"registered as new, before":                 {"consumerGroup=late&subscriptionMode=new", true, true},
		"registered as new, after":                  {"consumerGroup=late&subscriptionMode=new", false, false},
		"registered from a past instant":            {"consumerGroup=late&subscriptionFrom=" + past, true, true},
		"registered from an instant to come":        {"consumerGroup=late&subscriptionFrom=" + future, true, false},
		"registered from an instant to come, after": {"consumerGroup=late&subscriptionFrom=" + future, false, false},
	}
	t.Run("readers", func(t *testing.T) { // the broker lives until all of them are through
		for name, c := range cases {
			t.Run("15 "+name, func(t *testing.T) {
				s := newSceneAt(t, client, map[string]any{"retentionEnabled": true, "completedRetentionSeconds": 1}, 0)
				ask := func(now bool) {
					if now {
						if reply := client.Pop(s.queue, c.other); reply.Status != 200 && reply.Status != 204 {
							t.Fatalf("got %v", reply.Response)
						}
					}
				}
				ask(c.first)
				s.push(2)
				ask(!c.first)
				needVerdicts(t, s.needClaim(s.pinned(10), 0, 1, 1).ack(completed(1)), released)
				if c.held {
					needRetainedFor(t, s, 2, pastRetention)
					return
				}
				awaitRetained(t, s, 0)
			})
		}
	})
}

// TestRetentionOfTenSeconds: section 15, its examples, on a broker with the defaults: with maxWaitTimeSeconds 10 a pop 15 s after
// the push is empty; with retentionSeconds and completedRetentionSeconds 10 everything is gone well within 65 s.
func TestRetentionOfTenSeconds(t *testing.T) {
	t.Parallel()
	if !longRun() {
		t.Skip("takes up to a minute: QUEEN_CONTRACT_LONG=1")
	}
	evicted := newScene(t, map[string]any{"maxWaitTimeSeconds": 10}, 2)
	retained := newScene(t, map[string]any{"retentionEnabled": true, "retentionSeconds": 10, "completedRetentionSeconds": 10}, 2)
	pushed := time.Now()
	elapse(t, 15*time.Second)
	evicted.needNothing()
	eventually(t, time.Until(pushed.Add(65*time.Second)), func() (bool, string) {
		total := queueDetail(t, retained.client, retained.queue).Totals.Total
		return total == 0, fmt.Sprintf("%d messages are left", total)
	})
}
