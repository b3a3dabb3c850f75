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
