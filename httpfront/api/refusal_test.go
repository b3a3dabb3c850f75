package api

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"queen/actors"
	"queen/httpfront"
	"queen/store"
)

// Every error of the broker that a client can meet has its own code (messaging 2.7); what is not known stays what it is.
func TestErrorsOfTheBrokerHaveTheirCodes(t *testing.T) {
	unknown := errors.New("unforeseen")
	for err, want := range map[error]httpfront.Code{
		actors.ErrDeadline:   httpfront.CodeTimeout,
		actors.ErrOverloaded: httpfront.CodeOverloaded,
		actors.ErrNoLeader:   httpfront.CodeNoLeader,
		actors.ErrNoQuorum:   httpfront.CodeNoQuorum,
		actors.ErrRetry:      httpfront.CodeRetry,
		actors.ErrStopping:   httpfront.CodeRetry,
		actors.ErrTooLarge:   httpfront.CodePayloadTooLarge,
		store.ErrCorrupt:     httpfront.CodeRetry,
		store.ErrStopped:     httpfront.CodeRetry,
		store.ErrDamaged:     httpfront.CodeRetry,
		store.ErrNoSpace:     httpfront.CodeRetry,
	} {
		refusal, ok := errors.AsType[*httpfront.Error](refusalOf(fmt.Errorf("execute: %w", err)))
		if !ok || refusal.Code != want || refusal.Text == "" {
			t.Errorf("%v: want %s, got %+v", err, want, refusal)
		}
	}
	if got := refusalOf(unknown); !errors.Is(got, unknown) {
		t.Errorf("got %v", got)
	}
}

// Texts that clients and operators read (cluster 8.3).
func TestTextsOfALostMajority(t *testing.T) {
	for err, want := range map[error]string{
		actors.ErrDeadline: "the request deadline elapsed",
		actors.ErrNoQuorum: "no majority of the voters answers",
	} {
		if got := refusalOf(fmt.Errorf("execute: %w", err)).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRetryNamesTheLeader(t *testing.T) {
	a := &API{node: &testNode{leader: "q2:6632"}}
	for err, want := range map[error]string{
		actors.ErrRetry:    "q2:6632",
		actors.ErrStopping: "q2:6632",
		actors.ErrDeadline: "", // exactly the answer of cluster 8.3
		actors.ErrNoQuorum: "",
		actors.ErrNoLeader: "",
	} {
		refusal, ok := errors.AsType[*httpfront.Error](a.withLeader(refusalOf(err)))
		if !ok || refusal.Leader != want {
			t.Errorf("%v: got %+v, want the leader %q", err, refusal, want)
		}
	}
	if got := a.withLeader(io.ErrUnexpectedEOF); !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", got)
	}
}

// TestAckAcrossALeaderChangeIsInDoubt: cluster 8.4.
func TestAckAcrossALeaderChangeIsInDoubt(t *testing.T) {
	node := &testNode{}
	a := &API{node: node}
	for name, c := range map[string]struct {
		err     error
		changes bool
		want    httpfront.Code
	}{
		"no leader changed":          {actors.ErrDeadline, false, httpfront.CodeTimeout},
		"the leader changed":         {actors.ErrDeadline, true, httpfront.CodeOutcomeUnknown},
		"answered all the same":      {nil, true, ""},
		"refused for another reason": {actors.ErrOverloaded, true, httpfront.CodeOverloaded},
		"no majority":                {actors.ErrNoQuorum, true, httpfront.CodeNoQuorum},
	} {
		err := a.inDoubt(func(*httpfront.Request) error {
			if c.changes {
				node.leaders.Add(1)
			}
			return c.err
		})(nil)
		refusal, _ := errors.AsType[*httpfront.Error](refusalOf(err))
		if refusal == nil && c.want != "" || refusal != nil && refusal.Code != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}
