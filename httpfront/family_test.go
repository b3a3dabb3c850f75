package httpfront

import (
	"testing"

	"github.com/valyala/fasthttp"
)

// TestRefusalsOfTimers: state 1.3, 3.2, what any route may refuse with, as the routes of timers spell it.
func TestRefusalsOfTimers(t *testing.T) {
	for _, c := range []struct {
		refusal *Error
		status  int
		body    string
	}{
		{Refuse(CodeTimeout, "why"), 503, `{"error":"timers_unavailable","reason":"timers_timeout","detail":"why"}`},
		{Refuse(CodeNoQuorum, "why"), 503, `{"error":"timers_unavailable","reason":"timers_timeout","detail":"why"}`},
		{Refuse(CodeRetry, "why"), 503, `{"error":"timers_unavailable","reason":"timers_retry","detail":"why"}`},
		{Refuse(CodeNoLeader, "why"), 503, `{"error":"timers_unavailable","reason":"no_leader","detail":"why"}`},
		{Refuse(CodeInternal, "why"), 500, `{"error":"timers_error","reason":"timers_error","detail":"why"}`},
		{Refuse(CodeOverloaded, "why"), 429, `{"error":"overloaded","reason":"overloaded","detail":"why"}`},
		{&Error{Code: CodeStorageFull, Text: "why", Node: 3}, 507, `{"error":"storage_full","reason":"storage_full","detail":"why"}`},
		{Refuse(CodeNameTooLong, "why"), 413, `{"error":"name_too_long","reason":"name_too_long","detail":"why"}`},
		{Refuse(CodeEncryptionUnavailable, "why"), 503, `{"error":"encryption_unavailable","reason":"encryption_unavailable","detail":"why"}`},
		{Refuse(CodeTimersDisabled, "why"), 503, `{"error":"timers_disabled","reason":"timers_disabled","detail":"why"}`},
		{Refuse(CodeBadBody, "why"), 400, `{"error":"timers_bad_request","reason":"timers_bad_body","detail":"why"}`},
		{Refuse(CodeBadRequest, "why"), 400, `{"error":"timers_bad_request","reason":"timers_bad_request","detail":"why"}`},
		{&Error{Code: CodePayloadTooLarge, Reason: "timers_call_too_large", Text: "why"}, 413, `{"error":"payload_too_large","reason":"timers_call_too_large","detail":"why"}`},
		{RefuseStatus(403, "Insufficient permissions"), 403, `{"error":"Insufficient permissions"}`},
		{Refuse(CodeReservedTenant, "why"), 403, `{"error":"why","code":"reserved_tenant"}`},
	} {
		var ctx fasthttp.RequestCtx
		c.refusal.write(&ctx, ShapeTimers)
		after := string(ctx.Response.Header.Peek("Retry-After"))
		if got := string(ctx.Response.Body()); ctx.Response.StatusCode() != c.status || got != c.body || (after != "") != (c.status == 429 || c.status == 503) {
			t.Errorf("%s: got %d %s, Retry-After %q", c.refusal.Code, ctx.Response.StatusCode(), got, after)
		}
	}
}
