package contract

import (
	"fmt"
	"strings"
	"testing"

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
