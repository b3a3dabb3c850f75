package ledger

import (
	"errors"
	"net/http"
	"syscall"
)

// Outcome is what a client knows about the effect of a call (cluster.md 8.5).
type Outcome uint8

const (
	// Unknown is the outcome of a call that was cut off, or that has not been answered yet.
	Unknown Outcome = iota
	// Done is the outcome of a call that took effect as answered.
	Done
	// NotDone is the outcome of a call that certainly changed nothing.
	NotDone
)

// String names the outcome for reports.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case NotDone:
		return "not done"
	default:
		return "unknown"
	}
}

// Classify gives the outcome class of an answer: status is 0 when err is set.
func Classify(status int, err error) Outcome {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED): // nothing was sent
		return NotDone
	case err != nil:
		return Unknown
	case status >= 200 && status < 300:
		return Done
	case status >= 400 && status < 500, status == http.StatusInsufficientStorage:
		return NotDone
	default:
		return Unknown
	}
}
