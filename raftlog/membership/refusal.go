package membership

import (
	"encoding/json"
	"fmt"
)

// Code says why a request is refused (cluster 4.2).
type Code string

// The codes of cluster 4.2.
const (
	BadRequest        Code = "bad_request"
	NotALearner       Code = "not_a_learner"
	NotAMember        Code = "not_a_member"
	Forbidden         Code = "forbidden"
	InFlight          Code = "in_flight"
	NoQuorum          Code = "no_quorum"
	LastVoter         Code = "last_voter"
	LearnerBehind     Code = "learner_behind"
	AlreadyVoter      Code = "already_voter"
	AddressMismatch   Code = "address_mismatch"
	AddressInUse      Code = "address_in_use"
	MembershipChanged Code = "membership_changed"
	LeaderChanged     Code = "leader_changed"
	Busy              Code = "busy"
	Invalid           Code = "membership_invalid"
	LeaderUnreachable Code = "leader_unreachable"
	Retry             Code = "retry"
	NoLeader          Code = "no_leader"
	Timeout           Code = "timeout"

	// LearnerUnreachable is no refusal: a plan waits for it (cluster 4.4).
	LearnerUnreachable Code = "learner_unreachable"
)

// Status is the HTTP status of a refusal.
func (c Code) Status() int {
	switch c {
	case BadRequest, NotALearner, NotAMember:
		return 400
	case Forbidden:
		return 403
	case LeaderUnreachable, Retry, NoLeader:
		return 503
	case Timeout:
		return 504
	}
	return 409
}

// Refusal is a "no" to an operator.
type Refusal struct {
	Code Code
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// Refuse makes a refusal.
func Refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Answer is what an HTTP client gets.
type Answer struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// Answer is the refusal as a client gets it.
func (r *Refusal) Answer() Answer {
	return answer(r.Code.Status(), struct {
		OK    bool   `json:"ok"`
		Code  Code   `json:"code"`
		Error string `json:"error"`
	}{false, r.Code, r.Text})
}

func answer(status int, body any) Answer {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("BUG: encode answer: %v", err))
	}
	return Answer{Status: status, Body: encoded}
}
