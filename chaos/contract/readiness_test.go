package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// 2.7: a node that does not lead yet refuses with 503 retry, and answers health, metrics and the dashboard all the same.
// The long election makes the time in which it does so long enough to be seen.
func TestNodeThatIsNotReadyAnswersRetry_2_7(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	pushOne(t, client, harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
	if err := broker.Stop(); err != nil {
		t.Fatal(err)
	}
	broker.SetEnv("QUEEN_RAFT_ELECTION_MS", "3000")
	if err := broker.Launch(); err != nil {
		t.Fatal(err)
	}
	push := harness.Request{Method: "POST", Path: "/api/v1/push", Body: []byte(`{"items":[{"queue":"q","payload":2,"transactionId":"t"}]}`)}
	requests := []harness.Request{push, {Method: "POST", Path: "/api/v1/ack", Body: []byte(`{"transactionId":"t","partitionId":"1"}`)},
		{Method: "POST", Path: "/api/v1/transaction", Body: []byte(`{"operations":[{"type":"push","queue":"q","payload":2}]}`)},
		{Method: "POST", Path: "/api/v1/lease/" + deadLease + "/extend"}, {Method: "POST", Path: "/api/v1/configure", Body: []byte(`{"queue":"q"}`)},
		{Method: "GET", Path: "/api/v1/messages"}, {Method: "GET", Path: "/api/v1/pop/queue/q"}, {Method: "DELETE", Path: queuePath("q")}}
	eventually(t, delivery, func() (bool, string) { // the port opens first
		answer := client.Get("/status")
		return answer.Err == nil, answer.String()
	})
	for _, request := range requests {
		answer := client.Do(request)
		needEnvelope(t, answer, 503, "retry")
		needRetryAfter1(t, answer)
	}
	health := client.Get("/health")
	reasons, _ := health.Object()["reasons"].([]any)
	if need(t, health, 503); health.Text("status") != "settling" || !slices.Contains(reasons, any("booting")) {
		t.Errorf("got %v", health)
	}
	for _, path := range []string{"/status", "/metrics", "/metrics/prometheus", "/", "/queues"} {
		need(t, client.Get(path), 200)
	}
	eventually(t, 2*delivery, func() (bool, string) {
		answer := client.Do(push)
		return answer.Status == 201 && strings.Contains(string(answer.Body), `"duplicate"`), answer.String()
	})
	need(t, client.Get("/health"), 200)
}

// 2.7, cluster 17.1: a node that stops answers its parked pops as if their wait were over, refuses what waits for room with
// 503 retry, and exits with 0.
func TestNodeThatStopsAnswersWhatWaits_2_7(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_RAFT_ADMIT_MAX_MB": "1", "QUEEN_RAFT_ADMIT_HOLD_MS": "60000", "QUEEN_SHUTDOWN_DRAIN_MS": "2000"})
	client := broker.Client()
	holdBudget(t, broker)
	parkedPop, waitingPush := make(chan harness.PopReply, 1), make(chan harness.PushReply, 1)
	go func() { parkedPop <- client.Pop("q", "wait=true&timeout=60000") }()
	go func() { waitingPush <- client.Push(harness.Item{Queue: "q", Payload: 1}) }()
	for _, gauge := range []string{"queen_parked_long_polls 1", "queen_raft_admit_waiting 1"} {
		eventually(t, delivery, func() (bool, string) {
			page := string(client.Get("/metrics/prometheus").Body)
			return strings.Contains(page, gauge), fmt.Sprintf("no %s in the metrics", gauge)
		})
	}
	if err := broker.Stop(); err != nil {
		t.Fatal(err)
	}
	needEmpty(t, <-parkedPop)
	refused := <-waitingPush
	needEnvelope(t, refused.Response, 503, "retry")
	needRetryAfter1(t, refused.Response)
}
