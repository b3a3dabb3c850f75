package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

const (
	// promptly is the bound for what the contract says happens "at once", with room for a busy machine.
	promptly = 5 * time.Second
	// pollEvery is the pause between two looks at a condition that must come true.
	pollEvery = 20 * time.Millisecond
	// noPartition has the form of a partition id that no test's broker gets to. A small one belongs to whichever test pushed first.
	noPartition = "987654321"
)

// uuidV7 is the form of every minted id (2.12).
var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// uuidAny is the form of an id that the contract only calls a UUID.
var uuidAny = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

var nameCounter atomic.Int64

// notInNames is what uniqueName leaves out, so that its names stand in a path as they are.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// uniqueName makes a name nobody else in this run uses, so that tests share a broker without meeting.
func uniqueName(t *testing.T) string {
	t.Helper()
	base := notInNames.ReplaceAllString(t.Name(), "-")
	return fmt.Sprintf("%s-%d", base[:min(len(base), 60)], nameCounter.Add(1))
}

// privateBrokersMost is how many private brokers run at one time: each has its own caches and threads.
const privateBrokersMost = 6

var privateBrokerSlots = make(chan struct{}, privateBrokersMost)

// privateBroker starts a broker of the test's own with additional environment variables; it ends with the test. A test
// takes at most one, because it holds one of the few slots until it ends, and has no parallel subtests: those would wait for
// a place to run, which may all be held by tests that wait for a slot.
func privateBroker(t *testing.T, env map[string]string) *harness.Broker {
	t.Helper()
	privateBrokerSlots <- struct{}{}
	t.Cleanup(func() { <-privateBrokerSlots })
	broker, err := harness.Start(harness.Options{Binary: suite.binary, Dir: t.TempDir(), Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Kill)
	return broker
}

// need ends the test unless the response has the status.
func need(t *testing.T, response harness.Response, status int) {
	t.Helper()
	if response.Err != nil || response.Status != status {
		t.Fatalf("want status %d, got %v", status, response)
	}
}

// needEnvelope ends the test unless the response is the error envelope of 2.7 with this status and code.
func needEnvelope(t *testing.T, response harness.Response, status int, code string) {
	t.Helper()
	need(t, response, status)
	if got := response.Text("code"); got != code {
		t.Fatalf("want code %q, got %v", code, response)
	}
	if response.Text("error") == "" {
		t.Fatalf("the envelope needs an error text, got %v", response)
	}
}

// needBody ends the test unless the body is exactly this text.
func needBody(t *testing.T, response harness.Response, status int, body string) {
	t.Helper()
	need(t, response, status)
	if string(response.Body) != body {
		t.Fatalf("want body %s, got %v", body, response)
	}
}

// needExactKeys ends the test unless the object has these keys and no other.
func needExactKeys(t *testing.T, object map[string]any, keys ...string) {
	t.Helper()
	got := slices.Sorted(maps.Keys(object))
	if want := slices.Sorted(slices.Values(keys)); !slices.Equal(got, want) {
		t.Fatalf("want exactly the keys %v, got %v", want, got)
	}
}

// needKeys ends the test unless the object has every one of the keys.
func needKeys(t *testing.T, object map[string]any, keys ...string) {
	t.Helper()
	if object == nil {
		t.Fatalf("want an object with %v, got none", keys)
	}
	for _, key := range keys {
		if _, present := object[key]; !present {
			t.Errorf("key %q is missing in %v", key, object)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// pushOne pushes one payload and returns its verdict, which must be queued.
func pushOne(t *testing.T, client *harness.Client, item harness.Item) harness.Pushed {
	t.Helper()
	return pushAll(t, client, item)[0]
}

// pushAll pushes items in one call; every one must be queued.
func pushAll(t *testing.T, client *harness.Client, items ...harness.Item) []harness.Pushed {
	t.Helper()
	reply := client.Push(items...)
	need(t, reply.Response, 201)
	if len(reply.Items) != len(items) {
		t.Fatalf("want %d verdicts, got %v", len(items), reply)
	}
	for _, verdict := range reply.Items {
		if verdict.Status != "queued" {
			t.Fatalf("want queued, got %+v", verdict)
		}
	}
	return reply.Items
}

// numbered makes n items for one partition with txids <prefix>0, <prefix>1, … and the number as payload.
func numbered(queue, partition, prefix string, n int) []harness.Item {
	items := make([]harness.Item, n)
	for i := range items {
		items[i] = harness.Item{Queue: queue, Partition: partition, Payload: i, TransactionID: fmt.Sprint(prefix, i)}
	}
	return items
}

// needMessages ends the test unless the pop delivered exactly these txids in this order.
func needMessages(t *testing.T, reply harness.PopReply, ids ...string) {
	t.Helper()
	need(t, reply.Response, 200)
	got := reply.TransactionIDs()
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Fatalf("want messages %v, got %v", ids, got)
	}
}

// needEmpty ends the test unless the pop found nothing: a 204 without a body.
func needEmpty(t *testing.T, reply harness.PopReply) {
	t.Helper()
	need(t, reply.Response, 204)
	if len(reply.Body) != 0 {
		t.Fatalf("a 204 has no body, got %v", reply)
	}
}

// needAcked ends the test unless every item of the ack succeeded.
func needAcked(t *testing.T, reply harness.AckReply) {
	t.Helper()
	need(t, reply.Response, 200)
	for _, item := range reply.Items {
		if !item.Success {
			t.Fatalf("want success, got %v", reply)
		}
	}
}

// eventually polls the condition until it holds; it ends the test at the deadline with what the condition said last.
func eventually(t *testing.T, within time.Duration, condition func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(within)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		holds, detail := condition()
		if holds {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, detail)
		}
		<-ticker.C
	}
}

// sameJSON reports whether two texts are the same JSON value, digits of numbers included.
func sameJSON(left, right []byte) bool {
	decode := func(text []byte) (any, error) {
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		var value any
		err := decoder.Decode(&value)
		return value, err
	}
	leftValue, leftErr := decode(left)
	rightValue, rightErr := decode(right)
	return leftErr == nil && rightErr == nil && reflect.DeepEqual(leftValue, rightValue)
}
