package httpfront

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"

	"github.com/valyala/fasthttp"

	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// Code is the stable code of a refusal. Clients branch on the status first, then on the code (messaging 2.7).
type Code string

// The codes of messaging 2.7 and cluster 8.5.
const (
	// CodeNone leaves the code out: 401, 403 of tokens, and 404 and 409 of objects.
	CodeNone                  Code = ""
	CodeBadBody               Code = "bad_body"
	CodeBadRequest            Code = "bad_request"
	CodeNoSuchRoute           Code = "no_such_route"
	CodeMethodNotAllowed      Code = "method_not_allowed"
	CodeNameTooLong           Code = "name_too_long"
	CodePayloadTooLarge       Code = "payload_too_large"
	CodeOverloaded            Code = "overloaded"
	CodeHeaderTooLarge        Code = "header_too_large"
	CodeInternal              Code = "internal"
	CodeRetry                 Code = "retry"
	CodeNoLeader              Code = "no_leader"
	CodeTimeout               Code = "timeout"
	CodeOutcomeUnknown        Code = "outcome_unknown"
	CodeEncryptionUnavailable Code = "encryption_unavailable"
	CodeNoQuorum              Code = "no_quorum"
	CodeOwnerMoved            Code = "owner_moved"
	CodeForwardFailed         Code = "ephemeral_forward_failed"
	CodeLeaving               Code = "leaving"
	CodeStorageFull           Code = "storage_full"
	CodeReservedTenant        Code = "reserved_tenant"
	CodeForbidden             Code = "forbidden"
	CodeRequestTimeout        Code = "request_timeout"

	// Those of the state surfaces (state 2.5, 3.2, 4.5).
	CodeKVBadRequest         Code = "kv_bad_request"
	CodeLocksBadRequest      Code = "locks_bad_request"
	CodeKVQuotaExceeded      Code = "kv_quota_exceeded"
	CodeKVDisabled           Code = "kv_disabled"
	CodeKVUnavailable        Code = "kv_unavailable"
	CodeKVError              Code = "kv_error"
	CodeTimersBadRequest     Code = "timers_bad_request"
	CodeTimerHorizonExceeded Code = "timer_horizon_exceeded"
	CodeTimersDisabled       Code = "timers_disabled"
	CodeTimersUnavailable    Code = "timers_unavailable"
	CodeTimersError          Code = "timers_error"
)

// statusOf is the status of every code. A code that is missing here cannot be sent: Status panics, and a test looks.
var statusOf = map[Code]int{
	CodeBadBody:               400,
	CodeBadRequest:            400,
	CodeReservedTenant:        403,
	CodeForbidden:             403,
	CodeNoSuchRoute:           404,
	CodeMethodNotAllowed:      405,
	CodeRequestTimeout:        408,
	CodeNameTooLong:           413,
	CodePayloadTooLarge:       413,
	CodeOverloaded:            429,
	CodeHeaderTooLarge:        431,
	CodeInternal:              500,
	CodeRetry:                 503,
	CodeNoLeader:              503,
	CodeTimeout:               503,
	CodeOutcomeUnknown:        503,
	CodeEncryptionUnavailable: 503,
	CodeNoQuorum:              503,
	CodeOwnerMoved:            503,
	CodeForwardFailed:         503,
	CodeLeaving:               503,
	CodeStorageFull:           507,

	CodeKVBadRequest:         400,
	CodeLocksBadRequest:      400,
	CodeKVQuotaExceeded:      403,
	CodeKVDisabled:           503,
	CodeKVUnavailable:        503,
	CodeKVError:              500,
	CodeTimersBadRequest:     400,
	CodeTimerHorizonExceeded: 403,
	CodeTimersDisabled:       503,
	CodeTimersUnavailable:    503,
	CodeTimersError:          500,
}

// Error is a refusal as a client sees it. Handlers make it with Refuse, or pass what others return to Request.Fail.
type Error struct {
	Code Code
	// Reason is the finer code of the state surfaces; empty where the family of the route finds one (see family).
	Reason string
	// Status is set only for refusals without a code; for all others the code decides.
	Status int
	// Text is the human text.
	Text string
	// Leader, Invalid and Node are members of some envelopes; see wire.Envelope.
	Leader  string
	Invalid string
	Node    uint64
	// Allow is the Allow header of a 405.
	Allow string
	// Path is shown by the 404 of an unknown path under /api/ and /streams/ (messaging 2.3).
	Path string
}

// Error returns the human text.
func (e *Error) Error() string { return e.Text }

// HTTPStatus returns the status of the answer.
func (e *Error) HTTPStatus() int {
	if e.Code == CodeNone && e.Status != 0 {
		return e.Status
	}
	status, ok := statusOf[e.Code]
	if !ok {
		panic("BUG: no status for the code " + string(e.Code))
	}
	return status
}

// Refuse makes a refusal with a code.
func Refuse(code Code, text string) *Error { return &Error{Code: code, Text: text} }

// RefuseStatus makes a refusal without a code, such as the 404 of a missing object.
func RefuseStatus(status int, text string) *Error { return &Error{Status: status, Text: text} }

// Texts that more than one place sends.
const (
	textDeadline    = "the request deadline elapsed"
	textInternal    = "internal error"
	textBodyTooBig  = "the body is larger than this server accepts"
	textHeadTooBig  = "request line and headers are larger than 16 KiB"
	textOverloaded  = "too many bytes are being written; wait and retry"
	textBulk        = "too many large bodies arrive at once"
	textAnswers     = "too many large answers are being sent; wait and retry"
	textNotReady    = "this node is not ready"
	textStopping    = "this node is stopping"
	textMalformed   = "malformed HTTP request"
	textSlowRequest = "the request did not arrive in time"
)

// classify turns any error into a refusal. internal is true for errors that nobody has foreseen: they are logged, and the
// client learns nothing of them.
func classify(err error) (refusal *Error, internal bool) {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal, false
	}
	if body, ok := errors.AsType[*wire.Error](err); ok {
		return &Error{Code: Code(body.Code), Reason: body.Reason, Text: body.Text, Invalid: body.Invalid}, false
	}
	if no, ok := errors.AsType[*command.Refusal](err); ok {
		if _, known := statusOf[Code(no.Code)]; known {
			return Refuse(Code(no.Code), no.Text), false
		}
		return Refuse(CodeInternal, textInternal), true
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Refuse(CodeTimeout, textDeadline), false
	case errors.Is(err, context.Canceled):
		return Refuse(CodeRetry, textStopping), false
	}
	return Refuse(CodeInternal, textInternal), true
}

// refusalOfReading is the answer to a request that could not be read.
func refusalOfReading(err error) *Error {
	if _, ok := errors.AsType[*fasthttp.ErrSmallBuffer](err); ok {
		return Refuse(CodeHeaderTooLarge, textHeadTooBig)
	}
	if errors.Is(err, fasthttp.ErrBodyTooLarge) {
		return Refuse(CodePayloadTooLarge, textBodyTooBig)
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return Refuse(CodeRequestTimeout, textSlowRequest)
	}
	return Refuse(CodeBadRequest, textMalformed)
}

// retryAfterSeconds is the Retry-After header of a status, 0 for none: 1 s on every 503, 1 to 5 s on a 429, jittered so
// that refused clients do not come back together (messaging 2.7).
func retryAfterSeconds(status int) int {
	switch status {
	case 503:
		return 1
	case 429:
		return 1 + rand.IntN(5)
	}
	return 0
}
