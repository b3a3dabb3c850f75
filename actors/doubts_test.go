package actors

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// hidden lets the leader claim the one message for a pop of a member that does not see it.
func (c *cluster) hidden(t *testing.T, at *member) {
	t.Helper()
	at.pop(wildcard("orders"))
	at.push("orders", "p", "x")
	c.settle()
	c.set(func() { at.slow = true })
}

// TestPopTakesAClaimThatItsLeaderDidNotTellOf breaks the link after the claim. A leader that is asked again finds the partition
// leased and says that there is nothing, which is true of everybody but this pop.
func TestPopTakesAClaimThatItsLeaderDidNotTellOf(t *testing.T) {
	c := newCluster(t, 3)
	at := c.members[2]
	c.hidden(t, at)
	var calls atomic.Int64
	at.after = func(answer []byte, err error) ([]byte, error) {
		if calls.Add(1) == 1 {
			return nil, errLinkBroken
		}
		return answer, err
	}
	pop := at.start(wildcard("orders"))
	eventually(t, "the link has broken", func() bool { return calls.Load() == 1 })
	c.set(func() { at.slow = false })
	onlyX(t, pop.wait(t))
	c.forgotten()
	if n := c.count("*command.HandBack"); n != 0 {
		t.Errorf("%d hand-backs", n)
	}
}

// TestPopDoesNotClaimAgainBeforeItKnowsOfItsClaim lets the lease of a hidden claim end before the pop asks again. A second claim
// would deliver the message as attempt 2, and nobody had the first.
func TestPopDoesNotClaimAgainBeforeItKnowsOfItsClaim(t *testing.T) {
	c := newCluster(t, 3)
	at := c.members[2]
	c.hidden(t, at)
	request := wildcard("orders", waiting)
	request.LeaseMs = 1000
	var calls atomic.Int64
	at.after = func([]byte, error) ([]byte, error) {
		calls.Add(1)
		c.moveTime(5 * time.Second)
		return nil, errLinkBroken
	}
	pop := at.start(request)
	eventually(t, "the link has broken", func() bool { return calls.Load() == 1 })
	c.set(func() { at.slow = false })
	onlyX(t, pop.wait(t))
	if n := calls.Load(); n != 1 {
		t.Errorf("the leader was asked %d times", n)
	}
}

// TestPopThatCannotLearnOfItsClaimSaysSo cuts a node off after a claim for one of its pops: "nothing" would be untrue, and
// nobody takes the attempt back before the lease ends.
func TestPopThatCannotLearnOfItsClaimSaysSo(t *testing.T) {
	c := newCluster(t, 3)
	at := c.members[2]
	c.hidden(t, at)
	request := wildcard("orders")
	request.Deadline = time.Now().Add(100 * time.Millisecond)
	claims := c.count("*command.Claim")
	pop := at.start(request)
	eventually(t, "the claim is committed", func() bool { return c.count("*command.Claim") > claims })
	c.set(func() { at.cut = true })
	<-pop.done
	if !errors.Is(pop.err, ErrDeadline) {
		t.Errorf("got %s", told(pop.outcome, pop.err))
	}
	c.set(func() { at.slow, at.cut = false, false })
	c.free(t)
}
