package cluster

import (
	"fmt"
	"time"
)

// pollEvery is the pause between two looks at a condition.
const pollEvery = 10 * time.Millisecond

// Eventually looks at a condition until it holds, at most for so long. The error is that of the last look.
func Eventually(within time.Duration, what string, condition func() error) error {
	deadline := time.Now().Add(within)
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("%s: not within %v: %w", what, within, err)
		}
		<-poll.C
	}
}
