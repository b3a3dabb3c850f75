package contract

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// state.md 8.2: the payload of a timer of an encrypting queue is encrypted when it is scheduled, and never stored in clear.
func TestTimersOfAnEncryptingQueue_8_2(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": encryptionKey})
	client := broker.Client()
	need(t, client.Configure("secret", map[string]any{"encryptionEnabled": true}), 200)
	texts := map[string]string{"plain": secretText(t), "zstd": secretText(t), "transaction": secretText(t), "now": secretText(t)}
	op := func(key string, delayMs float64) timerOp {
		return scheduleOf("secret", key, delayMs).with(map[string]any{"payload": base64Of(`"` + texts[key] + `"`)})
	}
	needTimers(t, client, op("plain", farAway), op("now", -1), op("zstd", farAway).with(map[string]any{"payload": zstdOf(t, `"`+texts["zstd"]+`"`), "payloadZstd": true}))
	reply := client.Transaction(map[string]any{"timers": []timerOp{op("transaction", farAway)}})
	need(t, reply.Response, 200)
	for _, key := range []string{"plain", "zstd", "transaction"} {
		shown := peekTimer(t, client, "secret", key)
		if !shown.Encrypted || shown.PayloadZstd || !strings.Contains(string(shown.Payload), `"authTag"`) {
			t.Errorf("%s: shown %+v", key, shown)
		}
		needTimers(t, client, cancelOf("secret", key))
	}
	if fired := awaitFired(t, client, "secret", ""); string(fired.Data) != `"`+texts["now"]+`"` {
		t.Errorf("fired %s", fired.Data)
	}
	if row := browse(t, client, "queue=secret")[0]; !row.IsEncrypted {
		t.Error("the fired message is stored in clear")
	}
	needTimers(t, client, scheduleOf("plain", "clear", farAway).with(map[string]any{"txn": "visible-on-disk"}))
	if err := broker.Stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(broker.LogPath()), "data")
	for key, text := range texts {
		if standsOnDisk(t, dir, text) {
			t.Errorf("the payload of %s stands on disk", key)
		}
	}
	if !standsOnDisk(t, dir, "visible-on-disk") {
		t.Error("the search finds nothing")
	}
}

// state.md 8.2: a timer of before the option was set is encrypted when it fires, once.
func TestTimerIsEncryptedOnlyOnce_8_2(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": encryptionKey}).Client()
	need(t, client.Post("/api/v1/system/kv-timers", `{"timersFire":false}`), 200)
	needScheduled(t, client, scheduleOf("q", "before", 1))
	need(t, client.Configure("q", map[string]any{"encryptionEnabled": true}), 200)
	needScheduled(t, client, scheduleOf("q", "behind", 2))
	need(t, client.Post("/api/v1/system/kv-timers", `{"timersFire":true}`), 200)
	for _, key := range []string{"before", "behind"} {
		if fired := awaitFired(t, client, "q", ""); fired.TransactionID != key || string(fired.Data) != fmt.Sprintf(`{"key":%q}`, key) {
			t.Errorf("fired %+v", fired)
		}
	}
	for _, row := range browse(t, client, "queue=q") {
		if !row.IsEncrypted {
			t.Errorf("%s is stored in clear", row.TransactionID)
		}
	}
}

// state.md 3.2, 3.7, 8.2: what is refused for an encrypting queue.
func TestTimerRefusalsOfAnEncryptingQueue_3_2(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": encryptionKey, "QUEEN_RAFT_ENTRY_MAX_BYTES": "1048576"}).Client()
	need(t, client.Configure("secret", map[string]any{"encryptionEnabled": true}), 200)
	already := scheduleOf("secret", "k", farAway).with(map[string]any{"encrypted": true})
	needRefusal(t, postTimers(client, already), 400, "timers_bad_request", "timers_bad_op")
	needRolledBack(t, client.Transaction(map[string]any{"timers": []timerOp{already}}), "bad_request")
	for _, payload := range []string{base64Of("no zstd"), zstdOf(t, "{"), zstdOf(t, `"`+strings.Repeat("x", 1<<20)+`"`)} {
		bad := scheduleOf("secret", "k", farAway).with(map[string]any{"payload": payload, "payloadZstd": true})
		needRefusal(t, postTimers(client, bad), 400, "timers_bad_request", "timers_payload_not_json")
		needTransactionRefusal(t, client.Transaction(map[string]any{"timers": []timerOp{bad}}), 400, "bad_request")
	}
	// Two that fit alone are too much together.
	half := map[string]any{"payload": zstdOf(t, `"`+strings.Repeat("x", 300_000)+`"`), "payloadZstd": true}
	needRefusal(t, postTimers(client, scheduleOf("secret", "a", farAway).with(half), scheduleOf("secret", "b", farAway).with(half)), 413, "payload_too_large", "timers_call_too_large")
	needScheduled(t, client, scheduleOf("secret", "a", farAway).with(half))
	needScheduled(t, client, scheduleOf("plain", "k", farAway).with(map[string]any{"encrypted": true}))
	if _, keys := listTimers(t, client, "secret", ""); fmt.Sprint(keys) != "[a]" {
		t.Errorf("pending are %v", keys)
	}
}

// state.md 8.1: without a key nothing is scheduled for an encrypting queue, and what was scheduled before waits without losing
// attempts.
func TestTimersWithoutAKey_8_1(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_SWEEPER_MAX_ATTEMPTS": "1", "QUEEN_SWEEPER_TRANSIENT_BACKOFF_MS": "50"})
	client := broker.Client()
	needTimers(t, client, scheduleOf("secret", "waiting", 1000), scheduleOf("secret", "cancelled", farAway))
	need(t, client.Configure("secret", map[string]any{"encryptionEnabled": true}), 200)
	needRefusal(t, postTimers(client, scheduleOf("plain", "k", farAway), scheduleOf("secret", "k", farAway)), 503, "encryption_unavailable", "encryption_unavailable")
	needTransactionRefusal(t, client.Transaction(map[string]any{"timers": []timerOp{scheduleOf("secret", "k", farAway)}}), 503, "encryption_unavailable")
	// A refusal that a key would not change is not worth another try.
	own := scheduleOf("secret", "k", farAway).with(map[string]any{"encrypted": true})
	needRefusal(t, postTimers(client, own), 400, "timers_bad_request", "timers_bad_op")
	needRolledBack(t, client.Transaction(map[string]any{"timers": []timerOp{own}}), "bad_request")
	need(t, client.Delete(timerPath("secret", "cancelled")), 200)
	eventually(t, delivery, func() (bool, string) {
		shown := peekTimer(t, client, "secret", "waiting")
		return shown.LastError != nil && shown.Attempts == 0, fmt.Sprintf("%+v", shown)
	})
	needEmpty(t, client.Pop("secret", ""))
	broker.SetEnv("QUEEN_ENCRYPTION_KEY", encryptionKey)
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	if fired := awaitFired(t, client, "secret", ""); fired.TransactionID != "waiting" || string(fired.Data) != `{"key":"waiting"}` {
		t.Errorf("fired %+v", fired)
	}
	if _, keys := listTimers(t, client, "plain", ""); len(keys) != 0 {
		t.Errorf("something of a refused call was done: %v", keys)
	}
}
