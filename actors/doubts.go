package actors

import (
	"context"
	"errors"

	"queen/raftlog/command"
)

// A pop that is cut off from its leader does not know whether a claim was made for it. Such a claim holds its partitions and
// counts a delivery attempt, and when the cut lasts longer than the lease, nothing takes that back. So no pop says that there
// is nothing, or claims again, while a claim of its own may be in the log: it applies what is committed first, and takes the claim
// if it is there, even when its lease is over.

// doubt is an attempt of a pop whose claim may still come, under the id that the claim names.
type doubt struct {
	sequence uint64
	claim    chan servedClaim
}

// certain tells whether an error of a proposal says that its command did not happen.
func certain(err error) bool {
	var refusal *command.Refusal
	return errors.As(err, &refusal) || errors.Is(err, ErrOverloaded) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrGone)
}

// unlessLate makes an attempt, unless one before has got something after all.
func (c *popCall) unlessLate(try attempt) (outcome *PopOutcome, again bool, err error) {
	if len(c.doubts) > 0 {
		if err := c.catchUp(); err != nil {
			return nil, false, err
		}
		if outcome := c.late(); outcome != nil {
			return outcome, false, nil
		}
		c.forget()
	}
	return try()
}

// late is what an earlier attempt has got after all; nil when nothing has come.
func (c *popCall) late() *PopOutcome {
	for i, d := range c.doubts {
		select {
		case claim := <-d.claim:
			c.doubts = append(c.doubts[:i:i], c.doubts[i+1:]...)
			if outcome, _, err := c.settle(leaderCall{claim: &claim}, nil); err == nil {
				return outcome
			}
			return nil // it is handed back
		default:
		}
	}
	return nil
}

// clearUp says what a pop got that is about to end with nothing: nothing, or what a claim in doubt has got. When that cannot
// be known in time the error is ErrDeadline.
func (c *popCall) clearUp(empty *PopOutcome) (*PopOutcome, error) {
	if len(c.doubts) == 0 {
		return empty, nil
	}
	// Not bounded by the end of the broker: a pop that is ended by it asks for the last time.
	ctx, cancel := context.WithTimeout(context.Background(), answerGrace)
	defer cancel()
	if _, err := c.b.log.ReadIndex(ctx); err != nil {
		return nil, ErrDeadline
	}
	if outcome := c.late(); outcome != nil {
		return outcome, nil
	}
	return empty, nil
}

// forget ends the wait for claims in doubt; what has come and was not delivered is handed back.
func (c *popCall) forget() {
	for _, d := range c.doubts {
		if !c.b.expected.remove(d.sequence) {
			s := <-d.claim
			c.b.handBack(s.claim, s.result)
		}
	}
	c.doubts = nil
}
