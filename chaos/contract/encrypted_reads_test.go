package contract

import (
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// TestEncryptedQueueReadsPlain: 11.1, 11.2, 11.4 and 11.5, the payload of an encrypting queue is plain wherever it is
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
