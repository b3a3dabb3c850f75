package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// deadlineBody is what a call whose deadline has passed answers (2.7, cluster 8.3).
const deadlineBody = `{"error":"the request deadline elapsed","code":"timeout"}`

// slow makes a JSON object take longer than a millisecond to arrive: a deadline counts from the head of a request.
func slow(object string) string {
	return `{"padding":"` + strings.Repeat("x", 4<<20) + `",` + strings.TrimPrefix(object, "{")
}

func needDeadlinePassed(t *testing.T, answer harness.Response) {
	t.Helper()
	needBody(t, answer, 503, deadlineBody)
	needRetryAfter1(t, answer)
}

// needRetryAfter1 ends the test unless the answer has the header of every 503 (2.7).
func needRetryAfter1(t *testing.T, answer harness.Response) {
	t.Helper()
	if got := answer.Header.Get("Retry-After"); got != "1" {
		t.Fatalf("want Retry-After 1, got %q of %v", got, answer)
	}
}

// writes are calls that write, with a body that they accept: the path of each, and whether POP_DEFAULT_TIMEOUT_MS is its
// default deadline (2.9).
func writes(s *scene, lease string) []struct {
	path, body string
	push       bool
} {
	item := fmt.Sprintf(`{"queue":%q,"payload":1}`, s.queue)
	return []struct {
		path, body string
		push       bool
	}{
		{"/api/v1/push", `{"items":[` + item + `]}`, true},
		{"/api/v1/transaction", `{"operations":[{"type":"push","items":[` + item + `]}]}`, false},
		{"/api/v1/ack", fmt.Sprintf(`{"transactionId":"m0","partitionId":%q,"consumerGroup":%q,"status":"retry"}`, s.partitionID, s.group), false},
		{"/api/v1/lease/" + lease + "/extend", `{"seconds":60}`, false},
		{"/api/v1/configure", fmt.Sprintf(`{"queue":%q}`, s.queue), false},
		{"/api/v1/traces", fmt.Sprintf(`{"transactionId":"m0","partitionId":%q,"data":1}`, s.partitionID), false},
		{groupPath(s.group) + "/queues/" + s.queue + "/seek", `{"toEnd":true}`, false},
		{groupPath(s.group) + "/subscription", `{"subscriptionTimestamp":"2026-01-01T00:00:00Z"}`, false},
	}
}

// 2.9: timeoutMs sets the deadline of a write; when it passes, the call answers 503 timeout.
func TestWriteWhoseDeadlinePassesAnswersTimeout_2_9(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.group, s.leaseTime = uniqueName(t), 300
	lease := s.claim(1, 0, 0, 1).lease
	for _, write := range writes(s, lease) {
		t.Run(write.path, func(t *testing.T) {
			needDeadlinePassed(t, s.client.Post(write.path+"?timeoutMs=1", slow(write.body)))
			for _, enough := range []string{"60000", "60001", "9223372036854775808"} { // larger is clamped
				answer := s.client.Post(write.path+"?timeoutMs="+enough, write.body)
				if answer.Status != 200 && answer.Status != 201 {
					t.Errorf("timeoutMs=%s: got %v", enough, answer)
				}
			}
		})
	}
}

// 2.9, cluster 8.2: timeoutMs is a positive integer on every write.
func TestWriteDeadlineIsAPositiveInteger_2_9(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.group, s.leaseTime = uniqueName(t), 300
	lease := s.claim(1, 0, 0, 1).lease
	var requests []harness.Request
	for _, write := range writes(s, lease) {
		requests = append(requests, harness.Request{Method: "POST", Path: write.path, Body: []byte(write.body)})
	}
	for _, path := range []string{queuePath(s.queue), groupPath(s.group), groupPath(s.group) + "/queues/" + s.queue, "/api/v1/messages/" + s.partitionID + "/m0"} {
		requests = append(requests, harness.Request{Method: "DELETE", Path: path})
	}
	for _, path := range []string{"/api/v1/messages/" + s.partitionID + "/m0/retry", "/api/v1/dlq/" + deadLease + "/replay"} {
		requests = append(requests, harness.Request{Method: "POST", Path: path})
	}
	for _, request := range requests {
		for _, value := range []string{"soon", "0", "-1", "1.5", ""} {
			answer := s.client.Do(harness.Request{Method: request.Method, Path: request.Path + "?timeoutMs=" + value, Body: request.Body})
			if need(t, answer, 400); !strings.Contains(answer.Text("error"), "timeoutMs") {
				t.Errorf("%s %s: the text must name timeoutMs, got %v", request.Method, request.Path, answer)
			}
		}
	}
	purge := s.client.Delete("/api/v1/dlq?queue=" + s.queue + "&timeoutMs=soon")
	if need(t, purge, 400); !strings.Contains(purge.Text("error"), "timeoutMs") {
		t.Errorf("the text must name timeoutMs, got %v", purge)
	}
	s.needCursor(0) // nothing took effect
}

// 2.9, cluster 1.2: the default deadline of a push is POP_DEFAULT_TIMEOUT_MS, that of every other write
// QUEEN_STMT_TIMEOUT_MS; timeoutMs wins over both.
func TestDefaultDeadlinesAreConfigurable_2_9(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"POP_DEFAULT_TIMEOUT_MS", "QUEEN_STMT_TIMEOUT_MS"} {
		t.Run(variable, func(t *testing.T) {
			s := newSceneAt(t, privateBroker(t, map[string]string{variable: "1"}).Client(), nil, 0)
			eventually(t, delivery, func() (bool, string) { // with a deadline of 1 ms some tries are too late
				answer := s.client.Push(harness.Item{Queue: s.queue, Payload: 1, TransactionID: "m0"}).Response
				return answer.Status == 201, answer.String()
			})
			s.leaseTime = 300
			var lease string
			eventually(t, delivery, func() (bool, string) { // one attempt is always made, whatever the wait is
				reply := s.pinned(1)
				if len(reply.Messages) == 1 {
					lease = reply.LeaseID
				}
				return lease != "", reply.String()
			})
			for _, write := range writes(s, lease) {
				answer := s.client.Post(write.path, slow(write.body))
				if write.push == (variable == "POP_DEFAULT_TIMEOUT_MS") {
					needDeadlinePassed(t, answer)
					answer = s.client.Post(write.path+"?timeoutMs=30000", slow(write.body))
				}
				if answer.Status != 200 && answer.Status != 201 {
					t.Errorf("%s: got %v", write.path, answer)
				}
			}
		})
	}
}

// 2.9: a pop that does not wait has no use for `timeout`.
func TestTimeoutOfAPopThatDoesNotWait_2_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	empty := suite.client.Pop(queue, "wait=false&timeout=60000")
	if needEmpty(t, empty); empty.Elapsed > promptly {
		t.Errorf("it waited %v", empty.Elapsed)
	}
	for i, query := range []string{"wait=false&timeout=0", "wait=false&timeout=1", "timeout=1"} {
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: fmt.Sprint("t", i)})
		needMessages(t, suite.client.Pop(queue, query+"&commitOnDelivery=true"), fmt.Sprint("t", i))
	}
}

// 2.9: when the deadline of a pop passes, there is nothing to deliver; it is no error.
func TestPopWhoseDeadlinePassesIsEmpty_2_9(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for _, timeout := range []string{"0", "1", "300"} {
		popped := suite.client.Pop(queue, "wait=true&timeout="+timeout)
		if needEmpty(t, popped); popped.Elapsed > promptly+time.Second {
			t.Errorf("timeout %s ms took %v", timeout, popped.Elapsed)
		}
	}
}
