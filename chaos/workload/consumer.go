package workload

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"time"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
)

const (
	popWaitMs    = 1000
	popBatch     = 60
	popPartition = 3
	// retryAfter is the pause of a client after a call that was cut off.
	retryAfter = 300 * time.Millisecond
	// lateBy is how long after the end of a lease a late ack is sent: longer than the hold for leases of an earlier term.
	lateBy = time.Second
)

// consumer pops and settles until its context ends.
type consumer struct {
	load   *Load
	via    *route
	name   string
	queue  Queue
	group  string
	random *rand.Rand
	pushed int // tokens minted for transactions
}

// batch is what one pop gave of one partition.
type batch struct {
	leaseID  string
	messages []ledger.Delivery
	ids      map[ledger.Partition]string // partition ids on the wire, of the whole pop
}

func (c *consumer) run(ctx context.Context) {
	for c.load.gate.Pass(ctx) {
		query := fmt.Sprintf("wait=true&timeout=%d&batch=%d&partitions=%d", popWaitMs, 1+c.random.IntN(popBatch), 1+c.random.IntN(popPartition))
		popping, leave := ctx, context.CancelFunc(func() {})
		if c.random.IntN(100) < c.load.plan.LeavePct { // a client that leaves in the middle
			popping, leave = context.WithTimeout(ctx, time.Duration(c.random.IntN(popWaitMs/2))*time.Millisecond)
		}
		batches, outcome, _ := c.load.pop(popping, c.via, c.queue, c.group, query)
		leave()
		if outcome != ledger.Done && !pause(ctx, retryAfter) {
			return
		}
		if len(batches) > 1 && c.random.IntN(3) == 0 {
			c.completeTogether(ctx, batches)
			continue
		}
		for _, one := range batches {
			c.settle(ctx, one)
		}
	}
}

// settle deals with one batch in one of the ways a client may. The shares make sure that each way happens hundreds of
// times in a campaign while most messages are consumed in peace.
func (c *consumer) settle(ctx context.Context, b batch) {
	c.via.stray(c.random)
	n := len(b.messages)
	at := c.random.IntN(n)
	chance := c.random.IntN(100)
	if c.queue.Target != "" && c.random.IntN(100) < c.queue.BundledPct {
		c.settleInTransaction(ctx, b)
		return
	}
	switch {
	case chance < 55:
		c.ack(ctx, b, all("completed", n))
	case chance < 65: // in two steps
		if at > 0 {
			c.ack(ctx, b, all("completed", n)[:at])
		}
		c.ack(ctx, b, append(make([]string, at), all("completed", n)[at:]...))
	case chance < 70: // only the last: the others count as done
		c.ack(ctx, b, append(make([]string, n-1), "completed"))
	case chance < 75: // up to a failure, as an each-mode loop does
		c.ack(ctx, b, append(all("completed", at), "failed"))
	case chance < 78: // a failure with nothing below it settled
		c.ack(ctx, b, append(make([]string, at), "failed"))
	case chance < 83:
		c.ack(ctx, b, all("failed", n))
	case chance < 87:
		c.ack(ctx, b, append(all("completed", at), "retry"))
	case chance < 90:
		c.ack(ctx, b, append(all("completed", at), "dlq"))
	case chance < 93: // dlq in the middle, the rest completed
		statuses := all("completed", n)
		statuses[at] = "dlq"
		c.ack(ctx, b, statuses)
	case chance < 94:
		c.extendAndComplete(ctx, b)
	case chance < 97: // under a lease that nobody holds
		foreign := b
		foreign.leaseID = "00000000-0000-7000-8000-000000000000"
		c.ack(ctx, foreign, all("completed", n))
		c.ack(ctx, b, all("completed", n))
	case chance < 98: // too late: the lease has run out
		if pause(ctx, c.queue.Lease+lateBy) {
			c.ack(ctx, b, all("completed", n))
		}
	default: // not at all
	}
}

// all is one status n times.
func all(status string, n int) []string {
	statuses := make([]string, n)
	for i := range statuses {
		statuses[i] = status
	}
	return statuses
}

// completeTogether settles batches of several partitions in one call.
func (c *consumer) completeTogether(ctx context.Context, batches []batch) {
	joined := batches[0]
	joined.messages = nil
	for _, one := range batches {
		joined.messages = append(joined.messages, one.messages...)
	}
	c.ack(ctx, joined, all("completed", len(joined.messages)))
}

// extendAndComplete holds the batch past the end of its first lease.
func (c *consumer) extendAndComplete(ctx context.Context, b batch) {
	if c.load.extend(c.via, c.group, b, c.queue.Lease+time.Second) && !pause(ctx, c.queue.Lease+lateBy/2) {
		return
	}
	c.ack(ctx, b, all("completed", len(b.messages)))
}

// settleInTransaction completes a part of the batch and pushes to another queue in the same step.
func (c *consumer) settleInTransaction(ctx context.Context, b batch) {
	n := 1 + c.random.IntN(len(b.messages))
	target := c.load.plan.queue(c.queue.Target)
	statuses := all("completed", n)
	if c.random.IntN(10) == 0 {
		statuses[n-1] = "failed"
	}
	pushes := make([]ledger.PushItem, 1+c.random.IntN(3))
	outcome := ledger.Unknown
	for tries := 0; outcome == ledger.Unknown && tries <= resendLimit; tries++ {
		for i := range pushes {
			c.pushed++
			pushes[i] = ledger.PushItem{
				Partition: target.partition(i % target.Partitions), Token: fmt.Sprintf("%s-t%d", c.name, c.pushed), Offset: -1,
				TransactionID: fmt.Sprintf("%s-%s-%d", c.group, b.messages[0].TransactionID, i),
			}
		}
		if tries > 0 && !pause(ctx, retryAfter) || !c.load.gate.Pass(ctx) {
			return
		}
		outcome = c.load.transaction(c.via, c.group, b, statuses, append([]ledger.PushItem(nil), pushes...))
	}
}

// ack sends statuses for the first messages of a batch, "" leaving one out, and repeats the call while its outcome is
// unknown; now and then it gives up.
func (c *consumer) ack(ctx context.Context, b batch, statuses []string) {
	outcome := ledger.Unknown
	for tries := 0; outcome == ledger.Unknown && tries <= resendLimit; tries++ {
		if tries > 0 && (c.random.IntN(10) < 2 || !pause(ctx, retryAfter)) || !c.load.gate.Pass(ctx) {
			return
		}
		outcome = c.load.ack(c.via, c.group, b, statuses)
	}
}

// pop sends one booked pop and splits what it got by partition.
func (l *Load) pop(ctx context.Context, via *route, queue Queue, group, query string) ([]batch, ledger.Outcome, harness.Response) {
	if group != QueueMode {
		query += "&consumerGroup=" + url.QueryEscape(group)
	}
	closeCall := l.history.Pop(queue.Name, group, queue.Lease)
	reply := via.client().PopContext(ctx, queue.Name, query)
	outcome := ledger.Classify(reply.Status, reply.Err)
	if ctx.Err() == nil {
		via.learn(outcome)
	}
	var (
		messages []ledger.Delivery
		batches  []batch
		ids      = map[ledger.Partition]string{} // shared: an ack may name messages of all partitions of the pop
	)
	for _, message := range reply.Messages {
		delivery := ledger.Delivery{
			Partition: ledger.Partition{Queue: queue.Name, Name: message.Partition}, Offset: message.Offset,
			TransactionID: message.TransactionID, MessageID: message.ID,
			Token: tokenOf(message.Data, l.plan.PayloadMax), Attempt: message.DeliveryAttempt,
		}
		messages = append(messages, delivery)
		ids[delivery.Partition] = message.PartitionID
		if len(batches) == 0 || batches[len(batches)-1].messages[0].Partition != delivery.Partition {
			batches = append(batches, batch{leaseID: reply.LeaseID, ids: ids})
		}
		last := &batches[len(batches)-1]
		last.messages = append(last.messages, delivery)
	}
	closeCall(outcome, reply.LeaseID, messages)
	return batches, outcome, reply.Response
}

// ack sends one booked ack.
func (l *Load) ack(via *route, group string, b batch, statuses []string) ledger.Outcome {
	items := ackItems(b, statuses)
	closeCall := l.history.Ack(group, b.leaseID, items)
	wire := make([]harness.AckItem, len(items))
	for i, item := range items {
		wire[i] = harness.AckItem{
			TransactionID: item.TransactionID, PartitionID: b.ids[item.Partition], Status: item.Status, LeaseID: b.leaseID,
		}
	}
	reply := via.client().AckBatch(wireGroup(group), wire...)
	outcome := ledger.Classify(reply.Status, reply.Err)
	via.learn(outcome)
	if outcome == ledger.Done {
		items = append([]ledger.AckItem(nil), items...)
		for i := range min(len(items), len(reply.Items)) {
			verdict := reply.Items[i]
			items[i].Verdict = ledger.Verdict{
				Success: verdict.Success, Released: verdict.LeaseReleased, DeadLettered: verdict.DLQ, NoOp: verdict.Noop,
			}
			if verdict.Error != nil {
				items[i].Verdict.Error = *verdict.Error
			}
		}
	}
	closeCall(outcome, items)
	return outcome
}

// ackItems pairs the messages of a batch with statuses; "" leaves a message out.
func ackItems(b batch, statuses []string) []ledger.AckItem {
	items := make([]ledger.AckItem, 0, len(statuses))
	for i, status := range statuses {
		if status == "" {
			continue
		}
		message := b.messages[i]
		items = append(items, ledger.AckItem{
			Partition: message.Partition, Offset: message.Offset, TransactionID: message.TransactionID, Status: status,
		})
	}
	return items
}

// extend sends one booked extension and reports whether it was granted.
func (l *Load) extend(via *route, group string, b batch, by time.Duration) bool {
	partitions := slices.SortedFunc(maps.Keys(b.ids), func(x, y ledger.Partition) int { return cmp.Compare(x.Name, y.Name) })
	closeCall := l.history.Extend(ledger.Extend{Group: group, LeaseID: b.leaseID, By: by, Partitions: partitions})
	reply := via.client().Extend(b.leaseID, map[string]any{"seconds": int(by / time.Second)})
	outcome := ledger.Classify(reply.Status, reply.Err)
	via.learn(outcome)
	closeCall(outcome, reply.Renewed)
	return outcome == ledger.Done && reply.Success
}

// transaction sends one booked transaction of pushes and, when there is a batch, of acks.
func (l *Load) transaction(via *route, group string, b batch, statuses []string, pushes []ledger.PushItem) ledger.Outcome {
	call := ledger.Transaction{Group: group, LeaseID: b.leaseID, Acks: ackItems(b, statuses), Pushes: pushes}
	closeCall := l.history.Transaction(call)
	var operations []any
	for _, ack := range call.Acks {
		operations = append(operations, map[string]any{
			"type": "ack", "transactionId": ack.TransactionID, "partitionId": b.ids[ack.Partition], "status": ack.Status,
			"leaseId": b.leaseID, "consumerGroup": group,
		})
	}
	operations = append(operations, map[string]any{"type": "push", "items": l.wire(pushes)})
	body := map[string]any{"operations": operations}
	if b.leaseID != "" {
		body["requiredLeases"] = []string{b.leaseID}
	}
	reply := via.client().Transaction(body)
	outcome := ledger.Classify(reply.Status, reply.Err)
	via.learn(outcome)
	if outcome == ledger.Done {
		if !reply.Success {
			outcome = ledger.NotDone
		}
		call.Reason = reply.Reason
		call.Acks = append([]ledger.AckItem(nil), call.Acks...)
		for i := range call.Acks {
			if i < len(reply.Results) {
				call.Acks[i].Verdict = ledger.Verdict{Success: reply.Results[i].Success, DeadLettered: reply.Results[i].DLQ}
			}
		}
	}
	closeCall(outcome, call)
	return outcome
}

// wireGroup is the group as requests name it.
func wireGroup(group string) string {
	if group == QueueMode {
		return ""
	}
	return group
}
