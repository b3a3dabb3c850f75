package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/raftlog/command"
)

// A pop whose leader is another node is sent there. What it gets comes back in the log: the leader's claim names the id
// under which the pop waits here, and when this node applies the claim, the pop reads its messages from this node's own
// store. Whatever else there is to say, the answer of the leader says.

// leaderCall is what became of a pop at the leader: a claim or an answer.
type leaderCall struct {
	claim  *servedClaim
	answer command.PopAnswer
}

// askLeader sends a pop to the leader and waits for what becomes of it. When it returns without a claim or a verdict, one that
// is applied later stays in doubt. No claim, no verdict and no error: the client has gone, or the node stops.
func (c *popCall) askLeader(call *command.PopCall) (called leaderCall, err error) {
	if c.guest() {
		return leaderCall{}, ErrRetry // its own node asks the next leader
	}
	giveUp := c.claimDeadline()
	if c.Wait {
		// The leader's last claim may begin with the end of the wait, and what it says of it has a way to go.
		giveUp = c.Deadline.Add(claimAttemptMin + answerGrace)
		began := time.Now()
		defer func() { c.waited += time.Since(began) }()
	}
	// The end of ctx is all that the pop waits for, so that it costs no more than a small goroutine besides its own.
	ctx, cancel := context.WithDeadline(c.b.stopped, giveUp)
	defer cancel()
	if c.Gone != nil {
		c.b.workers.run(func() {
			select {
			case <-c.Gone:
				cancel()
			case <-ctx.Done():
			}
		})
	}
	sequence, claim := c.b.expected.add(cancel)
	call.For = command.RequestID{Origin: c.b.pending.origin, Sequence: sequence}
	called.answer, err = c.b.callLeader(ctx, call)
	if called.answer.Verdict == command.PopTaken {
		<-ctx.Done() // the claim is in the log, and on its way to here
	}
	switch doubtful := err != nil && !errors.Is(err, ErrNoLeader) || called.answer.Doubtful || called.answer.Verdict == command.PopTaken; {
	case doubtful && len(claim) == 0:
		c.doubts = append(c.doubts, doubt{sequence, claim})
	case !c.b.expected.remove(sequence):
		s := <-claim
		return leaderCall{claim: &s}, nil
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return leaderCall{}, nil
	case called.answer.Verdict == command.PopTaken:
		return leaderCall{}, ErrDeadline
	case err != nil && ctx.Err() != nil:
		return leaderCall{}, fmt.Errorf("%w: %w", ErrNoLeader, err) // it has not said a word
	}
	return called, err
}

// answerGrace is how late the answer of a busy leader may come.
const answerGrace = time.Second

// callLeader runs one call.
func (b *Broker) callLeader(ctx context.Context, call *command.PopCall) (command.PopAnswer, error) {
	encoded, err := b.log.CallLeader(ctx, command.AppendPopCall(nil, call))
	if err != nil {
		return command.PopAnswer{}, err
	}
	answer, err := command.DecodePopAnswer(encoded)
	if err != nil {
		return command.PopAnswer{}, fmt.Errorf("read answer of the leader: %w", err)
	}
	return answer, nil
}

// settle turns what became of a pop at the leader into what an attempt returns.
func (c *popCall) settle(called leaderCall, err error) (*PopOutcome, bool, error) {
	if called.claim != nil {
		claim, result := called.claim.claim, called.claim.result
		c.offered = offer{autoPartitions: int(claim.AutoPartitions), autoBatch: int(claim.AutoBatch)}
		outcome, again, err := c.deliver(claim.Lease, result)
		if err != nil {
			c.b.handBack(claim, result)
		}
		return outcome, again, err
	}
	if err != nil {
		return nil, false, err
	}
	a := &called.answer
	c.tried = c.tried || a.Tried
	switch a.Verdict {
	case command.PopNothing:
		c.registered, c.conflation, c.confirmed = a.Registered, a.Conflation, true
		return nil, false, nil
	case command.PopAgain:
		return nil, false, ErrRetry
	case command.PopOverloaded:
		return nil, false, ErrOverloaded
	case command.PopRefused:
		return nil, false, &command.Refusal{Code: a.Code, Text: a.Text}
	}
	return nil, false, nil // the client has gone or the node stops, which ends the pop
}

// elsewhere asks the leader for a pop of one queue. It registers the group and, where the route does, makes the queue.
func (c *popCall) elsewhere() (outcome *PopOutcome, again bool, err error) {
	if c.asked && c.b.directory.Queue(c.Tenant, c.Queue) != nil {
		c.tried = true // should it be deleted, this pop does not make it again (messaging 9.11)
	}
	call := c.call()
	c.asked = true
	call.Queue, call.Pinned, call.Partition, call.Tried = c.Queue, c.Pinned, c.Partition, c.tried
	return c.settle(c.askLeader(call))
}

// elsewhere asks the leader for a discovery pop. The group is registered from here, for only this node knows on which queues
// it must not be (Admit); what was made before the pop came is known here by then.
func (c *discoverCall) elsewhere() (outcome *PopOutcome, again bool, err error) {
	if c.guest() {
		return nil, false, ErrRetry
	}
	if err := c.confirm(); err != nil {
		return nil, false, err
	}
	queues, err := c.b.matching(c.r, 0)
	if err != nil {
		return nil, false, err
	}
	call := c.call()
	call.Discovery = true
	call.Namespace, call.HasNamespace, call.Task, call.HasTask = c.r.Namespace, c.r.HasNamespace, c.r.Task, c.r.HasTask
	outcome, again, err = c.settle(c.askLeader(call))
	c.learn(queues)
	return outcome, again, err
}

// call describes the pop to the leader, in durations.
func (c *popCall) call() *command.PopCall {
	return &command.PopCall{
		Tenant: c.Tenant, Group: c.Group, Batch: c.Batch, Partitions: uint32(c.Partitions),
		AutoBatch: c.AutoBatch, AutoPartitions: c.AutoPartitions, LeaseMs: c.LeaseMs,
		CommitOnDelivery: c.CommitOnDelivery, Subscription: c.Subscription, Conflation: c.Conflation, Wait: c.Wait,
		Again:      c.asked,
		LeftMicros: uint64(max(time.Until(c.Deadline), 0).Microseconds()),
		AgoMicros:  uint64(max(time.Since(c.began), 0).Microseconds()),
	}
}
