package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// state.md 3.6: the fired message.
func TestFiredMessage_3_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	result := needScheduled(t, suite.client, scheduleOf(queue, "k", 300).with(map[string]any{"partition": "p", "txn": "t"}))
	due, err := time.Parse(time.RFC3339, result.DeliverAt)
	if err != nil {
		t.Fatal(err)
	}
	fired := awaitFired(t, suite.client, queue, "") // parked before the queue is there
	if fired.ID != result.MessageID || fired.TransactionID != "t" || fired.Partition != "p" || string(fired.Data) != `{"key":"k"}` || fired.ProducerSub != nil {
		t.Errorf("fired %+v", fired)
	}
	if created := fired.CreatedAt; created.Before(due.Truncate(time.Millisecond)) || created.After(due.Add(promptly)) {
		t.Errorf("due at %v, stored at %v", due, created)
	}
	if peekTimer(t, suite.client, queue, "k").Found {
		t.Error("a timer that has fired is found")
	}
	if again := needTimers(t, suite.client, cancelOf(queue, "k"), scheduleOf(queue, "k2", farAway)); again[0].Status != "absent" {
		t.Errorf("got %+v", again)
	}
	needScheduled(t, suite.client, scheduleOf(queue, "k", farAway))
	options, _ := suite.client.Get(queuePath(queue)).Object()["options"].(map[string]any)
	if fmt.Sprintf("%v %v %v", options["leaseTime"], options["retryLimit"], options["deadLetterQueue"]) != "60 3 true" {
		t.Errorf("the queue was made with %v", options)
	}
}

// state.md 3.6: a delay that is due already fires in the entry that schedules it: whoever has the answer finds the message.
func TestDelayThatIsDueFiresAtOnce_3_6(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_TIMER_TICK_MS": "0"}).Client() // so that no tick can do it
	needTimers(t, client, scheduleOf("q", "a", -5000), scheduleOf("q", "b", 0), scheduleOf("q", "c", 0).with(map[string]any{"payload": zstdOf(t, "[1]"), "payloadZstd": true}),
		scheduleOf("q", "d", -0.0001), scheduleOf("q", "never", 1))
	popped := client.Pop("q", "batch=10")
	needMessages(t, popped, "a", "b", "c", "d")
	if string(popped.Messages[2].Data) != "[1]" {
		t.Errorf("popped %+v", popped.Messages)
	}
	if _, keys := listTimers(t, client, "q", ""); fmt.Sprint(keys) != "[never]" {
		t.Errorf("pending are %v", keys)
	}
	for _, key := range []string{"a", "b"} { // the key is free, and what fired is no duplicate of it
		if result := needTimers(t, client, scheduleOf("q", key, farAway))[0]; result.Status != "scheduled" {
			t.Errorf("got %+v", result)
		}
	}
}

// state.md 3.6: dedup applies to what fires.
func TestFiringIsDeduplicated_3_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
	same := map[string]any{"txn": "t"}
	needTimers(t, suite.client, scheduleOf(queue, "at once", 0).with(same), scheduleOf(queue, "soon", 20).with(same), scheduleOf(queue, "elsewhere", 20).with(map[string]any{"txn": "t", "partition": "p"}),
		scheduleOf(queue, "last", 40))
	eventually(t, delivery, func() (bool, string) {
		_, keys := listTimers(t, suite.client, queue, "")
		return len(keys) == 0, fmt.Sprint(keys)
	})
	needMessages(t, suite.client.PopPartition(queue, "Default", "batch=10"), "t", "last")
	needMessages(t, suite.client.PopPartition(queue, "p", "batch=10"), "t")
}

// state.md 3.6: what is due leaves in the order of deliverAt.
func TestTimersFireInOrder_3_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	var ops []timerOp
	for i := range 20 {
		ops = append(ops, scheduleOf(queue, fmt.Sprintf("%02d", (i*7)%20), 500+float64((i*7)%20)))
	}
	needTimers(t, suite.client, ops...)
	var want, got []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("%02d", i))
	}
	eventually(t, delivery, func() (bool, string) {
		got = append(got, suite.client.Pop(queue, "batch=20&commitOnDelivery=true").TransactionIDs()...)
		return len(got) >= 20, fmt.Sprint(got)
	})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("fired in the order %v", got)
	}
}

// state.md 3.6: a compressed payload is decompressed when it fires.
func TestCompressedTimerFires_3_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	large := `"` + strings.Repeat("x", 3<<20) + `"` // more than a payload may have, compressed less
	needTimers(t, suite.client, scheduleOf(queue, "small", 20).with(map[string]any{"payload": zstdOf(t, ` {"n": 1}`), "payloadZstd": true}),
		scheduleOf(queue, "large", 30).with(map[string]any{"payload": zstdOf(t, large), "payloadZstd": true}))
	if fired := awaitFired(t, suite.client, queue, ""); fired.TransactionID != "small" || !sameJSON(fired.Data, []byte(`{"n":1}`)) {
		t.Errorf("fired %+v", fired)
	}
	if fired := awaitFired(t, suite.client, queue, ""); fired.TransactionID != "large" || string(fired.Data) != large {
		t.Errorf("fired %d bytes of %s", len(fired.Data), fired.TransactionID)
	}
}

// state.md 3.6, cluster.md 1.9: what can never fire is a dead letter after so many attempts, and does not keep others waiting.
func TestTimerThatCannotFireIsADeadLetter_3_6(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_SWEEPER_MAX_ATTEMPTS": "3", "QUEEN_SWEEPER_BACKOFF_MIN_MS": "200", "QUEEN_SWEEPER_BACKOFF_MAX_MS": "300"}).Client()
	bad := map[string]any{"payload": base64Of("no zstd"), "payloadZstd": true, "partition": "p"}
	began := time.Now()
	result := needTimers(t, client, scheduleOf("q", "bad", 1).with(bad), scheduleOf("q", "zstd of no JSON", -1).with(map[string]any{"payload": zstdOf(t, "{"), "payloadZstd": true}),
		scheduleOf("q", "good", 2))
	if fired := awaitFired(t, client, "q", ""); fired.TransactionID != "good" || time.Since(began) > promptly {
		t.Errorf("fired %+v", fired)
	}
	eventually(t, delivery, func() (bool, string) {
		list := listLetters(t, client, "queue=q&consumerGroup=__timer__")
		return list.Total == 2, fmt.Sprintf("%+v", list)
	})
	if took := time.Since(began); took < 450*time.Millisecond {
		t.Errorf("three attempts took %v: the pauses are 200 and 300 ms", took)
	}
	for _, letter := range listLetters(t, client, "queue=q").Messages {
		if letter.ConsumerGroup != "__timer__" || letter.RetryCount != 3 {
			t.Errorf("got %+v", letter)
		}
		if letter.Offset > 1<<53-1 {
			t.Errorf("offset %d is not exact for clients that read numbers as floating point", letter.Offset)
		}
		if letter.TransactionID != "bad" {
			continue
		}
		if letter.MessageID != result[0].MessageID || letter.Partition != "p" || letter.ErrorMessage == nil || !strings.Contains(*letter.ErrorMessage, "zstd") {
			t.Errorf("got %+v", letter)
		}
		row := firstObject(client.Get("/api/v1/dlq?queue=q&limit=1&offset=1").Object()["messages"])
		if other := firstObject(client.Get("/api/v1/dlq?queue=q&limit=1").Object()["messages"]); row["data"] != base64Of("no zstd") && other["data"] != base64Of("no zstd") {
			t.Errorf("neither %v nor %v has the payload", row, other)
		}
	}
	if _, keys := listTimers(t, client, "q", ""); len(keys) != 0 {
		t.Errorf("pending are %v", keys)
	}
	needEmpty(t, client.PopPartition("q", "p", ""))
	need(t, client.Delete("/api/v1/dlq?queue=q"), 200)
}

// state.md 3.6: the producer of a fired message is the token that scheduled it, not the one that fires it.
func TestFiredMessageHasItsProducer_3_6(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"JWT_ENABLED": "true", "JWT_SECRET": jwtSecret}).Client()
	as := func(sub string) *harness.Client {
		return client.WithToken(harness.Token(jwtSecret, claims("admin", map[string]any{"sub": sub})))
	}
	needTimers(t, as("alice"), scheduleOf("q", "a", 20), scheduleOf("q", "b", 40))
	if shown := peekTimer(t, as("bob"), "q", "b"); shown.Found && (shown.ProducerSub == nil || *shown.ProducerSub != "alice") {
		t.Errorf("shown %+v", shown)
	}
	for range 2 {
		if fired := awaitFired(t, as("bob"), "q", ""); fired.ProducerSub == nil || *fired.ProducerSub != "alice" {
			t.Errorf("fired %+v", fired)
		}
	}
	reply := as("carol").Transaction(map[string]any{"timers": []timerOp{scheduleOf("q", "c", 0)}})
	need(t, reply.Response, 200)
	if fired := awaitFired(t, as("bob"), "q", ""); fired.ProducerSub == nil || *fired.ProducerSub != "carol" {
		t.Errorf("fired %+v", fired)
	}
}

// A deleted queue does not end its timers: one that fires makes the queue anew (9.11).
func TestTimerOutlivesItsQueue_9_11(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "k"})
	needScheduled(t, suite.client, scheduleOf(queue, "k", 500))
	need(t, suite.client.DeleteQueue(queue), 200)
	if !peekTimer(t, suite.client, queue, "k").Found {
		t.Fatal("the timer went with its queue")
	}
	if fired := awaitFired(t, suite.client, queue, ""); fired.TransactionID != "k" || fired.Offset != 0 {
		t.Errorf("fired %+v", fired)
	}
}
