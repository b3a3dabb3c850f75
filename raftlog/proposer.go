package raftlog

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"queen/raftlog/command"
)

// sweepInterval is how often commands that wait for a leader are looked through for passed deadlines, and for a leader
// elsewhere.
const sweepInterval = 100 * time.Millisecond

// logAppender is what the proposer needs of the library.
type logAppender interface {
	ApplyLog(log raft.Log, timeout time.Duration) raft.ApplyFuture
}

// proposer packs waiting commands into entries and proposes them while this node leads: group commit without a timer. It
// counts on no future of the library, since some are never resolved when it shuts down. An entry of it is settled when the
// state machine has applied it, or when the term ends: then its commands go back to the front of the queue and are proposed
// again, under the same request ids, when this node leads again.
type proposer struct {
	options *Options
	raft    logAppender
	time    *leaderTime
	logger  zerolog.Logger
	// stampEnd returns the smallest stamp that is greater than every stamp in the log.
	stampEnd func() uint64
	// leaderElsewhere says whether another node is known to lead.
	leaderElsewhere func() bool
	// toLeader makes the uplink look at what waits; nil in a group without a network, where another leader is nobody's to ask.
	toLeader func()
	// holdMs is how long leases of earlier terms are held past their expiry (cluster 10). It must not block.
	holdMs func() uint32
	// outside says whether this node is no member of the group any more. It must not block.
	outside func() bool
	// logSettled says whether everything in the log is committed and applied.
	logSettled func() bool

	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex
	queue queue
	// sent holds the commands that were sent to the leader and are not known to be applied. Together with the queue it holds
	// CommandQueueDepth commands at most.
	sent map[command.RequestID]pending
	// sentCount is len(sent), for a look without the lock.
	sentCount atomic.Int64
	// term is the term in which this node leads; 0 while it does not.
	term uint64
	// number is that of the last entry proposed in the term. Number 1 is TermStart, alone; nothing follows it before it
	// is applied.
	number uint64
	// appended is the number of the last entry that this node has appended to its own log in the term.
	appended uint64
	// ready says that TermStart is applied.
	ready bool
	// held keeps everything in the queue while leadership is handed over.
	held bool
	// flight holds the entries that are proposed and not applied, oldest first; PipelineEntries at most.
	flight []flight
	// flying is the number of commands in flight.
	flying int
	// slowLogged is the monotonic instant of the last line about a slow command; the apply goroutine's own.
	slowLogged time.Duration
	// excluded is what outside said at the last sweep.
	excluded bool
	// refused is why no command is let in any more; closed is why what is in is not proposed any more.
	refused, closed error
	// idle is closed when nothing waits and nothing is in flight; nil when nobody waits for that.
	idle chan struct{}
	// lastProposed is the monotonic instant of the last entry.
	lastProposed time.Duration
	// changed is closed and replaced when term, ready, excluded or closed change.
	changed chan struct{}

	// floor is the smallest stamp that the next entry may have; only the proposer goroutine uses it.
	floor uint64
}

func newProposer(o *Options, time *leaderTime, logger zerolog.Logger) *proposer {
	return &proposer{
		options: o, time: time, logger: logger,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		changed: make(chan struct{}), sent: map[command.RequestID]pending{},
		holdMs: func() uint32 { return uint32(o.MaxClockSkewMs) }, outside: o.outside,
	}
}

// propose takes a command in. It never blocks; any goroutine may call it.
func (p *proposer) propose(c *Proposal) error {
	item, err := p.options.prepare(c)
	if err != nil {
		return err
	}
	p.mu.Lock()
	switch {
	case p.refused != nil:
		err = p.refused
	case p.strandedLocked():
		err = ErrNoLeader
	case p.term == 0 && p.toLeader == nil && p.leaderElsewhere():
		err = ErrNotLeader
	default:
		err = p.pushLocked(item)
	}
	room, forward := p.room(), p.term == 0 && p.toLeader != nil
	p.mu.Unlock()
	switch {
	case err != nil:
	case room:
		p.signal()
	case forward:
		p.toLeader()
	}
	return err
}

// proposeForeign takes in a command that another node has sent because this one leads.
func (p *proposer) proposeForeign(c *Proposal, release func()) error {
	item, err := p.options.prepare(c)
	if err != nil {
		return err
	}
	item.foreign, item.release = true, release
	p.mu.Lock()
	switch {
	case p.refused != nil:
		err = p.refused
	case p.term == 0:
		err = ErrNotLeader
	default:
		err = p.pushLocked(item)
	}
	room := p.room()
	p.mu.Unlock()
	if err == nil && room {
		p.signal()
	}
	return err
}

// pushLocked puts a command at the end of the queue, if there is room.
func (p *proposer) pushLocked(item pending) error {
	if p.queue.len()+len(p.sent) >= p.options.CommandQueueDepth {
		return ErrQueueFull
	}
	p.queue.push(item)
	return nil
}

func (p *proposer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// worthPipelining is how many times the commands in flight must wait before they get an entry of their own beside them.
const worthPipelining = 2

// room says whether an entry may be proposed now. The caller holds the lock.
//
// With nothing in flight anything may go. Beside others only a full batch may, or one that is large against what is in
// flight: entries cost more than commands, and whoever waits for the next entry gets a large one. This node's own append is
// serial, so what is not full waits until the append before it is done, and a full batch stands behind one append at most.
func (p *proposer) room() bool {
	if !p.ready || p.held || len(p.flight) >= p.options.PipelineEntries {
		return false
	}
	unappended := p.number - p.appended
	switch {
	case len(p.flight) == 0:
		return true
	case p.queue.len() >= p.options.BatchMaxCommands || p.queue.bytes >= p.options.BatchMaxBytes:
		return unappended < 2
	}
	return unappended == 0 && p.queue.len() >= worthPipelining*p.flying
}

// changedLocked wakes those who wait for a change of leadership.
func (p *proposer) changedLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// close makes the proposer drop what it has, and propose refuse.
func (p *proposer) close(reason error) {
	p.mu.Lock()
	if p.refused == nil {
		p.refused = reason
	}
	if p.closed == nil {
		p.closed = reason
		p.changedLocked()
	}
	p.mu.Unlock()
	p.signal()
}

// leadership returns the term in which this node leads, whether TermStart is applied, a channel that is closed at the
// next change, and why the proposer is closed, if it is.
func (p *proposer) leadership() (term uint64, ready bool, changed <-chan struct{}, closed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.term, p.ready, p.changed, p.closed
}

// depth returns the commands that wait and the entries in flight.
func (p *proposer) depth() (waiting, inFlight int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.len(), len(p.flight)
}

func (p *proposer) run() {
	defer close(p.done)
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		select {
		case <-p.stop:
			p.dropAll()
			return
		case <-p.wake:
		case <-sweep.C:
			p.sweep()
		}
		for p.step() {
		}
	}
}

// step proposes at most one entry and says whether there may be another one to propose at once.
func (p *proposer) step() bool {
	p.mu.Lock()
	if p.closed != nil {
		p.mu.Unlock()
		p.dropAll()
		return false
	}
	if p.term > 0 && p.number == 0 {
		p.startTermLocked()
		return false
	}
	if p.term == 0 {
		foreign := p.queue.takeForeign()
		p.mu.Unlock()
		for i := range foreign {
			foreign[i].drop(ErrNotLeader)
		}
		return false
	}
	if !p.room() || p.queue.len() == 0 {
		p.mu.Unlock()
		return false
	}
	term := p.term
	taken := p.queue.takeBatch(nil, p.options)
	p.mu.Unlock()
	p.options.fault("batcher.drained")

	packed, left := p.pack(taken)
	p.mu.Lock()
	p.queue.pushFront(left)
	if len(packed.items) == 0 {
		p.mu.Unlock()
		return true
	}
	if p.term != term || p.closed != nil {
		// The term ended while the lock was free. Nothing of this was proposed.
		p.queue.pushFront(packed.items)
		p.mu.Unlock()
		return true
	}
	p.sendLocked(packed)
	return true
}

// pack drops what is not to be proposed and lets riders in.
func (p *proposer) pack(taken []pending) (packed *batch, left []pending) {
	now := p.options.Clock.Monotonic()
	packed = &batch{items: make([]pending, 0, len(taken))}
	for i := range taken {
		if len(left) > 0 || !packed.fits(&taken[i], p.options) {
			left = append(left, taken[i])
			continue
		}
		left = packed.admit(taken[i], now, p.options)
	}
	return packed, left
}

// sendLocked proposes the batch as the next entry of the term. It releases the lock before it encodes.
func (p *proposer) sendLocked(b *batch) {
	p.number++
	term, number := p.term, p.number
	p.flight = append(p.flight, flight{number: number, items: b.items})
	p.flying += len(b.items)
	p.lastProposed = p.options.Clock.Monotonic()
	now := p.lastProposed
	p.mu.Unlock()

	header := command.Header{
		StampMicros: max(p.time.micros(), p.floor, p.stampEnd()),
		Settings:    p.options.Settings,
	}
	p.floor = header.StampMicros + uint64(len(b.items))
	rand.Read(header.Seed[:]) //nolint:errcheck // crypto/rand.Read never fails, it ends the process instead
	data := b.encode(&header)
	p.options.fault("planner.planned")
	b.observe(p.options.observer(), now, len(data))
	// The future is not looked at. When the library refuses the entry, the term is over, or a later entry of the term shows
	// that this one was passed over.
	p.raft.ApplyLog(raft.Log{Data: data, Extensions: appendExtensions(nil, term, number)}, 0)
	p.options.fault("propose.sent")
}

// startTermLocked proposes the first entry of the term.
func (p *proposer) startTermLocked() {
	p.sendLocked(internalBatch(command.TermStart{
		Node: p.options.NodeID, HoldMs: p.holdMs()}))
}

// internalBatch is a batch of one command that no request waits for: its request id is zero.
func internalBatch(c command.Command) *batch {
	b := &batch{}
	b.add(pending{encoded: command.AppendItem(nil, &command.Item{Command: c})})
	return b
}

// strandedLocked tells that no leader will ever take what is here.
func (p *proposer) strandedLocked() bool { return p.term == 0 && p.outside() }

// stranded is strandedLocked for those who wait for changed.
func (p *proposer) stranded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.strandedLocked()
}

// sweep drops what waits in vain, and shows with a tick that an idle group still commits.
func (p *proposer) sweep() {
	now := p.options.Clock.Monotonic()
	p.mu.Lock()
	p.restartLocked(now)
	if outside := p.outside(); p.excluded != outside {
		p.excluded = outside
		p.changedLocked()
	}
	dropped, reason := p.queue.takeExpired(now), ErrDeadline
	dropped = append(dropped, p.takeSentLocked(func(item *pending) bool { return item.deadline > 0 && now >= item.deadline })...)
	if p.term == 0 && p.toLeader == nil && p.queue.len() > 0 && p.leaderElsewhere() {
		dropped, reason = append(dropped, p.queue.takeAll()...), ErrNotLeader
	}
	if p.strandedLocked() {
		dropped = append(dropped, p.takeSentLocked(func(*pending) bool { return true })...)
		dropped, reason = append(dropped, p.queue.takeAll()...), ErrNoLeader
	}
	idle := p.options.IdleTickMs > 0 && p.closed == nil && p.ready && !p.held && len(p.flight) == 0 && p.queue.len() == 0 &&
		now-p.lastProposed >= time.Duration(p.options.IdleTickMs)*time.Millisecond
	if idle {
		p.sendLocked(internalBatch(command.Tick{}))
	} else {
		p.mu.Unlock()
	}
	for i := range dropped {
		dropped[i].drop(reason)
	}
}

// dropAll drops everything, because nothing is proposed any more.
func (p *proposer) dropAll() {
	p.mu.Lock()
	p.requeueLocked()
	p.queue.pushFront(p.takeSentLocked(func(*pending) bool { return true }))
	dropped, reason := p.queue.takeAll(), p.closed
	p.idleLocked()
	p.mu.Unlock()
	for i := range dropped {
		dropped[i].drop(reason)
	}
}

// idleLocked wakes waitIdle when nothing waits and nothing is in flight.
func (p *proposer) idleLocked() {
	if p.idle != nil && (p.queue.len() == 0 || p.held) && len(p.flight) == 0 {
		close(p.idle)
		p.idle = nil
	}
}

// refuse lets no further command in; those that are in go on.
func (p *proposer) refuse(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == nil {
		p.refused = reason
	}
}

// waitIdle waits until everything that was let in is applied or dropped. One caller at a time.
func (p *proposer) waitIdle(ctx context.Context) {
	p.mu.Lock()
	if !p.ready {
		p.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	p.idle = idle
	p.idleLocked()
	p.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
