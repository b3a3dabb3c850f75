package contract

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

func TestAutopilotChoosesOnlyWhatTheRequestLeftUnset_5_10(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 3, 10)...)
	cases := []struct {
		query             string
		partitions, batch bool // whether autopilot chose it
	}{
		{"autopilot=true", true, true},
		{"autopilot=true&batch=4", true, false},
		{"autopilot=true&partitions=1", false, true},
		{"autopilot=true&partitions=2&batch=4", false, false},
		{"autopilot=false", false, false},
		{"", false, false},
	}
	for i, c := range cases {
		t.Run(c.query, func(t *testing.T) {
			popped := suite.client.Pop(queue, fmt.Sprint("subscriptionMode=all&consumerGroup=g", i, "&", c.query))
			need(t, popped.Response, 200)
			if (popped.Autopilot != nil) != (c.partitions || c.batch) {
				t.Fatalf("got %v", popped)
			}
			if popped.Autopilot == nil {
				return
			}
			// A knob that the request set is absent or shows what the request said.
			if shown := popped.Autopilot.Partitions; c.partitions && (shown == nil || *shown < 1 || *shown > 64) || !c.partitions && shown != nil && *shown != 1 {
				t.Errorf("partitions: got %v", popped.Object()["autopilot"])
			}
			if shown := popped.Autopilot.Batch; c.batch && (shown == nil || *shown < 100 || *shown > 1000) || !c.batch && shown != nil && *shown != 4 {
				t.Errorf("batch: got %v", popped.Object()["autopilot"])
			}
			if c.query == "autopilot=true&batch=4" && len(popped.Messages) != 4 {
				t.Errorf("an explicit batch is never changed, got %d messages", len(popped.Messages))
			}
			if c.query == "autopilot=true&partitions=1" && popped.PartitionsClaimed != 1 {
				t.Errorf("an explicit partitions is never changed, got %d", popped.PartitionsClaimed)
			}
		})
	}
	t.Run("a first pop takes all ready partitions and a batch of 100", func(t *testing.T) {
		popped := suite.client.Pop(queue, "autopilot=true&subscriptionMode=all&consumerGroup=first")
		needMessageCount(t, popped, 30)
		if popped.Autopilot == nil || popped.Autopilot.Batch == nil || *popped.Autopilot.Batch != 100 || *popped.Autopilot.Partitions != 3 {
			t.Fatalf("got %v", popped.Object()["autopilot"])
		}
	})
	t.Run("a conflating pop ignores it", func(t *testing.T) {
		popped := suite.client.Pop(queue, "autopilot=true&conflation=true&subscriptionMode=all&consumerGroup=conflating")
		if needMessageCount(t, popped, 3); popped.Autopilot != nil {
			t.Fatalf("got %v", popped)
		}
	})
	t.Run("only on the wildcard route", func(t *testing.T) {
		popped := suite.client.PopPartition(queue, "p0", "autopilot=true&subscriptionMode=all&consumerGroup=pinned")
		if needMessageCount(t, popped, 10); popped.Autopilot != nil {
			t.Fatalf("got %v", popped)
		}
	})
}

// everyRoute are the ways to pop a queue; each is a group of its own.
func everyRoute(queue string) map[string]func() harness.PopReply {
	return map[string]func() harness.PopReply{
		"wildcard": func() harness.PopReply { return suite.client.Pop(queue, "subscriptionMode=all&consumerGroup=w") },
		"pinned": func() harness.PopReply {
			return suite.client.PopPartition(queue, "Default", "subscriptionMode=all&consumerGroup=p")
		},
		"discovery": func() harness.PopReply {
			return suite.client.Discover("subscriptionMode=all&consumerGroup=d&namespace=" + queue)
		},
		"commit on delivery": func() harness.PopReply {
			return suite.client.Pop(queue, "subscriptionMode=all&commitOnDelivery=true&consumerGroup=c")
		},
	}
}

func TestDelayedProcessingHidesYoungMessages_5_11(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Second
	for _, route := range []string{"wildcard", "pinned", "discovery", "commit on delivery"} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			need(t, suite.client.Configure(queue, map[string]any{"delayedProcessing": int(delay.Seconds()), "namespace": queue}), 200)
			pop := everyRoute(queue)[route]
			start := time.Now()
			pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
			eventually(t, delay+promptly, func() (bool, string) {
				popped := pop()
				if popped.Status == 200 && time.Since(start) < delay {
					t.Fatalf("delivered after %v", time.Since(start))
				}
				return popped.Status == 200 && len(popped.Messages) == 1, popped.String()
			})
		})
	}
}

func TestDelayIsJudgedPerMessage_5_11(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"delayedProcessing": 2}), 200)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "m0"})
	waiting := park(queue, "leaseSeconds=60")
	elapse(t, time.Second) // half the delay
	second := time.Now()
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "m1"})
	popped := <-waiting
	// The batch ends before the first invisible one. Only a machine that stalls for the other half may show both.
	if need(t, popped.Response, 200); len(popped.Messages) == 2 && time.Since(second) < 2*time.Second {
		t.Fatalf("m1 was delivered %v after its push", time.Since(second))
	}
	needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
	if len(popped.Messages) == 1 {
		needWoken(t, park(queue, ""), "m1")
		if age := time.Since(second); age < 2*time.Second {
			t.Fatalf("m1 was delivered %v after its push", age)
		}
	}
}

func TestWindowBufferWaitsForQuiet_5_11(t *testing.T) {
	t.Parallel()
	const window = 2 * time.Second
	for _, route := range []string{"wildcard", "pinned", "discovery", "commit on delivery"} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			need(t, suite.client.Configure(queue, map[string]any{"windowBuffer": int(window.Seconds()), "namespace": queue}), 200)
			pop := everyRoute(queue)[route]
			var last time.Time
			for _, item := range numbered(queue, "", "m", 3) {
				last = time.Now()
				pushOne(t, suite.client, item)
			}
			eventually(t, window+promptly, func() (bool, string) {
				popped := pop()
				if popped.Status == 200 && time.Since(last) < window {
					t.Fatalf("delivered %v after the last write", time.Since(last))
				}
				return len(popped.Messages) == 3, popped.String()
			})
		})
	}
}

func TestWindowBufferIsRenewedByEveryWrite_5_11(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"windowBuffer": 1}), 200)
	waiting := park(queue, "batch=100")
	const writes, window = 5, time.Second
	var before, after [writes]time.Time
	for i := range writes { // for longer than the window, never quiet for as long as it
		before[i] = time.Now()
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: i, TransactionID: fmt.Sprint("m", i)})
		after[i] = time.Now()
		if i < writes-1 {
			elapse(t, window*3/10)
		}
	}
	popped := <-waiting
	delivered := time.Now()
	need(t, popped.Response, 200)
	// Only a machine that stalls between two writes makes a quiet window; then the batch is what was there.
	count := len(popped.Messages)
	quiet := delivered.Sub(before[count-1])
	if count < writes {
		quiet = after[count].Sub(before[count-1])
	}
	if quiet < window {
		t.Fatalf("%d of %d messages were delivered %v after the last write", count, writes, quiet)
	}
}

// TestDelaysHoldTheirPartitionOnly: 5.11, what is hidden in one partition does not keep the others.
func TestDelaysHoldTheirPartitionOnly(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"delayedProcessing", "windowBuffer"} {
		t.Run("5.11 "+option, func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			need(t, suite.client.Configure(queue, map[string]any{option: 1}), 200)
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "quiet", Payload: 1, TransactionID: "quiet"})
			elapse(t, 1100*time.Millisecond)
			young := time.Now()
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "young", Payload: 1, TransactionID: "young"})
			popped := suite.client.Pop(queue, "partitions=2&leaseSeconds=600")
			need(t, popped.Response, 200)
			if age := time.Since(young); popped.Messages[0].TransactionID != "quiet" || len(popped.Messages) > 1 && age < time.Second {
				t.Fatalf("got %v %v after the push", popped.TransactionIDs(), age)
			}
			if len(popped.Messages) == 1 {
				needWoken(t, park(queue, ""), "young")
			}
		})
	}
}

// TestDuplicateDoesNotRenewTheWindow: 5.11, a push that stores nothing is no write.
func TestDuplicateDoesNotRenewTheWindow(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"windowBuffer": 1}), 200)
	item := harness.Item{Queue: queue, Payload: 1, TransactionID: "t"}
	pushOne(t, suite.client, item)
	waiting := park(queue, "")
	for len(waiting) == 0 { // never quiet for a second
		reply := suite.client.Push(item)
		if need(t, reply.Response, 201); reply.Items[0].Status != "duplicate" {
			t.Fatalf("got %v", reply)
		}
		elapse(t, 200*time.Millisecond)
	}
	needWoken(t, waiting, "t")
}

// elapse lets time pass by the broker's own clock: a long poll on a partition that nobody makes.
func elapse(t *testing.T, duration time.Duration) {
	t.Helper()
	needEmpty(t, suite.client.PopPartition(uniqueName(t), "none", fmt.Sprint("wait=true&timeout=", duration.Milliseconds())))
}

func TestBothDelaysApplyTogether_5_11(t *testing.T) {
	t.Parallel()
	for _, options := range []map[string]any{{"delayedProcessing": 1, "windowBuffer": 2}, {"delayedProcessing": 2, "windowBuffer": 1}} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			need(t, suite.client.Configure(queue, options), 200)
			start := time.Now()
			pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
			needWoken(t, park(queue, ""), "t")
			if took := time.Since(start); took < 2*time.Second || took > 2*time.Second+promptly {
				t.Fatalf("delivered after %v", took)
			}
		})
	}
}

func TestDelaysApplyToStoredMessages_5_11(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
	need(t, suite.client.Configure(queue, map[string]any{"delayedProcessing": 3600}), 200)
	needEmpty(t, suite.client.Pop(queue, ""))
	need(t, suite.client.Configure(queue, map[string]any{"delayedProcessing": 0, "windowBuffer": 3600}), 200)
	needEmpty(t, suite.client.Pop(queue, ""))
	waiting := park(queue, "")
	need(t, suite.client.Configure(queue, map[string]any{"windowBuffer": 0, "minPopWaitTime": 60000}), 200)
	t.Run("and end with the option", func(t *testing.T) {
		eventually(t, promptly, func() (bool, string) {
			if len(waiting) > 0 {
				return true, ""
			}
			popped := suite.client.Pop(queue, "")
			return popped.Status == 200 || len(waiting) > 0, popped.String()
		})
	})
}

func TestConflationChoosesAmongTheVisible_5_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"delayedProcessing": 1}), 200)
	pushAll(t, suite.client, numbered(queue, "", "old", 2)...)
	waiting := park(queue, "consumerGroup=g&conflation=true&subscriptionMode=all")
	needWoken(t, waiting, "old1")
	need(t, suite.client.Configure(queue, map[string]any{"delayedProcessing": 3600}), 200)
	empty := suite.client.Pop(queue, "consumerGroup=h&conflation=true&subscriptionMode=all")
	if needConflation(t, empty, true, false); len(empty.Messages) != 0 {
		t.Fatalf("got %v", empty.TransactionIDs())
	}
}

func TestDiscoveryMatchesNamespaceAndTask_5_12(t *testing.T) {
	t.Parallel()
	base := uniqueName(t)
	// Derived from the name (4.4) and configured ones alike.
	pushOne(t, suite.client, harness.Item{Queue: base + ".a", Payload: 1, TransactionID: "derived a"})
	pushOne(t, suite.client, harness.Item{Queue: base + ".b", Payload: 1, TransactionID: "derived b"})
	need(t, suite.client.Configure(base+"-named", map[string]any{"namespace": base, "task": base + "t"}), 200)
	pushOne(t, suite.client, harness.Item{Queue: base + "-named", Payload: 1, TransactionID: "named"})
	pushOne(t, suite.client, harness.Item{Queue: base + "2.a", Payload: 1, TransactionID: "other"})
	cases := []struct {
		query string
		want  []string
	}{
		{"namespace=" + base, []string{"derived a", "derived b", "named"}},
		{"namespace=" + base + "&task=a", []string{"derived a"}},
		{"namespace=" + base + "&task=", []string{"derived a", "derived b", "named"}},
		{"task=" + base + "t", []string{"named"}},
		{"namespace=" + base + "2&task=b", nil},
		{"namespace=" + base[:len(base)-1], nil},
	}
	for i, c := range cases {
		t.Run(c.query, func(t *testing.T) {
			popped := suite.client.Discover(fmt.Sprint("partitions=10&subscriptionMode=all&consumerGroup=g", i, "&", c.query))
			if c.want == nil {
				needEmpty(t, popped)
				return
			}
			need(t, popped.Response, 200)
			ids := popped.TransactionIDs()
			if slices.Sort(ids); !slices.Equal(ids, c.want) {
				t.Fatalf("want %v, got %v", c.want, ids)
			}
		})
	}
}

func TestDiscoveryClaimsAcrossQueues_5_12(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	for _, task := range []string{"a", "b"} {
		pushAll(t, suite.client, numbered(namespace+"."+task, "", task, 2)...)
	}
	popped := suite.client.Discover("partitions=2&leaseSeconds=60&namespace=" + namespace)
	needMessageCount(t, popped, 4)
	if popped.Object()["queue"] != "" {
		t.Fatalf("queue is \"\" on discovery, got %v", popped.Object()["queue"])
	}
	for _, message := range popped.Messages {
		if message.LeaseID != popped.LeaseID {
			t.Fatalf("messages of several queues share one lease, got %v", popped)
		}
	}
	needAcked(t, suite.client.AckMessages("completed", popped.Messages...)) // it needs no queue name
	needEmpty(t, suite.client.Discover("partitions=2&namespace="+namespace))
	needEmpty(t, suite.client.Pop(namespace+".a", ""))
}

func TestDiscoveryTakesHigherPriorityFirst_5_12(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	for _, queue := range []struct {
		name     string
		priority int
	}{{"low", 1}, {"high", 9}, {"middle", 5}} {
		name := namespace + "." + queue.name
		need(t, suite.client.Configure(name, map[string]any{"priority": queue.priority, "namespace": namespace}), 200)
		pushOne(t, suite.client, harness.Item{Queue: name, Payload: 1, TransactionID: queue.name})
	}
	needMessages(t, suite.client.Discover("partitions=3&consumerGroup=a&subscriptionMode=all&namespace="+namespace), "high", "middle", "low")
	for _, want := range []string{"high", "middle", "low"} {
		needMessages(t, suite.client.Discover("batch=1&consumerGroup=b&subscriptionMode=all&namespace="+namespace), want)
	}
}
