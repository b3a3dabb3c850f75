package api

import (
	"bytes"
	"testing"
	"time"
)

// A pause writes no entries, however often it is met: a call that the log would refuse is refused before it (state 11.4).
func TestPauseWritesNoEntries(t *testing.T) {
	n := startNode(t, time.Hour)
	n.call("POST", "/api/v1/system/kv-timers", `{"kv":false,"timersSchedule":false}`)
	before := n.raft.Status().CommitIndex
	for _, call := range []struct{ method, path, body, code string }{
		{"POST", "/api/v1/kv", `[{"op":"put","ns":"app","key":"k","value":1,"forever":true}]`, "kv_disabled"},
		{"POST", "/api/v1/kv", `[{"op":"get","ns":"app","key":"k"}]`, "kv_disabled"},
		{"PUT", "/api/v1/kv/app/k", `{"value":1,"forever":true}`, "kv_disabled"},
		{"DELETE", "/api/v1/kv/app/k", ``, "kv_disabled"},
		{"POST", "/api/v1/locks", `[{"op":"acquire","name":"l","ttlSeconds":60}]`, "kv_disabled"},
		{"POST", "/api/v1/locks", `[{"op":"release","name":"l","token":1}]`, "kv_disabled"},
		{"GET", "/api/v1/resources/kv/namespaces", ``, "kv_disabled"},
		{"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","txn":"t","delayMs":1,"payload":"MQ=="}]`, "timers_disabled"},
	} {
		status, answer := n.try(call.method, call.path, call.body)
		if status != 503 || !bytes.HasPrefix(answer, []byte(`{"error":"`+call.code+`","reason":"`+call.code+`","detail":"`)) {
			t.Errorf("%s %s %s: got %d %s", call.method, call.path, call.body, status, answer)
		}
	}
	if after := n.raft.Status().CommitIndex; after != before {
		t.Errorf("the log has grown from %d to %d", before, after)
	}
}
