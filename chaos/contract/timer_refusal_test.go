package contract

import (
	"fmt"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// state.md 3.2: every reason for which a call is refused, whole.
func TestTimerRefusals_3_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	good := scheduleOf(queue, "k", farAway)
	owned := []string{"_x", "_tenant", "producerSub", "producer_sub", "messageId", "message_id", "tenant", "tenantId", "tenant_id", "deliverAt", "deliver_at",
		"delaySeconds", "delay_seconds", "attempts", "claimToken", "claim_token", "claimedUntil"}
	for reason, bad := range map[string][]timerOp{
		"timers_queue_required":   {good.with(map[string]any{"queue": nil}), good.with(map[string]any{"queue": ""}), cancelOf("", "k")},
		"timers_delay_required":   {good.with(map[string]any{"delayMs": nil}), good.with(map[string]any{"delayMs": "5"})},
		"timers_payload_required": {good.with(map[string]any{"payload": nil}), good.with(map[string]any{"payload": map[string]any{"n": 1}})},
		"timers_payload_not_base64": {good.with(map[string]any{"payload": "{}"}), good.with(map[string]any{"payload": "e30"}), good.with(map[string]any{"payload": "e_0="}),
			good.with(map[string]any{"payload": "?", "payloadZstd": true})},
		"timers_payload_not_json": {good.with(map[string]any{"payload": ""}), good.with(map[string]any{"payload": base64Of("no")}), good.with(map[string]any{"payload": base64Of("{} {}")})},
		"timers_bad_op": {good.with(map[string]any{"op": nil}), good.with(map[string]any{"op": "fire"}), good.with(map[string]any{"timerKey": nil}),
			good.with(map[string]any{"timerKey": ""}), good.with(map[string]any{"txn": nil}), good.with(map[string]any{"txn": ""}),
			good.with(map[string]any{"partition": ""}), good.with(map[string]any{"partition": 7}), good.with(map[string]any{"payloadZstd": "yes"}),
			good.with(map[string]any{"encrypted": 1}), cancelOf(queue, ""), cancelOf(queue, "other")},
	} {
		for _, op := range bad {
			needRefusal(t, postTimers(suite.client, cancelOf(queue, "other"), op), 400, "timers_bad_request", reason)
		}
	}
	for _, field := range owned {
		for _, op := range []timerOp{good, cancelOf(queue, "k")} {
			changed := op.with(nil)
			changed[field] = nil
			needRefusal(t, postTimers(suite.client, changed), 400, "timers_bad_request", "timers_server_owned_field")
		}
	}
	needRefusal(t, postTimers(suite.client, good, cancelOf(queue, "k")), 400, "timers_bad_request", "timers_bad_op")
	for _, body := range []string{"", "{", "7", "{}", `{"operations":{}}`, `{"operations":null}`} {
		needRefusal(t, suite.client.Post("/api/v1/timers", body), 400, "timers_bad_request", "timers_bad_body")
	}
	for _, body := range []string{"[7]", `{"operations":[null]}`} {
		needRefusal(t, suite.client.Post("/api/v1/timers", body), 400, "timers_bad_request", "timers_bad_op")
	}
	if _, keys := listTimers(t, suite.client, queue, ""); len(keys) != 0 {
		t.Errorf("something of a refused call was done: %v", keys)
	}
}

// state.md 3.2, cluster.md 1.9: the bounds, at their defaults.
func TestTimerBounds_3_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	ops := make([]timerOp, 257)
	for i := range ops {
		ops[i] = cancelOf(queue, fmt.Sprint(i))
	}
	needTimers(t, suite.client, ops[:256]...)
	needRefusal(t, postTimers(suite.client, ops...), 400, "timers_bad_request", "timers_too_many_ops")
	const horizonMs = 90 * 86_400_000
	needScheduled(t, suite.client, scheduleOf(queue, "horizon", horizonMs))
	needRefusal(t, postTimers(suite.client, scheduleOf(queue, "beyond", horizonMs+1)), 403, "timer_horizon_exceeded", "timers_horizon")
	payload := func(bytes int) map[string]any {
		return map[string]any{"payload": base64Of(`"` + strings.Repeat("x", bytes-2) + `"`)}
	}
	needScheduled(t, suite.client, scheduleOf(queue, "payload", farAway).with(payload(1<<20)))
	needRefusal(t, postTimers(suite.client, scheduleOf(queue, "larger", farAway).with(payload(1<<20+1))), 413, "payload_too_large", "timers_payload_too_large")
	if _, keys := listTimers(t, suite.client, queue, ""); fmt.Sprint(keys) != "[horizon payload]" {
		t.Errorf("pending are %v", keys)
	}
}

// cluster.md 1.9: the settings that move the bounds.
func TestTimerBoundsAreSettings_1_9(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_TIMERS_MAX_OPS_PER_CALL": "1", "QUEEN_TIMERS_MAX_PAYLOAD_BYTES": "2", "QUEEN_TIMERS_MAX_HORIZON_S": "60",
		"QUEEN_RAFT_ENTRY_MAX_BYTES": "1048576"}).Client()
	small := map[string]any{"payload": base64Of("{}")}
	needScheduled(t, client, scheduleOf("q", "k", 60_000).with(small))
	needRefusal(t, postTimers(client, cancelOf("q", "a"), cancelOf("q", "b")), 400, "timers_bad_request", "timers_too_many_ops")
	needRefusal(t, postTimers(client, scheduleOf("q", "k", 60_000.5).with(small)), 403, "timer_horizon_exceeded", "timers_horizon")
	needRefusal(t, postTimers(client, scheduleOf("q", "k", 1)), 413, "payload_too_large", "timers_payload_too_large")
	// Transactions have none of the three bounds (3.7).
	reply := client.Transaction(map[string]any{"timers": []timerOp{scheduleOf("q", "a", farAway), scheduleOf("q", "b", 100*86_400_000)}})
	if need(t, reply.Response, 200); !reply.Success {
		t.Errorf("got %v", reply)
	}
}

// state.md 3.2: a call that fits no log entry.
func TestTimerCallThatIsTooLarge_3_2(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_ENTRY_MAX_BYTES": "1048576"}).Client()
	var ops []timerOp
	for i := range 3 {
		ops = append(ops, scheduleOf("q", fmt.Sprint(i), farAway).with(map[string]any{"payload": base64Of(`"` + strings.Repeat("x", 500_000) + `"`)}))
	}
	needRefusal(t, postTimers(client, ops...), 413, "payload_too_large", "timers_call_too_large")
	needTimers(t, client, ops[:1]...)
	var long []timerOp // many long texts are more than an entry writes
	for i := range 200 {
		long = append(long, scheduleOf("q", fmt.Sprint("long", i), farAway).with(map[string]any{"txn": strings.Repeat("t", 60_000)}))
	}
	needRefusal(t, postTimers(suite.client, long...), 413, "payload_too_large", "timers_call_too_large")
}

// state.md 3.1: the store key bounds queue and timerKey, on every route; a partition is bounded as in a push.
func TestTimerNamesAreBounded_3_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	fits := strings.Repeat("k", 511-36-len(queue))
	needScheduled(t, suite.client, scheduleOf(queue, fits, farAway).with(map[string]any{"txn": "t"}))
	if !peekTimer(t, suite.client, queue, fits).Found {
		t.Error("the longest key is not found")
	}
	for _, answer := range []harness.Response{
		postTimers(suite.client, scheduleOf(queue, fits+"k", farAway)), postTimers(suite.client, cancelOf(queue, fits+"k")),
		suite.client.Get(timerPath(queue, fits+"k")), suite.client.Delete(timerPath(queue, fits+"k")),
		postTimers(suite.client, scheduleOf(queue, "k", farAway).with(map[string]any{"partition": strings.Repeat("p", 447-36-len(queue)+1)})),
		suite.client.Get(timersPath(strings.Repeat("q", 476))),
	} {
		needRefusal(t, answer, 413, "name_too_long", "name_too_long")
	}
	needBody(t, suite.client.Delete(timerPath(queue, fits)), 200, fmt.Sprintf(`{"ok":true,"status":"cancelled","queue":%q,"timerKey":%q,"txn":"t"}`, queue, fits))
}

func TestTimerPathNeedsAKey_3_3(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/v1/timers/q/", "/api/v1/timers//k"} {
		reason := map[bool]string{true: "timers_bad_op", false: "timers_queue_required"}[strings.HasSuffix(path, "/q/")]
		needRefusal(t, suite.client.Get(path), 400, "timers_bad_request", reason)
		needRefusal(t, suite.client.Delete(path), 400, "timers_bad_request", reason)
	}
	needRefusal(t, suite.client.Delete(timerPath("q", "k")+"?txn=%FF"), 400, "timers_bad_request", "timers_bad_request")
	needRefusal(t, suite.client.Post("/api/v1/timers?timeoutMs=soon", scheduleOf("q", "k", 1).json(t)), 400, "timers_bad_request", "timers_bad_request")
}

// state.md 1.3, 3.3: under disk pressure schedules are refused, cancels and reads are not.
func TestTimersUnderDiskPressure_1_3(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	needTimers(t, client, scheduleOf("q", "a", farAway), scheduleOf("q", "b", farAway), scheduleOf("q", "c", farAway))
	broker.SetEnv("QUEEN_RAFT_DISK_HIGH_PCT", "2")
	broker.SetEnv("QUEEN_RAFT_DISK_LOW_PCT", "1")
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, promptly, func() (bool, string) { // the volume is measured once a second
		answer := postTimers(client, scheduleOf("q", "new", farAway))
		return answer.Status == 507, answer.String()
	})
	needRefusal(t, postTimers(client, scheduleOf("q", "new", farAway)), 507, "storage_full", "storage_full")
	needRefusal(t, postTimers(client, cancelOf("q", "a"), scheduleOf("q", "new", farAway)), 507, "storage_full", "storage_full")
	needStorageFull(t, client.Transaction(map[string]any{"timers": []timerOp{scheduleOf("q", "new", farAway)}}).Response)
	if result := needTimers(t, client, cancelOf("q", "a"))[0]; result.Status != "cancelled" {
		t.Errorf("got %+v", result)
	}
	need(t, client.Delete(timerPath("q", "b")), 200)
	if reply := client.Transaction(map[string]any{"timers": []timerOp{cancelOf("q", "c")}}); reply.Status != 200 || !reply.Success {
		t.Errorf("a transaction that cancels: %v", reply)
	}
	if _, keys := listTimers(t, client, "q", ""); len(keys) != 0 {
		t.Errorf("pending are %v", keys)
	}
}

// cluster.md 11.1, state.md 1.3: a call that schedules needs room, one that cancels does not; the body tells.
func TestTimersNeedRoomToGrow_11_1(t *testing.T) {
	t.Parallel()
	broker := admissionBroker(t, "0")
	client := broker.Client()
	needScheduled(t, client, scheduleOf("q", "k", farAway))
	holdBudget(t, broker)
	needRefusal(t, postTimers(client, scheduleOf("q", "new", farAway)), 429, "overloaded", "overloaded")
	if result := needTimers(t, client, cancelOf("q", "k"))[0]; result.Status != "cancelled" {
		t.Errorf("got %+v", result)
	}
	need(t, client.Get(timersPath("q")), 200)
}

// state.md 1.3: a body that is too large has one answer everywhere, and so has a token that does not suffice.
func TestTimerRefusalsOfTheServer_1_3(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_MAX_BODY_BYTES": "1024", "JWT_ENABLED": "true", "JWT_SECRET": jwtSecret}).Client()
	writer := client.WithToken(harness.Token(jwtSecret, claims("write-only", nil)))
	needEnvelope(t, writer.Post("/api/v1/timers", strings.Repeat(" ", 1025)), 413, "payload_too_large")
	needUnauthorized(t, client.Get(timersPath("q")), "Authentication required")
	needBody(t, writer.Get(timersPath("q")), 403, `{"error":"Insufficient permissions"}`)
	needScheduled(t, writer, scheduleOf("q", "k", farAway))
	needBody(t, writer.Delete(timerPath("q", "k")), 403, `{"error":"Insufficient permissions"}`)
}

// operations 3.4: what becomes of timers is counted.
func TestTimerMetrics_3_4(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	needMetric(t, client, 0, "queen_timers_pending")
	needTimers(t, client, scheduleOf("q", "far", farAway), scheduleOf("q", "now", 0), scheduleOf("q", "soon", 20))
	awaitMetric(t, client, func(value float64) bool { return value == 2 }, "queen_timers_fired_total")
	needMetric(t, client, 1, "queen_timers_pending")
	needMetric(t, client, 1, "queen_timers_fire_lag_seconds_count")
	if lag := metric(t, client, "queen_timers_fire_lag_seconds_sum"); lag < 0 || lag > promptly.Seconds() {
		t.Errorf("the lag is %v s", lag)
	}
	for range 2 {
		need(t, postTimers(client, scheduleOf("q", "", farAway)), 400)
	}
	need(t, postTimers(client, scheduleOf("q", "k", 1e15)), 403)
	needMetric(t, client, 2, "queen_timers_schedule_rejected_total", "reason=timers_bad_op")
	needMetric(t, client, 1, "queen_timers_schedule_rejected_total", "reason=timers_horizon")
}
