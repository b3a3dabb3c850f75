package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// needConflation ends the test unless the two keys stand in the answer exactly as wanted: true or absent (5.9).
func needConflation(t *testing.T, reply harness.PopReply, conflation, conflict bool) {
	t.Helper()
	need(t, reply.Response, 200)
	for key, want := range map[string]bool{"conflation": conflation, "conflationConflict": conflict} {
		value, present := reply.Object()[key]
		if present != want || want && value != true {
			t.Fatalf("%s: want true=%v and else absent, got %v", key, want, reply)
		}
	}
}

func TestConflatingPopDeliversTheNewest_5_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 3, 4)...)
	popped := suite.client.Pop(queue, "consumerGroup=g&conflation=true&subscriptionMode=all&leaseSeconds=60")
	needConflation(t, popped, true, false)
	needMessages(t, popped, "p0-3", "p1-3", "p2-3") // partitions defaults to batch
	t.Run("the lease spans everything below", func(t *testing.T) {
		empty := suite.client.Pop(queue, "consumerGroup=g")
		needConflation(t, empty, true, false)
		if len(empty.Messages) != 0 {
			t.Fatalf("got %v", empty.TransactionIDs())
		}
	})
	t.Run("an ack commits what was visible at the pop, and no more", func(t *testing.T) {
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p1", Payload: 1, TransactionID: "later"})
		needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
		next := suite.client.Pop(queue, "consumerGroup=g")
		needConflation(t, next, true, false)
		needMessages(t, next, "later")
	})
	t.Run("other groups are not affected", func(t *testing.T) {
		other := suite.client.Pop(queue, "consumerGroup=h&subscriptionMode=all&batch=100&partitions=3")
		needMessageCount(t, other, 13)
		needConflation(t, other, false, false)
	})
}

func TestConflationIsBoundedByBatchAndPartitions_5_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 70, 2)...)
	groups := 0
	for query, want := range map[string]int{"batch=5": 5, "batch=5&partitions=3": 3, "batch=3&partitions=5": 3, "": 64, "batch=1000": 64} {
		groups++
		popped := suite.client.Pop(queue, fmt.Sprint("conflation=true&subscriptionMode=all&consumerGroup=g", groups, "&", query))
		needConflation(t, popped, true, false)
		if len(popped.Messages) != want || popped.PartitionsClaimed != want {
			t.Errorf("%q: want %d, got %d messages of %d partitions", query, want, len(popped.Messages), popped.PartitionsClaimed)
		}
	}
}

func TestEmptyConflatingPopIsNever204_5_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pops := map[string]func() harness.PopReply{
		"missing queue": func() harness.PopReply { return suite.client.Pop(queue, "consumerGroup=g&conflation=true") },
		"empty queue":   func() harness.PopReply { return suite.client.Pop(queue, "consumerGroup=g&conflation=true") },
		"without the parameter": func() harness.PopReply {
			suite.client.Pop(queue, "consumerGroup=g&conflation=true")
			return suite.client.Pop(queue, "consumerGroup=g")
		},
		"long poll over": func() harness.PopReply {
			return suite.client.Pop(queue, "consumerGroup=g&conflation=true&wait=true&timeout=100")
		},
		"pinned on a missing queue": func() harness.PopReply {
			return suite.client.PopPartition(queue+"-none", "p", "consumerGroup=g&conflation=true")
		},
	}
	for name, pop := range pops {
		t.Run(name, func(t *testing.T) {
			popped := pop()
			needConflation(t, popped, true, false)
			needExactKeys(t, popped.Object(), "success", "queue", "partition", "partitionId", "leaseId", "consumerGroup", "messages",
				"partitionsClaimed", "conflation")
			if popped.Queue == "" || popped.Partition != "" || popped.PartitionID != "" || popped.LeaseID != "" || popped.PartitionsClaimed != 0 ||
				popped.Messages == nil || len(popped.Messages) != 0 || popped.ConsumerGroup != "g" {
				t.Fatalf("got %v", popped)
			}
		})
	}
	t.Run("a pinned pop on a missing queue stores nothing", func(t *testing.T) {
		need(t, suite.client.Get("/api/v1/resources/queues/"+queue+"-none"), 404)
	})
}

func TestStoredConflationWins_5_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 3)...)
	t.Run("stored true, request false", func(t *testing.T) {
		needConflation(t, suite.client.Pop(queue, "consumerGroup=yes&conflation=true"), true, false)
		pushAll(t, suite.client, numbered(queue, "", "n", 2)...)
		popped := suite.client.Pop(queue, "consumerGroup=yes&conflation=false&commitOnDelivery=false")
		needConflation(t, popped, true, true)
		needMessages(t, popped, "n1")
		needConflation(t, suite.client.Pop(queue, "consumerGroup=yes&conflation=false"), true, true)
	})
	t.Run("stored false, request true", func(t *testing.T) {
		needMessageCount(t, suite.client.Pop(queue, "consumerGroup=no&subscriptionMode=all&commitOnDelivery=true&conflation=false"), 5)
		empty := suite.client.Pop(queue, "consumerGroup=no&conflation=true")
		needConflation(t, empty, false, true)
		if len(empty.Messages) != 0 {
			t.Fatalf("got %v", empty.TransactionIDs())
		}
		pushAll(t, suite.client, numbered(queue, "", "o", 2)...)
		popped := suite.client.Pop(queue, "consumerGroup=no&conflation=true")
		needConflation(t, popped, false, true)
		needMessages(t, popped, "o0", "o1")
	})
	t.Run("an absent parameter is no conflict", func(t *testing.T) {
		needConflation(t, suite.client.Pop(queue, "consumerGroup=yes"), true, false)
		needEmpty(t, suite.client.Pop(queue, "consumerGroup=no"))
	})
	t.Run("deleting the group changes it", func(t *testing.T) {
		need(t, suite.client.Delete("/api/v1/consumer-groups/yes/queues/"+queue), 200)
		popped := suite.client.Pop(queue, "consumerGroup=yes&subscriptionMode=all")
		needConflation(t, popped, false, false)
		needMessageCount(t, popped, 7)
	})
}

func TestPinnedPopRegistersAConflatingGroup_5_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 2, 3)...)
	popped := suite.client.PopPartition(queue, "p0", "consumerGroup=g&conflation=true&subscriptionMode=all")
	needConflation(t, popped, true, false)
	needMessages(t, popped, "p0-2")
	wildcard := suite.client.Pop(queue, "consumerGroup=g")
	needConflation(t, wildcard, true, false)
	needMessages(t, wildcard, "p1-2")
	t.Run("it registers once a missing queue exists", func(t *testing.T) {
		later := queue + "-later"
		waiting := make(parked, 1)
		go func() {
			waiting <- suite.client.PopPartition(later, "p", "consumerGroup=g&conflation=true&subscriptionMode=all&wait=true&timeout=30000")
		}()
		pushAll(t, suite.client, numbered(later, "p", "m", 2)...)
		needConflation(t, needWoken(t, waiting, "m1"), true, false)
		pushAll(t, suite.client, numbered(later, "q", "n", 2)...)
		popped := suite.client.Pop(later, "consumerGroup=g")
		needConflation(t, popped, true, false)
		needMessages(t, popped, "n1")
	})
}

func TestConflatingRetryBudgetSurvivesNewerArrivals_5_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"retryLimit": 2}), 200)
	for i := range 3 {
		id := fmt.Sprint("m", i)
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: i, TransactionID: id})
		popped := suite.client.Pop(queue, "consumerGroup=g&conflation=true&subscriptionMode=all")
		needMessages(t, popped, id)
		reply := suite.client.AckMessages("failed", popped.Messages...)
		if needAcked(t, reply); reply.Items[0].DLQ != (i == 2) {
			t.Fatalf("failure %d: got %v", i, reply)
		}
	}
	letters := suite.client.Get("/api/v1/dlq?queue=" + queue)
	need(t, letters, 200)
	row := firstObject(letters.Object()["messages"])
	if row["transactionId"] != "m2" || fmt.Sprint(row["retryCount"]) != "2" || fmt.Sprint(letters.Object()["total"]) != "1" {
		t.Fatalf("want m2 with retryCount 2, got %v", letters)
	}
	empty := suite.client.Pop(queue, "consumerGroup=g")
	if needConflation(t, empty, true, false); len(empty.Messages) != 0 {
		t.Fatalf("the cursor is past it, got %v", empty.TransactionIDs())
	}
}

func TestConflationOnDiscovery_5_9(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	for _, task := range []string{"a", "b"} {
		pushAll(t, suite.client, numbered(namespace+"."+task, "", task, 3)...)
	}
	popped := suite.client.Discover("consumerGroup=g&conflation=true&subscriptionMode=all&namespace=" + namespace)
	needConflation(t, popped, true, false)
	ids := popped.TransactionIDs()
	if slices.Sort(ids); !slices.Equal(ids, []string{"a2", "b2"}) {
		t.Fatalf("got %v", ids)
	}
}

// TestConflationConflictOnEveryRoute: 5.9, the stored policy applies and a request that names the other one is told so,
// with messages and without.
func TestConflationConflictOnEveryRoute(t *testing.T) {
	t.Parallel()
	const history = "&subscriptionMode=all&leaseSeconds=600"
	type want struct{ conflation, conflict bool }
	groups := map[string]struct {
		stored string
		asked  map[string]want
		ids    []string
	}{
		"conflating": {"true", map[string]want{"": {true, false}, "&conflation=true": {true, false}, "&conflation=false": {true, true}}, []string{"m2"}},
		"plain":      {"false", map[string]want{"": {}, "&conflation=true": {false, true}, "&conflation=false": {}}, []string{"m0", "m1", "m2"}},
	}
	onEveryRoute(t, func(t *testing.T, queue string, pop func(query string) harness.PopReply) {
		for name, group := range groups {
			for asked, want := range group.asked {
				query := "consumerGroup=" + name + asked
				// Registered by a wildcard pop: a pinned one registers no plain group.
				first := suite.client.Pop(queue, "consumerGroup="+name+history+"&conflation="+group.stored)
				needConflation(t, first, group.stored == "true", false)
				needMessages(t, first, group.ids...)
				empty := pop(query)
				if want == (struct{ conflation, conflict bool }{}) {
					needEmpty(t, empty)
				} else {
					needEmptyConflation(t, empty, want.conflation, want.conflict)
				}
				needVerdicts(t, suite.client.AckMessages("retry", first.Messages[0]), released)
				popped := pop(query)
				needConflation(t, popped, want.conflation, want.conflict)
				needMessages(t, popped, group.ids...)
				needVerdicts(t, suite.client.AckMessages("retry", popped.Messages[0]), released)
			}
		}
	})
}

// needEmptyConflation ends the test unless the answer is the 200 without messages that reports conflation (5.4).
func needEmptyConflation(t *testing.T, reply harness.PopReply, conflation, conflict bool) {
	t.Helper()
	needConflation(t, reply, conflation, conflict)
	if len(reply.Messages) != 0 || reply.Messages == nil || reply.Partition != "" || reply.PartitionID != "" || reply.LeaseID != "" || reply.PartitionsClaimed != 0 {
		t.Fatalf("got %v", reply)
	}
	needKeys(t, reply.Object(), "success", "queue", "partition", "partitionId", "leaseId", "consumerGroup", "messages", "partitionsClaimed")
}

// TestEmptyConflatingPopOfAPinnedOrDiscoveryRoute: 5.4 and 5.9, never a 204; a request for no conflation is no conflict
// where nothing is stored.
func TestEmptyConflatingPopOfAPinnedOrDiscoveryRoute(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	needEmpty(t, suite.client.Pop(queue, "")) // it exists and is empty
	pops := map[string]func(query string) harness.PopReply{
		"missing partition": func(query string) harness.PopReply { return suite.client.PopPartition(queue, "none", query) },
		"missing partition, long poll": func(query string) harness.PopReply { // long enough for the registration to be on the disk
			return suite.client.PopPartition(queue, "none", "wait=true&timeout=2000&"+query)
		},
		"discovery": func(query string) harness.PopReply { return suite.client.Discover("namespace=" + queue + "&" + query) },
	}
	for name, pop := range pops {
		t.Run("5.9 "+name, func(t *testing.T) {
			group := "consumerGroup=" + strings.ReplaceAll(name, " ", "-")
			needEmpty(t, pop(group+"-plain&conflation=false"))
			needEmptyConflation(t, pop(group+"&conflation=true"), true, false)
			needEmptyConflation(t, pop(group), true, false)
			needEmptyConflation(t, suite.client.Pop(queue, group+"&conflation=false"), true, true) // it is registered
		})
	}
	t.Run("5.9 a missing queue stores nothing, whatever was asked", func(t *testing.T) {
		missing := queue + "-none"
		needEmptyConflation(t, suite.client.PopPartition(missing, "p", "consumerGroup=g&conflation=true"), true, false)
		needEmpty(t, suite.client.PopPartition(missing, "p", "consumerGroup=g"))
		needEmpty(t, suite.client.PopPartition(missing, "p", "consumerGroup=g&conflation=false"))
	})
}

// TestStoredConflationDecidesTheDefaults: 5.9 and state 9.1, what the group has stored tells whether a pop is a conflating one:
// without the parameter it claims as many partitions as its batch, 64 at most, and autopilot chooses nothing; a plain group
// keeps the default of one partition when the parameter disagrees.
func TestStoredConflationDecidesTheDefaults(t *testing.T) {
	t.Parallel()
	const partitions = 70
	for name, c := range map[string]struct {
		stored, query  string
		claimed, count int
	}{
		"batch":               {"true", "&batch=5", 5, 5},
		"nothing":             {"true", "", 64, 64},
		"large batch":         {"true", "&batch=1000", 64, 64},
		"partitions":          {"true", "&partitions=3", 3, 3},
		"autopilot":           {"true", "&autopilot=true", 64, 64},
		"no conflation asked": {"true", "&conflation=false", 64, 64},
		"plain":               {"false", "&conflation=true&batch=5", 1, 2},
	} {
		t.Run("5.9 "+name, func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			group := "consumerGroup=g&leaseSeconds=600"
			suite.client.Pop(queue, group+"&subscriptionMode=all&conflation="+c.stored) // it registers; there is nothing yet
			pushAll(t, suite.client, spread(queue, partitions, 2)...)
			popped := suite.client.Pop(queue, group+c.query)
			if need(t, popped.Response, 200); popped.PartitionsClaimed != c.claimed || len(popped.Messages) != c.count || popped.Autopilot != nil {
				t.Errorf("want %d messages of %d partitions, got %d of %d with %v", c.count, c.claimed, len(popped.Messages), popped.PartitionsClaimed,
					popped.Object()["autopilot"])
			}
		})
	}
}
