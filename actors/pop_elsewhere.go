package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"queen/raftlog/command"
)

// A pop whose leader is another node is sent there. What it gets comes back in the log: the leader's claim names the id
// under which the pop waits here, and when this node applies the claim, the pop reads its messages from this node's own
// store. Whatever else there is to say, the answer of the leader says.

// servedClaim is a claim of the leader for a pop of this node, applied here.
type servedClaim struct {
	claim  *command.Claim
	result *command.ClaimResult
}

// expected are the pops of this node that a leader elsewhere serves, by the sequence of their id.
type expected struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan servedClaim
}

// add registers a pop. The channel has room for the one claim that it may get.
func (e *expected) add() (sequence uint64, served chan servedClaim) {
	served = make(chan servedClaim, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[uint64]chan servedClaim{}
	}
	e.last++
	e.waiting[e.last] = served
	return e.last, served
}

// remove forgets a pop that waits no more; false when its claim is in the channel.
func (e *expected) remove(sequence uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, waiting := e.waiting[sequence]
	delete(e.waiting, sequence)
	return waiting
}

// resolve gives a claim to the pop that it serves; false when that waits no more.
func (e *expected) resolve(sequence uint64, s servedClaim) bool {
	e.mu.Lock()
	served := e.waiting[sequence]
	delete(e.waiting, sequence)
	e.mu.Unlock()
	if served == nil {
		return false
	}
	served <- s
	return true
}

func (e *expected) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting)
}

// served is told of every claim for a pop of this node that got something, once it can be read here. What nobody waits for
// any more is handed back, with its attempt.
func (b *Broker) served(claim *command.Claim, result *command.ClaimResult) {
	if !b.expected.resolve(claim.For.Sequence, servedClaim{claim, result}) {
		b.handBack(claim, result)
	}
}

// leaderCall is what became of a pop at the leader: a claim or an answer.
type leaderCall struct {
	claim  *servedClaim
	answer command.PopAnswer
}

// askLeader sends a pop to the leader and waits for what becomes of it. When it returns without a claim, one that is applied
// later is handed back.
func (c *popCall) askLeader(call *command.PopCall) (_ leaderCall, err error) {
	if c.guest() {
		return leaderCall{}, ErrRetry // its own node asks the next leader
	}
	began := time.Now()
	sequence, served := c.b.expected.add()
	call.For = command.RequestID{Origin: c.b.pending.origin, Sequence: sequence}
	giveUp := c.claimDeadline()
	if c.Wait {
		giveUp = c.Deadline.Add(claimAttemptMin) // the leader's last claim may begin with the end of the wait
		defer func() { c.waited += time.Since(began) }()
	}
	answers, cancel := c.b.callLeader(command.AppendPopCall(nil, call), giveUp)
	defer cancel()
	answer, err := c.awaitLeader(answers, served, giveUp)
	if !c.b.expected.remove(sequence) {
		s := <-served
		return leaderCall{claim: &s}, nil
	}
	return leaderCall{answer: answer}, err
}

// leaderAnswer is what a call to the leader returned.
type leaderAnswer struct {
	answer command.PopAnswer
	err    error
}

// callLeader begins a call; the answer comes through the channel. cancel tells the leader that nobody waits for it any more.
func (b *Broker) callLeader(request []byte, giveUp time.Time) (answers chan leaderAnswer, cancel func()) {
	answers = make(chan leaderAnswer, 1)
	ctx, cancel := context.WithDeadline(b.stopped, giveUp)
	running := b.workers.run(func() {
		encoded, err := b.log.CallLeader(ctx, request)
		if err != nil {
			answers <- leaderAnswer{err: err}
			return
		}
		answer, err := command.DecodePopAnswer(encoded)
		if err != nil {
			err = fmt.Errorf("read answer of the leader: %w", err)
		}
		answers <- leaderAnswer{answer, err}
	})
	if !running {
		answers <- leaderAnswer{err: ErrStopping}
	}
	return answers, cancel
}

// awaitLeader waits until the claim is there, which it leaves in its channel, or the leader has said that there is none, or
// the time is over.
func (c *popCall) awaitLeader(answers chan leaderAnswer, served chan servedClaim, giveUp time.Time) (answer command.PopAnswer, err error) {
	timer := time.NewTimer(time.Until(giveUp))
	defer timer.Stop()
	for {
		select {
		case s := <-served:
			served <- s
			return answer, nil
		case a := <-answers:
			if a.err != nil || a.answer.Verdict != command.PopTaken {
				return a.answer, a.err
			}
			answer, answers = a.answer, nil // it is in the log, and on its way to here
		case <-timer.C:
			if answer.Verdict == command.PopTaken {
				return answer, ErrDeadline
			}
			return answer, ErrNoLeader // it has not said a word
		case <-c.Gone:
			return answer, nil
		case <-c.b.stopped.Done():
			return answer, nil
		}
	}
}

// settle turns what became of a pop at the leader into what an attempt returns.
func (c *popCall) settle(called leaderCall, err error) (outcome *PopOutcome, again bool, _ error) {
	if called.claim != nil {
		claim := called.claim.claim
		c.offered = offer{autoPartitions: int(claim.AutoPartitions), autoBatch: int(claim.AutoBatch)}
		return c.deliver(claim, called.claim.result)
	}
	if err != nil {
		if c.b.stopped.Err() != nil || errors.Is(err, ErrStopping) || errors.Is(err, ErrDeadline) || wantsLeader(err) {
			return nil, false, err
		}
		return nil, false, fmt.Errorf("ask the leader: %w", err)
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
	c.asked = true
	call := c.call()
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
	return c.found(outcome, again, err)
}

// call describes the pop to the leader, in durations.
func (c *popCall) call() *command.PopCall {
	return &command.PopCall{
		Tenant: c.Tenant, Group: c.Group, Batch: c.Batch, Partitions: uint32(c.Partitions),
		AutoBatch: c.AutoBatch, AutoPartitions: c.AutoPartitions, LeaseMs: c.LeaseMs,
		CommitOnDelivery: c.CommitOnDelivery, Subscription: c.Subscription, Conflation: c.Conflation, Wait: c.Wait,
		LeftMicros: uint64(max(time.Until(c.Deadline), 0).Microseconds()),
		AgoMicros:  uint64(max(time.Since(c.began), 0).Microseconds()),
	}
}
