package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// spread makes n items in each of the partitions p0, p1, …, partition by partition, with txids <partition>-<number>.
func spread(queue string, partitions, n int) []harness.Item {
	var items []harness.Item
	for p := range partitions {
		partition := fmt.Sprint("p", p)
		items = append(items, numbered(queue, partition, partition+"-", n)...)
	}
	return items
}

func TestBatchCapsTheWholeCall_5_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 5, 5)...)
	popped := suite.client.Pop(queue, "batch=10&partitions=5&leaseSeconds=60")
	needMessageCount(t, popped, 10)
	if popped.PartitionsClaimed != 2 {
		t.Fatalf("want 2 partitions, got %d", popped.PartitionsClaimed)
	}
	t.Run("a batch that ends inside a partition", func(t *testing.T) {
		popped := suite.client.Pop(queue, "batch=7&partitions=5&leaseSeconds=60")
		needMessageCount(t, popped, 7)
		if popped.PartitionsClaimed != 2 {
			t.Fatalf("want 2 partitions, got %d", popped.PartitionsClaimed)
		}
	})
}

func TestOnePartitionIsDrainedByDefault_5_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 3, 5)...)
	popped := suite.client.Pop(queue, "batch=15")
	needMessageCount(t, popped, 5)
	for _, message := range popped.Messages {
		if message.Partition != popped.Partition {
			t.Fatalf("got a message of %q beside %q", message.Partition, popped.Partition)
		}
	}
}

func TestLongestReadyPartitionIsFirst_5_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	push := func(partition string) {
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: partition, Payload: 1, TransactionID: partition})
	}
	for _, partition := range []string{"c", "a", "b"} {
		push(partition)
	}
	needMessages(t, suite.client.Pop(queue, "batch=1&commitOnDelivery=true"), "c")
	pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "c", Payload: 1, TransactionID: "c again"})
	needMessages(t, suite.client.Pop(queue, "partitions=3"), "a", "b", "c again")
}

func TestPartitionsOfOnePopShareALease_5_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 3, 2)...)
	popped := suite.client.Pop(queue, "partitions=3&leaseSeconds=60")
	needMessageCount(t, popped, 6)
	for i, message := range popped.Messages {
		if message.LeaseID != popped.LeaseID {
			t.Fatalf("got lease %q beside %q", message.LeaseID, popped.LeaseID)
		}
		if i%2 == 1 && (message.Partition != popped.Messages[i-1].Partition || message.Offset != 1) {
			t.Fatalf("want partition by partition in offset order, got %v", popped.TransactionIDs())
		}
	}
	if first := popped.Messages[0]; popped.Partition != first.Partition || popped.PartitionID != first.PartitionID || popped.PartitionsClaimed != 3 {
		t.Fatalf("the top level describes the first claimed partition, got %q", popped.Partition)
	}
	t.Run("each partition is released on its own", func(t *testing.T) {
		needAcked(t, suite.client.AckMessages("completed", popped.Messages[0:2]...))
		pushAll(t, suite.client, spreadMore(queue, 3)...)
		again := suite.client.Pop(queue, "partitions=3")
		needMessages(t, again, popped.Messages[0].Partition+"-more")
		needAcked(t, suite.client.AckMessages("completed", popped.Messages[2:]...))
	})
}

// spreadMore makes one further item in each of the partitions p0, p1, ….
func spreadMore(queue string, partitions int) []harness.Item {
	items := make([]harness.Item, partitions)
	for p := range items {
		partition := fmt.Sprint("p", p)
		items[p] = harness.Item{Queue: queue, Partition: partition, Payload: "more", TransactionID: partition + "-more"}
	}
	return items
}

func TestLeaseHidesThePartitionFromItsGroupOnly_5_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "a", "m", 4)...)
	needMessages(t, suite.client.Pop(queue, "batch=2&leaseSeconds=60&consumerGroup=g&subscriptionMode=all"), "m0", "m1")
	needEmpty(t, suite.client.Pop(queue, "consumerGroup=g")) // nothing above the batch either
	needEmpty(t, suite.client.PopPartition(queue, "a", "consumerGroup=g"))
	needMessageCount(t, suite.client.Pop(queue, "consumerGroup=h&subscriptionMode=all"), 4)
	needMessageCount(t, suite.client.Pop(queue, ""), 4)
	pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "b", Payload: 1, TransactionID: "other"})
	needMessages(t, suite.client.Pop(queue, "consumerGroup=g"), "other")
}

// 5.5.2 and 5.5.3: what a group has leased or consumed in one partition says nothing about those that were made before it and
// that the group has never read, also when the group is looked up anew after a restart.
func TestCursorOfALaterPartitionHidesNoEarlierOne_5_5(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	restart := func() {
		if err := broker.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	for _, group := range []string{"", "consumerGroup=g&subscriptionMode=all&"} {
		for _, first := range []string{"leaseSeconds=600", "commitOnDelivery=true"} {
			for after, between := range map[string]func(){"at once": func() {}, "after a restart": restart} {
				t.Run(group+first+" "+after, func(t *testing.T) {
					queue := uniqueName(t)
					for i, partition := range []string{"a", "b", "c"} { // the last has the most, so that its cursor is past the others
						pushAll(t, client, numbered(queue, partition, partition, i+1)...)
					}
					needMessages(t, client.PopPartition(queue, "c", group+first), "c0", "c1", "c2")
					between()
					needMessages(t, client.PopPartition(queue, "b", group+first), "b0", "b1")
					between()
					needMessages(t, client.Pop(queue, group+first+"&partitions=3"), "a0")
				})
			}
		}
	}
}

// 5.5.1: a pop gets all the ready partitions that it asks for, also the first one of a group of which the broker has only heard
// so far what it left in one partition.
func TestFirstPopGetsEveryReadyPartition_5_5(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		for route, pop := range popRoutes {
			if route == "pinned" {
				continue
			}
			queue := fmt.Sprint(uniqueName(t), i)
			pushAll(t, suite.client, spread(queue, 5, 2)...)
			group := "subscriptionMode=all&consumerGroup=g&"
			needMessages(t, suite.client.PopPartition(queue, "p4", group+"batch=1&commitOnDelivery=true"), "p4-0")
			popped := pop(queue, group+"partitions=5&batch=100")
			if needMessageCount(t, popped, 9); popped.PartitionsClaimed != 5 {
				t.Fatalf("%s: want five partitions, got %v", route, popped)
			}
		}
	}
}

func TestTenWorkersOnOnePartitionKeepTheOrder_5_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const messages, workers = 300, 10
	pushAll(t, suite.client, numbered(queue, "p", "", messages)...)
	var (
		mutex sync.Mutex
		seen  []int64
		wait  sync.WaitGroup
	)
	record := func(popped harness.PopReply) bool {
		mutex.Lock()
		defer mutex.Unlock()
		for _, message := range popped.Messages {
			seen = append(seen, message.Offset)
		}
		return len(seen) < messages
	}
	for range workers {
		wait.Go(func() {
			for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
				popped := suite.client.Pop(queue, "batch=7&wait=true&timeout=200&leaseSeconds=60")
				more := record(popped)
				if len(popped.Messages) > 0 {
					if reply := suite.client.AckMessages("completed", popped.Messages...); reply.Status != 200 {
						t.Errorf("ack: %v", reply)
						return
					}
				}
				if !more {
					return
				}
			}
		})
	}
	wait.Wait()
	if len(seen) != messages || !slices.IsSorted(seen) || seen[messages-1] != messages-1 {
		t.Fatalf("want offsets 0 to %d in order, got %d: %v", messages-1, len(seen), seen)
	}
}

func TestBatchSpansAndSplitsAppends_5_5(t *testing.T) {
	t.Parallel()
	t.Run("three messages pushed one by one come together", func(t *testing.T) {
		queue := uniqueName(t)
		for _, item := range numbered(queue, "", "m", 3) {
			pushOne(t, suite.client, item)
		}
		needMessages(t, suite.client.Pop(queue, "batch=3"), "m0", "m1", "m2")
	})
	t.Run("a pinned pop of 100 returns all 100", func(t *testing.T) {
		queue := uniqueName(t)
		for i := range 10 {
			pushAll(t, suite.client, numbered(queue, "p", fmt.Sprint(i, "-"), 10)...)
		}
		needMessageCount(t, suite.client.PopPartition(queue, "p", "batch=100"), 100)
	})
	t.Run("batch splits an append", func(t *testing.T) {
		queue := uniqueName(t)
		pushAll(t, suite.client, numbered(queue, "", "m", 5)...)
		needMessages(t, suite.client.Pop(queue, "batch=2&commitOnDelivery=true"), "m0", "m1")
		needMessages(t, suite.client.Pop(queue, "batch=2&commitOnDelivery=true"), "m2", "m3")
		needMessages(t, suite.client.Pop(queue, "batch=2&commitOnDelivery=true"), "m4")
	})
}

func TestBacklogIsDrainedInOrder_5_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const messages, claim = 10_000, 1_000
	pushAll(t, suite.client, numbered(queue, "", "", messages)...)
	for next := int64(0); next < messages; next += claim {
		popped := suite.client.Pop(queue, "batch=1000&leaseSeconds=60")
		needMessageCount(t, popped, claim)
		for i, message := range popped.Messages {
			if message.Offset != next+int64(i) {
				t.Fatalf("want offset %d, got %d", next+int64(i), message.Offset)
			}
		}
		needAcked(t, suite.client.AckMessages("completed", popped.Messages[claim-1]))
	}
	needEmpty(t, suite.client.Pop(queue, ""))
}

func TestRacingPopsGetDisjointPartitions_5_5(t *testing.T) {
	t.Parallel()
	const partitions = 12
	t.Run("wildcard", func(t *testing.T) {
		t.Parallel()
		queue := uniqueName(t)
		pushAll(t, suite.client, spread(queue, partitions, 1)...)
		needDisjoint(t, partitions, func(query string) harness.PopReply { return suite.client.Pop(queue, query) })
	})
	t.Run("discovery over several queues", func(t *testing.T) {
		t.Parallel()
		namespace := uniqueName(t)
		for q := range 4 {
			var items []harness.Item
			for _, item := range spread(fmt.Sprint(namespace, ".", q), partitions/4, 1) {
				item.TransactionID = fmt.Sprint(q, "/", item.TransactionID)
				items = append(items, item)
			}
			pushAll(t, suite.client, items...)
		}
		needDisjoint(t, partitions, func(query string) harness.PopReply {
			return suite.client.Discover("namespace=" + namespace + "&" + query)
		})
	})
}

// needDisjoint races twice as many pops as there are partitions with one message each.
func needDisjoint(t *testing.T, partitions int, pop func(query string) harness.PopReply) {
	t.Helper()
	pops := 2 * partitions
	replies := make(chan harness.PopReply, pops)
	for range pops {
		go func() { replies <- pop("leaseSeconds=60") }()
	}
	var got []string
	for range pops {
		reply := <-replies
		if reply.Err != nil || reply.Status != 200 && reply.Status != 204 {
			t.Fatalf("got %v", reply)
		}
		got = append(got, reply.TransactionIDs()...)
	}
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Fatalf("a message was delivered twice: %v", got)
	}
	// Whoever lost every race may have come home empty; what is left is claimable at once.
	rest := pop("partitions=64")
	if len(got)+len(rest.Messages) != partitions {
		t.Fatalf("want %d messages, got %v and %v", partitions, got, rest.TransactionIDs())
	}
}

func TestPollThatFindsNothingDisturbsNoLease_5_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 5)...)
	popped := suite.client.Pop(queue, "batch=2&leaseSeconds=60")
	needMessages(t, popped, "m0", "m1")
	for range 5 {
		needEmpty(t, suite.client.Pop(queue, "subscriptionMode=new&subscriptionFrom=now"))
		needEmpty(t, suite.client.PopPartition(queue, "Default", "subscriptionMode=new&commitOnDelivery=true"))
	}
	needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
	needMessages(t, suite.client.Pop(queue, ""), "m2", "m3", "m4")
}

// leave starts a parked pop, waits until the broker has it and closes its connection. arrived asks whether it is there.
func leave(t *testing.T, pop func(ctx context.Context) harness.PopReply, arrived func() harness.Response) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	gone := make(chan harness.PopReply, 1)
	go func() { gone <- pop(ctx) }()
	eventually(t, promptly, func() (bool, string) {
		answer := arrived()
		return answer.Status == 200, answer.String()
	})
	cancel()
	if reply := <-gone; reply.Err == nil {
		t.Fatalf("the pop was to be cut, got %v", reply)
	}
}

// TestClientThatLeftHoldsNothing_5_5_9: also 5.7, when the client disconnects nothing is leased to it.
func TestClientThatLeftHoldsNothing_5_5_9(t *testing.T) {
	t.Parallel()
	const waits = "wait=true&timeout=60000&"
	routes := map[string]func(ctx context.Context, queue, query string) harness.PopReply{
		"wildcard": func(ctx context.Context, queue, query string) harness.PopReply {
			return suite.client.PopContext(ctx, queue, waits+query)
		},
		"pinned": func(ctx context.Context, queue, query string) harness.PopReply {
			return suite.client.PopPartitionContext(ctx, queue, "Default", waits+query)
		},
	}
	for name, query := range map[string]string{"leased": "leaseSeconds=3600", "commit on delivery": "commitOnDelivery=true"} {
		for route, pop := range routes {
			t.Run(name+"/"+route, func(t *testing.T) {
				t.Parallel()
				queue := uniqueName(t)
				group := "g" + queue
				query := query + "&subscriptionMode=all&consumerGroup=" + group
				if route == "pinned" {
					// A cursor of the group shows that a pop that parks has arrived.
					pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "before"})
					query += "&subscriptionFrom=now"
				}
				leave(t, func(ctx context.Context) harness.PopReply { return pop(ctx, queue, query) }, func() harness.Response {
					if route == "pinned" {
						return suite.client.Get("/api/v1/consumer-groups/" + group)
					}
					return suite.client.Get("/api/v1/resources/queues/" + queue) // it creates the missing queue on its arrival (5.7)
				})
				// Pushed at once: the broker may well not know yet that nobody is there.
				pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
				popped := suite.client.PopPartition(queue, "Default", "wait=true&timeout=20000&consumerGroup="+group)
				needMessages(t, popped, "t")
				if popped.Messages[0].DeliveryAttempt != 1 {
					t.Fatalf("a claim that nobody received counts no attempt, got %d", popped.Messages[0].DeliveryAttempt)
				}
				if popped.Elapsed > promptly {
					t.Fatalf("the claim was handed back only after %v", popped.Elapsed)
				}
			})
		}
	}
}

// 5.5.9 and 5.6: the client leaves while it is being answered. A lease is released at once and the attempt taken back; what was
// committed on delivery counts as delivered once something of the answer was written.
func TestClientThatLeavesTheAnswer_5_5_9(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{false, true} {
		t.Run(fmt.Sprint("commit on delivery ", commits), func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			large := strings.Repeat("x", 20<<20) // more than what lies between the broker and a client that does not read
			pushAll(t, suite.client, harness.Item{Queue: queue, Payload: large, TransactionID: "t0"}, harness.Item{Queue: queue, Payload: large, TransactionID: "t1"})
			wire, err := suite.broker.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer wire.Close()
			query := fmt.Sprintf("subscriptionMode=all&consumerGroup=g&leaseSeconds=3600&commitOnDelivery=%v", commits)
			if err := wire.Send("GET /api/v1/pop/queue/" + queue + "?" + query + " HTTP/1.1\r\nHost: queen\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			eventually(t, delivery, func() (bool, string) { // the claim is made, and the answer on its way
				depth := queueDepth(t, suite.client, queue, "g")
				return depth.Processing == 2 || depth.Pending == 0, fmt.Sprintf("%+v", depth)
			})
			if err := wire.AwaitData(); err != nil {
				t.Fatal(err)
			}
			wire.Close()
			if commits {
				needEmpty(t, suite.client.Pop(queue, query+"&wait=true&timeout=1000"))
				return
			}
			popped := suite.client.Pop(queue, query+"&wait=true&timeout=20000")
			needMessages(t, popped, "t0", "t1")
			if popped.Messages[0].DeliveryAttempt != 1 || popped.Elapsed > promptly {
				t.Fatalf("want attempt 1 at once, got %d after %v", popped.Messages[0].DeliveryAttempt, popped.Elapsed)
			}
		})
	}
}

func TestOneClaimIsAlwaysAttempted_5_5_10(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for i, query := range []string{"wait=true&timeout=0", "wait=true&timeout=1", "wait=true&timeout=40", "wait=false&timeout=0"} {
		id := fmt.Sprint("m", i)
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: i, TransactionID: id})
		eventually(t, promptly, func() (bool, string) { // the attempt has a second, which a busy machine may need more than once
			popped := suite.client.Pop(queue, "commitOnDelivery=true&"+query)
			if popped.Status != 200 {
				needEmpty(t, popped)
			}
			return len(popped.Messages) == 1 && popped.Messages[0].TransactionID == id, query + ": " + popped.String()
		})
	}
}
