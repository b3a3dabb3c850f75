package workload

import (
	"context"
	"fmt"
	"math/rand/v2"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
)

const (
	// remembered is how many of its messages a producer can repeat later.
	remembered = 200
	// resendLimit bounds how often one call is sent again after unknown outcomes.
	resendLimit = 5
)

// producer pushes until its context ends.
type producer struct {
	load     *Load
	via      *route
	name     string
	random   *rand.Rand
	messages int // minted so far
	attempts int // tokens minted so far
	sent     []ledger.PushItem
}

func (p *producer) run(ctx context.Context) {
	for pause(ctx, p.load.plan.PushEvery) {
		if !p.load.gate.Pass(ctx) {
			return
		}
		p.via.stray(p.random)
		if p.random.IntN(100) < p.load.plan.BundledPct {
			// It is not sent again: its txids would be taken for duplicates one by one.
			p.load.transaction(p.via, "", batch{}, nil, p.bundle())
			continue
		}
		items := p.batch()
		outcome := p.load.push(p.via, items)
		// A client resends what was cut off, under the same txids; some give up. The attempt has tokens of its own.
		for resends := 0; outcome == ledger.Unknown && resends < resendLimit && p.random.IntN(10) < 8; resends++ {
			if !pause(ctx, retryAfter) || !p.load.gate.Pass(ctx) {
				return
			}
			outcome = p.load.push(p.via, p.again(items))
		}
	}
}

// pushed lists the queues that producers push to.
func (p Plan) pushed() []Queue {
	queues := make([]Queue, 0, len(p.Queues))
	for _, queue := range p.Queues {
		if queue.Pushed {
			queues = append(queues, queue)
		}
	}
	return queues
}

// bundle makes new messages for several partitions, which are to be stored together.
func (p *producer) bundle() []ledger.PushItem {
	queues := p.load.plan.pushed()
	items := make([]ledger.PushItem, 2+p.random.IntN(3))
	for i := range items {
		queue := queues[p.random.IntN(len(queues))]
		items[i] = p.fresh(queue)
	}
	return items
}

// fresh makes a message with a txid that nobody has used.
func (p *producer) fresh(queue Queue) ledger.PushItem {
	item := ledger.PushItem{
		Partition: queue.partition(p.random.IntN(queue.Partitions)), Token: p.token(), Offset: -1,
		TransactionID: fmt.Sprintf("%s-m%d", p.name, p.messages),
	}
	p.messages++
	return item
}

// batch makes the items of one call.
func (p *producer) batch() []ledger.PushItem {
	queues := p.load.plan.pushed()
	queue := queues[p.random.IntN(len(queues))]
	items := make([]ledger.PushItem, 0, p.load.plan.BatchMax)
	for range 1 + p.random.IntN(p.load.plan.BatchMax) {
		switch chance := p.random.IntN(100); {
		case chance < p.load.plan.RepeatPct && len(p.sent) > 0: // repeat an older message, wherever it was
			items = append(items, p.again(p.sent[p.random.IntN(len(p.sent)):][:1])...)
			continue
		case chance < p.load.plan.RepeatPct+3 && len(items) > 0: // repeat a message of this call
			items = append(items, p.again(items[p.random.IntN(len(items)):][:1])...)
			continue
		case chance < p.load.plan.RepeatPct+6: // another queue in the same call
			queue = queues[p.random.IntN(len(queues))]
		}
		item := p.fresh(queue)
		if p.random.IntN(100) < 92 {
			p.remember(item)
		} else {
			item.TransactionID = "" // the broker mints one
		}
		items = append(items, item)
	}
	return items
}

// again copies items under tokens of their own. One without a txid is a new message, of course.
func (p *producer) again(items []ledger.PushItem) []ledger.PushItem {
	copies := make([]ledger.PushItem, len(items))
	for i, item := range items {
		copies[i] = ledger.PushItem{Partition: item.Partition, TransactionID: item.TransactionID, Token: p.token(), Offset: -1}
	}
	return copies
}

func (p *producer) token() string {
	p.attempts++
	return fmt.Sprintf("%s-t%d", p.name, p.attempts)
}

func (p *producer) remember(item ledger.PushItem) {
	if len(p.sent) < remembered {
		p.sent = append(p.sent, item)
		return
	}
	p.sent[p.random.IntN(remembered)] = item
}

// push sends one booked call.
func (l *Load) push(via *route, items []ledger.PushItem) ledger.Outcome {
	_, outcome := l.pushThrough(via.client(), items)
	via.learn(outcome)
	return outcome
}

func (l *Load) pushThrough(client *harness.Client, items []ledger.PushItem) (harness.PushReply, ledger.Outcome) {
	closeCall := l.history.Push(items)
	reply := client.Push(l.wire(items)...)
	outcome := ledger.Classify(reply.Status, reply.Err)
	if outcome != ledger.Done {
		closeCall(outcome, items)
		return reply, outcome
	}
	answered := make([]ledger.PushItem, len(items))
	for i, item := range items {
		answered[i] = item
		if i >= len(reply.Items) { // the checker finds a verdict that is no verdict
			continue
		}
		verdict := reply.Items[i]
		answered[i].Status, answered[i].MessageID, answered[i].Offset = verdict.Status, verdict.MessageID, -1
		if verdict.Offset != nil {
			answered[i].Offset = *verdict.Offset
		}
	}
	closeCall(outcome, answered)
	return reply, outcome
}

func (l *Load) wire(items []ledger.PushItem) []harness.Item {
	wire := make([]harness.Item, len(items))
	for i, item := range items {
		wire[i] = harness.Item{
			Queue: item.Partition.Queue, Partition: item.Partition.Name, TransactionID: item.TransactionID,
			Payload: newPayload(item.Token, l.plan.PayloadMax),
		}
	}
	return wire
}
