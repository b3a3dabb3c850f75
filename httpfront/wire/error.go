package wire

import "fmt"

// Code is the stable code of a refusal (messaging 2.7).
type Code string

// The codes with which decoders refuse.
const (
	// CodeBadBody: the body is not the JSON that the route wants.
	CodeBadBody Code = "bad_body"
	// CodeBadRequest: a member is missing or invalid by value.
	CodeBadRequest Code = "bad_request"
	// CodeTimersBadRequest: a call of timers is refused for the Reason beside it.
	CodeTimersBadRequest Code = "timers_bad_request"
)

// Error is the refusal of a body. Nothing of the body was used.
type Error struct {
	Code Code
	// Text is the human text of the answer.
	Text string
	// Invalid names the refused option of a configure; empty otherwise (messaging 9.1).
	Invalid string
	// Reason is the finer code of the state surfaces (state 1.3); empty elsewhere.
	Reason string
	// RollBack says that the answer is a 200 with success:false and Code as its reason, not an envelope (messaging 8.4).
	RollBack bool
}

// Error returns the text of the answer.
func (e *Error) Error() string { return e.Text }

func badRequest(format string, args ...any) *Error {
	return &Error{Code: CodeBadRequest, Text: fmt.Sprintf(format, args...)}
}

func rollBack(format string, args ...any) *Error {
	return &Error{Code: CodeBadRequest, Text: fmt.Sprintf(format, args...), RollBack: true}
}

// badBody is a bad_body refusal whose text begins with the prefix of the route, such as "bad push body: ".
func badBody(prefix string, err error) *Error {
	return &Error{Code: CodeBadBody, Text: prefix + err.Error()}
}
