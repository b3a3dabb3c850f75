package httpfront

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRefusalsOfAFamily: state 1.3, what any route may refuse with, as the routes of each state surface spell it. S stands for the
// codes that KV lends to locks (state 4.5), F for those that each family has of its own.
func TestRefusalsOfAFamily(t *testing.T) {
	var failure error
	fail := func(r *Request) { r.Fail(failure) }
	families := []struct{ path, own, shared, noLeader string }{
		{"/api/kv", "kv", "kv", "kv_no_leader"}, {"/api/locks", "locks", "kv", "kv_no_leader"}, {"/api/timers", "timers", "timers", "no_leader"},
	}
	s := startServer(t, testConfig(),
		Route{Method: "GET", Pattern: "/api/kv", Refusal: ShapeKV, Handler: fail},
		Route{Method: "GET", Pattern: "/api/locks", Refusal: ShapeLocks, Handler: fail},
		Route{Method: "GET", Pattern: "/api/timers", Refusal: ShapeTimers, Handler: fail})
	for _, c := range []struct {
		err          error
		status       int
		code, reason string
		retry        bool
	}{
		{Refuse(CodeTimeout, "x"), 503, "S_unavailable", "S_timeout", true},
		{Refuse(CodeNoQuorum, "x"), 503, "S_unavailable", "S_timeout", true},
		{Refuse(CodeOutcomeUnknown, "x"), 503, "S_unavailable", "S_timeout", true},
		{Refuse(CodeRetry, "x"), 503, "S_unavailable", "S_retry", true},
		{Refuse(CodeNoLeader, "x"), 503, "S_unavailable", "no leader", true},
		{Refuse(CodeInternal, "x"), 500, "S_error", "S_error", false},
		{Refuse(CodeOverloaded, "x"), 429, "overloaded", "overloaded", true},
		{&Error{Code: CodeStorageFull, Text: "x", Node: 3}, 507, "storage_full", "storage_full", false},
		{Refuse(CodePayloadTooLarge, "x"), 413, "payload_too_large", "payload_too_large", false},
		{Refuse(CodeNameTooLong, "x"), 413, "name_too_long", "name_too_long", false},
		{Refuse(CodeEncryptionUnavailable, "x"), 503, "encryption_unavailable", "encryption_unavailable", true},
		{Refuse(CodeKVQuotaExceeded, "x"), 403, "kv_quota_exceeded", "kv_quota_exceeded", false},
		{Refuse(CodeKVDisabled, "x"), 503, "kv_disabled", "kv_disabled", true},
		{Refuse(CodeTimersDisabled, "x"), 503, "timers_disabled", "timers_disabled", true},
		{&Error{Code: CodeKVBadRequest, Reason: "kv_bad_key", Text: "x"}, 400, "kv_bad_request", "kv_bad_key", false},
		{&Error{Code: CodePayloadTooLarge, Reason: "timers_call_too_large", Text: "x"}, 413, "payload_too_large", "timers_call_too_large", false},
		{Refuse(CodeBadBody, "x"), 400, "F_bad_request", "F_bad_body", false},
		{Refuse(CodeBadRequest, "x"), 400, "F_bad_request", "F_bad_request", false},
	} {
		for _, family := range families {
			failure = c.err
			answer := s.call(t, "GET", family.path, "")
			spell := strings.NewReplacer("F_", family.own+"_", "S_", family.shared+"_", "no leader", family.noLeader)
			want := fmt.Sprintf(`{"error":%q,"reason":%q,"detail":"x"}`, spell.Replace(c.code), spell.Replace(c.reason))
			if answer.status != c.status || answer.body != want || (answer.header.Get("Retry-After") != "") != c.retry {
				t.Errorf("%s %v: got %+v, want %d %s", family.path, c.err, answer, c.status, want)
			}
		}
	}
	for _, plain := range []struct {
		err  error
		body string
	}{
		{RefuseStatus(403, "Insufficient permissions"), `{"error":"Insufficient permissions"}`},
		{errTenant, `{"error":"invalid x-queen-tenant header (must be a UUID)"}`},
		{Refuse(CodeReservedTenant, "x"), `{"error":"x","code":"reserved_tenant"}`},
	} {
		for _, family := range families {
			failure = plain.err
			if answer := s.call(t, "GET", family.path, ""); answer.body != plain.body {
				t.Errorf("%s: got %+v, want %s", family.path, answer, plain.body)
			}
		}
	}
}

// A permit that a handler takes is given back with the answer, whatever becomes of the handler.
func TestPermitsOfAHandlerAreGivenBack(t *testing.T) {
	config := testConfig()
	config.AdmitBytes, config.AdmitHold = 10, 0
	entered, leave := make(chan error, 1), make(chan bool)
	s := startServer(t, config, Route{Method: "POST", Pattern: "/api/kv", Refusal: ShapeKV, Handler: func(r *Request) {
		err := r.Admit()
		entered <- err
		switch {
		case err != nil:
			r.Fail(err)
		case <-leave:
			panic("a handler that dies")
		default:
			r.JSON(200, []byte("{}"))
		}
	}})
	for _, dies := range []bool{false, true} {
		done := make(chan answer, 1)
		go func() { done <- s.call(t, "POST", "/api/kv", "12345678") }()
		if err := <-entered; err != nil {
			t.Fatal(err)
		}
		if refused := s.call(t, "POST", "/api/kv", "123"); refused.status != 429 || refused.body != `{"error":"overloaded","reason":"overloaded","detail":"`+textOverloaded+`"}` {
			t.Errorf("got %+v", refused)
		}
		<-entered
		leave <- dies
		want := answer{status: 200, body: "{}"}
		if dies {
			want = answer{status: 500, body: `{"error":"kv_error","reason":"kv_error","detail":"internal error"}`}
		}
		if got := <-done; got.status != want.status || got.body != want.body {
			t.Errorf("got %+v, want %+v", got, want)
		}
		deadline := time.Now().Add(10 * time.Second)
		for held, _ := s.admission.state(); held != 0; held, _ = s.admission.state() {
			if time.Now().After(deadline) {
				t.Fatalf("%d bytes are held", held)
			}
			time.Sleep(time.Millisecond)
		}
	}
}
