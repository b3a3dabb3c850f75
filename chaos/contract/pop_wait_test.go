package contract

import (
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// parked is a pop that waits in the background.
type parked chan harness.PopReply

// park starts a long poll on the wildcard route. It returns before the broker has parked it: a test that needs the pop
// to be there first must be right either way, or wait for what its arrival changes.
func park(queue, query string) parked {
	reply := make(parked, 1)
	go func() { reply <- suite.client.Pop(queue, "wait=true&timeout=30000&"+query) }()
	return reply
}

// needWoken ends the test unless the parked pop delivers exactly these txids, far within its timeout of 30 s.
func needWoken(t *testing.T, waiting parked, ids ...string) harness.PopReply {
	t.Helper()
	popped := <-waiting
	needMessages(t, popped, ids...)
	if popped.Elapsed > 20*time.Second {
		t.Fatalf("woken only after %v", popped.Elapsed)
	}
	return popped
}

// parkPinned starts a pop of one partition that waits.
func parkPinned(queue, partition string) parked {
	waiting := make(parked, 1)
	go func() { waiting <- suite.client.PopPartition(queue, partition, "wait=true&timeout=30000") }()
	return waiting
}

func TestLongPollLastsItsTimeout_5_7(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	popped := suite.client.Pop(queue, "wait=true&timeout=1500")
	needEmpty(t, popped)
	if popped.Elapsed < time.Second || popped.Elapsed > 1500*time.Millisecond+promptly {
		t.Fatalf("a wait of 1,500 ms took %v", popped.Elapsed)
	}
}

func TestAppendWakesAParkedPop_5_7(t *testing.T) {
	t.Parallel()
	t.Run("wildcard", func(t *testing.T) {
		queue := uniqueName(t)
		needEmpty(t, suite.client.Pop(queue, ""))
		waiting := park(queue, "")
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
		needWoken(t, waiting, "t")
	})
	t.Run("wildcard on a missing queue, which it creates", func(t *testing.T) {
		queue := uniqueName(t)
		waiting := park(queue, "")
		eventually(t, promptly, func() (bool, string) {
			answer := suite.client.Get("/api/v1/resources/queues/" + queue)
			return answer.Status == 200, answer.String()
		})
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
		needWoken(t, waiting, "t")
	})
	t.Run("pinned on a missing queue, which the push creates", func(t *testing.T) {
		queue := uniqueName(t)
		waiting := parkPinned(queue, "p")
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "other", Payload: 1, TransactionID: "no"})
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p", Payload: 1, TransactionID: "t"})
		needWoken(t, waiting, "t")
	})
	t.Run("a pinned long poll creates nothing", func(t *testing.T) {
		queue := uniqueName(t)
		needEmpty(t, suite.client.PopPartition(queue, "p", "wait=true&timeout=200"))
		need(t, suite.client.Get("/api/v1/resources/queues/"+queue), 404)
	})
	t.Run("one push wakes one of several", func(t *testing.T) {
		queue := uniqueName(t)
		needEmpty(t, suite.client.Pop(queue, ""))
		const waiters = 4
		replies := make(parked, waiters)
		for range waiters {
			go func() { replies <- suite.client.Pop(queue, "wait=true&timeout=30000&leaseSeconds=60") }()
		}
		for i := range waiters {
			partition := fmt.Sprint("p", i)
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: partition, Payload: 1, TransactionID: partition})
		}
		seen := map[string]bool{}
		for range waiters {
			popped := <-replies
			needMessageCount(t, popped, 1)
			seen[popped.Messages[0].TransactionID] = true
		}
		if len(seen) != waiters {
			t.Fatalf("want every waiter to get a message of its own, got %v", seen)
		}
	})
}

func TestReleaseOfALeaseWakesAParkedPop_5_7(t *testing.T) {
	t.Parallel()
	leased := func(t *testing.T, group string) (string, harness.PopReply) {
		t.Helper()
		queue := uniqueName(t)
		pushAll(t, suite.client, numbered(queue, "", "m", 3)...)
		query := "batch=1&leaseSeconds=3600"
		if group != "" {
			query += "&subscriptionMode=all&consumerGroup=" + group
		}
		popped := suite.client.Pop(queue, query)
		needMessages(t, popped, "m0")
		return queue, popped
	}
	t.Run("ack", func(t *testing.T) {
		queue, popped := leased(t, "")
		waiting := park(queue, "")
		needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
		needWoken(t, waiting, "m1", "m2")
	})
	for _, status := range []string{"failed", "retry"} {
		t.Run(status, func(t *testing.T) {
			queue, popped := leased(t, "")
			waiting := park(queue, "")
			needAcked(t, suite.client.AckMessages(status, popped.Messages...))
			needWoken(t, waiting, "m0", "m1", "m2")
		})
	}
	t.Run("seek", func(t *testing.T) {
		queue, _ := leased(t, "g")
		waiting := park(queue, "consumerGroup=g")
		need(t, suite.client.Post("/api/v1/consumer-groups/g/queues/"+queue+"/seek", `{"timestamp":"2001-01-01T00:00:00Z"}`), 200)
		needWoken(t, waiting, "m0", "m1", "m2")
	})
	t.Run("deletion of the group", func(t *testing.T) {
		queue, _ := leased(t, "g")
		waiting := park(queue, "consumerGroup=g&subscriptionMode=all")
		need(t, suite.client.Delete("/api/v1/consumer-groups/g/queues/"+queue), 200)
		needWoken(t, waiting, "m0", "m1", "m2")
	})
	t.Run("ack, for a pinned pop", func(t *testing.T) {
		queue := uniqueName(t)
		pushAll(t, suite.client, numbered(queue, "p", "m", 2)...)
		popped := suite.client.PopPartition(queue, "p", "batch=1&leaseSeconds=3600")
		needMessages(t, popped, "m0")
		waiting := parkPinned(queue, "p")
		needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
		needWoken(t, waiting, "m1")
	})
	t.Run("expiry, for a pinned pop", func(t *testing.T) {
		queue := uniqueName(t)
		need(t, suite.client.Configure(queue, map[string]any{"leaseTime": 1}), 200)
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p", Payload: 1, TransactionID: "t"})
		needMessages(t, suite.client.PopPartition(queue, "p", ""), "t")
		needWoken(t, parkPinned(queue, "p"), "t")
	})
	t.Run("expiry, without any push", func(t *testing.T) {
		queue := uniqueName(t)
		need(t, suite.client.Configure(queue, map[string]any{"leaseTime": 1}), 200)
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
		start := time.Now()
		needMessages(t, suite.client.Pop(queue, ""), "t")
		needWoken(t, park(queue, ""), "t")
		if took := time.Since(start); took < time.Second || took > time.Second+promptly {
			t.Fatalf("a lease of 1 s came back after %v", took)
		}
	})
}

// parking are the two routes that wait; the partition is Default.
var parking = map[string]func(queue, query string) parked{
	"wildcard": park,
	"pinned": func(queue, query string) parked {
		waiting := make(parked, 1)
		go func() { waiting <- suite.client.PopPartition(queue, "Default", "wait=true&timeout=30000&"+query) }()
		return waiting
	},
}

func TestEndOfADelayWakesAParkedPop_5_7(t *testing.T) {
	t.Parallel()
	cases := []struct {
		rule    string
		options map[string]any
		leased  bool // the delay begins with a failure instead of a push
	}{
		{"delayedProcessing", map[string]any{"delayedProcessing": 1}, false},
		{"windowBuffer", map[string]any{"windowBuffer": 1}, false},
		{"retryDelay", map[string]any{"retryDelay": 1000}, true},
	}
	for _, c := range cases {
		for route, park := range parking {
			t.Run(c.rule+"/"+route, func(t *testing.T) {
				t.Parallel()
				queue := uniqueName(t)
				need(t, suite.client.Configure(queue, c.options), 200)
				push := func() { pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"}) }
				begin := push
				if c.leased {
					push()
					popped := suite.client.Pop(queue, "")
					needMessages(t, popped, "t")
					begin = func() { needAcked(t, suite.client.AckMessages("failed", popped.Messages...)) }
				}
				waiting := park(queue, "")
				start := time.Now()
				begin()
				needWoken(t, waiting, "t")
				if took := time.Since(start); took < time.Second || took > time.Second+promptly {
					t.Fatalf("delivered after %v", took)
				}
			})
		}
	}
}

// TestReleaseWakesAParkedPinnedPop: 5.7, whatever ends the lease on its partition; other partitions do not wake it.
func TestReleaseWakesAParkedPinnedPop(t *testing.T) {
	t.Parallel()
	settle := func(status string) func(t *testing.T, queue string, leased harness.PopReply) {
		return func(t *testing.T, _ string, leased harness.PopReply) {
			needAcked(t, suite.client.AckMessages(status, leased.Messages...))
		}
	}
	everything := []string{"m0", "m1", "m2"}
	cases := map[string]struct {
		release func(t *testing.T, queue string, leased harness.PopReply)
		want    []string
	}{
		"completed": {settle("completed"), everything[1:]},
		"failed":    {settle("failed"), everything},
		"retry":     {settle("retry"), everything},
		"dlq":       {settle("dlq"), everything[1:]},
		"seek": {func(t *testing.T, queue string, _ harness.PopReply) {
			need(t, suite.client.Post("/api/v1/consumer-groups/g/queues/"+queue+"/seek", `{"timestamp":"2001-01-01T00:00:00Z"}`), 200)
		}, everything},
		"deletion of the group": {func(t *testing.T, queue string, _ harness.PopReply) {
			need(t, suite.client.Delete("/api/v1/consumer-groups/g/queues/"+queue), 200)
		}, everything},
	}
	for name, c := range cases {
		t.Run("5.7 "+name, func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			pushAll(t, suite.client, numbered(queue, "", "m", 3)...)
			leased := suite.client.Pop(queue, "batch=1&leaseSeconds=3600&subscriptionMode=all&consumerGroup=g")
			needMessages(t, leased, "m0")
			waiting := parking["pinned"](queue, "subscriptionMode=all&consumerGroup=g")
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "other", Payload: 1, TransactionID: "no"})
			c.release(t, queue, leased)
			needWoken(t, waiting, c.want...)
		})
	}
}

// TestPinnedLongPollLastsItsTimeout: 5.7, on a queue, and on a queue or partition that is missing.
func TestPinnedLongPollLastsItsTimeout(t *testing.T) {
	t.Parallel()
	existing := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: existing, Payload: 1, TransactionID: "t"})
	needMessages(t, suite.client.Pop(existing, "leaseSeconds=3600"), "t")
	for rule, target := range map[string][2]string{
		"leased": {existing, "Default"}, "missing partition": {existing, "none"}, "missing queue": {existing + "-none", "p"},
	} {
		for _, group := range []string{"", "&consumerGroup=g&subscriptionFrom=now"} {
			t.Run("5.7 "+rule+group, func(t *testing.T) {
				t.Parallel()
				popped := suite.client.PopPartition(target[0], target[1], "wait=true&timeout=1500"+group)
				needEmpty(t, popped)
				if popped.Elapsed < time.Second || popped.Elapsed > 1500*time.Millisecond+promptly {
					t.Fatalf("a wait of 1,500 ms took %v", popped.Elapsed)
				}
			})
		}
	}
}

func TestWaitIsIgnoredOnDiscovery_5_7(t *testing.T) {
	t.Parallel()
	popped := suite.client.Discover("wait=true&timeout=30000&namespace=" + uniqueName(t))
	needEmpty(t, popped)
	if popped.Elapsed > promptly {
		t.Fatalf("took %v", popped.Elapsed)
	}
}

func TestDefaultWaitIsConfigurable_5_2(t *testing.T) {
	t.Parallel()
	cases := map[string]map[string]string{
		"POP_DEFAULT_TIMEOUT_MS":                {"POP_DEFAULT_TIMEOUT_MS": "700"},
		"DEFAULT_TIMEOUT wins over the former":  {"POP_DEFAULT_TIMEOUT_MS": "30000", "DEFAULT_TIMEOUT": "700"},
		"and also when the former is the lower": {"POP_DEFAULT_TIMEOUT_MS": "1", "DEFAULT_TIMEOUT": "700"},
	}
	for rule, env := range cases {
		t.Run(rule, func(t *testing.T) {
			popped := privateBroker(t, env).Client().Pop("q", "wait=true")
			needEmpty(t, popped)
			if popped.Elapsed < 450*time.Millisecond || popped.Elapsed > 700*time.Millisecond+promptly {
				t.Fatalf("a default wait of 700 ms took %v", popped.Elapsed)
			}
		})
	}
}
