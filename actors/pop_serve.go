package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/raftlog/command"
)

// guestsMax bounds the pops of other nodes that wait here, like the connections of a node bound its own.
const guestsMax = 256 << 10

// guestMost bounds the durations that another node may name: no pop lasts so long (messaging 2.9).
const guestMost = 10 * time.Minute

// popPartitionsMax is how many partitions a pop may claim (messaging 5.2).
const popPartitionsMax = 64

// ServeCall serves a call of another node's CallLeader, on the leader. ctx ends when the caller waits no more. An error means
// that the request cannot be read, or that this node has not started; that it does not lead is an answer.
func (b *Broker) ServeCall(ctx context.Context, request []byte) ([]byte, error) {
	if !b.started.Load() {
		return nil, fmt.Errorf("%w: this node starts", ErrRetry)
	}
	call, err := command.DecodePopCall(request)
	if err != nil {
		return nil, fmt.Errorf("serve call of another node: %w", err)
	}
	answer := b.serve(ctx, &call)
	return command.AppendPopAnswer(nil, &answer), nil
}

// serve runs a pop of another node up to its claim.
func (b *Broker) serve(ctx context.Context, call *command.PopCall) command.PopAnswer {
	defer b.guests.Add(-1)
	if b.guests.Add(1) > guestsMax {
		return command.PopAnswer{Verdict: command.PopOverloaded}
	}
	now := time.Now()
	r := &DiscoverRequest{
		PopRequest: PopRequest{
			Tenant: call.Tenant, Queue: call.Queue, Group: call.Group, Pinned: call.Pinned, Partition: call.Partition,
			Batch: call.Batch, Partitions: int(min(call.Partitions, popPartitionsMax)),
			AutoBatch: call.AutoBatch, AutoPartitions: call.AutoPartitions, LeaseMs: call.LeaseMs,
			CommitOnDelivery: call.CommitOnDelivery, Subscription: call.Subscription, Conflation: call.Conflation,
			Wait: call.Wait, Deadline: now.Add(guestDuration(call.LeftMicros)),
			Gone: ctx.Done(), IsGone: func() bool { return ctx.Err() != nil },
		},
		Namespace: call.Namespace, HasNamespace: call.HasNamespace, Task: call.Task, HasTask: call.HasTask,
	}
	c := &popCall{
		PopRequest: &r.PopRequest, b: b, began: now.Add(-guestDuration(call.AgoMicros)), serves: call.For,
		tried: call.Tried, asked: call.Again,
	}
	if call.Discovery {
		d := &discoverCall{popCall: c, r: r}
		return c.answer(c.run(d.here, d.elsewhere))
	}
	return c.answer(c.run(c.here, c.elsewhere))
}

func guestDuration(micros uint64) time.Duration {
	return time.Duration(min(micros, uint64(guestMost.Microseconds()))) * time.Microsecond
}

// answer says what became of a pop of another node.
func (c *popCall) answer(outcome *PopOutcome, err error) command.PopAnswer {
	nothing := command.PopAnswer{
		Verdict: command.PopNothing, Registered: c.registered, Conflation: c.conflation, Doubtful: c.doubtful,
	}
	var refusal *command.Refusal
	switch {
	case err == nil && len(outcome.Batches) > 0:
		return command.PopAnswer{Verdict: command.PopTaken}
	case err == nil, errors.Is(err, ErrDeadline):
		return nothing
	case errors.As(err, &refusal):
		return command.PopAnswer{Verdict: command.PopRefused, Code: refusal.Code, Text: refusal.Text}
	case errors.Is(err, ErrOverloaded):
		return command.PopAnswer{Verdict: command.PopOverloaded}
	default:
		return command.PopAnswer{Verdict: command.PopAgain, Tried: c.tried, Doubtful: c.doubtful}
	}
}
