package contract

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

const (
	encryptionKey      = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	otherEncryptionKey = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
)

// secretText is what nobody else writes, so that it can be looked for on disk.
func secretText(t *testing.T) string {
	t.Helper()
	random := make([]byte, 48)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(random)
}

// standsOnDisk reports whether the bytes stand in any file below dir, the log of the process aside.
func standsOnDisk(t *testing.T, dir, text string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || bytes.Contains(content, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// 4.5: a queue that encrypts keeps its payloads unreadable on disk, whichever way they came; a txid stays in clear, which
// shows that the search would find them.
func TestPayloadsOfAnEncryptingQueueAreCipherTextOnDisk_4_5(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": encryptionKey})
	client := broker.Client()
	need(t, client.Configure("secret", map[string]any{"encryptionEnabled": true}), 200)
	pushed, transacted, plain, id := secretText(t), secretText(t), secretText(t), secretText(t)
	pushOne(t, client, harness.Item{Queue: "secret", Payload: pushed, TransactionID: id})
	needCommitted(t, client.Transaction(operations([]any{map[string]any{"type": "push", "queue": "secret", "payload": transacted}})))
	pushOne(t, client, harness.Item{Queue: "plain", Payload: plain})
	popped := client.Pop("secret", "leaseSeconds=300&batch=1")
	needMessages(t, popped, id)
	needVerdicts(t, client.AckMessages("dlq", popped.Messages...), filed)
	if err := broker.Stop(); err != nil { // everything is on disk now, the dead letter included
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(broker.LogPath()), "data")
	for text, want := range map[string]bool{pushed: false, transacted: false, plain: true, id: true} {
		if got := standsOnDisk(t, dir, text); got != want {
			t.Errorf("%s stands on disk: %v, want %v", text[:8], got, want)
		}
	}
	if strings.Contains(brokerLog(t, broker), encryptionKey) {
		t.Error("the key stands in the log")
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	again := client.Pop("secret", "batch=10")
	needMessageCount(t, again, 1)
	if string(again.Messages[0].Data) != `"`+transacted+`"` {
		t.Errorf("got %s", again.Messages[0].Data)
	}
}

// 4.5, state.md 8.1: without a key every call that would store a payload for an encrypting queue is refused as a whole.
func TestNothingIsStoredForAnEncryptingQueueWithoutAKey_4_5(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	secret := s.queue + "-secret"
	need(t, s.client.Configure(secret, map[string]any{"encryptionEnabled": true}), 200)
	s.leaseTime = 300
	batch := s.claim(2, 0, 1, 1)
	t.Run("a transaction, with its acks and its other pushes", func(t *testing.T) {
		reply := s.client.Transaction(operations(batch.operations(completed(0)), []any{pushOperation(s.queue+"-plain", "p"), pushOperation(secret, "t")}))
		need(t, reply.Response, 503)
		needRetryAfter1(t, reply.Response)
		object := reply.Object()
		if object["success"] != false || object["reason"] != "encryption_unavailable" || reply.Text("error") == "" || !uuidAny.MatchString(reply.Text("transactionId")) {
			t.Errorf("want the body of a transaction, got %v", reply.Response)
		}
		need(t, s.client.Get(queuePath(s.queue+"-plain")), 404)
		s.in(t).needCursor(0)
	})
	t.Run("a replay of a dead letter that is stored in clear", func(t *testing.T) {
		s := s.in(t)
		needVerdicts(t, batch.ack(dlqed(0)), filed)
		path := "/api/v1/dlq/" + s.needDeadLetters(0)[0].ID + "/replay"
		answer := s.client.Post(path, map[string]any{"queue": secret})
		needEnvelope(t, answer, 503, "encryption_unavailable")
		needRetryAfter1(t, answer)
		s.needDeadLetters(0)
	})
	needEmpty(t, s.client.Pop(secret, ""))
	if detail := queueDetail(t, s.client, secret); detail.Totals.Total != 0 {
		t.Errorf("something was stored: %+v", detail.Totals)
	}
}

// state.md 8.4: the flag of a record decides, whatever the option says now: what was stored in clear stays readable after
// the option was set, and what was encrypted after it was unset.
func TestEncryptionFollowsTheRecordNotTheOption_4_5(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": encryptionKey}).Client()
	s := newSceneAt(t, client, nil, 1)
	need(t, client.Configure(s.queue, map[string]any{"encryptionEnabled": true}), 200)
	s.push(1)
	need(t, client.Configure(s.queue, map[string]any{"encryptionEnabled": false}), 200)
	s.push(1)
	for i, message := range s.redelivered(0, 2, 1).messages {
		if data, err := json.Marshal(i); err != nil || string(message.Data) != string(data) {
			t.Errorf("message %d: got %s", i, message.Data)
		}
	}
	for _, row := range browse(t, client, "queue="+s.queue) {
		if want := row.TransactionID == txid(1); row.IsEncrypted != want {
			t.Errorf("%s: isEncrypted is %v", row.TransactionID, row.IsEncrypted)
		}
	}
}

// state.md 8.1, 8.2: a dead letter that lies in clear is encrypted on its way into a queue that encrypts, and one that is
// encrypted moves as it is stored.
func TestReplayIntoAnEncryptingQueueEncrypts_4_5(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": encryptionKey})
	client := broker.Client()
	need(t, client.Configure("secret", map[string]any{"encryptionEnabled": true}), 200)
	for _, source := range []string{"plain", "secret"} {
		for _, byAddress := range []bool{false, true} {
			text, id := secretText(t), uniqueName(t)
			pushOne(t, client, harness.Item{Queue: source, Partition: id, Payload: text, TransactionID: id})
			popped := client.PopPartition(source, id, "leaseSeconds=300")
			needMessages(t, popped, id)
			needVerdicts(t, client.AckMessages("dlq", popped.Messages...), filed)
			letter := firstObject(client.Get("/api/v1/dlq?queue=" + source).Object()["messages"])
			address := fmt.Sprint("/api/v1/dlq/", letter["id"], "/replay")
			if byAddress {
				address = "/api/v1/messages/" + popped.PartitionID + "/" + id + "/retry"
			}
			needReplayed(t, client.Post(address, map[string]any{"queue": "secret", "partition": "moved-" + id}), "moved")
			copied := client.PopPartition("secret", "moved-"+id, "leaseSeconds=300")
			needMessageCount(t, copied, 1)
			if string(copied.Messages[0].Data) != `"`+text+`"` || copied.Messages[0].DecryptError {
				t.Errorf("%s: got %v", address, copied)
			}
			row := browse(t, client, "queue=secret&partition=moved-"+id)[0]
			if !row.IsEncrypted {
				t.Errorf("%s: the copy lies in clear", address)
			}
		}
	}
}

// cluster 15.3: an old key only decrypts; without it the payload is shown as its envelope with decryptError.
func TestOldKeysDecrypt_4_5(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": encryptionKey})
	client := broker.Client()
	need(t, client.Configure("secret", map[string]any{"encryptionEnabled": true}), 200)
	pushOne(t, client, harness.Item{Queue: "secret", Payload: "mine", TransactionID: "t"})
	broker.SetEnv("QUEEN_ENCRYPTION_KEY", "new:"+otherEncryptionKey)
	broker.SetEnv("QUEEN_ENCRYPTION_KEYS_OLD", encryptionKey)
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	popped := client.Pop("secret", "consumerGroup=g&subscriptionMode=all")
	needMessages(t, popped, "t")
	if string(popped.Messages[0].Data) != `"mine"` || popped.Messages[0].DecryptError {
		t.Errorf("got %v", popped)
	}
	pushOne(t, client, harness.Item{Queue: "secret", Payload: "yours", TransactionID: "u"})
}
