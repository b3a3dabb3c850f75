package contract

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"queen/chaos/contract/harness"
)

// farAway is a delay that no test waits for.
const farAway = 3_600_000

// timerOp is an operation on a timer as JSON.
type timerOp map[string]any

// with is the operation with other members; nil takes one away.
func (o timerOp) with(more map[string]any) timerOp {
	changed := maps.Clone(o)
	for name, value := range more {
		if changed[name] = value; value == nil {
			delete(changed, name)
		}
	}
	return changed
}

// scheduleOf is a schedule with the key as txn and in its payload.
func scheduleOf(queue, key string, delayMs float64) timerOp {
	return timerOp{"op": "schedule", "queue": queue, "timerKey": key, "txn": key, "delayMs": delayMs, "payload": base64Of(fmt.Sprintf(`{"key":%q}`, key))}
}

func cancelOf(queue, key string) timerOp {
	return timerOp{"op": "cancel", "queue": queue, "timerKey": key}
}

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func zstdOf(t *testing.T, text string) string {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = encoder.Close() }()
	return base64Of(string(encoder.EncodeAll([]byte(text), nil)))
}

// timerResult is what became of an operation (state.md 3.2).
type timerResult struct {
	OK                                                 bool
	Status, Queue, TimerKey, Txn, MessageID, DeliverAt string
}

func postTimers(client *harness.Client, ops ...timerOp) harness.Response {
	return client.Post("/api/v1/timers", map[string]any{"operations": ops})
}

// needTimers sends a call that must be served and returns its results.
func needTimers(t *testing.T, client *harness.Client, ops ...timerOp) []timerResult {
	t.Helper()
	answer := postTimers(client, ops...)
	need(t, answer, 200)
	needExactKeys(t, answer.Object(), "results")
	var results struct{ Results []timerResult }
	if err := answer.Decode(&results); err != nil || len(results.Results) != len(ops) {
		t.Fatalf("want %d results, got %v", len(ops), answer)
	}
	return results.Results
}

// needScheduled schedules one timer.
func needScheduled(t *testing.T, client *harness.Client, op timerOp) timerResult {
	t.Helper()
	result := needTimers(t, client, op)[0]
	if !result.OK || result.Status != "scheduled" {
		t.Fatalf("want scheduled, got %+v", result)
	}
	return result
}

func timersPath(queue string) string { return "/api/v1/timers/" + url.PathEscape(queue) }

func timerPath(queue, key string) string { return timersPath(queue) + "/" + url.PathEscape(key) }

// peekedTimer is a pending timer as it is shown (state.md 3.4).
type peekedTimer struct {
	Found                                      bool
	Queue, TimerKey, Partition, Txn, MessageID string
	DeliverAt, CreatedAt, UpdatedAt            time.Time
	Payload                                    []byte
	PayloadZstd, Encrypted, Claimed            bool
	ProducerSub, LastError                     *string
	Attempts                                   int
}

func peekTimer(t *testing.T, client *harness.Client, queue, key string) peekedTimer {
	t.Helper()
	return fetchInto[peekedTimer](t, client, timerPath(queue, key))
}

// awaitFired pops until a timer has fired and returns its message.
func awaitFired(t *testing.T, client *harness.Client, queue, query string) harness.Message {
	t.Helper()
	popped := client.Pop(queue, "wait=true&timeout=20000&commitOnDelivery=true&batch=1&"+query)
	needMessageCount(t, popped, 1)
	return popped.Messages[0]
}

func (o timerOp) json(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal([]timerOp{o})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
