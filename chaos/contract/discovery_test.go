package contract

import (
	"fmt"
	"testing"

	"queen/chaos/contract/harness"
)

// TestDiscoveryTakesTheLongestReadyAmongEqualPriorities: 5.12, over all partitions of the queues, however the queues came
// about.
func TestDiscoveryTakesTheLongestReadyAmongEqualPriorities(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	for _, task := range []string{"a", "b", "c"} {
		need(t, suite.client.Configure(namespace+"."+task, map[string]any{"priority": 3, "namespace": namespace}), 200)
	}
	ready := []string{"c/0", "a/0", "b/0", "a/1", "c/1"}
	for _, id := range ready {
		pushOne(t, suite.client, harness.Item{Queue: namespace + "." + id[:1], Partition: id[2:], Payload: 1, TransactionID: id})
	}
	query := func(group string, partitions int) string {
		return fmt.Sprint("subscriptionMode=all&namespace=", namespace, "&consumerGroup=", group, "&partitions=", partitions)
	}
	// The first pop of a group finds what is there; what is pushed from then on has an order.
	for _, group := range []string{"one", "all"} {
		needMessageCount(t, suite.client.Discover(query(group, 64)+"&commitOnDelivery=true"), len(ready))
	}
	for _, id := range ready {
		pushOne(t, suite.client, harness.Item{Queue: namespace + "." + id[:1], Partition: id[2:], Payload: 1, TransactionID: id + " again"})
	}
	t.Run("5.12 pop by pop", func(t *testing.T) {
		for _, id := range ready {
			needMessages(t, suite.client.Discover(query("one", 1)), id+" again")
		}
	})
	t.Run("5.12 in one pop", func(t *testing.T) {
		popped := suite.client.Discover(query("all", 64))
		needMessages(t, popped, "c/0 again", "a/0 again", "b/0 again", "a/1 again", "c/1 again")
	})
}

// TestDiscoveryReachesEveryQueueAfterARestart: 5.12, a queue that nobody has asked for since the start is not passed over
// for ever by one that always has enough. What was ready before the start has no order.
func TestDiscoveryReachesEveryQueueAfterARestart(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	query := "partitions=1&commitOnDelivery=true&subscriptionMode=all&consumerGroup=g&namespace=sv"
	for _, queue := range []string{"sv.a", "sv.b"} {
		need(t, client.Configure(queue, map[string]any{"namespace": "sv"}), 200)
	}
	needEmpty(t, client.Discover(query)) // both have the group
	pushOne(t, client, harness.Item{Queue: "sv.b", Payload: 1, TransactionID: "b"})
	pushOne(t, client, harness.Item{Queue: "sv.a", Partition: "0", Payload: 1, TransactionID: "a0"})
	if err := broker.Crash(); err != nil {
		t.Fatal(err)
	}
	client = broker.Client()
	var order []string
	for i := 1; i <= 10; i++ {
		pushOne(t, client, harness.Item{Queue: "sv.a", Partition: fmt.Sprint(i), Payload: 1, TransactionID: fmt.Sprint("a", i)})
		popped := client.Discover(query)
		needMessageCount(t, popped, 1)
		if order = append(order, popped.Messages[0].TransactionID); popped.Messages[0].TransactionID == "b" {
			return
		}
	}
	t.Errorf("sv.b is not among what was delivered: %v", order)
}

// TestDiscoveryStaysWithinItsTenant: 5.12 and 2.5, also where it registers its group.
func TestDiscoveryStaysWithinItsTenant(t *testing.T) {
	t.Parallel()
	plain := privateBroker(t, map[string]string{"QUEEN_TENANCY_HEADER": "true", "QUEEN_KV_TRUSTED_PROXY": "true"}).Client()
	other := plain.WithTenant(otherTenant)
	needEmpty(t, other.Pop("ns.b", "consumerGroup=g&subscriptionMode=all")) // a group of theirs, of the same name
	pushOne(t, plain, harness.Item{Queue: "ns.a", Payload: 1, TransactionID: "mine"})
	pushOne(t, other, harness.Item{Queue: "ns.a", Payload: 1, TransactionID: "theirs"})
	pushOne(t, other, harness.Item{Queue: "ns.b", Payload: 1, TransactionID: "theirs too"})
	query := "partitions=64&subscriptionMode=all&consumerGroup=g&namespace=ns"
	needMessages(t, plain.Discover(query), "mine")
	needEmpty(t, plain.Discover("consumerGroup=h&subscriptionMode=new&namespace=ns")) // registers h with mode new
	needEmpty(t, plain.Discover("task=b&subscriptionMode=all&consumerGroup=g"))
	needMessages(t, other.Pop("ns.a", "consumerGroup=h&subscriptionMode=all"), "theirs")
	needMessageCount(t, other.Discover(query), 2)
}

// TestLeaseOfADiscoveryReachesEveryQueue: 5.12 and 7, one lease id over several queues is extended in all of them and
// settled partition by partition.
func TestLeaseOfADiscoveryReachesEveryQueue(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	for _, task := range []string{"a", "b"} {
		needEmpty(t, suite.client.Pop(namespace+"."+task, "consumerGroup=g")) // both are there when the messages come
	}
	ids := []string{"a/0", "b/0", "a/1"} // the partitions of a queue need not stand side by side
	for _, id := range ids {
		pushOne(t, suite.client, harness.Item{Queue: namespace + "." + id[:1], Partition: id[2:], Payload: 1, TransactionID: id})
	}
	popped := suite.client.Discover("partitions=3&leaseSeconds=5&consumerGroup=g&namespace=" + namespace)
	needMessages(t, popped, ids...)
	expiry := needExtended(t, suite.client.Extend(popped.LeaseID, `{"seconds":600}`), popped.LeaseID, 3)
	for i, message := range popped.Messages {
		needVerdicts(t, suite.client.AckMessages("completed", message), released)
		if left := 2 - i; left > 0 {
			if same := needExtended(t, suite.client.Extend(popped.LeaseID, `{"seconds":1}`), popped.LeaseID, left); !same.Equal(expiry) {
				t.Errorf("want the expiry %v, got %v", expiry, same)
			}
		}
	}
	needNotExtended(t, suite.client.Extend(popped.LeaseID, nil), popped.LeaseID)
}
