package history

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// Options are the settings of a Recorder (cluster 1.13).
type Options struct {
	// Dir is the history directory; it is made when missing. Empty keeps the rows in memory only.
	Dir string
	// FlushEvery is METRICS_FLUSH_MS: the time one row covers.
	FlushEvery time.Duration
	// NodeKeep is QUEEN_DASH_NODE_RETENTION_H, QueueKeep is QUEEN_DASH_QUEUE_RETENTION_H.
	NodeKeep, QueueKeep time.Duration
	// MaxQueueRows is QUEEN_DASH_MAX_QUEUE_ROWS.
	MaxQueueRows int
	Log          zerolog.Logger
}

// maxNodeRows bounds the rows of the node, about 100 bytes each: two years of minutes, or twelve days of seconds.
const maxNodeRows = 1 << 20

// slotTime is how often the counters are drained; six slots make the minute of the gauges.
const slotTime = 10 * time.Second

// Recorder counts and keeps the rows. Its life: Open, Start, Close. Everything but these may be called from any goroutine.
type Recorder struct {
	options Options

	mu       sync.RWMutex
	counters map[Name]*counter
	slot     int
	began    time.Time // of the rows that are being counted

	nodes, queues *journal
	sample        func() NodeRow
	lateMicros    atomic.Uint64

	stop  chan struct{}
	group sync.WaitGroup
}

// Open reads the rows that an earlier run has left. It does not fail: what cannot be read is warned about and left out.
func Open(o Options) *Recorder {
	r := &Recorder{options: o, counters: map[Name]*counter{}, began: time.Now(), stop: make(chan struct{})}
	r.nodes = &journal{name: "nodes.log", keep: o.NodeKeep, maxRows: maxNodeRows, log: o.Log}
	r.queues = &journal{name: "queues.log", keep: o.QueueKeep, maxRows: max(o.MaxQueueRows, 1), log: o.Log}
	for _, j := range []*journal{r.nodes, r.queues} {
		if o.Dir != "" {
			j.open(filepath.Join(o.Dir, j.name))
		}
		j.evict(r.began)
	}
	return r
}

// Start begins to write rows. sample describes the node; it is called once per row, from one goroutine.
func (r *Recorder) Start(sample func() NodeRow) {
	r.sample = sample
	r.group.Add(2)
	go r.run()
	go r.measureLateness()
}

// Close writes what has been counted and stops. Counting goes on to be allowed and has no effect any more. A recorder that
// was never started is closed as well.
func (r *Recorder) Close() {
	close(r.stop)
	r.group.Wait()
	if r.sample != nil {
		r.flush(time.Now())
	}
	r.nodes.close()
	r.queues.close()
}

// run drains the counters slot by slot and writes rows at whole multiples of the interval, so that a row lies in one bucket.
func (r *Recorder) run() {
	defer r.group.Done()
	flush := time.NewTimer(untilNext(time.Now(), r.options.FlushEvery))
	defer flush.Stop()
	slot := time.NewTicker(slotTime)
	defer slot.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-slot.C:
			r.turn()
		case <-flush.C:
			r.flush(time.Now())
			flush.Reset(untilNext(time.Now(), r.options.FlushEvery))
		}
	}
}

func untilNext(now time.Time, interval time.Duration) time.Duration {
	return now.Truncate(interval).Add(interval).Sub(now)
}

// turn ends the running slot and drops counters that have nothing to tell any more.
func (r *Recorder) turn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := (r.slot + 1) % recentSlots
	for name, c := range r.counters {
		c.drain(r.slot)
		c.recent[next] = Tally{}
		if c.idle() {
			delete(r.counters, name)
		}
	}
	r.slot = next
}

// flush makes rows of what was counted since the last ones.
func (r *Recorder) flush(now time.Time) {
	span := Span{StartMs: r.began.UnixMilli(), EndMs: now.UnixMilli()}
	if span.EndMs <= span.StartMs {
		return // the clock was set back, or nothing has passed: the counts go into the next row
	}
	rows := r.take(now)
	node := r.sample()
	r.nodes.append(now, frameOf(span, [][]byte{node.append(nil)}))
	if len(rows) > 0 {
		r.queues.append(now, queueFrame(span, rows, r.options.MaxQueueRows))
	}
}

// take moves everything counted so far into rows.
func (r *Recorder) take(now time.Time) []QueueRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]QueueRow, 0, len(r.counters))
	for name, c := range r.counters {
		c.drain(r.slot)
		parked := uint64(max(c.parked.Load(), 0))
		if parked == 0 && c.pending.empty() {
			continue
		}
		rows = append(rows, QueueRow{Name: name, Tally: c.pending, Parked: parked})
		c.pending = Tally{}
	}
	r.began = now
	return rows
}

// enter finds the counter of a queue and returns it with the read lock held.
func (r *Recorder) enter(tenant uuid.UUID, queue string) *counter {
	name := Name{tenant, queue}
	for {
		r.mu.RLock()
		if c := r.counters[name]; c != nil {
			return c
		}
		r.mu.RUnlock()
		r.mu.Lock()
		if r.counters[name] == nil {
			r.counters[name] = &counter{}
		}
		r.mu.Unlock()
	}
}

// Pushed counts one push request with some messages for a queue.
func (r *Recorder) Pushed(tenant uuid.UUID, queue string, messages uint64) {
	c := r.enter(tenant, queue)
	c.add(PushRequests, 1)
	c.add(PushMessages, messages)
	r.mu.RUnlock()
}

// Delivery is what one pop got from a queue.
type Delivery struct {
	Messages, Conflated uint64
	// LagMicros is the sum of the ages at delivery, LagMaxMicros the greatest of them.
	LagMicros, LagMaxMicros uint64
}

// Popped counts one pop of a queue; a delivery without messages counts as empty. Only queues that exist may be named.
func (r *Recorder) Popped(tenant uuid.UUID, queue string, d Delivery) {
	c := r.enter(tenant, queue)
	c.add(PopRequests, 1)
	if d.Messages == 0 {
		c.add(PopEmpty, 1)
	} else {
		c.add(PopMessages, d.Messages)
		c.add(LagMicros, d.LagMicros)
		c.add(Conflated, d.Conflated)
		c.raiseLag(d.LagMaxMicros)
	}
	r.mu.RUnlock()
}

// Acked counts one ack request with the outcomes of its items for a queue.
func (r *Recorder) Acked(tenant uuid.UUID, queue string, success, failed uint64) {
	c := r.enter(tenant, queue)
	c.add(AckRequests, 1)
	c.add(AckSuccess, success)
	c.add(AckFailed, failed)
	r.mu.RUnlock()
}

// Transacted counts one committed transaction with what it pushed to and acked in a queue.
func (r *Recorder) Transacted(tenant uuid.UUID, queue string, pushed, acked uint64) {
	c := r.enter(tenant, queue)
	c.add(Transactions, 1)
	c.add(PushMessages, pushed)
	c.add(AckSuccess, acked)
	r.mu.RUnlock()
}

// Changed adds to the counters that come from what is applied here: partitions made and deleted, retention.
func (r *Recorder) Changed(tenant uuid.UUID, queue string, count Count, n uint64) {
	c := r.enter(tenant, queue)
	c.add(count, n)
	r.mu.RUnlock()
}

// Retained counts messages that retention removed in one step from a queue.
func (r *Recorder) Retained(tenant uuid.UUID, queue string, messages uint64) {
	c := r.enter(tenant, queue)
	c.add(RetentionMessages, messages)
	c.add(RetentionEvents, 1)
	r.mu.RUnlock()
}

// Park counts a pop that begins to wait for a queue, or with -1 one that has ended.
func (r *Recorder) Park(tenant uuid.UUID, queue string, delta int64) {
	c := r.enter(tenant, queue)
	c.parked.Add(delta)
	r.mu.RUnlock()
}

// Recent is a queue in the minute before now.
type Recent struct {
	Name
	Tally
	Parked int64
}

// LastMinute lists the queues that had something in the last minute, or have pops that wait.
func (r *Recorder) LastMinute() []Recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Recent, 0, len(r.counters))
	for name, c := range r.counters {
		c.drain(r.slot)
		list = append(list, Recent{Name: name, Tally: c.lastMinute(), Parked: c.parked.Load()})
	}
	return list
}
