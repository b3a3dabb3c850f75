package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// popRoutes are the three ways to pop a queue that has no dot in its name, so that its name is its namespace (4.4). The
// pinned one reads the partition Default.
var popRoutes = map[string]func(queue, query string) harness.PopReply{
	"wildcard": func(queue, query string) harness.PopReply { return suite.client.Pop(queue, query) },
	"pinned":   func(queue, query string) harness.PopReply { return suite.client.PopPartition(queue, "Default", query) },
	"discovery": func(queue, query string) harness.PopReply {
		return suite.client.Discover("namespace=" + queue + "&" + query)
	},
}

// onEveryRoute runs a subtest per route with a queue of its own that holds m0 to m2.
func onEveryRoute(t *testing.T, run func(t *testing.T, queue string, pop func(query string) harness.PopReply)) {
	for route, pop := range popRoutes {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			pushAll(t, suite.client, numbered(queue, "", "m", 3)...)
			run(t, queue, func(query string) harness.PopReply { return pop(queue, query) })
		})
	}
}

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
	cases := []struct{ query, text string }{
		{"batch=0", "batch must be a positive integer"},
		{"batch=-1", "batch must be a positive integer"},
		{"batch=x", "batch must be a positive integer"},
		{"batch=1.5", "batch must be a positive integer"},
		{"batch=", "batch must be a positive integer"},
		{"batch=9223372036854775808", "batch must be a positive integer"},
		{"batch=99999999999999999999", "batch must be a positive integer"},
		{"partitions=x", "partitions must be an integer"},
		{"partitions=1.0", "partitions must be an integer"},
		{"timeout=x", "timeout must be an integer"},
		{"timeout=", "timeout must be an integer"},
		{"timeout=1e3", "timeout must be an integer"},
		{"leaseSeconds=x", "leaseSeconds must be an integer"},
		{"leaseSeconds=60s", "leaseSeconds must be an integer"},
		{"autoAck=yes", "autoAck must be true, false, 1 or 0"},
		{"commitOnDelivery=yes", "commitOnDelivery must be true, false, 1 or 0"},
		{"autoAck=true&commitOnDelivery=", "commitOnDelivery must be true, false, 1 or 0"},
		{"wait=yes", "wait must be true, false, 1 or 0"},
		{"wait=True", "wait must be true, false, 1 or 0"},
		{"wait=2", "wait must be true, false, 1 or 0"},
		{"autopilot=yes", "autopilot must be true, false, 1 or 0"},
		{"consumerGroup=g&conflation=yes", "conflation must be true, false, 1 or 0"},
	}
	onEveryRoute(t, func(t *testing.T, queue string, pop func(query string) harness.PopReply) {
		for _, c := range cases {
			if strings.HasPrefix(c.query, "autopilot") && !strings.Contains(t.Name(), "wildcard") {
				continue // wildcard only (5.10)
			}
			t.Run(c.query, func(t *testing.T) { needPopRefusal(t, pop(c.query), c.text) })
		}
		t.Run("a negative timeout, which the text names", func(t *testing.T) {
			refused := pop("timeout=-1")
			if needPopRefusal(t, refused, refused.Text("error")); !strings.Contains(refused.Text("error"), "timeout") {
				t.Fatalf("got %v", refused)
			}
		})
		t.Run("a refused pop claims nothing", func(t *testing.T) {
			popped := pop("")
			if needMessageCount(t, popped, 3); popped.Messages[0].DeliveryAttempt != 1 {
				t.Fatalf("got %v", popped)
			}
		})
	})
}

func TestDiscoveryWithoutALabelIsRefused_5_4(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "batch=10", "namespace=", "task=", "namespace=&task="} {
		answer := suite.client.Discover(query)
		needBody(t, answer.Response, 400, `{"success":false,"error":"namespace or task is required","messages":[]}`)
	}
}

// TestConflationIsRefusedWithoutAGroupOrWithCommitOnDelivery_5_4: the text gives the reason and names both parameters.
func TestConflationIsRefusedWithoutAGroupOrWithCommitOnDelivery_5_4(t *testing.T) {
	t.Parallel()
	cases := []struct {
		query string
		named []string
	}{
		{"conflation=true", []string{"conflation", "consumerGroup"}},
		{"conflation=true&consumerGroup=__QUEUE_MODE__", []string{"conflation", "consumerGroup"}},
		{"conflation=true&consumerGroup=g&autoAck=true", []string{"conflation", "autoAck"}},
		{"conflation=1&consumerGroup=g&commitOnDelivery=1", []string{"conflation", "commitOnDelivery"}},
		{"conflation=true&consumerGroup=g&commitOnDelivery=true&wait=true", []string{"conflation", "commitOnDelivery"}},
	}
	onEveryRoute(t, func(t *testing.T, queue string, pop func(query string) harness.PopReply) {
		for _, c := range cases {
			answer := pop(c.query)
			needPopRefusal(t, answer, answer.Text("error"))
			for _, name := range c.named {
				if !strings.Contains(answer.Text("error"), name) {
					t.Errorf("%s: the text must name %s, got %v", c.query, name, answer)
				}
			}
		}
		t.Run("a refused pop registers and claims nothing", func(t *testing.T) {
			popped := pop("consumerGroup=g&subscriptionMode=all")
			needConflation(t, popped, false, false)
			needMessages(t, popped, "m0", "m1", "m2")
		})
		t.Run("false is no conflation", func(t *testing.T) {
			needMessages(t, pop("conflation=false&commitOnDelivery=true"), "m0", "m1", "m2")
		})
	})
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

// popMessageKeys are the members of a delivered message (5.3).
var popMessageKeys = []string{"id", "transactionId", "traceId", "data", "producerSub", "createdAt", "partitionId", "partition",
	"leaseId", "consumerGroup", "deliveryAttempt", "offset"}

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
		needExactKeys(t, message, popMessageKeys...)
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

// TestNothingToDeliverOnEveryRoute: 5.4, a leased partition and hidden messages are a 204 everywhere, in well under 1 s.
func TestNothingToDeliverOnEveryRoute(t *testing.T) {
	t.Parallel()
	onEveryRoute(t, func(t *testing.T, queue string, pop func(query string) harness.PopReply) {
		needNothingFast := func(rule string) {
			t.Helper()
			fastest := time.Hour // the machine may stall one of them
			for range 5 {
				popped := pop("timeout=30000")
				needEmpty(t, popped)
				fastest = min(fastest, popped.Elapsed)
			}
			if fastest >= time.Second {
				t.Fatalf("%s: the fastest of five took %v", rule, fastest)
			}
		}
		leased := pop("leaseSeconds=600")
		needMessageCount(t, leased, 3)
		needNothingFast("leased")
		needAcked(t, suite.client.AckMessages("retry", leased.Messages[0]))
		for _, option := range []string{"delayedProcessing", "windowBuffer"} {
			need(t, suite.client.Configure(queue, map[string]any{option: 3600}), 200)
			needNothingFast(option)
			need(t, suite.client.Configure(queue, map[string]any{option: 0}), 200)
		}
		eventually(t, promptly, func() (bool, string) { // what an option hid is looked for again
			popped := pop("commitOnDelivery=true")
			return len(popped.Messages) == 3, popped.String()
		})
		needNothingFast("all consumed")
	})
}

// TestTopLevelOfEveryRoute: 5.3, queue is empty on discovery; a lease id stands at both levels, and is empty at both when
// the pop commits on delivery.
func TestTopLevelOfEveryRoute(t *testing.T) {
	t.Parallel()
	onEveryRoute(t, func(t *testing.T, queue string, pop func(query string) harness.PopReply) {
		name := queue
		if strings.Contains(t.Name(), "discovery") {
			name = ""
		}
		for query, hasLease := range map[string]bool{"commitOnDelivery=true&consumerGroup=c": false, "leaseSeconds=60&consumerGroup=g": true} {
			popped := pop("subscriptionMode=all&" + query)
			needMessages(t, popped, "m0", "m1", "m2")
			needExactKeys(t, popped.Object(), "success", "queue", "partition", "partitionId", "leaseId", "consumerGroup", "messages", "partitionsClaimed")
			for _, row := range popped.Object()["messages"].([]any) {
				message, _ := row.(map[string]any)
				needExactKeys(t, message, popMessageKeys...)
			}
			first := popped.Messages[0]
			if popped.Queue != name || popped.Partition != "Default" || popped.PartitionID != first.PartitionID || popped.PartitionsClaimed != 1 ||
				popped.LeaseID != first.LeaseID || uuidV7.MatchString(popped.LeaseID) != hasLease || !hasLease && popped.LeaseID != "" {
				t.Errorf("%s: got %v", query, popped)
			}
		}
	})
}

// TestEmptyGroupNameIsAGroup: 5.2 and 2.2, only the absent parameter and the reserved name are queue mode.
func TestEmptyGroupNameIsAGroup(t *testing.T) {
	t.Parallel()
	onEveryRoute(t, func(t *testing.T, queue string, pop func(query string) harness.PopReply) {
		popped := pop("consumerGroup=&subscriptionMode=all&leaseSeconds=600")
		needMessageCount(t, popped, 3)
		if popped.Object()["consumerGroup"] != "" || popped.Messages[0].ConsumerGroup != "" {
			t.Fatalf("got %v", popped)
		}
		needMessageCount(t, pop("leaseSeconds=600"), 3)
	})
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
