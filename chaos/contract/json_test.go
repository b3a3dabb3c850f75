package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// loneSurrogate is the JSON text of a string with an unpaired surrogate escape.
const loneSurrogate = `"a\ud800z"`

// TestUnpairedSurrogateIsRefusedLikeAWrongType: 2.1, in every name and txid of every body it is the refusal that a number in
// its place gets, and nothing is stored.
func TestUnpairedSurrogateIsRefusedLikeAWrongType_2_1(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	fileOne(s, "")
	row := s.needDeadLetters(0)[0]
	replay := "/api/v1/dlq/" + row.ID + "/replay"
	queue, partition := fmt.Sprintf("%q", s.queue), fmt.Sprintf("%q", s.partitionID)
	for _, c := range []struct{ what, path, body string }{ // # stands for the value
		{"queue of a pushed item", "/api/v1/push", `{"items":[{"queue":#,"payload":1}]}`},
		{"partition of a pushed item", "/api/v1/push", `{"items":[{"queue":` + queue + `,"partition":#,"payload":1}]}`},
		{"txid of a pushed item", "/api/v1/push", `{"items":[{"queue":` + queue + `,"payload":1,"transactionId":#}]}`},
		{"txid of an ack", "/api/v1/ack", `{"transactionId":#,"partitionId":` + partition + `}`},
		{"partition of an ack", "/api/v1/ack", `{"transactionId":"m0","partitionId":#}`},
		{"group of an ack", "/api/v1/ack", `{"transactionId":"m0","partitionId":` + partition + `,"consumerGroup":#}`},
		{"txid of a batch ack", "/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":#,"partitionId":` + partition + `}]}`},
		{"queue of a transaction push", "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":#,"payload":1}]}]}`},
		{"partition of a transaction push", "/api/v1/transaction", `{"operations":[{"type":"push","queue":` + queue + `,"partition":#,"payload":1}]}`},
		{"txid of a transaction push", "/api/v1/transaction", `{"operations":[{"type":"push","queue":` + queue + `,"payload":1,"transactionId":#}]}`},
		{"txid of a transaction ack", "/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":#,"partitionId":` + partition + `}]}`},
		{"group of a transaction ack", "/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":"m0","partitionId":` + partition + `,"consumerGroup":#}]}`},
		{"queue of a position", "/api/v1/transaction", `{"positions":[{"queue":#,"consumerGroup":"g","offset":0}]}`},
		{"group of a position", "/api/v1/transaction", `{"positions":[{"queue":` + queue + `,"consumerGroup":#,"offset":0}]}`},
		{"partition of a position", "/api/v1/transaction", `{"positions":[{"queue":` + queue + `,"partition":#,"consumerGroup":"g","offset":0}]}`},
		{"queue to configure", "/api/v1/configure", `{"queue":#}`},
		{"queue of a position read", groupPath("g") + "/positions", `{"entries":[{"queue":#}]}`},
		{"partition of a position read", groupPath("g") + "/positions", `{"entries":[{"queue":` + queue + `,"partition":#}]}`},
		{"txid of a trace", "/api/v1/traces", `{"transactionId":#,"partitionId":"1","data":1}`},
		{"partition of a trace", "/api/v1/traces", `{"transactionId":"t","partitionId":#,"data":1}`},
		{"group of a trace", "/api/v1/traces", `{"transactionId":"t","partitionId":"1","data":1,"consumerGroup":#}`},
		{"one of the names of a trace", "/api/v1/traces", `{"transactionId":"t","partitionId":"1","data":1,"traceNames":["n",#]}`},
		{"queue to fetch", "/api/v1/fetch", `{"entries":[{"queue":#,"offset":0}]}`},
		{"partition to fetch offsets of", "/api/v1/fetch/offsets", `{"entries":[{"queue":` + queue + `,"partition":#,"timestamp":0}]}`},
		{"queue to watch", "/api/v1/partitions/changed", `{"entries":[{"queue":#}]}`},
	} {
		t.Run(c.what, func(t *testing.T) {
			answer := suite.client.Post(c.path, strings.Replace(c.body, "#", loneSurrogate, 1))
			need(t, answer, 400)
			wrongType := suite.client.Post(c.path, strings.Replace(c.body, "#", `{}`, 1))
			need(t, wrongType, 400)
			if answer.Text("code") != wrongType.Text("code") || answer.Text("error") == "" {
				t.Errorf("want the refusal of a wrong type, %v, got %v", wrongType, answer)
			}
		})
	}
	t.Run("one name of a trace", func(t *testing.T) { // a name that is no string would be another shape
		needEnvelope(t, suite.client.Post("/api/v1/traces", `{"transactionId":"t","partitionId":"1","data":1,"traceNames":`+loneSurrogate+`}`), 400, "bad_body")
	})
	t.Run("the destination of a replay", func(t *testing.T) { // a name that is no string is ignored there
		for _, member := range []string{"queue", "partition"} {
			needEnvelope(t, suite.client.Post(replay, `{"`+member+`":`+loneSurrogate+`}`), 400, "bad_body")
		}
	})
	s.needDeadLetters(0)
	if detail := queueDetail(t, s.client, s.queue); detail.Totals.Total != 1 {
		t.Errorf("something was stored: %+v", detail.Totals)
	}
}

// 2.1: a payload is the JSON text that was sent, and an unpaired surrogate escape in it is JSON.
func TestPayloadKeepsItsText_2_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	payloads := []string{loneSurrogate, `{"\udc00":["\ud83d"]}`, `"\u0041"`, `"\/"`, `1.50e+02`, `{"a":1,"a":2}`, `18446744073709551616`}
	for i, payload := range payloads {
		body := fmt.Sprintf(`{"items":[{"queue":%q,"payload":%s,"transactionId":"%d"}]}`, queue, payload, i)
		need(t, suite.client.Post("/api/v1/push", body), 201)
	}
	popped := suite.client.Pop(queue, "")
	needMessageCount(t, popped, len(payloads))
	for i, message := range popped.Messages {
		if string(message.Data) != payloads[i] {
			t.Errorf("%s came back as %s", payloads[i], message.Data)
		}
	}
}

// 2.1: of repeated members the last one counts, in the bodies of the other writes and reads as well.
func TestLastOfRepeatedMembersCountsEverywhere_2_1(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	batch := s.redelivered(0, 1, 1)
	ack := s.client.AckBody("/api/v1/ack/batch", fmt.Sprintf(`{"consumerGroup":"no","consumerGroup":%q,"acknowledgments":[],"acknowledgments":[{"transactionId":"no",`+
		`"transactionId":"m0","partitionId":"no","partitionId":%q,"leaseId":"no","leaseId":%q,"status":"failed","status":"completed"}]}`, s.group, s.partitionID, batch.lease))
	needVerdicts(t, ack, kept)
	out := s.queue + "-out"
	needCommitted(t, s.client.Transaction(fmt.Sprintf(`{"operations":[{"type":"no"}],"operations":[{"type":"ack","type":"push","queue":"no","queue":%q,"payload":1,"payload":2,`+
		`"transactionId":"no","transactionId":"yes"}]}`, out)))
	needStored(t, s.client, out, "yes")
	need(t, s.client.Post("/api/v1/configure", fmt.Sprintf(`{"queue":"no","queue":%q,"options":{"leaseTime":7},"options":{"leaseTime":8,"leaseTime":9}}`, s.queue)), 200)
	if options := queueDetail(t, s.client, s.queue).Options; options["leaseTime"] != 9.0 {
		t.Errorf("got %v", options)
	}
	fetched := s.client.Post("/api/v1/fetch", fmt.Sprintf(`{"entries":[],"entries":[{"queue":"no","queue":%q,"offset":0,"offset":1}]}`, s.queue))
	need(t, fetched, 200)
	if entry := firstObject(fetched.Object()["entries"]); entry["queue"] != s.queue || firstObject(entry["records"])["offset"] != json.Number("1") {
		t.Errorf("got %v", fetched)
	}
}

// 2.1: a body that is not UTF-8 is not JSON, on the other routes that read one as well.
func TestBodyThatIsNotUTF8IsNotJSONAnywhere_2_1(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/api/v1/traces":                 `{"transactionId":"t","partitionId":"1","data":"#"}`,
		"/api/v1/fetch":                  `{"entries":[{"queue":"#","offset":0}]}`,
		"/api/v1/fetch/offsets":          `{"entries":[],"x":"#"}`,
		"/api/v1/partitions/changed":     `{"entries":[],"x":"#"}`,
		groupPath("g") + "/positions":    `{"entries":[{"queue":"#"}]}`,
		groupPath("g") + "/subscription": `{"subscriptionTimestamp":"2026-01-01T00:00:00Z","x":"#"}`,
		groupPath("g", "/queues/q/seek"): `{"toEnd":true,"x":"#"}`,
	} {
		need(t, suite.client.Post(path, strings.ReplaceAll(body, "#", "\xff")), 400)
	}
	extended := suite.client.Extend("none", "{\"seconds\":5,\"x\":\"\xff\"}") // what is not JSON means the default there (7)
	need(t, extended.Response, 200)
}

// 2.11: ten thousand levels of nesting are the limit on every route that reads a body.
func TestNestingIsBoundedEverywhere_2_11(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return `{"ignored":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `,`
	}
	s := newScene(t, nil, 1)
	for path, rest := range map[string]string{
		"/api/v1/transaction":         `"operations":[{"type":"push","queue":"` + s.queue + `","payload":1}]}`,
		"/api/v1/ack":                 `"transactionId":"t","partitionId":"` + noPartition + `"}`,
		"/api/v1/configure":           `"queue":"` + s.queue + `"}`,
		"/api/v1/traces":              `"transactionId":"t","partitionId":"1","data":1}`,
		groupPath("g") + "/positions": `"entries":[]}`,
	} {
		needEnvelope(t, suite.client.Post(path, nested(10_001)+rest), 400, "bad_body")
		if answer := suite.client.Post(path, nested(10_000)+rest); answer.Status != 200 && answer.Status != 201 {
			t.Errorf("%s: got %v", path, answer)
		}
	}
	answer := suite.client.Post("/api/v1/fetch", nested(10_001)+`"entries":[]}`)
	need(t, answer, 400)
	needExactKeys(t, answer.Object(), "error")
	need(t, suite.client.Post("/api/v1/fetch", nested(10_000)+`"entries":[]}`), 200)
}

// 2.1: there is no CORS on the broker port.
func TestThereIsNoCORS_2_1(t *testing.T) {
	t.Parallel()
	client := suite.client.With("Origin", "https://elsewhere.example").With("Access-Control-Request-Method", "POST")
	for _, request := range []harness.Request{
		{Method: "GET", Path: "/health"}, {Method: "OPTIONS", Path: "/api/v1/push"}, {Method: "GET", Path: "/"},
		{Method: "POST", Path: "/api/v1/push", Body: []byte(`{"items":[]}`)},
	} {
		answer := client.Do(request)
		if answer.Err != nil {
			t.Fatal(answer.Err)
		}
		for name := range answer.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s answers %s", request.Method, request.Path, name)
			}
		}
	}
}
