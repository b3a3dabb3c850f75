package bench

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"
)

// consumer is one popping and acking client. Its methods run on one goroutine.
type consumer struct {
	run        *run
	number     int
	connection *connection
	pops       []queuePop // of the queues that this consumer reads
	ack        *fasthttp.Request
	ackBody    []byte
	claim      claim      // of the last pop
	popped     []identity // of the last pop, in the order of the acks
	mine       []bool     // whether popped[i] is a message of this run
}

// queuePop holds the prepared pops of one queue.
type queuePop struct {
	queue   int
	waiting *fasthttp.Request
	instant *fasthttp.Request
}

const (
	// maxSharedPopWait is the long poll of a consumer that has other queues to look at.
	maxSharedPopWait = 20 * time.Millisecond
	// popSlack is how much longer than its wait a pop may take (messaging 2.13).
	popSlack = 5 * time.Second
)

func newConsumer(r *run, number int) (*consumer, error) {
	connection, err := newConnection(r.options)
	if err != nil {
		return nil, err
	}
	c := &consumer{run: r, number: number, connection: connection, ack: connection.newRequest(fasthttp.MethodPost, "/api/v1/ack/batch")}
	for queue := number % len(r.queues); queue < len(r.queues); queue += r.options.Consumers {
		c.addQueue(queue)
	}
	return c, nil
}

// addQueue prepares the pops of a queue.
func (c *consumer) addQueue(queue int) {
	options := c.run.options
	wait := options.PopWait
	if len(c.run.queues) > options.Consumers {
		wait = min(wait, maxSharedPopWait)
	}
	path := fmt.Sprintf("/api/v1/pop/queue/%s?batch=%d&partitions=%d&leaseSeconds=%d&timeout=%d",
		url.PathEscape(c.run.queues[queue]), options.Batch, options.claimedPartitions(), options.LeaseSeconds, wait.Milliseconds())
	if options.Group != "" {
		// The mode of the first pop decides what the group sees; without it a late registration would miss messages.
		path += "&subscriptionMode=all&consumerGroup=" + url.QueryEscape(options.Group)
	}
	if options.AutoAck {
		path += "&commitOnDelivery=true"
	}
	c.pops = append(c.pops, queuePop{
		queue:   queue,
		waiting: c.connection.newRequest(fasthttp.MethodGet, path+"&wait=true"),
		instant: c.connection.newRequest(fasthttp.MethodGet, path+"&wait=false"),
	})
}

// loop consumes until load ends; settle ends when even running acks are given up.
func (c *consumer) loop(load, settle context.Context) {
	emptyInRow := 0
	for turn := 0; load.Err() == nil; turn++ {
		pop := c.pops[turn%len(c.pops)]
		request := pop.instant
		if emptyInRow >= len(c.pops) || len(c.pops) == 1 {
			request = pop.waiting
		}
		if c.consume(load, settle, pop.queue, request) > 0 {
			emptyInRow = 0
		} else {
			emptyInRow++
		}
	}
}

// sweep looks for messages that should not be there any more, once, until every queue is empty or the limit is reached.
func (c *consumer) sweep(settle context.Context, maxPops int) {
	for _, pop := range c.pops {
		for range maxPops {
			if settle.Err() != nil || c.consume(settle, settle, pop.queue, pop.instant) == 0 {
				break
			}
		}
	}
}

// consume pops once and acks what came. It returns the number of messages.
func (c *consumer) consume(load, settle context.Context, queue int, request *fasthttp.Request) int {
	r := c.run
	c.claim = claim{number: r.claims.Add(1), sentUs: r.clock.nowUs()}
	status, answer, failure := c.connection.call(request, nil, r.options.PopWait+popSlack, fasthttp.StatusOK, fasthttp.StatusNoContent)
	now := r.clock.nowUs()
	if failure != nil {
		r.tally.fail("pop: " + failure.kind())
		if failure.final() {
			r.abort(fmt.Errorf("pop from %s: %w", r.options.Server, failure))
		}
		failure.pause(load, 1)
		return 0
	}
	r.tally.popCalls.Add(1)
	messages := 0
	if status == fasthttp.StatusOK {
		messages = c.take(answer, queue, now)
	}
	if messages == 0 {
		r.tally.emptyPops.Add(1)
		return 0
	}
	r.tally.popped.Add(int64(messages))
	if r.measures(c.claim.sentUs) {
		r.popLatency.record(c.number, now-c.claim.sentUs)
	}
	if r.options.AutoAck {
		c.settleAll()
		return messages
	}
	c.acknowledge(settle)
	return messages
}

// take enters a pop answer into the ledger and builds the ack for it.
func (c *consumer) take(answer []byte, queue int, nowUs int64) int {
	r := c.run
	c.popped, c.mine = c.popped[:0], c.mine[:0]
	c.ackBody = append(c.ackBody[:0], `{"consumerGroup":`...)
	c.ackBody = append(c.ackBody, r.quotedGroup...)
	c.ackBody = append(c.ackBody, `,"acknowledgments":[`...)
	together := deliveryRun{recorder: r.deliveryLatency, client: c.number, nowUs: nowUs}
	readable := scanPop(answer, func(message *delivery) {
		id, mine := parseTransactionID(message.transactionID, r.id)
		mine = mine && r.ledger != nil && r.ledger.deliver(id, c.claim, nowUs)
		if mine {
			c.check(message, id, queue)
			if r.measures(id.scheduledUs) {
				together.add(id.scheduledUs)
			}
		} else if r.ledger != nil {
			r.ledger.foreign.Add(1)
		}
		if len(c.popped) > 0 {
			c.ackBody = append(c.ackBody, ',')
		}
		c.popped, c.mine = append(c.popped, id), append(c.mine, mine)
		c.ackBody = append(c.ackBody, `{"transactionId":"`...)
		c.ackBody = append(c.ackBody, message.transactionID...) // still escaped as it came
		c.ackBody = append(c.ackBody, `","partitionId":"`...)
		c.ackBody = append(c.ackBody, message.partitionID...)
		c.ackBody = append(c.ackBody, `","status":"completed","leaseId":"`...)
		c.ackBody = append(c.ackBody, message.leaseID...)
		c.ackBody = append(c.ackBody, `"}`...)
	})
	c.ackBody = append(c.ackBody, "]}"...)
	together.flush()
	if !readable {
		r.abort(fmt.Errorf("read pop answer: got %.200s", answer))
	}
	return len(c.popped)
}

// check compares a delivered message with what was pushed.
func (c *consumer) check(message *delivery, id identity, queue int) {
	r := c.run
	partition := r.lanes.partition(id.lane)
	var name [24]byte
	if r.lanes.queue(partition) != queue || string(message.partition) != string(r.lanes.appendPartitionName(name[:0], partition)) {
		r.ledger.misplaced.Add(1)
	}
	if !carriesMarker(message.payload, id, r.options.SizeBytes) {
		r.ledger.altered.Add(1)
	}
}

// acknowledge acks the last pop, again and again until the outcome is known or settle ends. Repeating an ack is safe
// (messaging 6.4).
func (c *consumer) acknowledge(settle context.Context) {
	r := c.run
	sentUs := r.clock.nowUs()
	for attempt := 1; ; attempt++ {
		_, answer, failure := c.connection.call(c.ack, c.ackBody, r.options.CallTimeout, fasthttp.StatusOK)
		if failure == nil {
			if r.measures(sentUs) {
				r.ackLatency.record(c.number, r.clock.nowUs()-sentUs)
			}
			c.account(answer)
			return
		}
		r.tally.fail("ack: " + failure.kind())
		if failure.final() {
			r.abort(fmt.Errorf("ack to %s: %w", r.options.Server, failure))
		}
		if settle.Err() == nil {
			failure.pause(settle, attempt)
		}
		if settle.Err() != nil {
			return
		}
	}
}

// account enters the verdicts of an ack answer.
func (c *consumer) account(answer []byte) {
	r := c.run
	r.tally.ackCalls.Add(1)
	if allAcked(answer, len(c.popped)) {
		c.settleAll()
		return
	}
	readable := scanAck(answer, len(c.popped), func(item int, success bool, reason []byte) {
		if success {
			r.tally.acked.Add(1)
		} else {
			r.tally.fail("ack item: " + string(reason))
		}
		if c.mine[item] {
			r.ledger.settle(c.popped[item], c.claim.number, success)
		}
	})
	if !readable {
		r.abort(fmt.Errorf("read ack answer: want one verdict for each of %d items, got %.200s", len(c.popped), answer))
	}
}

// settleAll enters a success for every message of the last pop.
func (c *consumer) settleAll() {
	r := c.run
	for i, id := range c.popped {
		if c.mine[i] {
			r.ledger.settle(id, c.claim.number, true)
		}
	}
	r.tally.acked.Add(int64(len(c.popped)))
}

// deliveryRun gathers neighbours that were pushed together, so that a batch costs one entry in the histogram.
type deliveryRun struct {
	recorder    *latencies
	client      int
	nowUs       int64
	scheduledUs int64
	count       int64
}

func (d *deliveryRun) add(scheduledUs int64) {
	if scheduledUs != d.scheduledUs {
		d.flush()
		d.scheduledUs = scheduledUs
	}
	d.count++
}

func (d *deliveryRun) flush() {
	if d.count > 0 {
		d.recorder.recordMany(d.client, d.nowUs-d.scheduledUs, d.count)
	}
	d.count = 0
}
