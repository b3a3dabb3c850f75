package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/valyala/fasthttp"
)

// producer is one pushing client. Its methods run on one goroutine.
type producer struct {
	run        *run
	number     int
	connection *connection
	request    *fasthttp.Request
	picker     lanePicker
	next       []uint32 // the next number of each of its lanes
	template   itemTemplate
	body       []byte
	batch      []identity // of the body
}

func newProducer(r *run, number int) (*producer, error) {
	connection, err := newConnection(r.options)
	if err != nil {
		return nil, err
	}
	return &producer{
		run: r, number: number, connection: connection,
		request: connection.newRequest(fasthttp.MethodPost, "/api/v1/push"),
		picker: lanePicker{
			lanes: r.lanes, producer: number, random: rand.New(rand.NewPCG(r.seed, uint64(number))),
		},
		next: make([]uint32, r.lanes.perProducer),
	}, nil
}

// prefill pushes until all producers together have pushed what the run wants before it begins.
func (p *producer) prefill(ctx context.Context) {
	for ctx.Err() == nil && p.run.prefillLeft.Add(-int64(p.run.options.Batch)) > -int64(p.run.options.Batch) {
		p.push(ctx, p.run.clock.nowUs())
	}
}

// closedLoop pushes one batch after the other until load ends.
func (p *producer) closedLoop(load, settle context.Context) {
	for load.Err() == nil {
		p.push(settle, p.run.clock.nowUs())
	}
}

// openLoop pushes a batch for every ticket until load ends.
func (p *producer) openLoop(load, settle context.Context, tickets <-chan int64) {
	for load.Err() == nil {
		select {
		case due, open := <-tickets:
			if !open {
				return
			}
			if p.run.measures(due) {
				p.run.startLag.record(p.number, p.run.clock.nowUs()-due)
			}
			p.push(settle, due)
		case <-load.Done():
		}
	}
}

// push sends one batch, again and again until its outcome is known or settle ends.
func (p *producer) push(settle context.Context, scheduledUs int64) {
	r := p.run
	p.compose(scheduledUs)
	unknown := false
	for attempt := 1; ; attempt++ {
		_, answer, failure := p.connection.call(p.request, p.body, r.options.CallTimeout, fasthttp.StatusCreated)
		if failure == nil {
			now := r.clock.nowUs()
			p.account(answer, unknown)
			if r.measures(scheduledUs) {
				r.pushLatency.record(p.number, now-scheduledUs)
			}
			return
		}
		r.tally.fail("push: " + failure.kind())
		unknown = unknown || failure.unknown
		if failure.final() {
			r.abort(fmt.Errorf("push to %s: %w", r.options.Server, failure))
		}
		if settle.Err() == nil {
			failure.pause(settle, attempt)
		}
		if settle.Err() != nil {
			if unknown {
				r.tally.addUncertain(p.batch)
			}
			return
		}
	}
}

// compose builds the body of the next batch.
func (p *producer) compose(scheduledUs int64) {
	body := append(p.body[:0], `{"items":[`...)
	p.batch = p.batch[:0]
	i := p.picker.any()
	for m := range p.run.options.Batch {
		if m > 0 {
			body = append(body, ',')
		}
		if m > 0 && p.run.options.Spread {
			i = p.picker.next(i)
		}
		id := identity{lane: p.run.lanes.lane(p.number, i), sequence: p.next[i], scheduledUs: scheduledUs}
		if m == 0 || p.run.options.Spread {
			p.template.prepare(p.run, id)
		}
		p.next[i]++
		p.batch = append(p.batch, id)
		body = p.template.appendItem(body, p.run, id.sequence)
	}
	p.body = append(body, "]}"...)
}

// itemTemplate holds the parts of an item that all messages of one lane and one batch share: everything but the number.
type itemTemplate struct {
	beforeTransactionNumber []byte
	beforePayloadNumber     []byte
	payloadPrefixBytes      int // of the payload, up to its number
}

func (t *itemTemplate) prepare(r *run, id identity) {
	partition := r.lanes.partition(id.lane)
	head := append(t.beforeTransactionNumber[:0], `{"queue":`...)
	head = append(head, r.quotedQueues[r.lanes.queue(partition)]...)
	head = append(head, `,"partition":"`...)
	head = r.lanes.appendPartitionName(head, partition)
	head = append(head, `","transactionId":"`...)
	t.beforeTransactionNumber = appendTransactionPrefix(head, r.id, id)

	middle := appendTransactionSuffix(t.beforePayloadNumber[:0], id)
	middle = append(middle, `","payload":`...)
	payloadStart := len(middle)
	middle = append(middle, payloadHead...)
	middle = strconv.AppendUint(middle, uint64(id.lane), identityBase)
	t.beforePayloadNumber = append(middle, '.')
	t.payloadPrefixBytes = len(t.beforePayloadNumber) - payloadStart
}

// appendItem appends one item whose payload has exactly the size that the run wants.
func (t *itemTemplate) appendItem(dst []byte, r *run, sequence uint32) []byte {
	dst = append(dst, t.beforeTransactionNumber...)
	dst = strconv.AppendUint(dst, uint64(sequence), identityBase)
	dst = append(dst, t.beforePayloadNumber...)
	payloadStart := len(dst) - t.payloadPrefixBytes
	dst = strconv.AppendUint(dst, uint64(sequence), identityBase)
	dst = append(dst, '.')
	dst = append(dst, r.pad[:r.options.SizeBytes-(len(dst)-payloadStart)-len(payloadTail)]...)
	dst = append(dst, payloadTail...)
	return append(dst, '}')
}

// account counts what the broker said about the batch. repeated is set when an earlier attempt may have stored it.
func (p *producer) account(answer []byte, repeated bool) {
	r := p.run
	r.tally.pushCalls.Add(1)
	if allQueued(answer, len(p.batch)) {
		r.tally.pushed.Add(int64(len(p.batch)))
		return
	}
	readable := scanPush(answer, len(p.batch), func(item int, status pushedStatus, reason []byte) {
		switch {
		case status == statusQueued, status == statusDuplicate && repeated:
			r.tally.pushed.Add(1)
			return
		case status == statusDuplicate:
			r.tally.falseRepeats.Add(1)
		default:
			r.tally.itemErrors.Add(1)
			r.tally.fail("push item: " + string(reason))
		}
		if r.ledger != nil {
			r.ledger.exclude(p.batch[item])
		}
	})
	if !readable {
		r.abort(fmt.Errorf("read push answer: want one status for each of %s items, got %.200s", strconv.Itoa(len(p.batch)), answer))
	}
}
