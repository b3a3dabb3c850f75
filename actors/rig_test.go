package actors

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"queen/raftlog/command"
	"queen/store"
)

// memoryLog is a Log of one node that commits at once: one goroutine packs what waits into an entry, asks riders in, and
// applies it. It respects deadlines and clients that have gone as the real one does.
type memoryLog struct {
	broker *Broker
	queue  chan Proposal
	stop   chan struct{}
	done   chan struct{}
	// gate is held by a test that wants proposals to pile up.
	gate sync.Mutex
	// aheadMicros is how much the leader's time is ahead of the clock.
	aheadMicros atomic.Int64
	// packed is called with the commands of an entry before they are applied; nil does nothing.
	packed atomic.Pointer[func(*command.Entry)]

	index uint64
	now   uint64
	err   error

	mu sync.Mutex
	// kinds lists the commands of every entry, by their Go type.
	kinds [][]string
}

// memoryLogDepth bounds the proposals that wait, memoryLogBatch those of one entry.
const (
	memoryLogDepth = 4096
	memoryLogBatch = 256
)

func (l *memoryLog) Propose(p Proposal) error {
	select {
	case <-l.stop:
		return ErrStopping
	default:
	}
	select {
	case l.queue <- p:
		return nil
	default:
		return ErrOverloaded
	}
}

func (l *memoryLog) Now() uint64 { return uint64(time.Now().UnixMicro() + l.aheadMicros.Load()) }

// Settled implements Log.
func (l *memoryLog) Settled(command.RequestID) {}

func (l *memoryLog) Leads() bool { return true }

func (l *memoryLog) ReadIndex(context.Context) (uint64, error) { return l.Now(), nil }

func (l *memoryLog) CallLeader(context.Context, []byte) ([]byte, error) { return nil, ErrNoLeader }

// ahead moves the leader's time on.
func (l *memoryLog) ahead(d time.Duration) { l.aheadMicros.Add(d.Microseconds()) }

func (l *memoryLog) run() {
	defer close(l.done)
	for {
		select {
		case p := <-l.queue:
			l.gate.Lock()
			l.commit(p)
			l.gate.Unlock()
		case <-l.stop:
			for {
				select {
				case p := <-l.queue:
					dropped(&p, ErrStopping)
				default:
					return
				}
			}
		}
	}
}

func dropped(p *Proposal, reason error) {
	if p.Dropped != nil {
		p.Dropped(reason)
	}
}

// commit packs an entry of what waits, first comes first, and applies it.
func (l *memoryLog) commit(first Proposal) {
	var entry command.Entry
	admit := func(p *Proposal) bool {
		switch {
		case l.err != nil:
			dropped(p, l.err)
			return false
		case time.Now().After(p.Deadline):
			dropped(p, ErrDeadline)
			return false
		case p.Gone != nil && p.Gone():
			dropped(p, ErrGone)
			return false
		}
		entry.Items = append(entry.Items, p.Item)
		return true
	}
	for p, more := first, true; more; {
		if admit(&p) && p.Riders != nil {
			for _, rider := range p.Riders() {
				admit(&rider)
			}
		}
		select {
		case p = <-l.queue:
			more = len(entry.Items) < memoryLogBatch
			if !more {
				l.queue <- p // nobody else takes from the queue, so there is room
			}
		default:
			more = false
		}
	}
	if len(entry.Items) > 0 {
		l.apply(&entry)
	}
}

func (l *memoryLog) apply(entry *command.Entry) {
	if packed := l.packed.Load(); packed != nil {
		(*packed)(entry)
	}
	var kinds []string
	for i := range entry.Items {
		kinds = append(kinds, fmt.Sprintf("%T", entry.Items[i].Command))
	}
	l.mu.Lock()
	l.kinds = append(l.kinds, kinds)
	l.mu.Unlock()
	l.index++
	l.now = max(l.now, l.Now())
	entry.Header = command.Header{StampMicros: l.now, Seed: uuid.New(), Settings: command.Settings{TxidWindowMinSeconds: 900}}
	l.now += uint64(len(entry.Items))
	if l.err = l.broker.Apply(l.index, 1, command.EncodeEntry(entry)); l.err == nil {
		l.err = l.broker.Flush()
	}
}

// entries lists the commands of the entries so far.
func (l *memoryLog) entries() [][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([][]string(nil), l.kinds...)
}

// rig is a broker at work over a memoryLog.
type rig struct {
	*Broker
	t       testing.TB
	log     *memoryLog
	store   *store.Store
	stopped bool
}

// newBroker is a broker that is not started, over a store of its own.
func newBroker(t testing.TB, change ...func(*Config)) (*Broker, *store.Store) {
	t.Helper()
	s := openStore(t, t.TempDir())
	config := Config{
		Store: s, Log: zerolog.Nop(), TxidWindowMinSeconds: 900,
		Retention: RetentionConfig{Interval: time.Hour, BatchAppends: 1000, VisitPartitions: 10_000},
	}
	for _, f := range change {
		f(&config)
	}
	b, err := NewBroker(config)
	if err != nil {
		t.Fatal(err)
	}
	calm(b)
	return b, s
}

func newRig(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	b, s := newBroker(t, change...)
	r := &rig{Broker: b, t: t, store: s, log: &memoryLog{
		broker: b, queue: make(chan Proposal, memoryLogDepth), stop: make(chan struct{}), done: make(chan struct{}),
	}}
	go r.log.run()
	b.Start(r.log)
	t.Cleanup(r.close)
	return r
}

// close stops everything in the order of the process: parked pops, log, actors, store.
func (r *rig) close() {
	r.t.Helper()
	if r.stopped {
		return
	}
	r.stopped = true
	r.AnswerParked()
	close(r.log.stop)
	<-r.log.done
	r.Stop()
	if r.log.err != nil {
		r.t.Errorf("log: %v", r.log.err)
	}
	if err := r.store.Close(); err != nil {
		r.t.Errorf("close store: %v", err)
	}
}

func soon() Span { return Until(time.Now().Add(testDeadline)) }

// push stores messages with the given txids.
func (r *rig) push(queue, partition string, txids ...string) command.PushGroupResult {
	r.t.Helper()
	results, err := r.Push(command.DefaultTenant, []command.PushGroup{pushGroup(queue, partition, txids...)}, soon())
	if err != nil {
		r.t.Errorf("push to %s/%s: %v", queue, partition, err)
		return command.PushGroupResult{}
	}
	return results[0]
}

func pushGroup(queue, partition string, txids ...string) command.PushGroup {
	group := command.PushGroup{Queue: queue, Partition: partition, Count: uint32(len(txids))}
	for _, txid := range txids {
		group.Chunk = command.AppendMessage(group.Chunk, &command.Message{
			ID: uuid.Must(uuid.NewV7()), Txid: []byte(txid), Payload: []byte(`{"n":1}`),
		})
	}
	return group
}

// wildcard is a pop of a named group that reads everything; change adapts it.
func wildcard(queue string, change ...func(*PopRequest)) *PopRequest {
	r := &PopRequest{
		Tenant: command.DefaultTenant, Queue: queue, Group: "workers", Batch: 100, Partitions: 1, Deadline: soon().Deadline,
		Subscription: command.Subscription{Mode: command.SubscriptionAll},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func waiting(r *PopRequest) { r.Wait = true }

func pinnedTo(partition string) func(*PopRequest) {
	return func(r *PopRequest) { r.Pinned, r.Partition = true, partition }
}

func inTime(d time.Duration) func(*PopRequest) {
	return func(r *PopRequest) { r.Deadline = time.Now().Add(d) }
}

// pop runs a pop that must not fail.
func (r *rig) pop(p *PopRequest) *PopOutcome {
	r.t.Helper()
	outcome, err := r.Pop(p)
	if err != nil {
		r.t.Errorf("pop: %v", err)
		return &PopOutcome{}
	}
	return outcome
}

// popping is a pop that runs beside the test.
type popping struct {
	outcome *PopOutcome
	err     error
	took    time.Duration
	done    chan struct{}
}

func (r *rig) start(p *PopRequest) *popping {
	return started(func() (*PopOutcome, error) { return r.Pop(p) })
}

// startAgo is start for a pop that came to its node a while ago.
func (r *rig) startAgo(p *PopRequest, ago time.Duration) *popping {
	call := &popCall{PopRequest: p, b: r.Broker, began: time.Now().Add(-ago)}
	return started(func() (*PopOutcome, error) { return call.run(call.here, call.elsewhere) })
}

func started(pop func() (*PopOutcome, error)) *popping {
	began := time.Now()
	running := &popping{done: make(chan struct{})}
	go func() {
		defer close(running.done)
		running.outcome, running.err = pop()
		running.took = time.Since(began)
	}()
	return running
}

// wait returns what the pop got.
func (p *popping) wait(t testing.TB) *PopOutcome {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(testDeadline):
		t.Fatal("a pop did not return")
	}
	if p.err != nil {
		t.Fatalf("pop: %v", p.err)
	}
	return p.outcome
}

// running tells whether the pop has not returned.
func (p *popping) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// parkedIn waits until so many pops are parked in a group of a queue.
func (r *rig) parkedIn(queue, group string, count int64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d pops parked in %s/%s", count, queue, group), func() bool {
		actor := r.groupActor(queue, group)
		return actor != nil && actor.shared.waiters.Load() == count
	})
}

func (r *rig) groupActor(queue, group string) *groupActor {
	view := r.Directory().Queue(command.DefaultTenant, queue)
	if view == nil || view.Groups[group] == nil {
		return nil
	}
	return r.groups.find(view.ID, view.Groups[group].ID)
}

// ack settles all messages of an outcome whose txids are known.
func (r *rig) ack(o *PopOutcome, status command.AckStatus, txids ...string) []command.AckVerdict {
	r.t.Helper()
	part := command.AckPart{Partition: o.Batches[0].Partition, Lease: o.Lease}
	for _, txid := range txids {
		part.Items = append(part.Items, command.AckItem{Txid: txid, Status: status})
	}
	results, err := r.Ack(command.DefaultTenant, "workers", []command.AckPart{part}, soon())
	if err != nil {
		r.t.Fatalf("ack: %v", err)
	}
	return results[0].Items
}

// got tells how many messages an outcome has.
func got(o *PopOutcome) (count uint64) {
	for i := range o.Batches {
		count += o.Batches[i].LastOffset - o.Batches[i].FirstOffset + 1
	}
	return count
}
