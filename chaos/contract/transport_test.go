package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// longRun reports whether the checks that wait a minute are wanted.
func longRun() bool { return os.Getenv("QUEEN_CONTRACT_LONG") == "1" }

func TestContentTypeOfARequestIsIgnored_2_1(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "nonsense"} {
		queue := uniqueName(t)
		header := http.Header{}
		if contentType != "" {
			header.Set("Content-Type", contentType)
		}
		reply := suite.client.Do(harness.Request{Method: "POST", Path: "/api/v1/push", Header: header,
			Body: fmt.Appendf(nil, `{"items":[{"queue":%q,"payload":1}]}`, queue)})
		need(t, reply, 201)
		needMessageCount(t, suite.client.Pop(queue, ""), 1)
	}
}

func TestAnswersAreCompactJSON_2_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	payload := json.RawMessage(`{ "a" : [ 1 , 2 ] }`)
	answers := map[string]harness.Response{
		"push":             suite.client.Push(harness.Item{Queue: queue, Payload: payload, TransactionID: "t"}).Response,
		"pop":              suite.client.Pop(queue, "leaseSeconds=60").Response,
		"ack item failure": suite.client.Ack("", harness.AckItem{TransactionID: "t", PartitionID: "x"}).Response,
		"configure":        suite.client.Configure(queue, map[string]any{"retryLimit": 4}),
		"bad push":         suite.client.Post("/api/v1/push", "{"),
		"bad pop":          suite.client.Pop(queue, "batch=0").Response,
		"unknown route":    suite.client.Get("/api/v1/nowhere"),
		"wrong method":     suite.client.Delete("/api/v1/push"),
		"queue detail":     suite.client.Get("/api/v1/resources/queues/" + queue),
		"missing queue":    suite.client.Get("/api/v1/resources/queues/" + queue + "-none"),
		"health":           suite.client.Get("/health"),
		"metrics":          suite.client.Get("/metrics"),
		"status":           suite.client.Get("/status"),
	}
	for name, answer := range answers {
		if got := answer.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: Content-Type %q", name, got)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, answer.Body); err != nil {
			t.Errorf("%s: not JSON: %v: %v", name, err, answer)
			continue
		}
		// A payload comes back as the text that was sent, so the pop is compact around it.
		if name != "pop" && !bytes.Equal(compact.Bytes(), answer.Body) {
			t.Errorf("%s: not compact: %v", name, answer)
		}
	}
}

func TestPrometheusPageIsText_2_1(t *testing.T) {
	t.Parallel()
	answer := suite.client.Get("/metrics/prometheus")
	need(t, answer, 200)
	if got := answer.Header.Get("Content-Type"); got != "text/plain; version=0.0.4" {
		t.Errorf("Content-Type %q", got)
	}
}

func TestUnknownFieldsAndParametersAreIgnored_2_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	body := fmt.Sprintf(`{"x":1,"items":[{"queue":%q,"payload":1,"transactionId":"t","unknown":{"a":[]},"status":7}],"sync":"yes"}`, queue)
	need(t, suite.client.Post("/api/v1/push?shiny=1&batch=nonsense", body), 201)
	popped := suite.client.Pop(queue, "colour=red&leaseSeconds=60&wait=false&Batch=none")
	needMessages(t, popped, "t")
	message := popped.Messages[0]
	ack := fmt.Sprintf(`{"transactionId":"t","partitionId":%q,"leaseId":%q,"offset":"none","extra":null}`, message.PartitionID, message.LeaseID)
	needAcked(t, suite.client.AckBody("/api/v1/ack?verbose=maybe", ack))
	need(t, suite.client.Post("/api/v1/configure?x=y", fmt.Sprintf(`{"queue":%q,"options":{"colour":"red"}}`, queue)), 200)
	need(t, suite.client.Get("/api/v1/resources/queues?x=y"), 200)
}

// An idle keep-alive connection is watched with a read that must end by its own deadline, not by a close.
func TestIdleConnectionStaysOpen_2_1(t *testing.T) {
	t.Parallel()
	idle := 15 * time.Second
	if longRun() {
		idle = 60 * time.Second
	}
	wire, err := suite.broker.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	const request = "GET /health HTTP/1.1\r\nHost: queen\r\n\r\n"
	if err := wire.Send(request); err != nil {
		t.Fatal(err)
	}
	need(t, wire.Receive("GET"), 200)
	if err := wire.AwaitIdle(idle); err != nil {
		t.Fatalf("the server must keep an idle connection for at least 60 s: %v", err)
	}
	if err := wire.Send(request); err != nil {
		t.Fatal(err)
	}
	need(t, wire.Receive("GET"), 200)
}

func TestBodyOverTheLimitIsRefusedBeforeItIsParsed_2_1(t *testing.T) {
	t.Parallel()
	wire, err := suite.broker.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	// Never sent in full: an answer proves that the length alone decided.
	head := fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: queen\r\nContent-Length: %d\r\n\r\n", 64<<20+1)
	if err := wire.Send(head + strings.Repeat("x", 64<<10)); err != nil {
		t.Fatal(err)
	}
	needEnvelope(t, wire.Receive("POST"), 413, "payload_too_large")
}

func TestBodyLimitIsConfigurable_2_1(t *testing.T) {
	t.Parallel()
	const limit = 2048
	broker := privateBroker(t, map[string]string{"QUEEN_MAX_BODY_BYTES": fmt.Sprint(limit)})
	client := broker.Client()
	frame := `{"items":[{"queue":"q","payload":""}]}`
	body := func(size int) string {
		return strings.Replace(frame, `""`, `"`+strings.Repeat("a", size-len(frame))+`"`, 1)
	}
	t.Run("exactly the limit is accepted", func(t *testing.T) { need(t, client.Post("/api/v1/push", body(limit)), 201) })
	t.Run("one byte more is refused", func(t *testing.T) {
		needEnvelope(t, client.Post("/api/v1/push", body(limit+1)), 413, "payload_too_large")
	})
	t.Run("a chunked body says no length and is refused all the same", func(t *testing.T) {
		for bytes, status := range map[int]int{limit: 201, limit + 1: 413} {
			wire, err := broker.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer wire.Close()
			half := body(bytes)[:bytes/2]
			rest := body(bytes)[bytes/2:]
			request := fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: queen\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n",
				len(half), half, len(rest), rest)
			if err := wire.Send(request); err != nil {
				t.Fatal(err)
			}
			answer := wire.Receive("POST")
			if need(t, answer, status); status != 201 {
				needEnvelope(t, answer, status, "payload_too_large")
			}
		}
	})
	t.Run("what is not JSON is refused by its size all the same", func(t *testing.T) {
		needEnvelope(t, client.Post("/api/v1/push", strings.Repeat("{", limit+1)), 413, "payload_too_large")
	})
	t.Run("on every route with a body", func(t *testing.T) {
		for _, path := range []string{"/api/v1/ack", "/api/v1/transaction", "/api/v1/configure", "/api/v1/fetch", "/api/v1/lease/x/extend"} {
			needEnvelope(t, client.Post(path, strings.Repeat(" ", limit+1)), 413, "payload_too_large")
		}
	})
}

func TestPayloadComesBackWithEveryDigit_2_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	payloads := []string{
		`null`, `true`, `""`, `{}`, `[]`, `0`, `-0`, `1E5`, `1.0`, `12345678901234567890123456789`,
		`0.1000000000000000055511151231257827`, `1e400`, `-1.5e-300`,
		`"\u00e9\ud83d\ude00\n\t\"\\\/"`, `"é😀"`, `"\u0000"`, `{"a":{"b":[1,{"c":null}]},"":0}`,
		`{"producerSub":"x","leaseId":1,"data":{"data":2}}`, `"</script>&\u2028"`,
	}
	items := make([]harness.Item, len(payloads))
	for i, payload := range payloads {
		items[i] = harness.Item{Queue: queue, Payload: json.RawMessage(payload), TransactionID: fmt.Sprint(i)}
	}
	pushAll(t, suite.client, items...)
	popped := suite.client.Pop(queue, "")
	needMessageCount(t, popped, len(payloads))
	for i, message := range popped.Messages {
		if !sameJSON([]byte(payloads[i]), message.Data) {
			t.Errorf("payload %s came back as %s", payloads[i], message.Data)
		}
	}
}

func TestBodyThatIsNotUTF8IsNotJSON_2_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	bodies := map[string]string{
		"/api/v1/push":        "{\"items\":[{\"queue\":\"" + queue + "\",\"payload\":\"\xff\"}]}",
		"/api/v1/ack":         "{\"transactionId\":\"\xff\",\"partitionId\":\"1\"}",
		"/api/v1/transaction": "{\"operations\":[{\"type\":\"push\",\"queue\":\"" + queue + "\",\"payload\":\"\xc3\x28\"}]}",
		"/api/v1/configure":   "{\"queue\":\"" + queue + "\xf0\x28\"}",
	}
	for path, body := range bodies {
		t.Run(path, func(t *testing.T) { needEnvelope(t, suite.client.Post(path, body), 400, "bad_body") })
	}
	need(t, suite.client.Get("/api/v1/resources/queues/"+queue), 404)
}

func TestUnpairedSurrogateInANameIsRefused_2_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	bodies := map[string]string{
		"queue":         `{"items":[{"queue":"` + queue + `\ud800","payload":1}]}`,
		"partition":     `{"items":[{"queue":"` + queue + `","partition":"\udc00x","payload":1}]}`,
		"transactionId": `{"items":[{"queue":"` + queue + `","payload":1,"transactionId":"a\ud83dz"}]}`,
	}
	for member, body := range bodies {
		t.Run(member, func(t *testing.T) { needEnvelope(t, suite.client.Post("/api/v1/push", body), 400, "bad_body") })
	}
	t.Run("ack transactionId", func(t *testing.T) {
		needEnvelope(t, suite.client.Post("/api/v1/ack", `{"transactionId":"\ud800","partitionId":"1"}`), 400, "bad_body")
	})
	t.Run("configure queue", func(t *testing.T) {
		// Like a wrong type: for configure that is the missing queue of 9.4, else the body is bad.
		reply := suite.client.Post("/api/v1/configure", `{"queue":"\ud800"}`)
		need(t, reply, 400)
		if code := reply.Text("code"); code != "bad_body" && code != "bad_request" {
			t.Fatalf("got %v", reply)
		}
	})
	need(t, suite.client.Get("/api/v1/resources/queues/"+queue), 404)
}

func TestLastOfRepeatedMembersCounts_2_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	body := fmt.Sprintf(`{"items":[{"queue":"no","payload":1}],"items":[{"queue":"wrong","queue":%q,"payload":1,"payload":2,`+
		`"transactionId":"a","transactionId":"b"}]}`, queue)
	reply := suite.client.PushBody(body)
	need(t, reply.Response, 201)
	if len(reply.Items) != 1 || reply.Items[0].QueueName != queue || reply.Items[0].TransactionID != "b" {
		t.Fatalf("got %v", reply)
	}
	popped := suite.client.Pop(queue, "")
	needMessages(t, popped, "b")
	if string(popped.Messages[0].Data) != "2" {
		t.Fatalf("got payload %s", popped.Messages[0].Data)
	}
}

// needMessageCount ends the test unless the pop delivered this many messages.
func needMessageCount(t *testing.T, reply harness.PopReply, count int) {
	t.Helper()
	if count == 0 {
		needEmpty(t, reply)
		return
	}
	need(t, reply.Response, 200)
	if len(reply.Messages) != count {
		t.Fatalf("want %d messages, got %d: %v", count, len(reply.Messages), reply.TransactionIDs())
	}
}

func TestChunkedBodiesAreRead_2_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	wire, err := suite.broker.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	body := fmt.Sprintf(`{"items":[{"queue":%q,"payload":1}]}`, queue)
	half := len(body) / 2
	request := "POST /api/v1/push HTTP/1.1\r\nHost: queen\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, part := range []string{body[:half], body[half:]} {
		request += fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
	}
	if err := wire.Send(request + "0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	need(t, wire.Receive("POST"), 201)
}
