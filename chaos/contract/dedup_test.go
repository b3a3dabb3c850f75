package contract

import (
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// needDuplicate ends the test unless the verdict is a duplicate of the original.
func needDuplicate(t *testing.T, verdict, original harness.Pushed) {
	t.Helper()
	if verdict.Status != "duplicate" || verdict.MessageID != original.MessageID || verdict.Offset == nil || *verdict.Offset != *original.Offset {
		t.Fatalf("want a duplicate of %s at offset %d, got %+v", original.MessageID, *original.Offset, verdict)
	}
}

// pushAgain pushes one item that may be a duplicate.
func pushAgain(t *testing.T, item harness.Item) harness.Pushed {
	t.Helper()
	reply := suite.client.Push(item)
	need(t, reply.Response, 201)
	return reply.Items[0]
}

func TestDuplicateReportsTheOriginal_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "before", 3)...)
	item := harness.Item{Queue: queue, Payload: "first", TransactionID: "t"}
	original := pushOne(t, suite.client, item)
	item.Payload = "second"
	for range 3 {
		verdict := pushAgain(t, item)
		needDuplicate(t, verdict, original)
		if verdict.TransactionID != "t" || verdict.QueueName != queue {
			t.Fatalf("got %+v", verdict)
		}
	}
	popped := suite.client.Pop(queue, "")
	needMessageCount(t, popped, 4)
	if string(popped.Messages[3].Data) != `"first"` {
		t.Fatalf("got %s", popped.Messages[3].Data)
	}
}

func TestDedupKeyIsTheTxidWithinOnePartition_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client,
		harness.Item{Queue: queue, Partition: "a", Payload: 1, TransactionID: "t"},
		harness.Item{Queue: queue, Partition: "b", Payload: 1, TransactionID: "t"},
		harness.Item{Queue: queue + "x", Partition: "a", Payload: 1, TransactionID: "t"})
	pushAll(t, suite.client, // compared as bytes
		harness.Item{Queue: queue, Partition: "a", Payload: 1, TransactionID: "T"},
		harness.Item{Queue: queue, Partition: "a", Payload: 1, TransactionID: "t "},
		harness.Item{Queue: queue, Partition: "a", Payload: 1, TransactionID: "t\x00"},
		harness.Item{Queue: queue, Partition: "a", Payload: 1, TransactionID: "\u00e9"},
		harness.Item{Queue: queue, Partition: "a", Payload: 1, TransactionID: "e\u0301"})
}

func TestConcurrentPushesOfOneTxidStoreOne_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const pushes = 32
	for round := range 5 {
		item := harness.Item{Queue: queue, Payload: round, TransactionID: fmt.Sprint("t", round)}
		replies := make(chan harness.PushReply, pushes)
		for range pushes {
			go func() { replies <- suite.client.Push(item) }()
		}
		ids, queued := map[string]bool{}, 0
		for range pushes {
			reply := <-replies
			need(t, reply.Response, 201)
			verdict := reply.Items[0]
			ids[verdict.MessageID] = true
			if verdict.Status == "queued" {
				queued++
			}
			if verdict.Offset == nil || *verdict.Offset != int64(round) {
				t.Fatalf("want offset %d, got %+v", round, verdict)
			}
		}
		if queued != 1 || len(ids) != 1 {
			t.Fatalf("want one winner with one id, got %d with %v", queued, ids)
		}
	}
}

func TestRepeatsWithinARequestCollapse_4_6(t *testing.T) {
	t.Parallel()
	for _, window := range []int{3600, 0} {
		t.Run(fmt.Sprint("dedupWindowSeconds ", window), func(t *testing.T) {
			queue := uniqueName(t)
			need(t, suite.client.Configure(queue, map[string]any{"dedupWindowSeconds": window}), 200)
			a := harness.Item{Queue: queue, Payload: 1, TransactionID: "a"}
			b := harness.Item{Queue: queue, Payload: 1, TransactionID: "b"}
			elsewhere := harness.Item{Queue: queue, Partition: "other", Payload: 1, TransactionID: "a"}
			reply := suite.client.Push(a, b, a, elsewhere, a)
			need(t, reply.Response, 201)
			for i, want := range []string{"queued", "queued", "duplicate", "queued", "duplicate"} {
				if reply.Items[i].Status != want {
					t.Fatalf("item %d: want %s, got %v", i, want, reply)
				}
			}
			needDuplicate(t, reply.Items[2], reply.Items[0])
			needDuplicate(t, reply.Items[4], reply.Items[0])
			if *reply.Items[1].Offset != 1 {
				t.Fatalf("a duplicate takes no offset, got %v", reply)
			}
		})
	}
	t.Run("of a txid that exists already, all are duplicates of it", func(t *testing.T) {
		queue := uniqueName(t)
		item := harness.Item{Queue: queue, Payload: 1, TransactionID: "a"}
		original := pushOne(t, suite.client, item)
		reply := suite.client.Push(item, item)
		need(t, reply.Response, 201)
		needDuplicate(t, reply.Items[0], original)
		needDuplicate(t, reply.Items[1], original)
	})
}

func TestWindowZeroTurnsTheLookBackOff_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"dedupWindowSeconds": 0}), 200)
	for i := range 3 {
		if verdict := pushOne(t, suite.client, harness.Item{Queue: queue, Payload: i, TransactionID: "t"}); *verdict.Offset != int64(i) {
			t.Fatalf("got %+v", verdict)
		}
	}
}

func TestWindowIsMeasuredFromTheOriginal_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const window = 2 * time.Second
	need(t, suite.client.Configure(queue, map[string]any{"dedupWindowSeconds": int(window.Seconds())}), 200)
	item := harness.Item{Queue: queue, Payload: 1, TransactionID: "t"}
	before := time.Now()
	original := pushOne(t, suite.client, item)
	// The duplicates on the way must not renew the window.
	eventually(t, window+promptly, func() (bool, string) {
		verdict := pushAgain(t, item)
		if verdict.Status == "queued" {
			if after := time.Since(before); after < window {
				t.Fatalf("the window of %v lapsed after %v", window, after)
			}
			return *verdict.Offset == 1, fmt.Sprintf("%+v", verdict)
		}
		needDuplicate(t, verdict, original)
		return false, "still a duplicate"
	})
	t.Run("of several matches the lowest offset is reported", func(t *testing.T) {
		need(t, suite.client.Configure(queue, map[string]any{"dedupWindowSeconds": 3600}), 200)
		needDuplicate(t, pushAgain(t, item), original)
	})
}

func TestMessagesWithoutTxidNeverDedup_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	items := make([]harness.Item, 100)
	for i := range items {
		items[i] = harness.Item{Queue: queue, Payload: "same"}
	}
	ids := map[string]bool{}
	for _, verdict := range pushAll(t, suite.client, items...) {
		ids[verdict.MessageID] = true
	}
	if len(ids) != 100 {
		t.Fatalf("want 100 ids, got %d", len(ids))
	}
}

func TestDuplicateOfAConsumedMessage_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	item := harness.Item{Queue: queue, Payload: 1, TransactionID: "t"}
	original := pushOne(t, suite.client, item)
	popped := suite.client.Pop(queue, "leaseSeconds=60")
	needMessages(t, popped, "t")
	needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
	needDuplicate(t, pushAgain(t, item), original)
	needEmpty(t, suite.client.Pop(queue, ""))
}

func TestDuplicateOfARemovedMessage_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"retentionEnabled": true, "retentionSeconds": 1}), 200)
	item := harness.Item{Queue: queue, Payload: 1, TransactionID: "t"}
	original := pushOne(t, suite.client, item)
	eventually(t, 30*time.Second, func() (bool, string) {
		entry := fetch(t, queue, "Default", 0)
		return entry.LogStartOffset == 1, fmt.Sprintf("%+v", entry)
	})
	needDuplicate(t, pushAgain(t, item), original)
}

func TestPushOfDuplicatesWakesNobody_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	item := harness.Item{Queue: queue, Payload: 1, TransactionID: "t"}
	pushOne(t, suite.client, item)
	needMessages(t, suite.client.Pop(queue, "commitOnDelivery=true"), "t")
	stamp := fetch(t, queue, "Default", 0).Records[0].TS
	parked := make(chan harness.PopReply, 1)
	go func() { parked <- suite.client.Pop(queue, "wait=true&timeout=1500") }()
	pushAgain(t, item)
	popped := <-parked
	needEmpty(t, popped)
	if popped.Elapsed < time.Second {
		t.Fatalf("answered after %v", popped.Elapsed)
	}
	changed, _ := fetchEntries[changedEntry](t, "/api/v1/partitions/changed", fmt.Sprintf(`{"entries":[{"queue":%q}]}`, queue))
	if got := changed[0].Partitions[0]; !got.LastWriteAt.Equal(stamp) || got.LastOffset != 0 {
		t.Fatalf("a duplicate changes no stamp, got %+v after %v", got, stamp)
	}
}

func TestDeletingAQueueForgetsItsWindow_4_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	item := harness.Item{Queue: queue, Payload: 1, TransactionID: "t"}
	original := pushOne(t, suite.client, item)
	need(t, suite.client.DeleteQueue(queue), 200)
	if verdict := pushOne(t, suite.client, item); verdict.MessageID == original.MessageID || *verdict.Offset != 0 {
		t.Fatalf("got %+v", verdict)
	}
}
