package contract

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

func TestErrorEnvelope_2_7(t *testing.T) {
	t.Parallel()
	cases := []struct {
		rule   string
		answer harness.Response
		status int
		code   string
	}{
		{"400 bad_body: syntax", suite.client.Post("/api/v1/push", `{"items":`), 400, "bad_body"},
		{"400 bad_body: no body", suite.client.Post("/api/v1/push", nil), 400, "bad_body"},
		{"400 bad_body: a second value", suite.client.Post("/api/v1/push", `{"items":[]}{}`), 400, "bad_body"},
		{"400 bad_body: missing member", suite.client.Post("/api/v1/push", `{}`), 400, "bad_body"},
		{"400 bad_body: wrong type", suite.client.Post("/api/v1/ack", `{"transactionId":7,"partitionId":"1"}`), 400, "bad_body"},
		{"400 bad_request: invalid by value", suite.client.Configure(uniqueName(t), map[string]any{"retryLimit": -1}), 400, "bad_request"},
		{"404 no_such_route", suite.client.Get("/api/v1/nowhere"), 404, "no_such_route"},
		{"405 method_not_allowed", suite.client.Get("/api/v1/push"), 405, "method_not_allowed"},
		{"413 name_too_long", suite.client.Push(harness.Item{Queue: strings.Repeat("n", 500), Payload: 1}).Response, 413, "name_too_long"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) { needEnvelope(t, c.answer, c.status, c.code) })
	}
	t.Run("404 of a missing object has no code", func(t *testing.T) {
		needBody(t, suite.client.Get("/api/v1/resources/queues/"+uniqueName(t)), 404, `{"error":"Queue not found"}`)
	})
	t.Run("400 of the fetch family has only a text", func(t *testing.T) {
		answer := suite.client.Post("/api/v1/fetch", `{"entries":[{"queue":"q","offset":-1}]}`)
		need(t, answer, 400)
		needExactKeys(t, answer.Object(), "error")
	})
	t.Run("400 of a pop has its own shape", func(t *testing.T) {
		needPopRefusal(t, suite.client.Pop(uniqueName(t), "batch=none"), "batch must be a positive integer")
	})
}

func TestEvery503CarriesRetryAfter1_2_7(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"encryptionEnabled": true}), 200)
	answer := suite.client.Push(harness.Item{Queue: queue, Payload: 1}).Response
	needEnvelope(t, answer, 503, "encryption_unavailable")
	if got := answer.Header.Get("Retry-After"); got != "1" {
		t.Fatalf("want Retry-After 1, got %q", got)
	}
}

func TestVerdictsStandInTheBody_2_8(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	t.Run("push is 201 whatever its items say", func(t *testing.T) {
		for _, want := range []string{"queued", "duplicate"} {
			reply := suite.client.Push(harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
			need(t, reply.Response, 201)
			if reply.Items[0].Status != want {
				t.Fatalf("want %s, got %v", want, reply)
			}
		}
	})
	t.Run("a failed ack is 200", func(t *testing.T) {
		reply := suite.client.Ack("", harness.AckItem{TransactionID: "t", PartitionID: noPartition, LeaseID: "none"})
		need(t, reply.Response, 200)
		if reply.Items[0].Success {
			t.Fatalf("got %v", reply)
		}
	})
	t.Run("a failed extend is 200", func(t *testing.T) {
		reply := suite.client.Extend("none", nil)
		need(t, reply.Response, 200)
		if reply.Success || reply.Renewed != 0 {
			t.Fatalf("got %v", reply)
		}
	})
	t.Run("a rolled back transaction is 200", func(t *testing.T) {
		reply := suite.client.Transaction(map[string]any{})
		need(t, reply.Response, 200)
		if reply.Success || reply.Reason != "bad_request" {
			t.Fatalf("got %v", reply)
		}
	})
	t.Run("a pop is 200 or 204", func(t *testing.T) {
		needMessageCount(t, suite.client.Pop(queue, ""), 1)
		needEmpty(t, suite.client.Pop(queue, ""))
	})
}

// TestWriteDeadlineParameter_2_9 sees of timeoutMs what shows without a lost majority: it is a checked integer.
func TestWriteDeadlineParameter_2_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	body := fmt.Sprintf(`{"items":[{"queue":%q,"payload":1}]}`, queue)
	for _, value := range []string{"5000", "60000", "999999"} {
		need(t, suite.client.Post("/api/v1/push?timeoutMs="+value, body), 201)
	}
	bodies := map[string]string{"/api/v1/push": body, "/api/v1/configure": fmt.Sprintf(`{"queue":%q}`, queue),
		"/api/v1/ack": `{"transactionId":"t","partitionId":"1"}`, "/api/v1/transaction": `{"operations":[{"type":"push","queue":"q","payload":1}]}`}
	for path, body := range bodies {
		answer := suite.client.Post(path+"?timeoutMs=soon", body)
		need(t, answer, 400)
		if !strings.Contains(answer.Text("error"), "timeoutMs") {
			t.Fatalf("the text must name timeoutMs, got %v", answer)
		}
	}
}

// Requests whose heads promise bodies and never send them hold the budget: four of 256 KiB all of it, for small bodies may;
// they keep it until they are cut for their pace, after 10 s. A large body alone leaves a quarter to small ones.
func TestAdmissionRefusesPushesAndTransactionsOnly_2_10(t *testing.T) {
	t.Parallel()
	const holdMs = 400
	broker := privateBroker(t, map[string]string{"QUEEN_RAFT_ADMIT_MAX_MB": "1", "QUEEN_RAFT_ADMIT_HOLD_MS": strconv.Itoa(holdMs)})
	client := broker.Client()
	pushAll(t, client, numbered("q", "", "m", 2)...)
	leased := client.Pop("q", "batch=1&leaseSeconds=60")
	needMessages(t, leased, "m0")

	var wires []*harness.Wire
	hold := func(t *testing.T, bodyBytes int) *harness.Wire {
		wire, err := broker.Dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { wire.Close() })
		if err := wire.Send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: queen\r\nContent-Length: %d\r\n\r\n", bodyBytes)); err != nil {
			t.Fatal(err)
		}
		return wire
	}
	t.Run("small bodies do not wait behind a large one", func(t *testing.T) {
		large := hold(t, 1<<20)
		need(t, client.Push(harness.Item{Queue: "small", Payload: 1}).Response, 201)
		large.Close()
	})
	for range 4 {
		wires = append(wires, hold(t, 256<<10))
	}
	push := func() harness.Response {
		return client.Push(harness.Item{Queue: "q", Payload: strings.Repeat("x", 100<<10)}).Response
	}
	var refused harness.Response
	eventually(t, promptly, func() (bool, string) { // the head may take its time to arrive
		refused = push()
		return refused.Status != 201, refused.String()
	})
	t.Run("429 with a jittered Retry-After of 1 to 5 s", func(t *testing.T) { needOverloaded(t, refused) })
	t.Run("a transaction is refused too", func(t *testing.T) {
		body := fmt.Sprintf(`{"operations":[{"type":"push","queue":"q","payload":%q}]}`, strings.Repeat("x", 100<<10))
		needOverloaded(t, client.Transaction(body).Response)
	})
	t.Run("so are dead-letter replays", func(t *testing.T) {
		body := fmt.Sprintf(`{"unknown":%q}`, strings.Repeat("x", 100<<10))
		for _, path := range []string{"/api/v1/dlq/" + deadLease + "/replay", "/api/v1/messages/" + leased.PartitionID + "/m0/retry"} {
			needOverloaded(t, client.Post(path, body))
		}
	})
	t.Run("it waits for the hold, 25 % more or less", func(t *testing.T) {
		if refused.Elapsed < holdMs*3/4*time.Millisecond {
			t.Fatalf("refused after %v", refused.Elapsed)
		}
	})
	t.Run("ack, pop and extend are never refused", func(t *testing.T) {
		if reply := client.Extend(leased.LeaseID, nil); !reply.Success {
			t.Fatalf("got %v", reply)
		}
		needAcked(t, client.AckMessages("completed", leased.Messages...))
		needMessages(t, client.Pop("q", "batch=1"), "m1")
	})
	t.Run("the room is given back", func(t *testing.T) {
		for _, wire := range wires {
			wire.Close()
		}
		eventually(t, 20*time.Second, func() (bool, string) {
			answer := push()
			return answer.Status == 201, answer.String()
		})
	})
}

func needOverloaded(t *testing.T, answer harness.Response) {
	t.Helper()
	needEnvelope(t, answer, 429, "overloaded")
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 5 {
		t.Fatalf("want Retry-After 1 to 5, got %q", answer.Header.Get("Retry-After"))
	}
}
