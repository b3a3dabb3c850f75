package contract

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

func TestWildcardPopCreatesAMissingQueue_5_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t) + ".task"
	needEmpty(t, suite.client.Pop(queue, ""))
	detail := suite.client.Get("/api/v1/resources/queues/" + queue)
	need(t, detail, 200)
	options, _ := detail.Object()["options"].(map[string]any)
	if options["leaseTime"] != json.Number("60") || detail.Text("task") != "task" {
		t.Fatalf("want the implicit defaults, got %v", detail)
	}
}

func TestPinnedAndDiscoveryPopsCreateNothing_5_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	needEmpty(t, suite.client.PopPartition(queue, "p", "consumerGroup=g"))
	needEmpty(t, suite.client.Discover("consumerGroup=g&namespace="+queue))
	need(t, suite.client.Get("/api/v1/resources/queues/"+queue), 404)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
	needEmpty(t, suite.client.PopPartition(queue, "missing", ""))
	detail := suite.client.Get("/api/v1/resources/queues/" + queue)
	if partitions, _ := detail.Object()["partitions"].([]any); len(partitions) != 1 {
		t.Fatalf("want the pushed partition only, got %v", detail)
	}
}

func TestPopParameterRefusals_5_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
	cases := []struct{ query, text string }{
		{"batch=0", "batch must be a positive integer"},
		{"batch=-1", "batch must be a positive integer"},
		{"batch=x", "batch must be a positive integer"},
		{"batch=1.5", "batch must be a positive integer"},
		{"batch=9223372036854775808", "batch must be a positive integer"},
		{"partitions=x", "partitions must be an integer"},
		{"timeout=x", "timeout must be an integer"},
		{"leaseSeconds=x", "leaseSeconds must be an integer"},
		{"autoAck=yes", "autoAck must be true, false, 1 or 0"},
		{"commitOnDelivery=yes", "commitOnDelivery must be true, false, 1 or 0"},
		{"wait=yes", "wait must be true, false, 1 or 0"},
		{"autopilot=yes", "autopilot must be true, false, 1 or 0"},
		{"consumerGroup=g&conflation=yes", "conflation must be true, false, 1 or 0"},
	}
	for _, c := range cases {
		t.Run(c.query, func(t *testing.T) {
			needPopRefusal(t, suite.client.Pop(queue, c.query), c.text)
			if c.query[:5] != "autop" { // wildcard only (5.10)
				needPopRefusal(t, suite.client.PopPartition(queue, "Default", c.query), c.text)
			}
		})
	}
	t.Run("a negative timeout", func(t *testing.T) { need(t, suite.client.Pop(queue, "timeout=-1").Response, 400) })
	t.Run("a refused pop claims nothing", func(t *testing.T) {
		popped := suite.client.Pop(queue, "")
		if needMessageCount(t, popped, 1); popped.Messages[0].DeliveryAttempt != 1 {
			t.Fatalf("got %v", popped)
		}
	})
}

func TestDiscoveryWithoutALabelIsRefused_5_4(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "batch=10", "namespace=", "task=", "namespace=&task="} {
		answer := suite.client.Discover(query)
		needBody(t, answer.Response, 400, `{"success":false,"error":"namespace or task is required","messages":[]}`)
	}
}

func TestConflationIsRefusedWithoutAGroupOrWithCommitOnDelivery_5_4(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for _, query := range []string{"conflation=true", "conflation=true&consumerGroup=__QUEUE_MODE__", "conflation=true&consumerGroup=g&autoAck=true",
		"conflation=1&consumerGroup=g&commitOnDelivery=1"} {
		answer := suite.client.Pop(queue, query)
		need(t, answer.Response, 400)
		needExactKeys(t, answer.Object(), "success", "error", "messages")
		if answer.Text("error") == "" {
			t.Fatalf("got %v", answer)
		}
	}
}

func TestPopDefaults_5_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "a", "a", 250)...)
	pushAll(t, suite.client, numbered(queue, "b", "b", 250)...)
	popped := suite.client.Pop(queue, "")
	needMessageCount(t, popped, 200) // batch 200 of one partition
	if popped.PartitionsClaimed != 1 || popped.ConsumerGroup != "__QUEUE_MODE__" || popped.LeaseID == "" {
		t.Fatalf("got %d partitions, group %q, lease %q", popped.PartitionsClaimed, popped.ConsumerGroup, popped.LeaseID)
	}
	t.Run("naming the reserved group is naming none", func(t *testing.T) {
		same := suite.client.PopPartition(queue, popped.Partition, "consumerGroup=__QUEUE_MODE__")
		needEmpty(t, same) // leased by the pop above
	})
	t.Run("partitions is ignored on the pinned route", func(t *testing.T) {
		pinned := suite.client.PopPartition(queue, "b", "partitions=64&batch=1000&consumerGroup=g&subscriptionMode=all")
		if needMessageCount(t, pinned, 250); pinned.PartitionsClaimed != 1 {
			t.Fatalf("got %d", pinned.PartitionsClaimed)
		}
	})
}

func TestPopAnswerHasExactKeys_5_3(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const trace = "01890a5d-ac96-774b-bcce-b302099a8057"
	pushed := pushAll(t, suite.client, harness.Item{Queue: queue, Partition: "p", Payload: map[string]any{"a": 1}, TransactionID: "t", TraceID: trace},
		harness.Item{Queue: queue, Partition: "p", Payload: nil})
	popped := suite.client.Pop(queue, "consumerGroup=g&subscriptionMode=all&leaseSeconds=60")
	needMessageCount(t, popped, 2)
	needExactKeys(t, popped.Object(), "success", "queue", "partition", "partitionId", "leaseId", "consumerGroup", "messages", "partitionsClaimed")
	if !popped.Success || popped.Queue != queue || popped.Partition != "p" || popped.ConsumerGroup != "g" || popped.PartitionsClaimed != 1 {
		t.Fatalf("got %v", popped)
	}
	for _, row := range popped.Object()["messages"].([]any) {
		message, _ := row.(map[string]any)
		needExactKeys(t, message, "id", "transactionId", "traceId", "data", "producerSub", "createdAt", "partitionId", "partition",
			"leaseId", "consumerGroup", "deliveryAttempt", "offset")
	}
	first, second := popped.Messages[0], popped.Messages[1]
	if first.ID != pushed[0].MessageID || first.TransactionID != "t" || first.TraceID == nil || *first.TraceID != trace || string(first.Data) != `{"a":1}` ||
		first.ProducerSub != nil || first.PartitionID != popped.PartitionID || first.Partition != "p" || first.LeaseID != popped.LeaseID ||
		first.ConsumerGroup != "g" || first.DeliveryAttempt != 1 || first.Offset != 0 {
		t.Fatalf("got %+v", first)
	}
	if second.TraceID != nil || string(second.Data) != "null" || second.Offset != 1 {
		t.Fatalf("got %+v", second)
	}
}

func TestNothingToDeliverIs204WithoutABody_5_4(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	t.Run("missing queue", func(t *testing.T) { needEmpty(t, suite.client.Pop(queue, "")) })
	t.Run("empty queue", func(t *testing.T) { needEmpty(t, suite.client.Pop(queue, "")) })
	t.Run("missing partition", func(t *testing.T) { needEmpty(t, suite.client.PopPartition(queue, "none", "")) })
	t.Run("nothing discovered", func(t *testing.T) { needEmpty(t, suite.client.Discover("namespace="+queue+"-none")) })
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
	needMessageCount(t, suite.client.Pop(queue, "leaseSeconds=60"), 1)
	t.Run("leased partition", func(t *testing.T) { needEmpty(t, suite.client.Pop(queue, "")) })
	t.Run("long poll over", func(t *testing.T) { needEmpty(t, suite.client.Pop(queue, "wait=true&timeout=100")) })
}

func TestPopThatDoesNotWaitAnswersAtOnce_5_4(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	fastest := time.Hour // the machine may stall one of them
	for range 5 {
		popped := suite.client.Pop(queue, "wait=false&timeout=30000")
		needEmpty(t, popped)
		fastest = min(fastest, popped.Elapsed)
	}
	if fastest >= time.Second {
		t.Fatalf("the fastest of five took %v", fastest)
	}
}

func TestTypicalClientQuery_5_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 3)...)
	query := "autopilot=true&batch=50&wait=false&timeout=30000&consumerGroup=g&partitions=4&subscriptionMode=all"
	needMessages(t, suite.client.Pop(queue, query), "m0", "m1", "m2")
}

func TestEitherNameOfCommitOnDelivery_5_2(t *testing.T) {
	t.Parallel()
	for i, query := range []string{"autoAck=true", "commitOnDelivery=true", "autoAck=1&commitOnDelivery=0", "autoAck=false&commitOnDelivery=true"} {
		queue := fmt.Sprint(uniqueName(t), i)
		pushAll(t, suite.client, numbered(queue, "", "m", 2)...)
		popped := suite.client.Pop(queue, "batch=1&"+query)
		needMessages(t, popped, "m0")
		if popped.LeaseID != "" || popped.Messages[0].LeaseID != "" {
			t.Errorf("%s: want no lease, got %q", query, popped.LeaseID)
		}
		needMessages(t, suite.client.Pop(queue, "batch=1&"+query), "m1")
	}
}
