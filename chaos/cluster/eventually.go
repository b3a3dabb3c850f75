package cluster

import (
	"errors"
	"fmt"
	"time"
)

// pollEvery is the pause between two looks at a condition.
const pollEvery = 10 * time.Millisecond

// errFinal is wrapped by the error of a condition that can no longer come to hold.
var errFinal = errors.New("it will not change")

// Eventually looks at a condition until it holds, or wraps errFinal, at most for so long. The error is that of the last look.
func Eventually(within time.Duration, what string, condition func() error) error {
	deadline := time.Now().Add(within)
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if errors.Is(err, errFinal) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("%s: not within %v: %w", what, within, err)
		}
		<-poll.C
	}
}
