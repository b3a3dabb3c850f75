package soak

import (
	"context"
	"fmt"
	"time"

	"queen/chaos/contract/harness"
)

const (
	popBatch = 1000
	// idleFor is the pause of a consumer after a round over its lanes that found nothing.
	idleFor = 50 * time.Millisecond
)

// consumer reads its lanes in turn, by pinned pops, so that the cold ones stay untouched.
type consumer struct {
	soak  *soak
	lanes []*lane
}

// run consumes until the context ends.
func (c *consumer) run(ctx context.Context) {
	for ctx.Err() == nil {
		found := false
		for _, l := range c.lanes {
			if ctx.Err() != nil {
				return
			}
			for c.consume(ctx, l) { // until it finds less than a batch
				found = true
			}
		}
		if !found && !pause(ctx, idleFor) {
			return
		}
	}
}

// drain consumes what is left.
func (c *consumer) drain(ctx context.Context) {
	for _, l := range c.lanes {
		for l.consumed.Load() < l.pushed.Load() {
			if !c.consume(ctx, l) && !pause(ctx, idleFor) {
				c.soak.failures.add("%v was not drained: %d of %d", l, l.consumed.Load(), l.pushed.Load())
				return
			}
		}
	}
}

// consume takes one batch of a lane and acks it; false when there was none.
func (c *consumer) consume(ctx context.Context, l *lane) bool {
	query := fmt.Sprintf("batch=%d&consumerGroup=%s&subscriptionMode=all", popBatch, reader)
	reply := c.soak.client.PopPartitionContext(ctx, l.queue, l.name, query)
	switch {
	case reply.Err != nil || reply.Status >= 500:
		if ctx.Err() == nil {
			c.soak.cutOff.Add(1)
			pause(ctx, retryAfter)
		}
		return false
	case reply.Status == 204:
		return false
	case reply.Status != 200:
		c.soak.failures.add("pop of %v: %v", l, reply.Response)
		return false
	}
	next := l.consumed.Load()
	for i, message := range reply.Messages {
		n := next + int64(i)
		if message.Offset != n || message.TransactionID != l.txid(n) || !l.holds(message.Data, n, c.soak.options.PayloadBytes) {
			c.soak.failures.add("%v: message %d is due, delivered was offset %d, txid %s, attempt %d", l, n, message.Offset, message.TransactionID, message.DeliveryAttempt)
			return false
		}
	}
	return c.ack(l, reply.Messages)
}

// ack completes the last message, which completes the batch, and repeats the call until it is answered.
func (c *consumer) ack(l *lane, messages []harness.Message) bool {
	last := messages[len(messages)-1]
	for give := time.Now().Add(answeredWithin); time.Now().Before(give); {
		reply := c.soak.client.Ack(reader, last.Ack("completed"))
		if reply.Err == nil && reply.Status == 200 && len(reply.Items) == 1 {
			verdict := reply.Items[0]
			if !verdict.Success {
				// Only a lease that ran out while the broker was away; the batch comes back.
				c.soak.lateAcks.Add(1)
				return false
			}
			l.consumed.Store(last.Offset + 1)
			c.soak.consumed.Add(int64(len(messages)))
			return true
		}
		if reply.Err == nil && reply.Status < 500 {
			c.soak.failures.add("ack in %v: %v", l, reply.Response)
			return false
		}
		c.soak.cutOff.Add(1)
		pause(context.Background(), retryAfter)
	}
	c.soak.failures.add("ack in %v: no answer within %v", l, answeredWithin)
	return false
}
