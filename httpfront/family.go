package httpfront

import (
	"github.com/valyala/fasthttp"

	"queen/httpfront/wire"
)

// family is how the routes of a state surface spell the refusals that any route may give (state 1.3, 2.5, 3.2, 4.5). What a handler
// refuses with a Reason is sent as it is.
type family struct {
	badRequest, unavailable, internal Code
	// The reasons.
	badBody, badMember, timeout, retry, noLeader string
}

var (
	kvFamily = family{
		badRequest: CodeKVBadRequest, unavailable: CodeKVUnavailable, internal: CodeKVError,
		badBody: "kv_bad_body", badMember: "kv_bad_request", timeout: "kv_timeout", retry: "kv_retry", noLeader: "kv_no_leader",
	}
	// Locks use the codes of KV, except for what is wrong with a request (state 4.5).
	locksFamily = func() family {
		f := kvFamily
		f.badRequest, f.badBody, f.badMember = CodeLocksBadRequest, "locks_bad_body", "locks_bad_request"
		return f
	}()
	timersFamily = family{
		badRequest: CodeTimersBadRequest, unavailable: CodeTimersUnavailable, internal: CodeTimersError,
		badBody: wire.TimersBadBody, badMember: "timers_bad_request", timeout: "timers_timeout", retry: "timers_retry", noLeader: "no_leader",
	}
)

// families are those of the shapes that have one.
var families = map[Shape]*family{ShapeKV: &kvFamily, ShapeLocks: &locksFamily, ShapeTimers: &timersFamily}

// spell returns the code and the reason of a refusal; ok is false for those that have the same body on every route.
func (f *family) spell(e *Error) (code Code, reason string, ok bool) {
	if e.Reason != "" {
		return e.Code, e.Reason, true
	}
	switch e.Code {
	case CodeBadBody:
		return f.badRequest, f.badBody, true
	case CodeBadRequest:
		return f.badRequest, f.badMember, true
	case CodeTimeout, CodeNoQuorum, CodeOutcomeUnknown:
		return f.unavailable, f.timeout, true
	case CodeRetry:
		return f.unavailable, f.retry, true
	case CodeNoLeader:
		return f.unavailable, f.noLeader, true
	case CodeInternal:
		return f.internal, string(f.internal), true
	case CodeOverloaded, CodeStorageFull, CodePayloadTooLarge, CodeNameTooLong, CodeEncryptionUnavailable,
		CodeKVQuotaExceeded, CodeKVDisabled, CodeKVError, CodeTimersDisabled:
		return e.Code, string(e.Code), true
	default:
		return "", "", false // of authentication, routing and transport
	}
}

// write makes the answer of a refusal whose status and headers are set but for the body; false when it is not the family's.
func (f *family) write(ctx *fasthttp.RequestCtx, e *Error) bool {
	code, reason, ok := f.spell(e)
	if ok {
		writeJSON(ctx, e.HTTPStatus(), wire.AppendStateRefusal(nil, string(code), reason, e.Text))
	}
	return ok
}
