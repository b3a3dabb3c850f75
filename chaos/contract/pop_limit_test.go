package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// pushHeavy pushes one message of so many MiB into each named partition, in this order and with the partition as txid.
func pushHeavy(t *testing.T, client *harness.Client, queue string, mebibytes map[string]int, partitions ...string) {
	t.Helper()
	for _, partition := range partitions {
		body := fmt.Appendf(nil, `{"items":[{"queue":"%s","partition":"%s","transactionId":"%s","payload":"%s"}]}`,
			queue, partition, partition, strings.Repeat("x", mebibytes[partition]<<20))
		need(t, client.PushBody(body).Response, 201)
	}
}

// TestPayloadsOfAPopAreBoundedOverItsPartitions: 5.5.1, the claim ends before the message with which its payloads would
// exceed 64 MiB, and what it did not reach is ready as before.
func TestPayloadsOfAPopAreBoundedOverItsPartitions(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	const queue = "ns.heavy"
	pushHeavy(t, client, queue, map[string]int{"a": 33, "b": 32, "c": 1}, "a", "b", "c")
	pops := map[string]func(group string) harness.PopReply{
		"wildcard":   func(group string) harness.PopReply { return client.Pop(queue, group) },
		"conflating": func(group string) harness.PopReply { return client.Pop(queue, "conflation=true&"+group) },
		"discovery":  func(group string) harness.PopReply { return client.Discover("namespace=ns&" + group) },
	}
	for name, pop := range pops {
		t.Run("5.5.1 "+name, func(t *testing.T) {
			query := "partitions=3&leaseSeconds=600&subscriptionMode=all&consumerGroup=" + name
			needMessages(t, pop(query), "a") // not c, although it would fit: the claim has ended
			needMessages(t, pop(query), "b", "c")
		})
	}
}

// TestPartitionsThatABatchDoesNotReachKeepTheirTurn: 5.5.1, the longest ready partition is first, also after a pop that
// could have claimed it and had its batch full.
func TestPartitionsThatABatchDoesNotReachKeepTheirTurn(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 6, 2)...)
	needMessages(t, suite.client.Pop(queue, "batch=3&partitions=4&leaseSeconds=600"), "p0-0", "p0-1", "p1-0")
	needMessages(t, suite.client.Pop(queue, "batch=4&partitions=4&leaseSeconds=600"), "p2-0", "p2-1", "p3-0", "p3-1")
	needMessages(t, suite.client.Pop(queue, "batch=4&partitions=4&leaseSeconds=600"), "p4-0", "p4-1", "p5-0", "p5-1")
}

// TestBatchIsSharedByTheQueuesOfADiscovery: 5.5.1 and 5.12, batch and partitions cap the whole call.
func TestBatchIsSharedByTheQueuesOfADiscovery(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	for _, task := range []string{"a", "b", "c"} {
		pushAll(t, suite.client, numbered(namespace+"."+task, "", task, 3)...)
	}
	discover := func(query string) harness.PopReply {
		return suite.client.Discover("leaseSeconds=600&namespace=" + namespace + "&" + query)
	}
	cases := []struct {
		query                string
		messages, partitions int
	}{
		{"", 3, 1}, {"partitions=2", 6, 2}, {"partitions=3&batch=4", 4, 2}, {"partitions=3&batch=3", 3, 1}, {"partitions=0", 3, 1}, {"partitions=1000", 9, 3},
	}
	for i, c := range cases {
		t.Run("5.12 "+c.query, func(t *testing.T) {
			popped := discover(fmt.Sprint("subscriptionMode=all&consumerGroup=g", i, "&", c.query))
			needMessageCount(t, popped, c.messages)
			if popped.PartitionsClaimed != c.partitions {
				t.Errorf("want %d partitions, got %d", c.partitions, popped.PartitionsClaimed)
			}
			rest := discover(fmt.Sprint("partitions=3&consumerGroup=g", i)) // what is not claimed is ready
			if want := 3 - c.partitions; rest.PartitionsClaimed != want || len(rest.Messages) != 3*want {
				t.Errorf("want the other %d queues, got %v", want, rest.TransactionIDs())
			}
		})
	}
}

// TestRetryDelayKeepsAPartitionFromItsGroup: 5.5.2, for every route, and from nobody else.
func TestRetryDelayKeepsAPartitionFromItsGroup(t *testing.T) {
	t.Parallel()
	onEveryRoute(t, func(t *testing.T, queue string, pop func(query string) harness.PopReply) {
		need(t, suite.client.Configure(queue, map[string]any{"retryDelay": 3_600_000}), 200)
		leased := pop("consumerGroup=g&subscriptionMode=all")
		needMessageCount(t, leased, 3)
		needVerdicts(t, suite.client.AckMessages("failed", leased.Messages[0]), released)
		needEmpty(t, pop("consumerGroup=g"))
		needEmpty(t, pop("consumerGroup=g&commitOnDelivery=true"))
		needMessageCount(t, pop("consumerGroup=h&subscriptionMode=all"), 3)
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "m3"}) // nor does an append end it
		needEmpty(t, pop("consumerGroup=g"))
		if !strings.HasSuffix(t.Name(), "pinned") {
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "other", Payload: 1, TransactionID: "other"})
			needMessages(t, pop("consumerGroup=g"), "other")
		}
	})
}

// TestBacklogBehindAnExpiredLeaseIsDelivered: 5.5.8, the polls in the meantime disturb neither the lease nor the backlog,
// whatever they ask for.
func TestBacklogBehindAnExpiredLeaseIsDelivered(t *testing.T) {
	t.Parallel()
	onEveryRoute(t, func(t *testing.T, queue string, pop func(query string) harness.PopReply) {
		claimed := time.Now()
		needMessages(t, pop("batch=2&leaseSeconds=2"), "m0", "m1")
		for i := range 20 {
			query := []string{"subscriptionMode=new&subscriptionFrom=now", "commitOnDelivery=true", "batch=1"}[i%3]
			popped := pop(query + "&leaseSeconds=600")
			if time.Since(claimed) >= 2*time.Second {
				return // the machine is too busy: this poll may have got the backlog
			}
			needEmpty(t, popped)
		}
		eventually(t, delivery, func() (bool, string) {
			popped := pop("leaseSeconds=600")
			if popped.Status != 200 {
				return false, popped.String()
			}
			if held := time.Since(claimed); held < 2*time.Second {
				t.Fatalf("delivered %v after the claim, the lease lasts 2s", held)
			}
			needMessages(t, popped, "m0", "m1", "m2")
			if attempt := popped.Messages[0].DeliveryAttempt; attempt != 2 {
				t.Errorf("want attempt 2, got %d", attempt)
			}
			return true, ""
		})
	})
}

// pushDuring parks a pop, pushes so long after its start, and returns what the pop got. late tells that the push was answered
// too late to tell anything.
func pushDuring(t *testing.T, client *harness.Client, timeout, after time.Duration) (popped harness.PopReply, late bool) {
	t.Helper()
	queue := uniqueName(t)
	needEmpty(t, client.Pop(queue, ""))
	start, waiting := time.Now(), make(parked, 1)
	go func() { waiting <- client.Pop(queue, "wait=true&"+waitFor(timeout)) }()
	elapse(t, after)
	pushOne(t, client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
	late = time.Since(start) > timeout
	popped = <-waiting
	if popped.Status == 204 {
		needMessages(t, client.Pop(queue, ""), "t") // and nothing holds it
	}
	return popped, late
}

// TestServerStopsClaimingBeforeTheDeadline: 5.5.10, 250 ms before it, but at most a quarter of the wait; and within the
// reply margin, which cluster 1.7 sets.
func TestServerStopsClaimingBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	cases := []struct {
		rule           string
		marginMs       string // "" is the shared broker, with 50 ms
		timeout, after time.Duration
		delivered      bool
	}{
		{"nothing is claimed in the last 250 ms", "", 1200 * time.Millisecond, 1050 * time.Millisecond, false},
		{"of a short wait the margin is a quarter", "", 600 * time.Millisecond, 380 * time.Millisecond, true},
		{"nothing is claimed within the reply margin", "2000", 2500 * time.Millisecond, 1000 * time.Millisecond, false},
		{"what is left before it is waited for", "2000", 3500 * time.Millisecond, 500 * time.Millisecond, true},
	}
	clients := map[string]*harness.Client{
		"":     suite.client,
		"2000": privateBroker(t, map[string]string{"QUEEN_RAFT_POP_REPLY_MARGIN_MS": "2000"}).Client(),
	}
	for _, c := range cases {
		t.Run("5.5.10 "+c.rule, func(t *testing.T) {
			eventually(t, 2*delivery, func() (bool, string) { // a busy machine may need more than one try
				popped, late := pushDuring(t, clients[c.marginMs], c.timeout, c.after)
				return !late && (popped.Status == 200) == c.delivered, popped.String()
			})
		})
	}
	t.Run("5.5.10 a wait within the margin is one attempt, answered at once", func(t *testing.T) {
		client := clients["2000"]
		needEmpty(t, client.Pop("q", ""))
		fastest := time.Hour // the machine may stall one of them
		for range 5 {
			popped := client.Pop("q", "wait=true&timeout=1900")
			needEmpty(t, popped)
			fastest = min(fastest, popped.Elapsed)
		}
		if fastest >= 1900*time.Millisecond {
			t.Errorf("the fastest of five took %v", fastest)
		}
		pushOne(t, client, harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
		needMessages(t, client.Pop("q", "wait=true&timeout=0"), "t")
	})
}
