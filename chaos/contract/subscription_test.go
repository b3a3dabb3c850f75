package contract

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// iso formats a subscription timestamp for a query string.
func iso(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z") }

func TestFirstPopDecidesTheSubscription_5_8(t *testing.T) {
	t.Parallel()
	cases := []struct {
		rule, first string
		history     bool // whether what was there before reaches the group
	}{
		{"an unnamed mode is new", "", false},
		{"new", "subscriptionMode=new", false},
		{"all", "subscriptionMode=all", true},
		{"any other mode is all", "subscriptionMode=from_beginning", true},
		{"so is this one", "subscriptionMode=earliest", true},
		{"from now is new", "subscriptionFrom=now", false},
		{"from beats mode", "subscriptionMode=all&subscriptionFrom=now", false},
		{"a timestamp in the past", "subscriptionFrom=2001-01-01T00:00:00Z", true},
		{"a timestamp beats mode", "subscriptionMode=new&subscriptionFrom=2001-01-01T00:00:00Z", true},
		{"a value that does not parse is ignored", "subscriptionMode=all&subscriptionFrom=lately", true},
		{"a value that does not parse leaves the default", "subscriptionFrom=lately", false},
		{"an empty value does not parse", "subscriptionMode=all&subscriptionFrom=", true},
		{"now has one spelling", "subscriptionMode=all&subscriptionFrom=NOW", true},
		{"epoch milliseconds do not parse", "subscriptionFrom=978307200000", false},
		{"a timestamp without a zone", "subscriptionFrom=2001-01-01T00:00:00", true},
		{"new has one spelling", "subscriptionMode=NEW", true},
		{"an empty mode is any other value", "subscriptionMode=", true},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			queue := uniqueName(t)
			pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "old"})
			for route, pop := range popRoutes { // a discovery pop registers like a wildcard pop, a pinned one seeds alike
				if route == "wildcard" {
					continue
				}
				popped := pop(queue, "commitOnDelivery=true&consumerGroup="+route+"&"+c.first)
				if c.history {
					needMessages(t, popped, "old")
				} else {
					needEmpty(t, popped)
				}
			}
			first := suite.client.Pop(queue, "consumerGroup=g&commitOnDelivery=true&"+c.first)
			if c.history {
				needMessages(t, first, "old")
			} else {
				needEmpty(t, first)
			}
			pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "late"})
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "new partition", Payload: 1, TransactionID: "new"})
			// Later parameters are ignored, whatever they say.
			needMessages(t, suite.client.Pop(queue, "consumerGroup=g&partitions=2&subscriptionMode=all"), "late", "new")
		})
	}
}

func TestLaterParametersCannotRewind_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 2, 1)...)
	needEmpty(t, suite.client.Pop(queue, "consumerGroup=g&subscriptionMode=new"))
	for _, query := range []string{"subscriptionMode=all", "subscriptionFrom=2001-01-01T00:00:00Z"} {
		needEmpty(t, suite.client.Pop(queue, "consumerGroup=g&partitions=2&"+query))
		needEmpty(t, suite.client.PopPartition(queue, "p0", "consumerGroup=g&"+query))
	}
	t.Run("nor forward", func(t *testing.T) {
		needMessageCount(t, suite.client.Pop(queue, "consumerGroup=h&subscriptionMode=all&commitOnDelivery=true"), 1)
		needMessageCount(t, suite.client.Pop(queue, "consumerGroup=h&subscriptionFrom=now&commitOnDelivery=true"), 1)
	})
}

func TestTimestampSubscriptionStartsAtTheAppend_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for i := range 3 {
		pushAll(t, suite.client, numbered(queue, "", fmt.Sprint(i, "-"), 2)...)
	}
	records := fetch(t, queue, "Default", 0).Records
	if len(records) != 6 {
		t.Fatalf("want 6 records, got %d", len(records))
	}
	at := records[2].TS
	needMessages(t, suite.client.Pop(queue, "consumerGroup=at&subscriptionFrom="+iso(at)), "1-0", "1-1", "2-0", "2-1")
	needMessages(t, suite.client.Pop(queue, "consumerGroup=after&subscriptionFrom="+iso(at.Add(time.Microsecond))), "2-0", "2-1")
	needMessages(t, suite.client.PopPartition(queue, "Default", "consumerGroup=pinned&subscriptionFrom="+iso(at)), "1-0", "1-1", "2-0", "2-1")
	t.Run("one in the future waits for its time", func(t *testing.T) {
		needEmpty(t, suite.client.Pop(queue, "consumerGroup=future&subscriptionFrom="+iso(time.Now().Add(time.Hour))))
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
		needEmpty(t, suite.client.Pop(queue, "consumerGroup=future"))
	})
}

func TestParkedFirstPopOfANewGroupGetsWhatIsPushed_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "old"})
	group := "g" + queue
	waiting := park(queue, "subscriptionMode=new&consumerGroup="+group)
	// Its arrival shows in the registration. Asking for it moves the instant (10.6), to where it still excludes the old
	// message and includes everything later.
	instant := iso(fetch(t, queue, "Default", 0).Records[0].TS.Add(time.Microsecond))
	eventually(t, promptly, func() (bool, string) {
		answer := suite.client.Post("/api/v1/consumer-groups/"+group+"/subscription", map[string]any{"subscriptionTimestamp": instant})
		return answer.Object()["rowsUpdated"] == json.Number("1"), answer.String()
	})
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
	needWoken(t, waiting, "t")
}

// hasCursor asks whether a group has a cursor on a queue.
func hasCursor(queue, group string) bool {
	_, has := suite.client.Get("/api/v1/consumer-groups/" + group).Object()[queue]
	return has
}

func TestNothingPushedAfterTheRegistrationIsMissed_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 3, 2)...)
	needEmpty(t, suite.client.Pop(queue, "consumerGroup=g"))
	want := map[string]bool{}
	for round := range 3 {
		for p := range 6 { // p3 to p5 do not exist yet
			id := fmt.Sprint(p, "/", round)
			want[id] = true
			pushOne(t, suite.client, harness.Item{Queue: queue, Partition: fmt.Sprint("p", p), Payload: 1, TransactionID: id})
		}
	}
	popped := suite.client.Pop(queue, "consumerGroup=g&partitions=64&batch=1000")
	needMessageCount(t, popped, len(want))
	for _, id := range popped.TransactionIDs() {
		if !want[id] {
			t.Fatalf("got %q", id)
		}
	}
}

func TestPinnedPopSeedsFromItsOwnParametersAndRegistersNothing_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 2, 1)...)
	t.Run("new is the tail at its arrival", func(t *testing.T) {
		needEmpty(t, suite.client.PopPartition(queue, "p0", "consumerGroup=g"))
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p0", Payload: 1, TransactionID: "late"})
		needMessages(t, suite.client.PopPartition(queue, "p0", "consumerGroup=g&subscriptionMode=all&commitOnDelivery=true"), "late")
	})
	t.Run("everything else is all", func(t *testing.T) {
		needMessages(t, suite.client.PopPartition(queue, "p1", "consumerGroup=g&subscriptionMode=other&commitOnDelivery=true"), "p1-0")
	})
	t.Run("the next wildcard pop registers", func(t *testing.T) {
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p2", Payload: 1, TransactionID: "p2-0"})
		needMessages(t, suite.client.Pop(queue, "consumerGroup=g&subscriptionMode=all&partitions=3"), "p2-0")
	})
	t.Run("a partition that does not exist yet gets no cursor", func(t *testing.T) {
		needEmpty(t, suite.client.PopPartition(queue, "p9", "consumerGroup=h"))
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p9", Payload: 1, TransactionID: "p9-0"})
		needMessages(t, suite.client.PopPartition(queue, "p9", "consumerGroup=h&subscriptionMode=all"), "p9-0")
	})
	t.Run("a parked one receives what is pushed after its arrival", func(t *testing.T) {
		waiting := make(parked, 1)
		go func() { waiting <- suite.client.PopPartition(queue, "p0", "wait=true&timeout=30000&consumerGroup=k") }()
		eventually(t, promptly, func() (bool, string) { return hasCursor(queue, "k"), "it has no cursor yet" })
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p0", Payload: 1, TransactionID: "woken"})
		needWoken(t, waiting, "woken")
	})
}

func TestQueueModeStartsAtTheOldestMessage_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 2)...)
	needMessages(t, suite.client.Pop(queue, "subscriptionMode=new&subscriptionFrom=now"), "m0", "m1")
	for _, row := range suite.client.Get("/api/v1/consumer-groups").Array() {
		group, _ := row.(map[string]any)
		if group["queueName"] == queue && (group["name"] != "__QUEUE_MODE__" || group["subscriptionMode"] != nil) {
			t.Fatalf("queue mode has no registration, got %v", group)
		}
	}
}

func TestRegistrationIsListed_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
	modes := map[string]string{"a": "subscriptionMode=all", "n": "subscriptionMode=new", "t": "subscriptionFrom=2001-01-01T00:00:00Z"}
	for group, query := range modes {
		need(t, suite.client.Pop(queue, "consumerGroup="+group+"&"+query).Response, map[string]int{"a": 200, "n": 204, "t": 200}[group])
	}
	needMessageCount(t, suite.client.PopPartition(queue, "Default", "consumerGroup=p&subscriptionMode=all"), 1)
	pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "x", Payload: 1}) // a group is listed once it has a cursor
	needMessageCount(t, suite.client.Pop(queue, "consumerGroup=n"), 1)
	want := map[string]any{"a": "all", "n": "new", "t": "timestamp", "p": nil}
	found := 0
	for _, row := range suite.client.Get("/api/v1/consumer-groups").Array() {
		group, _ := row.(map[string]any)
		if group["queueName"] != queue {
			continue
		}
		found++
		name, _ := group["name"].(string)
		if group["subscriptionMode"] != want[name] || group["conflation"] != false {
			t.Errorf("%s: want mode %v, got %v", name, want[name], group)
		}
	}
	if found != len(want) {
		t.Errorf("want %d groups, got %d", len(want), found)
	}
}

func TestDeletedGroupRegistersAfresh_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	group := "g" + queue
	pushAll(t, suite.client, numbered(queue, "", "m", 2)...)
	needEmpty(t, suite.client.Pop(queue, "subscriptionMode=new&consumerGroup="+group))
	need(t, suite.client.Delete("/api/v1/consumer-groups/"+group), 200)
	needMessages(t, suite.client.Pop(queue, "subscriptionMode=all&consumerGroup="+group), "m0", "m1")
}

func TestDiscoveryRegistersOnEveryMatchingQueue_5_8(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	for _, task := range []string{"a", "b", "c"} {
		pushOne(t, suite.client, harness.Item{Queue: namespace + "." + task, Payload: 1, TransactionID: "old " + task})
	}
	// It may deliver from one partition only; the others are registered all the same.
	needMessageCount(t, suite.client.Discover("consumerGroup=g&subscriptionMode=all&batch=1&commitOnDelivery=true&namespace="+namespace), 1)
	rest := 0
	for _, task := range []string{"a", "b", "c"} {
		popped := suite.client.Pop(namespace+"."+task, "consumerGroup=g&subscriptionMode=new")
		rest += len(popped.Messages)
	}
	if rest != 2 {
		t.Fatalf("the two other queues were registered with mode all and hold one message each, got %d", rest)
	}
}

func TestServerDefaultOfTheSubscriptionMode_5_8(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"DEFAULT_SUBSCRIPTION_MODE": "all"}).Client()
	pushOne(t, client, harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
	needMessages(t, client.Pop("q", "consumerGroup=unnamed"), "t")
	needMessages(t, client.PopPartition("q", "Default", "consumerGroup=pinned"), "t")
	needMessages(t, client.Discover("namespace=q&consumerGroup=discovered"), "t")
	needMessages(t, client.Pop("q", "consumerGroup=ignored&subscriptionFrom=lately"), "t")
	needEmpty(t, client.Pop("q", "consumerGroup=named&subscriptionMode=new"))
	needEmpty(t, client.Pop("q", "consumerGroup=now&subscriptionFrom=now"))
}

func TestCursorBelowTheLogStartResumesThere_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "old", 2)...)
	popped := suite.client.Pop(queue, "consumerGroup=g&subscriptionMode=all&leaseSeconds=60")
	needMessageCount(t, popped, 2)
	needAcked(t, suite.client.AckMessages("retry", popped.Messages[0]))
	need(t, suite.client.Configure(queue, map[string]any{"retentionEnabled": true, "retentionSeconds": 1}), 200)
	eventually(t, 30*time.Second, func() (bool, string) {
		entry := fetch(t, queue, "Default", 0)
		return entry.LogStartOffset == 2, fmt.Sprintf("%+v", entry)
	})
	needEmpty(t, suite.client.Pop(queue, "consumerGroup=g")) // the cursor is the tail
	need(t, suite.client.Configure(queue, map[string]any{"retentionEnabled": false}), 200)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "late"})
	resumed := suite.client.Pop(queue, "consumerGroup=g")
	needMessages(t, resumed, "late")
	if resumed.Messages[0].Offset != 2 {
		t.Fatalf("got offset %d", resumed.Messages[0].Offset)
	}
}

func TestNewGroupOverThousandsOfPartitions_5_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const partitions, call = 5_000, 1_000
	pushEach := func(id string) {
		t.Helper()
		for start := 0; start < partitions; start += call {
			items := make([]harness.Item, call)
			for i := range items {
				partition := fmt.Sprint(start + i)
				items[i] = harness.Item{Queue: queue, Partition: partition, Payload: 1, TransactionID: id + partition}
			}
			pushAll(t, suite.client, items...)
		}
	}
	pushEach("old")
	for group, query := range map[string]string{"new": "subscriptionMode=new", "now": "subscriptionFrom=" + iso(time.Now())} {
		first := suite.client.Pop(queue, "consumerGroup="+group+"&"+query)
		needEmpty(t, first)
		if first.Elapsed > 10*time.Second {
			t.Fatalf("%s: the first pop took %v", group, first.Elapsed)
		}
	}
	pushEach("late")
	seen := map[string]bool{}
	for deadline := time.Now().Add(30 * time.Second); len(seen) < partitions && time.Now().Before(deadline); {
		popped := suite.client.Pop(queue, "consumerGroup=new&partitions=64&batch=64&commitOnDelivery=true")
		for _, message := range popped.Messages {
			if message.TransactionID != "late"+message.Partition || seen[message.Partition] {
				t.Fatalf("got %+v", message)
			}
			seen[message.Partition] = true
		}
		if popped.Status == 204 {
			break
		}
	}
	if len(seen) != partitions {
		t.Fatalf("%d of %d new messages reached the group", len(seen), partitions)
	}
}

// TestNamedPinnedPopOfAMissingPartition: 5.8 and 5.7, a parked pop receives what is pushed after its arrival, whatever the
// mode; one that ends before the partition exists leaves no cursor.
func TestNamedPinnedPopOfAMissingPartition(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	modes := []string{"", "subscriptionMode=new", "subscriptionFrom=now", "subscriptionMode=all", "subscriptionFrom=2001-01-01T00:00:00Z"}
	pinned := func(queue string, group int, query string) harness.PopReply {
		return client.PopPartition(queue, "p", fmt.Sprint("consumerGroup=g", group, "&", query))
	}
	for _, queue := range []string{"existing", "missing"} {
		t.Run("5.8 "+queue+" queue", func(t *testing.T) {
			if queue == "existing" {
				pushOne(t, client, harness.Item{Queue: queue, Partition: "other", Payload: 1})
			}
			waiting := make([]parked, len(modes))
			for i, mode := range modes {
				needEmpty(t, pinned(queue, i, "subscriptionMode=new"))                       // leaves no cursor
				needEmpty(t, pinned(queue, i, "subscriptionMode=new&wait=true&timeout=100")) // nor does a parked one
				waiting[i] = make(parked, 1)
				go func() { waiting[i] <- pinned(queue, i, "wait=true&timeout=30000&"+mode) }()
			}
			awaitParked(t, client, len(modes))
			pushAll(t, client, numbered(queue, "p", "m", 2)...)
			for i, mode := range modes {
				if popped := needWoken(t, waiting[i], "m0", "m1"); popped.Messages[0].DeliveryAttempt != 1 {
					t.Errorf("%q: got %v", mode, popped)
				}
			}
			late := len(modes) // the pops of this group ended before the partition was there
			needMessages(t, pinned(queue, late, "subscriptionMode=all"), "m0", "m1")
			for i := range modes { // the first wildcard pop registers: nothing was registered
				needEmpty(t, client.Pop(queue, fmt.Sprint("subscriptionMode=new&consumerGroup=g", i)))
			}
		})
	}
}

// TestPopsThatEndedBeforeThePartitionLeaveNoCursor: 5.8, for a pop that waits and one that does not.
func TestPopsThatEndedBeforeThePartitionLeaveNoCursor(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"", "wait=true&timeout=100&"} {
		for _, exists := range []bool{false, true} {
			t.Run(fmt.Sprintf("5.8 %s queue exists %v", wait, exists), func(t *testing.T) {
				t.Parallel()
				queue := uniqueName(t)
				if exists {
					pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
				}
				needEmpty(t, suite.client.PopPartition(queue, "p", wait+"consumerGroup=g&subscriptionFrom=now"))
				pushOne(t, suite.client, harness.Item{Queue: queue, Partition: "p", Payload: 1, TransactionID: "t"})
				needMessages(t, suite.client.PopPartition(queue, "p", "consumerGroup=g&subscriptionMode=all"), "t")
			})
		}
	}
}

// TestLaterDiscoveryCannotRewind: 5.8, also a discovery pop takes the registration as it stands; queues that match later
// are registered by the pop that finds them.
func TestLaterDiscoveryCannotRewind(t *testing.T) {
	t.Parallel()
	namespace := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: namespace + ".a", Payload: 1, TransactionID: "old"})
	discover := func(query string) harness.PopReply {
		return suite.client.Discover("partitions=9&consumerGroup=g&namespace=" + namespace + "&" + query)
	}
	needEmpty(t, discover("subscriptionMode=new"))
	needEmpty(t, discover("subscriptionMode=all"))
	needEmpty(t, discover("subscriptionFrom=2001-01-01T00:00:00Z"))
	pushOne(t, suite.client, harness.Item{Queue: namespace + ".b", Payload: 1, TransactionID: "found later"})
	needMessages(t, discover("subscriptionMode=all"), "found later")
}
