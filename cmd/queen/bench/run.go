package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// run is everything that the clients of one run share.
type run struct {
	options      Options
	id           string // begins every transaction id, so that runs do not meet in the dedup window
	seed         uint64
	clock        clock
	lanes        laneMap
	queues       []string
	quotedQueues [][]byte // as JSON strings
	quotedGroup  []byte
	pad          []byte
	ledger       *ledger // nil when nothing is consumed
	tally        tally
	claims       atomic.Uint64
	prefillLeft  atomic.Int64

	// The measured window, in microseconds since the start. It opens after prefill and warm-up.
	windowFirstUs atomic.Int64
	windowEndUs   atomic.Int64

	pushLatency, popLatency, ackLatency, deliveryLatency, startLag *latencies

	abort context.CancelCauseFunc // ends the run with a reason
}

// queueModeGroup is how an ack names reading without a group (messaging 6.1).
const queueModeGroup = "__QUEUE_MODE__"

func newRun(options Options) (*run, error) {
	// The id must differ between runs that start in the same instant, hence random and not a clock.
	id := strconv.FormatUint(rand.Uint64N(1<<40), identityBase)
	r := &run{
		options: options, id: id, seed: rand.Uint64(), clock: clock{start: time.Now()}, lanes: newLaneMap(options),
		queues: options.queueNames(id), pad: makePad(options.SizeBytes),
		pushLatency: newLatencies(options.Clients), popLatency: newLatencies(options.Consumers),
		ackLatency: newLatencies(options.Consumers), deliveryLatency: newLatencies(options.Consumers),
		startLag: newLatencies(options.Clients),
	}
	for _, name := range r.queues {
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, fmt.Errorf("quote queue name %q: %w", name, err)
		}
		r.quotedQueues = append(r.quotedQueues, quoted)
	}
	group := options.Group
	if group == "" {
		group = queueModeGroup
	}
	quoted, err := json.Marshal(group)
	if err != nil {
		return nil, fmt.Errorf("quote group name %q: %w", group, err)
	}
	r.quotedGroup = quoted
	if options.Mode != ModePush {
		r.ledger = newLedger(r.lanes.count(), options)
	}
	r.windowFirstUs.Store(math.MaxInt64)
	r.windowEndUs.Store(math.MaxInt64)
	return r, nil
}

// measures tells whether something that began at an instant belongs to the measured window.
func (r *run) measures(atUs int64) bool {
	return atUs >= r.windowFirstUs.Load() && atUs < r.windowEndUs.Load()
}

// Run executes a benchmark and returns what it measured. Progress goes to progress, one line a second. The error says why a
// run could not be made or was ended early; a run that found wrong deliveries returns a Result that Failed.
func Run(ctx context.Context, options Options, progress io.Writer) (Result, error) {
	if err := options.Validate(); err != nil {
		return Result{}, err
	}
	r, err := newRun(options)
	if err != nil {
		return Result{}, err
	}
	// settle outlives the load: it covers the calls whose outcome is still open when the load ends.
	settle, abort := context.WithCancelCause(ctx)
	r.abort = abort
	defer abort(nil)

	crew, err := newCrew(r)
	if err != nil {
		return Result{}, err
	}
	defer crew.close()
	stopProgress := r.startProgress(progress)
	defer stopProgress()

	if err := crew.prefill(settle); err != nil {
		return Result{}, err
	}
	measured, err := crew.work(settle)
	if err != nil {
		return Result{}, err
	}
	stopProgress()
	return r.result(measured), nil
}

// crew is the clients of a run and the goroutines they run on.
type crew struct {
	run       *run
	producers []*producer
	consumers []*consumer
	meter     meter
	prefilled int64
}

func newCrew(r *run) (*crew, error) {
	observer, err := newConnection(r.options)
	if err != nil {
		return nil, err
	}
	c := &crew{run: r, meter: meter{pids: r.options.PIDs, server: observer}}
	if r.options.Mode != ModePop || r.options.Prefill > 0 {
		for number := range r.options.Clients {
			producer, err := newProducer(r, number)
			if err != nil {
				return nil, err
			}
			c.producers = append(c.producers, producer)
		}
	}
	if r.options.Mode != ModePush {
		for number := range r.options.Consumers {
			consumer, err := newConsumer(r, number)
			if err != nil {
				return nil, err
			}
			c.consumers = append(c.consumers, consumer)
		}
	}
	return c, nil
}

func (c *crew) close() {
	c.meter.server.close()
	for _, producer := range c.producers {
		producer.connection.close()
	}
	for _, consumer := range c.consumers {
		consumer.connection.close()
	}
}

// reason returns why a run ended early, or nil.
func reason(settle context.Context) error {
	if settle.Err() == nil {
		return nil
	}
	return context.Cause(settle)
}

func (c *crew) prefill(settle context.Context) error {
	if c.run.options.Prefill == 0 {
		return nil
	}
	c.run.prefillLeft.Store(c.run.options.Prefill)
	var group sync.WaitGroup
	for _, producer := range c.producers {
		group.Go(func() { producer.prefill(settle) })
	}
	group.Wait()
	c.prefilled = c.run.tally.pushed.Load()
	return reason(settle)
}

// reading is the state of a run at one instant.
type reading struct {
	counts
	usage
}

func (c *crew) read(ctx context.Context) (reading, error) {
	used, err := c.meter.read(ctx)
	return reading{counts: c.run.tally.read(c.run.clock.nowUs()), usage: used}, err
}

// measurement is what a run was like at its turning points.
type measurement struct {
	loadStart   reading // before the warm-up
	windowFirst reading
	windowEnd   reading
	drained     reading // when everything pushed was consumed, or the run gave up
	unstarted   int64   // open loop: requests that were due in the window and never began
}

// phase is the life of one kind of client: load ends when no new work shall begin, settle when also the work that is open is
// given up.
type phase struct {
	load, settle context.Context
	endLoad, cut context.CancelFunc
	patience     time.Duration
}

func newPhase(parent context.Context, options Options) *phase {
	p := &phase{patience: options.DrainTimeout}
	if options.Mode == ModePush {
		p.patience = 0 // nobody asks later whether a last push was stored
	}
	p.settle, p.cut = context.WithCancel(parent)
	p.load, p.endLoad = context.WithCancel(p.settle)
	return p
}

// stop ends the load now, and what is still open when patience runs out.
func (p *phase) stop() {
	p.endLoad()
	if p.patience == 0 {
		p.cut()
		return
	}
	timer := time.AfterFunc(p.patience, p.cut)
	context.AfterFunc(p.settle, func() { timer.Stop() })
}

// work runs the load and, in mixed mode, what comes after it.
func (c *crew) work(settle context.Context) (measurement, error) {
	var m measurement
	var err error
	if m.loadStart, err = c.read(settle); err != nil {
		return m, err
	}
	var consuming, producing sync.WaitGroup
	consume := newPhase(settle, c.run.options)
	produce := newPhase(settle, c.run.options)
	for _, consumer := range c.consumers {
		consuming.Go(func() { consumer.loop(consume.load, consume.settle) })
	}
	pace := c.startProducers(produce, &producing)
	// Whatever happens, no goroutine outlives the run.
	defer func() {
		produce.cut()
		consume.cut()
		producing.Wait()
		consuming.Wait()
	}()

	if m.windowFirst, m.windowEnd, err = c.window(settle); err != nil {
		return m, err
	}
	produce.stop()
	producing.Wait()
	if pace != nil {
		pace.neverStarted(m.windowEnd.atUs, func(dueUs int64) {
			if c.run.measures(dueUs) {
				m.unstarted++
				c.run.pushLatency.record(0, m.windowEnd.atUs-dueUs)
			}
		})
	}
	if c.run.options.Mode == ModeMixed {
		c.drain(settle)
	}
	if m.drained, err = c.read(settle); err != nil {
		return m, err
	}
	consume.stop()
	consuming.Wait()
	if c.run.options.Mode == ModeMixed {
		if err := c.sweep(settle); err != nil {
			return m, err
		}
	}
	return m, reason(settle)
}

// startProducers starts the producers of a run that pushes while it is measured, and the pacer of an open loop.
func (c *crew) startProducers(produce *phase, producing *sync.WaitGroup) *pacer {
	r := c.run
	if r.options.Mode == ModePop {
		return nil
	}
	if r.options.Rate == 0 {
		for _, producer := range c.producers {
			producing.Go(func() { producer.closedLoop(produce.load, produce.settle) })
		}
		return nil
	}
	pace := startPacer(produce.load, r.clock, r.clock.nowUs(), r.options.Rate/float64(r.options.Batch))
	for _, producer := range c.producers {
		producing.Go(func() { producer.openLoop(produce.load, produce.settle, pace.tickets) })
	}
	return pace
}

// window waits for the warm-up, opens the measured window, and closes it after its time or, in a pop run, when the prefilled
// messages are used up.
func (c *crew) window(settle context.Context) (first, end reading, err error) {
	r := c.run
	if !wait(settle, r.options.Warmup, nil) {
		return first, end, reason(settle)
	}
	if first, err = c.read(settle); err != nil {
		return first, end, err
	}
	r.windowFirstUs.Store(first.atUs)
	usedUp := func() bool {
		return r.options.Mode == ModePop && c.prefilled > 0 && r.ledger.acked.Load() >= c.prefilled
	}
	if !wait(settle, r.options.Duration, usedUp) {
		return first, end, reason(settle)
	}
	if end, err = c.read(settle); err != nil {
		return first, end, err
	}
	r.windowEndUs.Store(end.atUs)
	return first, end, nil
}

// pollEvery is how often conditions without a signal are looked at.
const pollEvery = 5 * time.Millisecond

// wait returns true after a span or as soon as done says so, and false when ctx ends first.
func wait(ctx context.Context, span time.Duration, done func() bool) bool {
	over := time.NewTimer(span)
	defer over.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-over.C:
			return true
		case <-ctx.Done():
			return false
		case <-poll.C:
			if done != nil && done() {
				return true
			}
		}
	}
}

// drain waits until every message that was certainly pushed is acked, or nothing has moved for the drain timeout.
func (c *crew) drain(settle context.Context) {
	r := c.run
	last, lastUs := int64(-1), r.clock.nowUs()
	wait(settle, maxDuration, func() bool {
		certain, now := r.certainlyAcked(), r.clock.nowUs()
		if certain != last {
			last, lastUs = certain, now
		}
		return certain >= r.tally.pushed.Load() || now-lastUs > r.options.DrainTimeout.Microseconds()
	})
}

// certainlyAcked counts the acked messages whose push had a known outcome.
func (r *run) certainlyAcked() int64 {
	acked := r.ledger.acked.Load()
	r.tally.mutex.Lock()
	defer r.tally.mutex.Unlock()
	for _, id := range r.tally.uncertain {
		if r.ledger.hasAck(id) {
			acked--
		}
	}
	return acked
}

// maxSweepPops bounds the last look at each queue.
const maxSweepPops = 1000

// sweep pops every queue once more: a broker that holds more than was pushed shows it here.
func (c *crew) sweep(settle context.Context) error {
	sweeper, err := newConsumer(c.run, 0)
	if err != nil {
		return err
	}
	defer sweeper.connection.close()
	sweeper.pops = nil
	for queue := range c.run.queues {
		sweeper.addQueue(queue)
	}
	sweeper.sweep(settle, maxSweepPops)
	return nil
}
