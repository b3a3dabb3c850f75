package contract

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// state.md 3.2: the results of a call are aligned to its operations.
func TestTimerResults_3_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	before := time.Now()
	scheduled := postTimers(suite.client, scheduleOf(queue, "k", farAway))
	need(t, scheduled, 200)
	first := firstObject(scheduled.Object()["results"])
	needExactKeys(t, first, "ok", "status", "queue", "timerKey", "txn", "messageId", "deliverAt")
	deliverAt, _ := first["deliverAt"].(string)
	id, _ := first["messageId"].(string)
	if first["ok"] != true || first["status"] != "scheduled" || first["queue"] != queue || first["timerKey"] != "k" || first["txn"] != "k" ||
		!uuidV7.MatchString(id) || !isoMicros.MatchString(deliverAt) {
		t.Fatalf("got %v", first)
	}
	at, err := time.Parse(time.RFC3339, deliverAt)
	if late := at.Sub(before.Add(farAway * time.Millisecond)); err != nil || late < -promptly || late > promptly {
		t.Errorf("deliverAt is %s, %v after what was asked for", deliverAt, late)
	}
	answer := postTimers(suite.client, cancelOf(queue, "none"), scheduleOf(queue, "k", farAway).with(map[string]any{"op": "reschedule", "txn": "new"}),
		cancelOf(queue, "none either").with(map[string]any{"txn": "mine"}), scheduleOf(queue, "other", farAway).with(map[string]any{"op": "reschedule"}))
	need(t, answer, 200)
	results, _ := answer.Object()["results"].([]any)
	if len(results) != 4 {
		t.Fatalf("got %v", answer)
	}
	absent, again, mine, other := results[0].(map[string]any), results[1].(map[string]any), results[2].(map[string]any), results[3].(map[string]any)
	needExactKeys(t, absent, "ok", "status", "queue", "timerKey")
	needExactKeys(t, mine, "ok", "status", "queue", "timerKey", "txn")
	if absent["ok"] != false || absent["status"] != "absent" || mine["txn"] != "mine" || again["status"] != "rescheduled" || again["txn"] != "new" ||
		again["messageId"] == first["messageId"] || other["status"] != "scheduled" {
		t.Errorf("got %v", answer)
	}
	answer = postTimers(suite.client, cancelOf(queue, "k").with(map[string]any{"txn": "whatever"}))
	cancelled := firstObject(answer.Object()["results"])
	needExactKeys(t, cancelled, "ok", "status", "queue", "timerKey", "txn")
	if cancelled["ok"] != true || cancelled["status"] != "cancelled" || cancelled["txn"] != "new" {
		t.Errorf("want the txn of the stored timer, got %v", cancelled)
	}
	if result := needScheduled(t, suite.client, scheduleOf(queue, "k", farAway)); result.TimerKey != "k" {
		t.Errorf("after a cancel the key is free: %+v", result)
	}
}

// state.md 3.2: the body may be a bare array, and hold no operation.
func TestTimerBodies_3_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	answer := suite.client.Post("/api/v1/timers", scheduleOf(queue, "k", farAway).json(t))
	if need(t, answer, 200); firstObject(answer.Object()["results"])["status"] != "scheduled" {
		t.Errorf("got %v", answer)
	}
	for _, body := range []string{`[]`, `{"operations":[]}`} {
		needBody(t, suite.client.Post("/api/v1/timers", body), 200, `{"results":[]}`)
	}
}

// state.md 3.1: scheduling a pending key replaces the timer entirely, and keeps when it became pending.
func TestReschedulingReplacesATimer_3_1(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	needScheduled(t, suite.client, scheduleOf(queue, "k", 1).with(map[string]any{"payload": base64Of("no zstd"), "payloadZstd": true, "partition": "p"}))
	failed := peekTimer(t, suite.client, queue, "k")
	eventually(t, delivery, func() (bool, string) { // the first attempt fails at once
		failed = peekTimer(t, suite.client, queue, "k")
		return failed.Attempts == 1, fmt.Sprintf("%+v", failed)
	})
	if failed.LastError == nil || *failed.LastError == "" || !failed.PayloadZstd || failed.Partition != "p" || !failed.UpdatedAt.After(failed.CreatedAt) {
		t.Errorf("after an attempt: %+v", failed)
	}
	result := needTimers(t, suite.client, scheduleOf(queue, "k", farAway).with(map[string]any{"txn": "new", "encrypted": true}))[0]
	now := peekTimer(t, suite.client, queue, "k")
	if result.Status != "rescheduled" || now.Attempts != 0 || now.LastError != nil || now.PayloadZstd || !now.Encrypted || now.Partition != "Default" || now.Txn != "new" ||
		now.MessageID != result.MessageID || string(now.Payload) != `{"key":"k"}` || !now.CreatedAt.Equal(failed.CreatedAt) {
		t.Errorf("after a reschedule: %+v", now)
	}
}

// state.md 3.4: the members of a peek.
func TestTimerPeek_3_4(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	result := needScheduled(t, suite.client, scheduleOf(queue, "order/9f1", farAway).with(map[string]any{"partition": "p", "txn": "t"}))
	for _, path := range []string{timersPath(queue) + "/order/9f1", timersPath(queue) + "/order%2F9f1", timersPath(queue) + "/%6Frder%2f9f1?timeoutMs=20000"} {
		answer := suite.client.Get(path)
		need(t, answer, 200)
		timer := answer.Object()
		needExactKeys(t, timer, "found", "queue", "timerKey", "partition", "deliverAt", "txn", "messageId", "payload", "payloadZstd", "encrypted",
			"producerSub", "attempts", "lastError", "claimed", "createdAt", "updatedAt")
		for name, want := range map[string]any{
			"found": true, "queue": queue, "timerKey": "order/9f1", "partition": "p", "deliverAt": result.DeliverAt, "txn": "t", "messageId": result.MessageID,
			"payload": base64Of(`{"key":"order/9f1"}`), "payloadZstd": false, "encrypted": false, "producerSub": nil, "lastError": nil, "claimed": false,
		} {
			if timer[name] != want {
				t.Errorf("%s: want %v, got %v", name, want, timer[name])
			}
		}
		for _, name := range []string{"createdAt", "updatedAt"} {
			if at, _ := timer[name].(string); !isoMicros.MatchString(at) || timer[name] != timer["createdAt"] {
				t.Errorf("%s is %v", name, timer[name])
			}
		}
		if fmt.Sprint(timer["attempts"]) != "0" {
			t.Errorf("attempts is %v", timer["attempts"])
		}
	}
	answer := suite.client.Get(timerPath(queue, "none/é"))
	need(t, answer, 200)
	needExactKeys(t, answer.Object(), "found", "queue", "timerKey")
	if answer.Object()["found"] != false || answer.Text("queue") != queue || answer.Text("timerKey") != "none/é" {
		t.Errorf("got %v", answer)
	}
}

// state.md 3.4: a payload is shown as it was sent, however large.
func TestTimerPeekShowsThePayloadAsStored_3_4(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for key, op := range map[string]timerOp{
		"spaces": {"payload": base64Of(" {\"n\": 1.0}\n")},
		"large":  {"payload": base64Of(`"` + strings.Repeat("x", 100_000) + `"`)},
		"zstd":   {"payload": zstdOf(t, `{"n":1}`), "payloadZstd": true},
	} {
		needScheduled(t, suite.client, scheduleOf(queue, key, farAway).with(op))
		if shown := suite.client.Get(timerPath(queue, key)).Text("payload"); shown != op["payload"] {
			t.Errorf("%s: %.60s is shown", key, shown)
		}
	}
}

// state.md 3.3: the path form of a cancel.
func TestTimerCancelByPath_3_3(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	needScheduled(t, suite.client, scheduleOf(queue, "order/9f1", farAway).with(map[string]any{"txn": "stored"}))
	answer := suite.client.Delete(timersPath(queue) + "/order%2F9f1?txn=mine")
	needBody(t, answer, 200, fmt.Sprintf(`{"ok":true,"status":"cancelled","queue":%q,"timerKey":"order/9f1","txn":"stored"}`, queue))
	answer = suite.client.Delete(timersPath(queue) + "/order/9f1?txn=mine")
	needBody(t, answer, 200, fmt.Sprintf(`{"ok":false,"status":"absent","queue":%q,"timerKey":"order/9f1","txn":"mine"}`, queue))
	answer = suite.client.Delete(timersPath(queue) + "/order/9f1")
	needBody(t, answer, 200, fmt.Sprintf(`{"ok":false,"status":"absent","queue":%q,"timerKey":"order/9f1"}`, queue))
	if peekTimer(t, suite.client, queue, "order/9f1").Found {
		t.Error("a cancelled timer is found")
	}
}

type timerPage struct {
	Rows      []peekedTimer
	Truncated bool
	NextAfter *string
}

func listTimers(t *testing.T, client *harness.Client, queue, query string) (timerPage, []string) {
	t.Helper()
	page := fetchInto[timerPage](t, client, timersPath(queue)+query)
	keys := make([]string, len(page.Rows))
	for i, row := range page.Rows {
		keys[i] = row.TimerKey
	}
	return page, keys
}

// state.md 3.5: a list is in byte order of the keys and has pages.
func TestTimerList_3_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	ordered := []string{"A", "a", "a/1", "a0", "b", "é"}
	for _, i := range []int{3, 0, 5, 2, 4, 1} {
		needScheduled(t, suite.client, scheduleOf(queue, ordered[i], farAway))
	}
	needScheduled(t, suite.client, scheduleOf(queue+"x", "elsewhere", farAway))
	answer := suite.client.Get(timersPath(queue))
	need(t, answer, 200)
	needExactKeys(t, answer.Object(), "rows", "truncated", "nextAfter")
	row := firstObject(answer.Object()["rows"])
	needExactKeys(t, row, "found", "queue", "timerKey", "partition", "deliverAt", "txn", "messageId", "payloadZstd", "encrypted", "producerSub",
		"attempts", "lastError", "claimed", "createdAt", "updatedAt")
	if row["claimed"] != false || row["txn"] != "A" || answer.Object()["nextAfter"] != nil {
		t.Errorf("got %v", answer)
	}
	for query, want := range map[string][]string{
		"": ordered, "?mode=list": ordered, "?limit=0": ordered[:1], "?limit=-5": ordered[:1], "?limit=2": ordered[:2], "?limit=6": ordered, "?limit=99999": ordered,
		"?after=a": ordered[2:], "?after=a&limit=3": ordered[2:5], "?after=": ordered, "?after=a%2F1": ordered[3:], "?after=%C3%A9": {}, "?prefix=a": ordered,
	} {
		page, keys := listTimers(t, suite.client, queue, query)
		if fmt.Sprint(keys) != fmt.Sprint(want) {
			t.Errorf("%q: want %q, got %q", query, want, keys)
		}
		more := len(want) > 0 && want[len(want)-1] != "é"
		if page.Truncated != more || more && (page.NextAfter == nil || *page.NextAfter != want[len(want)-1]) || !more && page.NextAfter != nil {
			t.Errorf("%q: truncated %v, nextAfter %v", query, page.Truncated, page.NextAfter)
		}
	}
	var walked []string
	for after, more := "", true; more; {
		page, keys := listTimers(t, suite.client, queue, "?limit=2&after="+url.QueryEscape(after))
		walked = append(walked, keys...)
		if more = page.Truncated; more {
			after = *page.NextAfter
		}
	}
	if fmt.Sprint(walked) != fmt.Sprint(ordered) {
		t.Errorf("the pages are %q", walked)
	}
	if page, keys := listTimers(t, suite.client, queue+"-unknown", ""); len(keys) != 0 || page.Rows == nil || page.Truncated {
		t.Errorf("an unknown queue: %+v", page)
	}
}

// state.md 3.5: a list has 100 rows unless it says otherwise, and 1,000 at most.
func TestTimerListIsBounded_3_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const many = 1001
	for at := 0; at < many; at += 143 {
		var ops []timerOp
		for i := at; i < at+143; i++ {
			ops = append(ops, scheduleOf(queue, fmt.Sprintf("%04d", i), farAway))
		}
		needTimers(t, suite.client, ops...)
	}
	for query, want := range map[string]int{"": 100, "?limit=1000": 1000, "?limit=5000": 1000, "?limit=1000&after=0000": 1000} {
		if page, keys := listTimers(t, suite.client, queue, query); len(keys) != want || page.Truncated == (query == "?limit=1000&after=0000") {
			t.Errorf("%q: %d rows, truncated %v", query, len(keys), page.Truncated)
		}
	}
	needBody(t, suite.client.Get(timersPath(queue)+"?mode=count&prefix=0"), 200, `{"count":1000}`)
}

// state.md 3.5: a count takes its prefix literally.
func TestTimerCount_3_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for _, key := range []string{"scan/1", "scan/2", "scanX/1", "%", "a_b", "aXb", "é1"} {
		needScheduled(t, suite.client, scheduleOf(queue, key, farAway))
	}
	long := strings.Repeat("é", 64)
	for prefix, want := range map[string]int{"scan/": 2, "scan": 3, "%": 1, "a_": 1, "é": 1, "none": 0, long: 0} {
		needBody(t, suite.client.Get(timersPath(queue)+"?mode=count&prefix="+url.QueryEscape(prefix)), 200, fmt.Sprintf(`{"count":%d}`, want))
	}
	for query, reason := range map[string]string{
		"mode=count":         "timers_count_prefix_required",
		"mode=count&prefix=": "timers_count_prefix_required",
		"mode=count&prefix=" + url.QueryEscape(long+"x"): "timers_count_prefix_too_long",
		"mode=count&prefix=a%00b":                        "timers_count_bad_prefix",
		"mode=count&prefix=%FF":                          "timers_count_bad_prefix",
		"mode=count&prefix=a&after=b":                    "timers_count_no_paging",
		"mode=count&prefix=a&limit=5":                    "timers_count_no_paging",
		"mode=sum":                                       "timers_read_mode_unknown",
		"mode=":                                          "timers_read_mode_unknown",
		"mode=Count&prefix=a":                            "timers_read_mode_unknown",
	} {
		needRefusal(t, suite.client.Get(timersPath(queue)+"?"+query), 400, "timers_bad_request", reason)
	}
	needRefusal(t, suite.client.Get(timersPath(queue)+"?limit=many"), 400, "timers_bad_request", "timers_bad_request")
}

// state.md 1.5: a delay above 100 years, either way, counts as 100 years.
func TestTimerDelayIsClamped_1_5(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	result := needScheduled(t, suite.client, scheduleOf(queue, "k", -math.MaxFloat32))
	at, err := time.Parse(time.RFC3339, result.DeliverAt)
	if ago := time.Since(at).Hours() / 24 / 365.25; err != nil || ago < 99.9 || ago > 100.1 {
		t.Errorf("deliverAt is %s, %v", result.DeliverAt, err)
	}
}

// A timer is there after kill -9, and what was answered of it stays true.
func TestTimersSurviveACrash(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	needTimers(t, client, scheduleOf("q", "later", farAway), scheduleOf("q", "gone", farAway), scheduleOf("q", "soon", 1500),
		scheduleOf("q", "large", farAway).with(map[string]any{"payload": base64Of(`"` + strings.Repeat("x", 100_000) + `"`)}))
	needTimers(t, client, cancelOf("q", "gone"))
	if err := broker.Crash(); err != nil {
		t.Fatal(err)
	}
	if fired := awaitFired(t, client, "q", ""); fired.TransactionID != "soon" {
		t.Errorf("fired %+v", fired)
	}
	if _, keys := listTimers(t, client, "q", ""); fmt.Sprint(keys) != "[large later]" {
		t.Errorf("pending are %v", keys)
	}
	if large := peekTimer(t, client, "q", "large"); len(large.Payload) != 100_002 {
		t.Errorf("the payload has %d bytes", len(large.Payload))
	}
	awaitMetric(t, client, func(value float64) bool { return value == 2 }, "queen_timers_pending")
}

// state.md 1.2, 3.3: the timer of another tenant is absent, and each tenant has its own keys.
func TestTimersStayWithinTheTenant_1_2(t *testing.T) {
	t.Parallel()
	client := tenancyBroker(t)
	other := client.WithTenant(otherTenant)
	mine := needScheduled(t, client, scheduleOf("q", "k", farAway))
	if peekTimer(t, other, "q", "k").Found {
		t.Error("a foreign timer is found")
	}
	if _, keys := listTimers(t, other, "q", ""); len(keys) != 0 {
		t.Errorf("foreign timers are listed: %v", keys)
	}
	needBody(t, other.Get(timersPath("q")+"?mode=count&prefix=k"), 200, `{"count":0}`)
	needBody(t, other.Delete(timerPath("q", "k")), 200, `{"ok":false,"status":"absent","queue":"q","timerKey":"k"}`)
	needScheduled(t, other, scheduleOf("q", "k", -1).with(map[string]any{"payload": base64Of("7")}))
	if fired := awaitFired(t, other, "q", ""); string(fired.Data) != "7" {
		t.Errorf("fired %+v", fired)
	}
	needEmpty(t, client.Pop("q", ""))
	if now := peekTimer(t, client, "q", "k"); now.MessageID != mine.MessageID {
		t.Errorf("now %+v", now)
	}
}
