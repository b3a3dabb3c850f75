package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"queen/httpfront"
)

// largeFront admits bodies of 64 MiB and has room for one large answer at a time.
func largeFront() httpfront.Config {
	return httpfront.Config{MaxBodyBytes: 64 << 20, AdmitBytes: 128 << 20, AnswerBytes: 10 << 20, AnswerHold: 50 * time.Millisecond}
}

func (n *testNode) pushLarge(queue, partition string, payloadBytes int) {
	n.t.Helper()
	n.call("POST", "/api/v1/push", fmt.Sprintf(
		`{"items":[{"queue":%q,"partition":%q,"transactionId":"large","payload":"%s"}]}`, queue, partition, strings.Repeat("x", payloadBytes)))
}

// begin sends a request over a connection that reads little, and reads a few bytes of the answer.
func (n *testNode) begin(method, path, body string) *net.TCPConn {
	n.t.Helper()
	c := must(net.Dial("tcp", n.address)).(*net.TCPConn)
	n.t.Cleanup(func() { c.Close() })
	check(n.t, c.SetReadBuffer(4096))
	must(fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body))
	must(io.ReadFull(c, make([]byte, 32)))
	return c
}

func TestAClaimWhoseAnswerIsNotReadIsHandedBack(t *testing.T) {
	n := startNodeWith(t, time.Minute, largeFront())
	for name, leave := range map[string]func(c *net.TCPConn){
		"reset": func(c *net.TCPConn) { check(t, c.SetLinger(0)); check(t, c.Close()) },
		"close": func(c *net.TCPConn) { check(t, c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			n.pushLarge(name, "p", 8<<20)
			leave(n.begin("GET", "/api/v1/pop/queue/"+name+"?consumerGroup=g&subscriptionMode=all&leaseSeconds=600", ""))
			var again struct {
				Messages []struct{ DeliveryAttempt int }
			}
			eventually(t, "the message can be claimed again", func() bool {
				answer := n.call("GET", "/api/v1/pop/queue/"+name+"?consumerGroup=g&leaseSeconds=600", "")
				return len(answer) > 0 && json.Unmarshal(answer, &again) == nil
			})
			if len(again.Messages) != 1 || again.Messages[0].DeliveryAttempt != 1 {
				t.Errorf("the attempt of nobody was counted: %+v", again)
			}
		})
	}
}

func TestACommitOnDeliveryThatWasBegunIsNotUndone(t *testing.T) {
	n := startNodeWith(t, time.Minute, largeFront())
	n.pushLarge("q", "p", 8<<20)
	check(t, n.begin("GET", "/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all&commitOnDelivery=true", "").Close())
	eventually(t, "the answer has ended", func() bool {
		status, _ := n.try("POST", "/api/v1/fetch", `{"entries":[{"queue":"q","partition":"p","offset":0}]}`)
		return status == 200
	})
	if again := n.pop("q", "consumerGroup=g"); len(again.Messages) != 0 {
		t.Errorf("got %d messages that count as delivered", len(again.Messages))
	}
}

func TestLargeAnswersWithoutRoomAreRefusedAndNothingIsClaimed(t *testing.T) {
	n := startNodeWith(t, time.Minute, largeFront())
	n.pushLarge("q", "p", 8<<20)
	const retry = `"code":"retry"`
	fetch := `{"entries":[{"queue":"q","partition":"p","offset":0}]}`
	holder := n.begin("POST", "/api/v1/fetch", fetch)
	for _, request := range [][3]string{
		{"GET", "/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all&leaseSeconds=600"},
		{"POST", "/api/v1/fetch", fetch},
		{"GET", "/api/v1/messages?queue=q"},
		{"GET", "/api/v1/messages/" + n.partitionOf("q") + "/large"},
	} {
		if status, answer := n.try(request[0], request[1], request[2]); status != 503 || !bytes.Contains(answer, []byte(retry)) {
			t.Errorf("%s: got %d %.200s", request[1], status, answer)
		}
	}
	n.push("small", "p", 3)
	if got := n.pop("small", "batch=3"); len(got.Messages) != 3 {
		t.Errorf("small answers are refused as well")
	}
	check(t, holder.Close())
	eventually(t, "what was not claimed is there when there is room", func() bool {
		status, answer := n.try("GET", "/api/v1/pop/queue/q?consumerGroup=g&leaseSeconds=600", "")
		return status == 200 && bytes.Contains(answer, []byte(`"deliveryAttempt":1,`))
	})
	var detail struct{ Data, Payload, TransactionID string }
	eventually(t, "the message is shown when there is room", func() bool {
		status, answer := n.try("GET", "/api/v1/messages/"+n.partitionOf("q")+"/large", "")
		return status == 200 && json.Unmarshal(answer, &detail) == nil
	})
	if len(detail.Data) != 8<<20 || detail.Payload != detail.Data || detail.TransactionID != "large" {
		t.Errorf("got %d and %d bytes of %q", len(detail.Data), len(detail.Payload), detail.TransactionID)
	}
}

// partitionOf is the UUID of the only partition of a queue.
func (n *testNode) partitionOf(queue string) string {
	n.t.Helper()
	var answer struct{ Partitions []struct{ ID string } }
	n.get("/api/v1/resources/queues/"+queue, &answer)
	return answer.Partitions[0].ID
}

func TestAPageOfMessagesIsBoundedInBytes(t *testing.T) {
	front := largeFront()
	front.AnswerBytes = 0
	n := startNodeWith(t, time.Minute, front)
	n.api.pageBytes = 3200 << 10
	for i := range 4 {
		n.pushLarge("q", fmt.Sprint("p", i), 1<<20)
	}
	var page struct {
		Total    int
		Messages []struct{ Offset int }
	}
	n.get("/api/v1/messages?queue=q", &page)
	if page.Total != 3 || len(page.Messages) != 3 {
		t.Errorf("got %d rows of 1 MiB each, want 3", page.Total)
	}
	n.get("/api/v1/messages?queue=q&offset=3", &page)
	if page.Total != 1 {
		t.Errorf("the next page has %d rows", page.Total)
	}
	for range 4 {
		n.ack("__QUEUE_MODE__", "dlq", n.pop("q", "batch=1"))
	}
	n.get("/api/v1/dlq?queue=q", &page)
	if page.Total != 4 || len(page.Messages) != 3 {
		t.Errorf("got %d of %d dead letters of 1 MiB each, want 3 of 4", len(page.Messages), page.Total)
	}
}

func TestATimeBeforeAllTimesIsNoTimeAtAll(t *testing.T) {
	n := startNode(t, time.Minute)
	n.push("q", "p", 3)
	n.ack("__QUEUE_MODE__", "dlq", n.pop("q", "batch=1"))
	for query, want := range map[string]int{
		"":                           3,
		"&to=0000-01-01T00:00:00Z":   0,
		"&from=0000-01-01T00:00:00Z": 3,
		"&to=1970-01-01T00:00:00Z":   0,
		"&from=9999-12-31T23:59:59Z": 0,
		"&to=9999-12-31T23:59:59Z":   3,
	} {
		var messages, letters struct{ Messages []json.RawMessage }
		n.get("/api/v1/messages?queue=q"+query, &messages)
		n.get("/api/v1/dlq?queue=q"+query, &letters)
		if len(messages.Messages) != want || len(letters.Messages) != min(want, 1) {
			t.Errorf("%s: got %d messages and %d dead letters", query, len(messages.Messages), len(letters.Messages))
		}
	}
	if status, answer := n.try("GET", "/api/v1/messages?from=2026-10-05T09:00:60Z", ""); status != 400 || !bytes.Contains(answer, []byte(`"code":"bad_request"`)) {
		t.Errorf("got %d %s", status, answer)
	}
}

func TestABadReplayBodyIsRefusedWhateverTheAddress(t *testing.T) {
	n := startNode(t, time.Minute)
	for _, path := range []string{
		"/api/v1/dlq/x/replay", "/api/v1/dlq/019a2b3c-4d5e-7f60-8a1b-000000000001/replay", "/api/v1/messages/x/y/retry", "/api/v1/messages/1/y/retry",
	} {
		if status, answer := n.try("POST", path, `{"queue":`); status != 400 || !bytes.Contains(answer, []byte(`"code":"bad_body"`)) {
			t.Errorf("%s: got %d %s", path, status, answer)
		}
		if status, answer := n.try("POST", path, ``); status != 404 || !bytes.Contains(answer, []byte(`"result":"gone"`)) {
			t.Errorf("%s: got %d %s", path, status, answer)
		}
	}
}

func TestAnUnknownStatusIsNotEchoedInFull(t *testing.T) {
	n := startNode(t, time.Minute)
	body := `{"acknowledgments":[{"transactionId":"t","partitionId":"1","status":"` + strings.Repeat("s", 900_000) + `"}]}`
	if answer := n.call("POST", "/api/v1/ack/batch", body); len(answer) > 1000 || !bytes.Contains(answer, []byte("unknown ack status")) {
		t.Errorf("got %d bytes: %.300s", len(answer), answer)
	}
}
