package httpfront

import "queen/httpfront/wire"

// family is how the routes of one kind of state name the refusals that any route may give (state 1.3, 3.2). Clients branch on
// error, then on reason.
type family struct {
	badRequest, unavailable, internal string
	// timeout, retry and noLeader are reasons under unavailable.
	timeout, retry, noLeader string
}

// families are the shapes that are families.
var families = map[Shape]family{
	ShapeTimers: {
		badRequest: "timers_bad_request", unavailable: "timers_unavailable", internal: "timers_error",
		timeout: "timers_timeout", retry: "timers_retry", noLeader: "no_leader",
	},
}

// body makes the body of a refusal; false when it is not one of a family: those of tokens, and of bodies that are too large
// to be read, are the same on every route.
func (f family) body(e *Error) (body []byte, ok bool) {
	kind, reason := string(e.Code), string(e.Code)
	switch {
	case e.Reason != "":
		reason = e.Reason
	case e.Code == CodeBadBody || e.Code == CodeBadRequest:
		kind = f.badRequest
	case e.Code == CodeTimeout || e.Code == CodeNoQuorum || e.Code == CodeOutcomeUnknown:
		kind, reason = f.unavailable, f.timeout
	case e.Code == CodeRetry:
		kind, reason = f.unavailable, f.retry
	case e.Code == CodeNoLeader:
		kind, reason = f.unavailable, f.noLeader
	case e.Code == CodeInternal:
		kind, reason = f.internal, f.internal
	case e.Code == CodeNone || e.Code == CodePayloadTooLarge || e.Code == CodeHeaderTooLarge:
		return nil, false
	}
	return wire.AppendReasoned(nil, kind, reason, e.Text), true
}
