package httpfront

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRefusalsOfAFamily(t *testing.T) {
	var failure error
	fail := func(r *Request) { r.Fail(failure) }
	s := startServer(t, testConfig(),
		Route{Method: "GET", Pattern: "/api/kv", Refusal: ShapeKV, Handler: fail}, Route{Method: "GET", Pattern: "/api/locks", Refusal: ShapeLocks, Handler: fail})
	for _, c := range []struct {
		err          error
		status       int
		code, reason string
		retry        bool
	}{
		{Refuse(CodeTimeout, "x"), 503, "kv_unavailable", "kv_timeout", true}, {Refuse(CodeNoQuorum, "x"), 503, "kv_unavailable", "kv_timeout", true},
		{Refuse(CodeOutcomeUnknown, "x"), 503, "kv_unavailable", "kv_timeout", true}, {Refuse(CodeRetry, "x"), 503, "kv_unavailable", "kv_retry", true},
		{Refuse(CodeNoLeader, "x"), 503, "kv_unavailable", "kv_no_leader", true}, {Refuse(CodeOverloaded, "x"), 429, "overloaded", "overloaded", true},
		{&Error{Code: CodeStorageFull, Text: "x", Node: 3}, 507, "storage_full", "storage_full", false},
		{Refuse(CodePayloadTooLarge, "x"), 413, "payload_too_large", "payload_too_large", false},
		{Refuse(CodeInternal, "x"), 500, "kv_error", "kv_error", false}, {Refuse(CodeKVQuotaExceeded, "x"), 403, "kv_quota_exceeded", "kv_quota_exceeded", false},
		{&Error{Code: CodeKVBadRequest, Reason: "kv_bad_key", Text: "x"}, 400, "kv_bad_request", "kv_bad_key", false},
		{Refuse(CodeBadBody, "x"), 400, "F_bad_request", "F_bad_body", false}, {Refuse(CodeBadRequest, "x"), 400, "F_bad_request", "F_bad_request", false},
	} {
		for path, family := range map[string]string{"/api/kv": "kv", "/api/locks": "locks"} {
			failure = c.err
			answer := s.call(t, "GET", path, "")
			want := fmt.Sprintf(`{"error":%q,"reason":%q,"detail":"x"}`, strings.Replace(c.code, "F", family, 1), strings.Replace(c.reason, "F", family, 1))
			if answer.status != c.status || answer.body != want || (answer.header.Get("Retry-After") != "") != c.retry {
				t.Errorf("%s %v: got %+v, want %d %s", path, c.err, answer, c.status, want)
			}
		}
	}
	for _, plain := range []struct {
		err  error
		body string
	}{
		{RefuseStatus(403, "Insufficient permissions"), `{"error":"Insufficient permissions"}`}, {errTenant, `{"error":"invalid x-queen-tenant header (must be a UUID)"}`},
	} {
		failure = plain.err
		if answer := s.call(t, "GET", "/api/kv", ""); answer.body != plain.body {
			t.Errorf("got %+v, want %s", answer, plain.body)
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
