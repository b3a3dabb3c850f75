package soak

import (
	"context"
	"math/rand/v2"
	"time"

	"queen/chaos/contract/harness"
)

const (
	// lanesPerPush is over how many partitions one push spreads.
	lanesPerPush = 4
	// repeatOneIn is how many pushes there are to one that repeats a message already acknowledged.
	repeatOneIn = 20
	// retryAfter is the pause after a call that was cut off.
	retryAfter = 100 * time.Millisecond
	// answeredWithin bounds how long a call is repeated: longer than a restart and any deadline, and shorter than the broker
	// remembers what it stored.
	answeredWithin = memorySeconds * time.Second * 5 / 6
	// repeatWithin is how long after its answer a message is repeated: on a busy machine a partition may wait longer for its
	// next push than the broker remembers.
	repeatWithin = memorySeconds * time.Second / 4
)

// producer owns some lanes and pushes to them in turn.
type producer struct {
	soak   *soak
	lanes  []*lane
	aging  []*lane
	random *rand.Rand
}

// run pushes at its share of the rate until the context ends. The schedule does not wait for answers that are late:
// latency counts from the instant at which a push was due.
func (p *producer) run(ctx context.Context) {
	interval := time.Second * time.Duration(p.soak.options.BatchMessages*producers) / time.Duration(p.soak.options.MessagesPerSecond)
	due := time.Now().Add(time.Duration(p.random.Int64N(int64(interval))))
	for pause(ctx, time.Until(due)) {
		p.push(p.choose(), due)
		due = due.Add(interval)
		if behind := time.Since(due); behind > time.Second { // after an outage the rate goes on, it does not catch up
			due = time.Now()
		}
	}
}

func (p *producer) choose() []*lane {
	from := p.lanes
	if p.random.IntN(agedOneIn) == 0 {
		from = p.aging
	}
	chosen := make([]*lane, 0, lanesPerPush)
	for _, i := range p.random.Perm(len(from))[:min(lanesPerPush, len(from))] {
		chosen = append(chosen, from[i])
	}
	return chosen
}

// push sends the next messages of the lanes and repeats the call until it is answered, also when the load is to end: a
// message of unknown fate would make every later offset of its lane unknown.
func (p *producer) push(lanes []*lane, due time.Time) {
	var (
		items   []harness.Item
		owners  []*lane
		numbers []int64
	)
	add := func(l *lane, n int64) {
		items = append(items, harness.Item{
			Queue: l.queue, Partition: l.name, TransactionID: l.txid(n), Payload: l.payload(n, p.soak.options.PayloadBytes),
		})
		owners, numbers = append(owners, l), append(numbers, n)
	}
	each := max(p.soak.options.BatchMessages/len(lanes), 1)
	for _, l := range lanes {
		for i := range each {
			add(l, l.pushed.Load()+int64(i))
		}
	}
	before := lanes[0].pushed.Load()
	if before > 0 && time.Since(lanes[0].answered) < repeatWithin && p.random.IntN(repeatOneIn) == 0 {
		add(lanes[0], before-1)
	}
	give := time.Now().Add(answeredWithin)
	for tries := 0; time.Now().Before(give); tries++ {
		reply := p.soak.client.Push(items...)
		if reply.Err == nil && reply.Status == 201 && len(reply.Items) == len(items) {
			p.judge(reply.Items, owners, numbers, tries > 0)
			if tries == 0 {
				p.soak.latency.add(time.Since(due))
			}
			for _, l := range lanes {
				l.pushed.Add(int64(each))
				l.answered = time.Now()
			}
			return
		}
		if reply.Err == nil && reply.Status < 500 {
			p.soak.failures.add("push to %v: %v", lanes[0], reply.Response)
			return
		}
		p.soak.cutOff.Add(1)
		pause(context.Background(), retryAfter)
	}
	p.soak.failures.add("push to %v: no answer within %v", lanes[0], answeredWithin)
}

// judge compares the verdicts with what each message must get. A push that was cut off may have been stored.
func (p *producer) judge(verdicts []harness.Pushed, owners []*lane, numbers []int64, again bool) {
	for i, verdict := range verdicts {
		l, n := owners[i], numbers[i]
		repeat := n < l.pushed.Load()
		rightStatus := verdict.Status == "queued" && !repeat || verdict.Status == "duplicate" && (repeat || again)
		if !rightStatus || verdict.Offset == nil || *verdict.Offset != n {
			p.soak.failures.add("%v message %d (repeat %t, again %t) was answered %+v", l, n, repeat, again, verdict)
		}
	}
}

// pause waits; false means that the context ended first.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
