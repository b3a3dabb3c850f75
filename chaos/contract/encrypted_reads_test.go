package contract

import (
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// TestTransactionPushIsEncryptedToo: 8.6 and 4.5, a transaction stores what a push stores.
func TestTransactionPushIsEncryptedToo(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": strings.Repeat("0123456789abcdef", 4)}).Client()
	need(t, client.Configure("secret", map[string]any{"encryptionEnabled": true}), 200)
	needCommitted(t, client.Transaction(operations([]any{pushOperation("secret", "t"), pushOperation("plain", "t")})))
	for queue, want := range map[string]bool{"secret": true, "plain": false} {
		rows := browse(t, client, "queue="+queue)
		if len(rows) != 1 || rows[0].IsEncrypted != want || !sameJSON(rows[0].Data, []byte(`{"text":"t"}`)) {
			t.Errorf("%s: got %+v", queue, rows)
		}
	}
}

// TestEncryptedQueueReadsPlain: 11.1, 11.2, 11.4, 11.5 and 13.1, the payload of an encrypting queue is plain wherever it is
// shown, isEncrypted marks the stored form, and a replay keeps the payload.
func TestEncryptedQueueReadsPlain(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": strings.Repeat("0123456789abcdef", 4)}).Client()
	s := newSceneAt(t, client, map[string]any{"encryptionEnabled": true}, 0)
	pushAll(t, client, harness.Item{Queue: s.queue, Payload: map[string]any{"secret": 7}, TransactionID: "m0"})
	plain := []byte(`{"secret":7}`)
	row := browse(t, client, "queue="+s.queue)[0]
	if !row.IsEncrypted || !row.PayloadAvailable || !sameJSON(row.Data, plain) {
		t.Errorf("list: got %+v", row)
	}
	if entry := fetchAt(t, client, s.queue, "Default", 0); len(entry.Records) != 1 || !sameJSON(entry.Records[0].Payload, plain) {
		t.Errorf("fetch: got %+v", entry)
	}
	fileOne(s, "")
	object := client.Get("/api/v1/messages/" + row.PartitionID + "/m0").Object()
	if object["isEncrypted"] != true || !sameJSON(mustJSON(object["data"]), plain) {
		t.Errorf("detail: got %v", object)
	}
	list := client.Get("/api/v1/dlq?queue=" + s.queue)
	if raw := list.Object()["messages"].([]any)[0].(map[string]any); !sameJSON(mustJSON(raw["data"]), plain) {
		t.Errorf("dead letter: got %v", list)
	}
	letter := s.deadLetters()[0]
	needReplayed(t, client.Post("/api/v1/dlq/"+letter.ID+"/replay", nil), "moved")
	copied := s.pop(10)
	if need(t, copied.Response, 200); len(copied.Messages) != 1 || !sameJSON(copied.Messages[0].Data, plain) {
		t.Errorf("copy: got %v", copied.Response)
	}
}

// TestPayloadThatCannotBeDecrypted: 5.3, the message is delivered with its envelope and says so; the field is absent on the
// others, also of the same pop.
func TestPayloadThatCannotBeDecrypted(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": strings.Repeat("0123456789abcdef", 4)})
	client := broker.Client()
	need(t, client.Configure("q", map[string]any{"encryptionEnabled": true, "namespace": "q"}), 200)
	pushOne(t, client, harness.Item{Queue: "q", Payload: "old", TransactionID: "old"})
	broker.SetEnv("QUEEN_ENCRYPTION_KEY", strings.Repeat("fedcba9876543210", 4))
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	pushOne(t, client, harness.Item{Queue: "q", Payload: "new", TransactionID: "new"})
	pops := map[string]func(query string) harness.PopReply{
		"wildcard":  func(query string) harness.PopReply { return client.Pop("q", query) },
		"pinned":    func(query string) harness.PopReply { return client.PopPartition("q", "Default", query) },
		"discovery": func(query string) harness.PopReply { return client.Discover("namespace=q&" + query) },
	}
	for route, pop := range pops {
		t.Run("5.3 "+route, func(t *testing.T) {
			popped := pop("subscriptionMode=all&consumerGroup=" + route)
			needMessages(t, popped, "old", "new")
			rows := popped.Object()["messages"].([]any)
			unread, read := rows[0].(map[string]any), rows[1].(map[string]any)
			if envelope, _ := unread["data"].(map[string]any); unread["decryptError"] != true || envelope["encrypted"] == nil {
				t.Errorf("want the envelope, got %v", unread)
			}
			if _, present := read["decryptError"]; present || read["data"] != "new" {
				t.Errorf("got %v", read)
			}
			needVerdicts(t, client.AckMessages("completed", popped.Messages...), released) // it can be acked like any other
		})
	}
}
