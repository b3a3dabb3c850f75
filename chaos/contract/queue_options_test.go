package contract

import (
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

const shortDelay = 700 * time.Millisecond // as a retryDelay: long enough to be seen on a busy machine

// retryDelay is an explicit retryDelay of shortDelay.
func retryDelay() map[string]any { return map[string]any{"retryDelay": shortDelay.Milliseconds()} }

// failFirst claims everything and fails the first message; it returns the instant before the ack.
func failFirst(s *scene) time.Time {
	s.t.Helper()
	batch := s.redelivered(0, s.pushed-1, 1)
	before := time.Now()
	needVerdicts(s.t, batch.ack(failed(0)), released)
	return before
}

// needDelayed ends the test unless the messages are not there at once and come, to a parked pop, when the delay has
// passed since the instant, as attempt 2.
func needDelayed(s *scene, since time.Time) {
	s.t.Helper()
	if reply := s.pop(wholeBacklog); reply.Status == 204 {
		s.awaited(0, s.pushed-1, 2)
	} else { // early, or the machine was too busy to look within the delay
		s.needClaim(reply, 0, s.pushed-1, 2)
	}
	if waited := time.Since(since); waited < shortDelay-stampSlack {
		s.t.Fatalf("redelivered %v after the failure, the retry delay is %v", waited, shortDelay)
	}
}

// TestRetryDelayWorksOnlyWhenSetExplicitly: 9.3.
func TestRetryDelayWorksOnlyWhenSetExplicitly(t *testing.T) {
	t.Parallel()
	explicit := map[string]any{"options": map[string]any{"retryDelay": 60000}}
	cases := map[string]struct {
		configures []map[string]any
		delayed    bool
	}{
		"implicit queue":             {nil, false},
		"configured without it":      {[]map[string]any{{"options": map[string]any{"ttl": 1}}}, false},
		"set to 0":                   {[]map[string]any{{"options": map[string]any{"retryDelay": 0}}}, false},
		"set":                        {[]map[string]any{{"options": retryDelay()}}, true},
		"set at top level":           {[]map[string]any{retryDelay()}, true},
		"set, then another merge":    {[]map[string]any{{"options": retryDelay()}, {"options": map[string]any{"ttl": 1}}}, true},
		"set, then null":             {[]map[string]any{explicit, {"options": map[string]any{"retryDelay": nil}}}, false},
		"set, then replaced without": {[]map[string]any{explicit, {"mode": "replace", "options": map[string]any{"ttl": 1}}}, false},
		"set, then replaced with it": {[]map[string]any{explicit, {"mode": "replace", "options": retryDelay()}}, true},
		"set to the default's value": {[]map[string]any{{"options": map[string]any{"retryDelay": 1000}}}, true},
	}
	for name, c := range cases {
		t.Run("9.3 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 2)
			for _, body := range c.configures {
				body["queue"] = s.queue
				need(t, s.client.Post("/api/v1/configure", body), 200)
			}
			since := failFirst(s)
			if c.delayed {
				needDelayed(s, since)
			} else {
				s.redelivered(0, 1, 2)
			}
		})
	}
}

// TestRetryDelayHoldsOneGroupAndPartition: 9.3, others are not affected.
func TestRetryDelayHoldsOneGroupAndPartition(t *testing.T) {
	t.Parallel()
	s := newScene(t, retryDelay(), 2)
	pushAll(t, s.client, numbered(s.queue, "other", "o", 1)...)
	batch := s.needClaim(s.pinned(10), 0, 1, 1)
	since := time.Now()
	needVerdicts(t, batch.ack(failed(0)), released)
	needMessages(t, s.client.PopPartition(s.queue, "other", s.query(10)), "o0")
	needMessages(t, s.client.PopPartition(s.queue, "Default", s.as("h").query(10)), "m0", "m1")
	needDelayed(s, since)
}

// TestRetryDelayFollowsChargedFailuresAlone: 9.3, a retry, a dlq, a dead letter, a drop and an expiry never delay.
func TestRetryDelayFollowsChargedFailuresAlone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		options map[string]any
		marks   []mark
		first   int
	}{
		"retry":         {nil, []mark{retried(0)}, 0},
		"dlq":           {nil, []mark{dlqed(0)}, 1},
		"a dead letter": {map[string]any{"retryLimit": 0}, []mark{failed(0)}, 1},
		"a drop":        {map[string]any{"retryLimit": 0, "deadLetterQueue": false, "dlqAfterMaxRetries": false}, []mark{failed(0)}, 1},
		"an exhausted failure above unmentioned ones": {map[string]any{"retryLimit": 0}, []mark{failed(2)}, 0},
	}
	for name, c := range cases {
		t.Run("9.3 "+name, func(t *testing.T) {
			t.Parallel()
			options := map[string]any{"retryDelay": 60000}
			for key, value := range c.options {
				options[key] = value
			}
			s := newScene(t, options, 3)
			need(t, s.redelivered(0, 2, 1).ack(c.marks...).Response, 200)
			reply := s.pop(1)
			if need(t, reply.Response, 200); reply.Messages[0].Offset != int64(c.first) {
				t.Fatalf("want offset %d at once, got %v", c.first, reply.Response)
			}
		})
	}
	t.Run("9.3 an expiry", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, map[string]any{"retryDelay": 60000, "leaseTime": 1}, 1)
		s.redelivered(0, 0, 1)
		s.awaited(0, 0, 2)
	})
}

// TestRetryDelayEndsEarly: 9.3, by a seek, a position write, the deletion of the group and any move of the cursor.
func TestRetryDelayEndsEarly(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		end   func(s *scene)
		first int
	}{
		"a seek": {func(s *scene) {
			path := fmt.Sprintf("/api/v1/consumer-groups/%s/queues/%s/partitions/Default/seek", s.group, s.queue)
			need(s.t, s.client.Post(path, `{"timestamp":"2020-01-01T00:00:00Z"}`), 200)
		}, 0},
		"a position write": {func(s *scene) { needCommitted(s.t, s.client.Transaction(position(s, 0))) }, 0},
		"the deletion of the group": {func(s *scene) {
			need(s.t, s.client.Delete("/api/v1/consumer-groups/"+s.group+"/queues/"+s.queue), 200)
		}, 0},
		"a later move of the cursor": {func(s *scene) { needVerdicts(s.t, s.ackUnfenced(completed(0)), kept) }, 1},
	}
	for name, c := range cases {
		t.Run("9.3 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryDelay": 60000}, 3)
			s.group = uniqueName(t)
			failFirst(s)
			s.needNothing()
			c.end(s)
			s.redelivered(c.first, 2, anyAttempt)
		})
	}
}

// TestRetryDelayWithinATransaction: 9.3, a failed ack of section 8 delays as well.
func TestRetryDelayWithinATransaction(t *testing.T) {
	t.Parallel()
	s := newScene(t, retryDelay(), 2)
	batch := s.redelivered(0, 1, 1)
	since := time.Now()
	needCommitted(t, s.client.Transaction(operations(batch.operations(failed(0)))))
	needDelayed(s, since)
}

// TestMaxSizeLimitsNothing: 4.4.4 and 9.3.
func TestMaxSizeLimitsNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"maxSize": 2}, 5)
	s.push(3)
	s.redelivered(0, 7, 1)
}

// TestPriorityOrdersDiscovery: 5.12 and 9.3, a lower queue is claimed from only with what is left over; the queue
// routes do not look at it.
func TestPriorityOrdersDiscovery(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	queues := make([]string, 3)
	for i, priority := range []int{1, 9, 5} {
		queues[i] = fmt.Sprint(namespace, "-", priority)
		need(t, suite.client.Configure(queues[i], map[string]any{"namespace": namespace, "priority": priority}), 200)
		pushAll(t, suite.client, numbered(queues[i], "Default", fmt.Sprint("p", priority, "-"), 2)...)
	}
	query := "namespace=" + namespace + "&consumerGroup=g&subscriptionMode=all"
	needMessages(t, suite.client.Discover(query+"&batch=3&partitions=2"), "p9-0", "p9-1", "p5-0")
	needMessages(t, suite.client.Discover(query+"&batch=10&partitions=10"), "p1-0", "p1-1")
	needMessages(t, suite.client.Pop(queues[0], "batch=10&consumerGroup=h&subscriptionMode=all"), "p1-0", "p1-1")
}

// TestLeaseTimeChangeAppliesToStoredMessages: 9.1, a change applies from the next pop on.
func TestLeaseTimeChangeAppliesToStoredMessages(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"leaseTime": 300}, 1)
	need(t, s.client.Configure(s.queue, map[string]any{"leaseTime": 1}), 200)
	start := time.Now()
	s.redelivered(0, 0, 1)
	s.awaited(0, 0, 2)
	if waited := time.Since(start); waited < time.Second-stampSlack {
		t.Fatalf("redelivered after %v, leaseTime is 1s", waited)
	}
}

// TestDelayChangeAppliesToStoredMessages: 9.1, the delays hide what is already stored, and show it again when they go.
func TestDelayChangeAppliesToStoredMessages(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"delayedProcessing", "windowBuffer"} {
		t.Run("9.1 "+option, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{}, 2)
			need(t, s.client.Configure(s.queue, map[string]any{option: 3600}), 200)
			s.needNothing()
			parked := parkReader(s)
			need(t, s.client.Configure(s.queue, map[string]any{option: 0}), 200)
			s.needClaim(<-parked, 0, 1, 1)
		})
	}
}

// TestOptionsWithoutEffect: 9.2, ttl and minPopWaitTime are stored only.
func TestOptionsWithoutEffect(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"ttl": 1, "minPopWaitTime": 60000}, 1)
	needEmpty(t, s.client.Pop(s.queue+"-empty", "wait=true&timeout=1500")) // the message is older than the ttl now
	if reply := s.pop(1); reply.Elapsed > promptly {
		t.Fatalf("a pop does not wait, got %v", reply.Response)
	} else {
		s.needClaim(reply, 0, 0, 1)
	}
}

// TestDedupWindowChangeAppliesFromTheNextPush: 9.1 and 4.6.
func TestDedupWindowChangeAppliesFromTheNextPush(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	again := harness.Item{Queue: s.queue, Payload: 0, TransactionID: "m0"}
	if reply := s.client.Push(again); reply.Status != 201 || reply.Items[0].Status != "duplicate" {
		t.Fatalf("want a duplicate, got %v", reply)
	}
	need(t, s.client.Configure(s.queue, map[string]any{"dedupWindowSeconds": 0}), 200)
	pushOne(t, s.client, again)
}

// TestCompletedRetentionWidensTheHashWindow: 9.2 and 4.6, a txid that the dedup window has forgotten still resolves to its
// offset for completedRetentionSeconds, and is no duplicate.
func TestCompletedRetentionWidensTheHashWindow(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_TXN_WINDOW_MIN_S": "0"}).Client()
	scenes := map[int]*scene{}
	for _, seconds := range []int{0, 3600} {
		s := newSceneAt(t, client, map[string]any{"dedupWindowSeconds": 1, "completedRetentionSeconds": seconds}, 4)
		needVerdicts(t, s.claim(1, 0, 0, 1).ack(completed(0)), released)
		scenes[seconds] = s
	}
	for seconds, s := range scenes {
		eventually(t, delivery, func() (bool, string) { // the dedup window has passed
			reply := client.Push(harness.Item{Queue: s.queue, Payload: 0, TransactionID: "m2"})
			need(t, reply.Response, 201)
			return reply.Items[0].Status == "queued", reply.String()
		})
		needVerdicts(t, s.ackUnfenced(completed(3)), map[int]verdict{0: unresolvable, 3600: kept}[seconds])
		s.needCursor(map[int]int{0: 1, 3600: 4}[seconds])
	}
}
