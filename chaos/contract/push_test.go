package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

func TestPushRefusesABadBody_4_3(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	good := fmt.Sprintf(`{"queue":%q,"payload":1}`, queue)
	items := func(item string) string { return `{"items":[` + good + `,` + item + `]}` }
	cases := map[string]string{
		"not JSON":                      `{"items":[`,
		"empty":                         ``,
		"an array":                      `[` + good + `]`,
		"null":                          `null`,
		"no items":                      `{}`,
		"items null":                    `{"items":null}`,
		"items an object":               `{"items":` + good + `}`,
		"an item that is no object":     items(`7`),
		"an item without queue":         items(`{"payload":1}`),
		"queue null":                    items(`{"queue":null,"payload":1}`),
		"queue a number":                items(`{"queue":7,"payload":1}`),
		"partition a number":            items(`{"queue":"x","partition":7,"payload":1}`),
		"transactionId a number":        items(`{"queue":"x","payload":1,"transactionId":7}`),
		"an item without payload":       items(`{"queue":"x"}`),
		"data is no alias of payload":   items(`{"queue":"x","data":1}`),
		"a trailing comma":              `{"items":[` + good + `,]}`,
		"something after the body":      `{"items":[` + good + `]} x`,
		"a number JSON does not know":   items(`{"queue":"x","payload":01}`),
		"NaN":                           items(`{"queue":"x","payload":NaN}`),
		"a control character in a text": items("{\"queue\":\"x\",\"payload\":\"\n\"}"),
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			answer := suite.client.Post("/api/v1/push", body)
			needEnvelope(t, answer, 400, "bad_body")
			if got := answer.Text("error"); !strings.HasPrefix(got, "bad push body: ") {
				t.Fatalf("got text %q", got)
			}
		})
	}
	need(t, suite.client.Get("/api/v1/resources/queues/"+queue), 404) // the good item beside it was not stored
}

func TestPushOfNothingAnswersAnEmptyArray_4_1(t *testing.T) {
	t.Parallel()
	needBody(t, suite.client.Post("/api/v1/push", `{"items":[]}`), 201, `[]`)
}

func TestPushAnswerHasExactKeysInRequestOrder_4_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	items := []harness.Item{
		{Queue: queue, Partition: "b", Payload: 0, TransactionID: "t0"},
		{Queue: queue + "x", Partition: "a", Payload: 1},
		{Queue: queue, Partition: "a", Payload: 2, TransactionID: "t2"},
		{Queue: queue, Partition: "b", Payload: 3},
	}
	reply := suite.client.Push(items...)
	need(t, reply.Response, 201)
	if len(reply.Items) != len(items) {
		t.Fatalf("got %v", reply)
	}
	offsets := []int64{0, 0, 0, 1}
	for i, verdict := range reply.Items {
		row, _ := reply.Array()[i].(map[string]any)
		needExactKeys(t, row, "index", "message_id", "transaction_id", "queueName", "status", "offset")
		if verdict.Index != i || verdict.QueueName != items[i].Queue || *verdict.Offset != offsets[i] || !uuidV7.MatchString(verdict.MessageID) {
			t.Errorf("item %d: got %+v", i, verdict)
		}
		want := items[i].TransactionID
		if want == "" {
			want = verdict.MessageID
		}
		if verdict.TransactionID != want {
			t.Errorf("item %d: want transaction_id %q, got %q", i, want, verdict.TransactionID)
		}
	}
}

func TestPartitionOfAnItem_4_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for member, want := range map[string]string{``: "Default", `"partition":null,`: "Default", `"partition":"",`: "", `"partition":"p",`: "p"} {
		body := fmt.Sprintf(`{"items":[{"queue":"%s%d",%s"payload":1}]}`, queue, len(member), member)
		need(t, suite.client.Post("/api/v1/push", body), 201)
		popped := suite.client.Pop(fmt.Sprint(queue, len(member)), "")
		needMessageCount(t, popped, 1)
		if popped.Partition != want || popped.Messages[0].Partition != want {
			t.Errorf("%q: want partition %q, got %q", member, want, popped.Partition)
		}
	}
}

func TestAbsentTransactionIDIsTheMintedMessageID_4_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for _, member := range []string{``, `,"transactionId":null`, `,"transactionId":""`} {
		body := fmt.Sprintf(`{"items":[{"queue":%q,"payload":1%s},{"queue":%q,"payload":2%s}]}`, queue, member, queue, member)
		reply := suite.client.PushBody(body)
		need(t, reply.Response, 201)
		popped := suite.client.Pop(queue, "commitOnDelivery=true")
		needMessages(t, popped, reply.Items[0].MessageID, reply.Items[1].MessageID)
		for i, verdict := range reply.Items {
			if verdict.TransactionID != verdict.MessageID || popped.Messages[i].ID != verdict.MessageID || verdict.Status != "queued" {
				t.Errorf("%q: got %+v and message %+v", member, verdict, popped.Messages[i])
			}
		}
	}
}

func TestTraceIDIsStoredWhenItIsAUUID_4_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const trace = "01890a5d-ac96-774b-bcce-b302099a8057"
	values := []struct{ sent, want string }{
		{`"` + trace + `"`, trace}, {`null`, ""}, {`"trace-1"`, ""}, {`""`, ""}, {`7`, ""}, {`{"a":[1]}`, ""}, {`true`, ""},
	}
	for i, value := range values {
		body := fmt.Sprintf(`{"items":[{"queue":%q,"payload":1,"transactionId":"%d","traceId":%s}]}`, queue, i, value.sent)
		need(t, suite.client.Post("/api/v1/push", body), 201)
	}
	popped := suite.client.Pop(queue, "")
	needMessageCount(t, popped, len(values))
	for i, message := range popped.Messages {
		got := ""
		if message.TraceID != nil {
			got = *message.TraceID
		}
		if got != values[i].want {
			t.Errorf("traceId %s: want %q, got %q", values[i].sent, values[i].want, got)
		}
	}
}

func TestGroupsOfAPushKeepRequestOrder_4_4(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	var items []harness.Item
	for i := range 30 {
		items = append(items, harness.Item{Queue: queue, Partition: fmt.Sprint("p", i%3), Payload: i, TransactionID: fmt.Sprint(i)})
	}
	verdicts := pushAll(t, suite.client, items...)
	for i, verdict := range verdicts {
		if *verdict.Offset != int64(i/3) {
			t.Fatalf("item %d: got offset %d", i, *verdict.Offset)
		}
	}
	for partition := range 3 {
		popped := suite.client.PopPartition(queue, fmt.Sprint("p", partition), "")
		var want []string
		for i := partition; i < 30; i += 3 {
			want = append(want, fmt.Sprint(i))
		}
		needMessages(t, popped, want...)
		for _, message := range popped.Messages[1:] {
			if !message.CreatedAt.Equal(popped.Messages[0].CreatedAt) {
				t.Fatalf("a group has one stamp, got %v and %v", popped.Messages[0].CreatedAt, message.CreatedAt)
			}
		}
	}
}

// Concurrent pushes of several items: a group is stored contiguously, so no other group stands between its items.
func TestGroupIsStoredContiguously_4_4(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const pushes, items = 24, 5
	done := make(chan harness.PushReply, pushes)
	for i := range pushes {
		go func() { done <- suite.client.Push(numbered(queue, "", fmt.Sprint(i, "-"), items)...) }()
	}
	for range pushes {
		reply := <-done
		need(t, reply.Response, 201)
		for i, verdict := range reply.Items {
			if *verdict.Offset != *reply.Items[0].Offset+int64(i) {
				t.Fatalf("got %v", reply)
			}
		}
	}
	popped := suite.client.Pop(queue, "batch=1000")
	needMessageCount(t, popped, pushes*items)
	for i, message := range popped.Messages { // gapless from 0
		if message.Offset != int64(i) {
			t.Fatalf("position %d has offset %d", i, message.Offset)
		}
	}
}

func TestPushCreatesTheQueueWithImplicitDefaults_4_4(t *testing.T) {
	t.Parallel()
	base := strings.ReplaceAll(uniqueName(t), ".", "-")
	cases := []struct{ queue, namespace, task string }{
		{base, base, ""},
		{base + ".invoice", base, "invoice"},
		{base + ".invoice.v2", base, "invoice"},
		{"." + base, "", base},
		{base + ".", base, ""},
	}
	for _, c := range cases {
		t.Run(c.queue, func(t *testing.T) {
			pushOne(t, suite.client, harness.Item{Queue: c.queue, Payload: 1})
			detail := suite.client.Get("/api/v1/resources/queues/" + c.queue)
			need(t, detail, 200)
			if detail.Text("namespace") != c.namespace || detail.Text("task") != c.task {
				t.Fatalf("want %q and %q, got %v", c.namespace, c.task, detail)
			}
			options, _ := detail.Object()["options"].(map[string]any)
			if options["leaseTime"] != json.Number("60") {
				t.Fatalf("want the implicit lease of 60 s, got %v", options)
			}
		})
	}
	t.Run("a later configure changes the labels only when it names them", func(t *testing.T) {
		queue := base + ".invoice"
		need(t, suite.client.Configure(queue, map[string]any{"leaseTime": 10}), 200)
		detail := suite.client.Get("/api/v1/resources/queues/" + queue)
		if detail.Text("namespace") != base || detail.Text("task") != "invoice" {
			t.Fatalf("got %v", detail)
		}
		need(t, suite.client.Configure(queue, map[string]any{"namespace": "other"}), 200)
		detail = suite.client.Get("/api/v1/resources/queues/" + queue)
		if detail.Text("namespace") != "other" || detail.Text("task") != "invoice" {
			t.Fatalf("got %v", detail)
		}
	})
}

func TestMaxSizeLimitsNothing_4_4(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	need(t, suite.client.Configure(queue, map[string]any{"maxSize": 2}), 200)
	pushAll(t, suite.client, numbered(queue, "", "m", 10)...)
	needMessageCount(t, suite.client.Pop(queue, ""), 10)
}

func TestEncryptedQueue_4_5(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": strings.Repeat("0123456789abcdef", 4)}).Client()
	need(t, client.Configure("secret", map[string]any{"encryptionEnabled": true}), 200)
	const payload = `{"card":"4111 1111 1111 1111","n":1234567890123456789012.50}`
	pushAll(t, client, harness.Item{Queue: "secret", Payload: json.RawMessage(payload), TransactionID: "t"},
		harness.Item{Queue: "plain", Payload: json.RawMessage(payload), TransactionID: "t"})
	t.Run("a pop returns the plain payload", func(t *testing.T) {
		popped := client.Pop("secret", "leaseSeconds=60")
		needMessages(t, popped, "t")
		if !sameJSON([]byte(payload), popped.Messages[0].Data) || popped.Messages[0].DecryptError {
			t.Fatalf("got %v", popped)
		}
		if strings.Contains(string(popped.Body), "decryptError") {
			t.Fatalf("decryptError is absent unless it is true, got %v", popped)
		}
	})
	t.Run("isEncrypted marks the stored form", func(t *testing.T) {
		for queue, want := range map[string]bool{"secret": true, "plain": false} {
			answer := client.Get("/api/v1/messages?queue=" + queue)
			need(t, answer, 200)
			if row := firstObject(answer.Object()["messages"]); row["isEncrypted"] != want {
				t.Fatalf("%s: got %v", queue, answer)
			}
		}
	})
	t.Run("application data in the shape of an envelope is not touched", func(t *testing.T) {
		const shaped = `{"encrypted":"AAAA","iv":"AAAAAAAAAAAAAAAAAAAAAA==","authTag":"AAAAAAAAAAAAAAAAAAAAAA==","keyId":"x"}`
		for _, queue := range []string{"plain-shaped", "secret"} {
			pushOne(t, client, harness.Item{Queue: queue, Partition: "shaped", Payload: json.RawMessage(shaped)})
			popped := client.PopPartition(queue, "shaped", "")
			needMessageCount(t, popped, 1)
			if !sameJSON([]byte(shaped), popped.Messages[0].Data) {
				t.Fatalf("got %v", popped)
			}
		}
	})
}

func TestEncryptionWithoutAKeyRefusesTheWholePush_4_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	configured := suite.client.Configure(queue, map[string]any{"encryptionEnabled": true})
	need(t, configured, 200)
	if options, _ := configured.Object()["options"].(map[string]any); options["encryptionEnabled"] != true {
		t.Fatalf("configure echoes the option without a key, got %v", configured)
	}
	reply := suite.client.Push(harness.Item{Queue: queue + "-plain", Payload: 1}, harness.Item{Queue: queue, Payload: 1})
	needEnvelope(t, reply.Response, 503, "encryption_unavailable")
	needEmpty(t, suite.client.Pop(queue, ""))
	need(t, suite.client.Get("/api/v1/resources/queues/"+queue+"-plain"), 404)
	need(t, suite.client.Configure(queue, map[string]any{"encryptionEnabled": false}), 200)
	if first := pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1}); *first.Offset != 0 {
		t.Fatalf("the refused push left something behind, got %+v", first)
	}
}

func TestPushedMessageIsThereWhenTheAnswerIs_4_3(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for i := range 20 {
		id := fmt.Sprint("m", i)
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: i, TransactionID: id})
		popped := suite.client.Pop(queue, "commitOnDelivery=true")
		needMessages(t, popped, id)
	}
}
