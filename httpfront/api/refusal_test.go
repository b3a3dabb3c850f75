package api

import (
	"errors"
	"fmt"
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
