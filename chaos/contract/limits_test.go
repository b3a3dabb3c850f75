package contract

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// nameBudget is what is left of the key budget for a queue and the longer of partition and group, in bytes (2.11).
const nameBudget = 411

// padded makes a name of this many bytes that begins with prefix.
func padded(prefix string, length int) string {
	return prefix + strings.Repeat("x", length-len(prefix))
}

func TestRequestHeadIsBounded_2_11(t *testing.T) {
	t.Parallel()
	const headMost = 16 << 10
	queue := uniqueName(t)
	t.Run("request line and headers count together, to the byte", func(t *testing.T) {
		for bytes, status := range map[int]int{headMost: 200, headMost + 1: 431} {
			wire, err := suite.broker.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer wire.Close()
			line, headers := "GET /health?ignored="+strings.Repeat("x", headMost/2), " HTTP/1.1\r\nHost: queen\r\nX-Ignored: "
			head := line + headers + strings.Repeat("y", bytes-len(line)-len(headers)-len("\r\n\r\n")) + "\r\n\r\n"
			if err := wire.Send(head); err != nil {
				t.Fatal(err)
			}
			if answer := wire.Receive("GET"); answer.Status != status {
				t.Errorf("a head of %d bytes: want %d, got %v", bytes, status, answer)
			}
		}
	})
	t.Run("a head below the limit works", func(t *testing.T) {
		answer := suite.client.Get("/api/v1/pop/queue/" + queue + "?ignored=" + strings.Repeat("x", headMost-2048))
		need(t, answer, 204)
	})
	t.Run("a long request line", func(t *testing.T) {
		needEnvelope(t, suite.client.Get("/api/v1/pop/queue/"+queue+"?ignored="+strings.Repeat("x", headMost)), 431, "header_too_large")
	})
	t.Run("long headers", func(t *testing.T) {
		client := suite.client.With("X-One", strings.Repeat("a", headMost/2)).With("X-Two", strings.Repeat("b", headMost/2))
		needEnvelope(t, client.Get("/health"), 431, "header_too_large")
	})
}

func TestNestingOfABodyIsBounded_2_11(t *testing.T) {
	t.Parallel()
	const levelsMost = 10_000
	queue := uniqueName(t)
	body := func(levels int) string {
		depth := levels - 3 // the body, its items and the item
		return fmt.Sprintf(`{"items":[{"queue":%q,"payload":%s%s}]}`, queue, strings.Repeat("[", depth), strings.Repeat("]", depth))
	}
	needEnvelope(t, suite.client.Post("/api/v1/push", body(levelsMost+1)), 400, "bad_body")
	needEnvelope(t, suite.client.Post("/api/v1/push", body(100*levelsMost)), 400, "bad_body")
	need(t, suite.client.Post("/api/v1/push", body(levelsMost)), 201)
	popped := suite.client.Get("/api/v1/pop/queue/" + queue)
	need(t, popped, 200)
	if !strings.Contains(string(popped.Body), strings.Repeat("[", levelsMost-3)+strings.Repeat("]", levelsMost-3)) {
		t.Fatal("the payload did not come back")
	}
}

func TestLeaseIsAtMostAHundredYears_2_11(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, harness.Item{Queue: queue, Partition: "a", Payload: 1}, harness.Item{Queue: queue, Partition: "b", Payload: 1})
	hundredYears := 100 * 365 * 24 * time.Hour
	needAbout := func(t *testing.T, reply harness.ExtendReply) {
		t.Helper()
		need(t, reply.Response, 200)
		if reply.NewExpiresAt == nil {
			t.Fatalf("got %v", reply)
		}
		// A year may be counted with or without its leap days.
		if left := time.Until(*reply.NewExpiresAt); left < hundredYears-24*time.Hour || left > hundredYears+26*24*time.Hour {
			t.Fatalf("want 100 years, got %v", left)
		}
	}
	t.Run("leaseSeconds", func(t *testing.T) {
		popped := suite.client.Pop(queue, "leaseSeconds=9000000000000000000")
		needMessageCount(t, popped, 1)
		needAbout(t, suite.client.Extend(popped.LeaseID, `{"seconds":1}`))
	})
	t.Run("seconds of an extend", func(t *testing.T) {
		popped := suite.client.Pop(queue, "leaseSeconds=60")
		needMessageCount(t, popped, 1)
		needAbout(t, suite.client.Extend(popped.LeaseID, `{"seconds":1e18}`))
	})
}

func TestKeyBudgetOfNames_2_11(t *testing.T) {
	t.Parallel()
	prefix := uniqueName(t)
	push := func(queue, partition string) harness.Response {
		return suite.client.Push(harness.Item{Queue: queue, Partition: partition, Payload: 1}).Response
	}
	t.Run("push: queue and partition", func(t *testing.T) {
		queue := padded(prefix+"a", 100)
		need(t, push(queue, padded("p", nameBudget-100)), 201)
		needEnvelope(t, push(queue, padded("p", nameBudget-100+1)), 413, "name_too_long")
	})
	t.Run("push: the default partition counts", func(t *testing.T) {
		need(t, push(padded(prefix+"b", nameBudget-len("Default")), ""), 201)
		needEnvelope(t, push(padded(prefix+"c", nameBudget-len("Default")+1), ""), 413, "name_too_long")
	})
	t.Run("bytes count, not characters", func(t *testing.T) {
		queue := padded(prefix+"d", 211)
		need(t, push(queue, strings.Repeat("é", 100)), 201)
		needEnvelope(t, push(queue, strings.Repeat("é", 101)), 413, "name_too_long")
	})
	t.Run("push: one long name refuses the whole request", func(t *testing.T) {
		good := prefix + "e"
		reply := suite.client.Push(harness.Item{Queue: good, Payload: 1}, harness.Item{Queue: padded("q", 500), Payload: 1})
		needEnvelope(t, reply.Response, 413, "name_too_long")
		need(t, suite.client.Get("/api/v1/resources/queues/"+good), 404)
	})
	t.Run("pop: queue and group", func(t *testing.T) {
		queue := padded(prefix+"f", 100)
		needEmpty(t, suite.client.Pop(queue, "consumerGroup="+padded("g", nameBudget-100)))
		needEnvelope(t, suite.client.Pop(queue, "consumerGroup="+padded("g", nameBudget-100+1)).Response, 413, "name_too_long")
	})
	t.Run("pinned pop: the longer of partition and group", func(t *testing.T) {
		queue := padded(prefix+"g", 100)
		needEmpty(t, suite.client.PopPartition(queue, padded("p", nameBudget-100), "consumerGroup=g"))
		needEnvelope(t, suite.client.PopPartition(queue, padded("p", nameBudget-100+1), "consumerGroup=g").Response, 413, "name_too_long")
	})
	t.Run("discovery: the group, with each queue that it is to be registered on", func(t *testing.T) {
		short, long := prefix+"i.a", padded(prefix+"i.b", 200)
		pushAll(t, suite.client, harness.Item{Queue: short, Payload: 1, TransactionID: "t"}, harness.Item{Queue: long, Payload: 1})
		query := "subscriptionMode=all&namespace=" + prefix + "i&partitions=2&consumerGroup="
		for _, length := range []int{nameBudget - 200 + 1, nameBudget + 1} {
			needEnvelope(t, suite.client.Discover(query+padded("g", length)).Response, 413, "name_too_long")
		}
		needMessageCount(t, suite.client.Discover(query+padded("g", nameBudget-200)), 2)
		// The refused group is registered nowhere, or this pop could not say new.
		needEmpty(t, suite.client.Pop(short, "subscriptionMode=new&consumerGroup="+padded("g", nameBudget-200+1)))
	})
	t.Run("discovery: the group alone", func(t *testing.T) {
		query := "namespace=" + prefix + "none&consumerGroup="
		needEmpty(t, suite.client.Discover(query+padded("g", nameBudget)))
		needEnvelope(t, suite.client.Discover(query+padded("g", nameBudget+1)).Response, 413, "name_too_long")
	})
	t.Run("configure", func(t *testing.T) {
		needEnvelope(t, suite.client.Configure(padded(prefix+"h", nameBudget+1), nil), 413, "name_too_long")
	})
	t.Run("transaction", func(t *testing.T) {
		queue := padded(prefix+"i", 100)
		fits, tooLong := padded("p", nameBudget-100), padded("p", nameBudget-100+1)
		operation := func(partition string) map[string]any {
			return map[string]any{"type": "push", "queue": queue, "partition": partition, "payload": 1}
		}
		needCommitted(t, suite.client.Transaction(operations([]any{operation(fits)})))
		needEnvelope(t, suite.client.Transaction(operations([]any{operation(tooLong)})).Response, 413, "name_too_long")
		position := func(group string) map[string]any {
			return map[string]any{"positions": []any{map[string]any{"queue": queue, "partition": fits, "consumerGroup": group, "offset": 0}}}
		}
		needCommitted(t, suite.client.Transaction(position(fits)))
		needEnvelope(t, suite.client.Transaction(position(tooLong)).Response, 413, "name_too_long")
	})
	t.Run("transaction: the group of an ack", func(t *testing.T) {
		ack := func(length int) map[string]any {
			return map[string]any{"type": "ack", "transactionId": "t", "partitionId": noPartition, "consumerGroup": padded("g", length)}
		}
		needRolledBack(t, suite.client.Transaction(operations([]any{ack(nameBudget)})), "rejected_ack")
		needEnvelope(t, suite.client.Transaction(operations([]any{ack(nameBudget + 1)})).Response, 413, "name_too_long")
	})
	t.Run("ack: the group", func(t *testing.T) {
		needVerdicts(t, suite.client.Ack(padded("g", nameBudget), harness.AckItem{TransactionID: "t", PartitionID: noPartition}), refused("no partition "+noPartition))
		item := harness.AckItem{TransactionID: "t", PartitionID: noPartition}
		needEnvelope(t, suite.client.Ack(padded("g", nameBudget+1), item).Response, 413, "name_too_long")
	})
}

func TestTransactionIDIsBounded_2_11(t *testing.T) {
	t.Parallel()
	const bytesMost = 65_535
	queue := uniqueName(t)
	longest := strings.Repeat("é", bytesMost/2) + "x"
	t.Run("the longest is stored and found again", func(t *testing.T) {
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: longest})
		reply := suite.client.Push(harness.Item{Queue: queue, Payload: 1, TransactionID: longest})
		if need(t, reply.Response, 201); reply.Items[0].Status != "duplicate" {
			t.Fatalf("got %v", reply)
		}
		popped := suite.client.Pop(queue, "leaseSeconds=60")
		needMessages(t, popped, longest)
		needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
	})
	t.Run("one byte more refuses the whole push", func(t *testing.T) {
		reply := suite.client.Push(harness.Item{Queue: queue, Payload: 1}, harness.Item{Queue: queue, Payload: 1, TransactionID: longest + "x"})
		needEnvelope(t, reply.Response, 400, "bad_body")
		if !strings.HasPrefix(reply.Text("error"), "bad push body: ") {
			t.Fatalf("got %v", reply)
		}
		needEmpty(t, suite.client.Pop(queue, ""))
	})
	t.Run("the longest of a transaction", func(t *testing.T) {
		other := queue + "-transaction"
		needCommitted(t, suite.client.Transaction(operations([]any{pushOperation(other, longest)})))
		needMessages(t, suite.client.Pop(other, ""), longest)
	})
	t.Run("and the whole transaction", func(t *testing.T) {
		body := fmt.Sprintf(`{"operations":[{"type":"push","queue":%q,"payload":1,"transactionId":%q}]}`, queue, strings.Repeat("x", bytesMost+1))
		needEnvelope(t, suite.client.Transaction(body).Response, 400, "bad_request")
		needEmpty(t, suite.client.Pop(queue, ""))
	})
}

func TestOneGroupOfAPushFitsOneEntry_2_11(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_ENTRY_MAX_BYTES": "1048576"}).Client()
	half := strings.Repeat("x", 600<<10)
	reply := client.Push(
		harness.Item{Queue: "q", Partition: "big", Payload: half, TransactionID: "b0"},
		harness.Item{Queue: "q", Partition: "fits", Payload: 1, TransactionID: "f0"},
		harness.Item{Queue: "q", Partition: "big", Payload: half, TransactionID: "b1"})
	need(t, reply.Response, 201)
	for i, want := range []string{"error", "queued", "error"} {
		verdict := reply.Items[i]
		if verdict.Status != want || verdict.Index != i {
			t.Fatalf("item %d: want %s, got %+v", i, want, verdict)
		}
		if want == "error" && (verdict.Error == "" || !uuidV7.MatchString(verdict.MessageID)) {
			t.Fatalf("an error item has a reason and a minted id, got %+v", verdict)
		}
		row, _ := reply.Array()[i].(map[string]any)
		needExactKeys(t, row, append([]string{"index", "message_id", "transaction_id", "queueName", "status"},
			map[string]string{"error": "error", "queued": "offset"}[want])...)
	}
	if errorItem := reply.Items[2]; errorItem.TransactionID != "b1" || errorItem.QueueName != "q" {
		t.Fatalf("got %+v", errorItem)
	}
	needMessages(t, client.Pop("q", "partitions=10"), "f0")
	t.Run("the txids of a refused group are free", func(t *testing.T) {
		pushOne(t, client, harness.Item{Queue: "q", Partition: "big", Payload: 1, TransactionID: "b0"})
	})
	t.Run("a transaction beyond an entry is too_large", func(t *testing.T) {
		body := fmt.Sprintf(`{"operations":[{"type":"push","queue":"q","payload":%q},{"type":"push","queue":"q2","payload":%q}]}`, half, half)
		reply := client.Transaction(body)
		if need(t, reply.Response, 200); reply.Success || reply.Reason != "too_large" {
			t.Fatalf("got %v", reply)
		}
		need(t, client.Get("/api/v1/resources/queues/q2"), 404)
	})
}

func TestTransactionCoversABoundedNumberOfPartitions_2_11(t *testing.T) {
	t.Parallel()
	// Many pairs that no entry is too small for; what one holds ends before pairsMost.
	const many, pairsMost = 2_000, 16_384
	client := privateBroker(t, nil).Client()
	push := func(queue string, pairs int) harness.TransactionReply {
		var items strings.Builder
		for i := range pairs {
			fmt.Fprintf(&items, `,{"queue":%q,"partition":"%d","payload":1},{"queue":%q,"partition":"%d","payload":2}`, queue, i, queue, i)
		}
		return client.Transaction(`{"operations":[{"type":"push","items":[` + items.String()[1:] + `]}]}`)
	}
	refused := push("refused", pairsMost+1)
	if need(t, refused.Response, 200); refused.Success || refused.Reason != "too_large" {
		t.Fatalf("want too_large, got %v", refused.Response)
	}
	need(t, client.Get(queuePath("refused")), 404)
	needCommitted(t, push("committed", many))
	if rows, at := queueRows(t, client, "committed"); rows[at].Partitions != many || rows[at].Messages.Total != 2*many {
		t.Fatalf("want everything stored, got %+v", rows[at])
	}
}

func TestTransactionPositionsAreBounded_2_11(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
	positions := func(count, metadataBytes int) string {
		one := fmt.Sprintf(`{"queue":%q,"consumerGroup":"g","offset":0,"metadata":%q}`, queue, strings.Repeat("m", metadataBytes))
		return `{"positions":[` + strings.TrimSuffix(strings.Repeat(one+",", count), ",") + `]}`
	}
	cases := []struct {
		rule            string
		count, metadata int
		success         bool
	}{
		{"4,096 bytes of metadata", 1, 4096, true},
		{"one byte more", 1, 4097, false},
		{"2,000 entries", 2_000, 0, true}, // what one log entry holds ends before 16,384
		{"16,385 entries", 16_385, 0, false},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			reply := suite.client.Transaction(positions(c.count, c.metadata))
			need(t, reply.Response, 200)
			if reply.Success != c.success || !c.success && reply.Reason != "bad_request" {
				t.Fatalf("got %v", reply.Response)
			}
		})
	}
}

func TestPositionsRouteTakesABoundedNumberOfEntries_2_11(t *testing.T) {
	t.Parallel()
	entries := func(count int) string {
		return `{"entries":[` + strings.TrimSuffix(strings.Repeat(`{"queue":"q"},`, count), ",") + `]}`
	}
	path := "/api/v1/consumer-groups/" + uniqueName(t) + "/positions"
	needEnvelope(t, suite.client.Post(path, entries(65_537)), 400, "bad_request")
	need(t, suite.client.Post(path, entries(65_536)), 200)
}

func TestPopBatchHasNoUpperCap_2_11(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushAll(t, suite.client, numbered(queue, "", "m", 1500)...)
	needMessageCount(t, suite.client.Pop(queue, "batch=9223372036854775807"), 1500)
}

func TestPopPartitionsAreClamped_2_11(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	items := make([]harness.Item, 70)
	for i := range items {
		items[i] = harness.Item{Queue: queue, Partition: strconv.Itoa(i), Payload: i}
	}
	pushAll(t, suite.client, items...)
	for partitions, want := range map[string]int{"1000": 64, "64": 64, "0": 1, "-3": 1} {
		t.Run(partitions, func(t *testing.T) {
			popped := suite.client.Pop(queue, "batch=1000&subscriptionMode=all&consumerGroup=g"+partitions+"&partitions="+partitions)
			need(t, popped.Response, 200)
			if popped.PartitionsClaimed != want || len(popped.Messages) != want {
				t.Fatalf("want %d partitions, got %d with %d messages", want, popped.PartitionsClaimed, len(popped.Messages))
			}
		})
	}
}

// What does not fit 64 bits is a number all the same: only batch refuses it (5.2).
func TestNumbersBeyond64BitsAreClamped_2_11(t *testing.T) {
	t.Parallel()
	const huge = "99999999999999999999"
	queue := uniqueName(t)
	pushAll(t, suite.client, spread(queue, 70, 1)...)
	pop := func(group, query string) harness.PopReply {
		return suite.client.Pop(queue, "batch=1000&subscriptionMode=all&consumerGroup="+group+"&"+query)
	}
	for i, query := range []string{"partitions=" + huge, "partitions=-" + huge, "wait=true&timeout=" + huge} {
		needMessageCount(t, pop(fmt.Sprint("g", i), query), []int{64, 1, 1}[i])
	}
	negative := pop("g", "timeout=-"+huge)
	needPopRefusal(t, negative, negative.Text("error"))
	long, short := pop("long", "leaseSeconds="+huge), pop("short", "leaseSeconds=-"+huge)
	for _, lease := range []struct {
		reply       harness.PopReply
		least, most time.Duration
	}{{long, 99 * 365 * 24 * time.Hour, 102 * 365 * 24 * time.Hour}, {short, 30 * time.Second, 61 * time.Second}} {
		if needMessageCount(t, lease.reply, 1); leaseLeft(t, lease.reply) < lease.least || leaseLeft(t, lease.reply) > lease.most {
			t.Errorf("want a lease of %v to %v, got %v", lease.least, lease.most, leaseLeft(t, lease.reply))
		}
	}
}

func TestPayloadsOfOnePopAreBounded_2_11(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	const mebibyte = 1 << 20
	for i, size := range []int{40 * mebibyte, 23 * mebibyte, 2 * mebibyte} {
		body := fmt.Appendf(nil, `{"items":[{"queue":"q","transactionId":"m%d","payload":"%s"}]}`, i, strings.Repeat("x", size))
		need(t, client.Post("/api/v1/push?timeoutMs=60000", body), 201) // a busy machine takes a while
	}
	popped := client.Pop("q", "batch=3&leaseSeconds=60")
	needMessages(t, popped, "m0", "m1")
	needAcked(t, client.AckMessages("completed", popped.Messages...))
	needMessages(t, client.Pop("q", "batch=3"), "m2")
}

func TestPopTimeoutIsCappedAtAMinute_2_11(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	if !longRun() { // what shows at once: the value is accepted
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1})
		needMessageCount(t, suite.client.Pop(queue, "wait=true&timeout=3600000"), 1)
		return
	}
	popped := suite.client.Pop(queue, "wait=true&timeout=3600000")
	needEmpty(t, popped)
	if popped.Elapsed < 59*time.Second || popped.Elapsed > 65*time.Second {
		t.Fatalf("want 60 s, got %v", popped.Elapsed)
	}
}

func TestLargePayloadsComeBackEqual_4_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	objects := make([]map[string]any, 10_000)
	for i := range objects {
		objects[i] = map[string]any{"id": i, "name": fmt.Sprint("object ", i), "tags": []string{"a", "b"}}
	}
	payloads := []any{objects, strings.Repeat("é", 1<<19), map[string]any{}, nil}
	for i, payload := range payloads {
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: payload, TransactionID: strconv.Itoa(i)})
	}
	popped := suite.client.Pop(queue, "")
	needMessageCount(t, popped, len(payloads))
	for i, message := range popped.Messages {
		sent, err := json.Marshal(payloads[i])
		if err != nil {
			t.Fatal(err)
		}
		if !sameJSON(sent, message.Data) {
			t.Errorf("payload %d came back different", i)
		}
	}
}
