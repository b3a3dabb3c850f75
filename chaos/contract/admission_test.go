package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// smallBody is the largest body that may hold a share of the budget next to all others.
const smallBody = 256 << 10

// holdBody opens a push whose head was admitted and whose body never comes: it holds its share of the budget until the
// test ends or it is closed. The length is a header line. The broker asks for the body once the head is admitted.
func holdBody(t *testing.T, broker *harness.Broker, length string) *harness.Wire {
	t.Helper()
	wire, err := broker.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wire.Close)
	if err := wire.Send("POST /api/v1/push HTTP/1.1\r\nHost: queen\r\nExpect: 100-continue\r\n" + length + "\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	need(t, wire.Receive("POST"), 100)
	return wire
}

// holdBudget fills a budget of 1 MiB.
func holdBudget(t *testing.T, broker *harness.Broker) {
	t.Helper()
	for range 1 << 20 / smallBody {
		holdBody(t, broker, fmt.Sprint("Content-Length: ", smallBody))
	}
}

// admissionBroker has a budget of 1 MiB.
func admissionBroker(t *testing.T, holdMs string) *harness.Broker {
	t.Helper()
	return privateBroker(t, map[string]string{"QUEEN_RAFT_ADMIT_MAX_MB": "1", "QUEEN_RAFT_ADMIT_HOLD_MS": holdMs})
}

// 2.10: which calls need room, and which are never refused for it. Without a hold they are refused at once.
func TestAdmissionCoversGrowingWritesOnly_2_10(t *testing.T) {
	t.Parallel()
	broker := admissionBroker(t, "0")
	s := newSceneAt(t, broker.Client(), nil, 5)
	s.leaseTime = 300
	batch := s.claim(2, 0, 1, 1)
	other := s.as("other")
	needVerdicts(t, other.claim(1, 0, 0, 1).ack(dlqed(0)), filed)
	row := other.needDeadLetters(0)[0]
	push := fmt.Sprintf(`{"items":[{"queue":%q,"payload":1}]}`, s.queue)
	transaction := fmt.Sprintf(`{"operations":[{"type":"push","queue":%q,"payload":1}]}`, s.queue)
	holdBudget(t, broker)
	for path, body := range map[string]string{
		"/api/v1/push":                                    push,
		"/api/v1/transaction":                             transaction,
		"/api/v1/traces":                                  `{"transactionId":"t","partitionId":"1","data":1}`,
		"/api/v1/dlq/" + row.ID + "/replay":               `{"queue":"elsewhere"}`,
		"/api/v1/messages/" + s.partitionID + "/m0/retry": `{"queue":"elsewhere"}`,
	} {
		t.Run("refused: "+path, func(t *testing.T) {
			answer := s.client.Post(path, body)
			needOverloaded(t, answer)
			if answer.Elapsed > promptly {
				t.Errorf("without a hold the refusal came after %v", answer.Elapsed)
			}
		})
	}
	t.Run("refused: a transaction with only acks", func(t *testing.T) {
		needOverloaded(t, s.client.Transaction(operations(batch.operations(completed(0)))).Response)
	})
	t.Run("Retry-After is jittered", func(t *testing.T) {
		seen := map[string]bool{}
		for range 40 {
			seen[s.client.Post("/api/v1/push", push).Header.Get("Retry-After")] = true
		}
		if len(seen) < 2 {
			t.Errorf("40 refusals name one wait: %v", seen)
		}
	})
	t.Run("never refused", func(t *testing.T) {
		s := s.in(t)
		needExtended(t, s.client.Extend(batch.lease, `{"seconds":300}`), batch.lease, 1)
		needVerdicts(t, batch.ack(completed(0)), kept)
		needVerdicts(t, batch.ack(failed(1)), released)
		needMessages(t, s.pop(1), "m1")
		need(t, s.client.Configure(s.queue, map[string]any{"retryLimit": 5}), 200)
		need(t, s.client.Post(groupPath("g")+"/queues/"+s.queue+"/seek", `{"toEnd":true}`), 200)
		need(t, s.client.Post("/api/v1/fetch", fmt.Sprintf(`{"entries":[{"queue":%q,"offset":0}]}`, s.queue)), 200)
		need(t, s.client.Get("/api/v1/messages?queue="+s.queue), 200)
		need(t, s.client.Delete("/api/v1/dlq?queue="+s.queue), 200)
		deleteGroup(t, s.client, groupPath("g"))
		need(t, s.client.DeleteQueue(s.queue), 200)
	})
}

// 2.10: a chunked body weighs 64 KiB before it is read: fifteen of them leave a sixteenth of 1 MiB, sixteen leave nothing.
func TestChunkedBodyWeighs64KiB_2_10(t *testing.T) {
	t.Parallel()
	const chunkedWeight = 64 << 10
	broker := admissionBroker(t, "0")
	client := broker.Client()
	frame := `{"items":[{"queue":"q","payload":""}]}`
	push := func(bytes int) harness.Response {
		return client.Post("/api/v1/push", strings.Replace(frame, `""`, `"`+strings.Repeat("x", bytes-len(frame))+`"`, 1))
	}
	for range 1<<20/chunkedWeight - 1 {
		holdBody(t, broker, "Transfer-Encoding: chunked")
	}
	need(t, push(chunkedWeight), 201)
	needOverloaded(t, push(chunkedWeight+1))
	last := holdBody(t, broker, "Transfer-Encoding: chunked")
	needOverloaded(t, push(len(frame)+1))
	last.Close()
	eventually(t, delivery, func() (bool, string) { // the weight is given back
		answer := push(chunkedWeight)
		return answer.Status == 201, answer.String()
	})
}

// 2.10: a request larger than the whole budget is admitted when nothing else holds a permit (cluster 11.1).
func TestBodyLargerThanTheBudgetIsAdmittedAlone_2_10(t *testing.T) {
	t.Parallel()
	broker := admissionBroker(t, "0")
	client := broker.Client()
	body := fmt.Sprintf(`{"items":[{"queue":"q","payload":%q}]}`, strings.Repeat("x", 3<<20))
	held := holdBody(t, broker, "Content-Length: 100")
	needOverloaded(t, client.Post("/api/v1/push", body))
	held.Close()
	eventually(t, delivery, func() (bool, string) {
		answer := client.Post("/api/v1/push", body)
		return answer.Status == 201, answer.String()
	})
}

// 2.10: what waits is let in as soon as there is room, and refused when the hold is over: 25 % more or less.
func TestAdmissionHoldsARequest_2_10(t *testing.T) {
	t.Parallel()
	const hold = time.Second
	broker := admissionBroker(t, fmt.Sprint(hold.Milliseconds()))
	client := broker.Client()
	held := holdBody(t, broker, fmt.Sprint("Content-Length: ", smallBody))
	for range 3 {
		holdBody(t, broker, fmt.Sprint("Content-Length: ", smallBody))
	}
	push := func() harness.Response { return client.Push(harness.Item{Queue: "q", Payload: 1}).Response }
	refused := push()
	needOverloaded(t, refused)
	if refused.Elapsed < hold*3/4 || refused.Elapsed > hold*5/4+promptly {
		t.Errorf("a hold of %v lasted %v", hold, refused.Elapsed)
	}
	waiting := make(chan harness.Response, 1)
	go func() { waiting <- push() }()
	time.AfterFunc(hold/4, held.Close) // whether the push waits by then or not, it finds room
	need(t, <-waiting, 201)
}

// 2.10: a budget of 0 is none, whatever is held.
func TestAdmissionCanBeTurnedOff_2_10(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_RAFT_ADMIT_MAX_MB": "0", "QUEEN_RAFT_ADMIT_HOLD_MS": "0"})
	for range 3 {
		holdBody(t, broker, fmt.Sprint("Content-Length: ", 64<<20))
	}
	need(t, broker.Client().Push(harness.Item{Queue: "q", Payload: strings.Repeat("x", 2<<20)}).Response, 201)
}

// 2.10, cluster 1.6: the budget is 128 MiB unless it is set.
func TestAdmissionBudgetIs128MiBByDefault_2_10(t *testing.T) {
	t.Parallel()
	if page := string(suite.client.Get("/metrics/prometheus").Body); !strings.Contains(page, `queen_raft_admit_bytes{kind="cap"} 134217728`) {
		t.Error("the metrics show another budget")
	}
}
