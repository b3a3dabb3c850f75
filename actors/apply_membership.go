package actors

import (
	"sync"

	"queen/actors/machine/membership"
	"queen/raftlog/command"
)

// changeMembership changes the members table, the plan and the format of the cluster (cluster 2.3, 4.4, 15.2).
func (a *apply) changeMembership(c *command.Membership) (command.Result, error) {
	at := membership.Moment{Index: a.batch.Index(), StampMicros: a.now}
	state, refusal, err := membership.Change(a.batch, a.batch, at, c)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return refusal, nil
	}
	a.after = append(a.after, func() { a.membership.publish(state) })
	return command.Done{}, nil
}

// membershipBoard shows the newest membership to any goroutine.
type membershipBoard struct {
	mu      sync.Mutex
	state   *command.MembershipState
	changed chan struct{}
}

func (b *membershipBoard) publish(state *command.MembershipState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = state
	if b.changed != nil {
		close(b.changed)
	}
	b.changed = make(chan struct{})
}

// Membership returns the members table and the plan as applied here, which nobody may change, and a channel that is closed
// when there is a newer one.
func (b *Broker) Membership() (*command.MembershipState, <-chan struct{}) {
	b.membership.mu.Lock()
	defer b.membership.mu.Unlock()
	return b.membership.state, b.membership.changed
}
