package actors

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/membership"
	window "queen/actors/machine/outcome"
	"queen/actors/machine/switches"
	"queen/actors/machine/timer"
	"queen/actors/machine/trace"
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// Log is what the broker needs of the replicated log. Any node has one; it need not lead.
type Log interface {
	// Propose hands a command over without waiting for anything. Its outcome arrives by the apply actor of this node.
	Propose(p Proposal) error
	// Now is the leader's time in Unix microseconds, as well as this node knows it.
	Now() uint64
	// Leads tells whether this node leads the group now.
	Leads() bool
	// Settled tells that the command with this request id of this node has been applied here. It must not block.
	Settled(id command.RequestID)
	// ReadIndex returns once everything that was committed when it was called has been applied here (cluster 9), and the time at
	// which the leader has said so: the now of a read, in Unix microseconds. It is 0 where the leader did not tell.
	ReadIndex(ctx context.Context) (nowMicros uint64, err error)
	// CallLeader sends a request to the broker of the leader, which serves it with ServeCall, and returns the answer. When ctx
	// ends it returns at once and tells the leader. It waits for a leader a second at most. Errors, wrapped: ErrRetry when
	// this node leads now, or the link broke, or the leader answered with an error; ErrNoLeader when none is known;
	// ErrStopping when the log of this node has ended for good. After the first two the caller asks again.
	CallLeader(ctx context.Context, request []byte) ([]byte, error)
}

// Proposal is a command on its way into the log.
type Proposal struct {
	Item command.Item
	// Span is that of the request: after its deadline the command is not worth proposing any more.
	Span
	// Keys and Bytes estimate what applying it writes.
	Keys, Bytes int
	// Gone is asked right before the command is encoded into an entry; true drops it.
	Gone func() bool
	// Dropped is told when the command will not be proposed any more, with one of the Err values below.
	Dropped func(reason error)
	// Riders are asked for commands that are to follow in the same entry.
	Riders func() []Proposal
}

// Span is the time that a request has. Arrived is zero for what no client asked for, and for a claim: a pop waits for messages,
// not for the log.
type Span struct{ Arrived, Deadline time.Time }

// Until is the span of what no client asked for.
func Until(deadline time.Time) Span { return Span{Deadline: deadline} }

// What keeps a command from being applied. Wrapped with detail.
var (
	// ErrDeadline: the deadline passed; the outcome is unknown unless the command was never proposed.
	ErrDeadline = errors.New("the request deadline elapsed")
	// ErrOverloaded: too many commands wait at this node.
	ErrOverloaded = errors.New("too many commands wait")
	// ErrRetry: the node cannot take commands now, or leadership is moving.
	ErrRetry = errors.New("the node cannot take the command now")
	// ErrNoLeader: no leader is known.
	ErrNoLeader = errors.New("no leader is known")
	// ErrNoQuorum: no majority of the voters has answered for long; the outcome is unknown.
	ErrNoQuorum = errors.New("no majority of the voters answers")
	// ErrTooLarge: the command fits into no entry.
	ErrTooLarge = errors.New("the command is larger than one log entry")
	// ErrGone: the client has gone; nobody reads the answer.
	ErrGone = errors.New("the client has gone")
	// ErrStopping: the node stops; a parked pop is answered as if its wait had ended.
	ErrStopping = errors.New("the node is stopping")
)

// Config holds what the broker is told at the start.
type Config struct {
	Store *store.Store
	Log   zerolog.Logger
	// Retention paces the background work of the leader.
	Retention RetentionConfig
	// IdleUnload is QUEEN_CONSUME_IDLE_UNLOAD_S.
	IdleUnload time.Duration
	// PopReplyMargin is QUEEN_RAFT_POP_REPLY_MARGIN_MS: a pop with less than this left of its wait claims nothing any more and
	// answers, after the one attempt that every pop has (messaging 5.5.10).
	PopReplyMargin time.Duration
	// NoLeaderAfter is QUEEN_RAFT_READY_QUORUM_MS, or its default when that is 0: a pop that no leader has served for so long
	// is answered with ErrNoLeader (cluster 8.3). 0 means the default.
	NoLeaderAfter time.Duration
	// PartitionCleanupDays is PARTITION_CLEANUP_DAYS; 0 keeps idle partitions.
	PartitionCleanupDays uint32
	// TxidWindowMinSeconds is QUEEN_RAFT_TXN_WINDOW_MIN_S.
	TxidWindowMinSeconds uint32
	// TraceRetention is QUEEN_RAFT_TRACE_RETENTION_S; 0 keeps traces.
	TraceRetention time.Duration
	// KV paces the sweeps of rows that have expired.
	KV KVConfig
	// Timers is how this node fires timers while it leads.
	Timers TimersConfig
	// NoQuorumFail is QUEEN_RAFT_NO_QUORUM_FAIL_MS: how long after the newest quorum acknowledgement a write or a read gives
	// up; 0 waits for the deadline. QuorumAge is the time since that acknowledgement; needed with the former.
	NoQuorumFail time.Duration
	QuorumAge    func() time.Duration
	// Observer is told what is applied here; nil observes nothing.
	Observer Observer
}

// Broker is the state of one Raft group on this node: the actors, and the calls that handlers make.
type Broker struct {
	config    Config
	store     *store.Store
	logger    zerolog.Logger
	system    *System
	apply     *Handle
	machine   *apply
	directory *Directory
	groups    *groups
	pending   *pending
	parked    atomic.Int64
	arrivals  arrivals
	tenures   tenures
	expected  expected
	// guests counts the pops of other nodes that this one serves.
	guests atomic.Int64
	// standing counts the pops that may be parked in groups of this node, whoever's they are.
	standing atomic.Int64
	// membership is the members table and the plan as applied here.
	membership membershipBoard
	// switches is what the operator has turned off, as applied here.
	switches switchBoard

	log     Log
	started atomic.Bool // log may be used

	stop    context.CancelFunc
	stopped context.Context
	workers workers
	// scanSlots has one place for each scan that runs.
	scanSlots chan struct{}
}

// NewBroker builds the actors over an open store. Start makes them work; until then only StateMachine calls are allowed.
func NewBroker(c Config) (*Broker, error) {
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	if c.NoLeaderAfter == 0 {
		c.NoLeaderAfter = noLeaderAfterDefault
	}
	var origin [8]byte
	if _, err := rand.Read(origin[:]); err != nil {
		return nil, fmt.Errorf("draw request origin: %w", err)
	}
	b := &Broker{config: c, store: c.Store, logger: c.Log, directory: newDirectory(),
		pending: newPending(binary.BigEndian.Uint64(origin[:])), scanSlots: make(chan struct{}, scansAtOnce)}
	b.system = NewSystem(c.Log)
	b.groups = newGroups(b.system)
	b.stopped, b.stop = context.WithCancel(context.Background())
	b.machine = &apply{
		store: c.Store, system: b.system, directory: b.directory, pending: b.pending, log: c.Log,
		leases: map[uint64]*Handle{}, groups: b.groups, arrivals: &b.arrivals, rescan: b.rescan, observer: c.Observer,
		partitions: newPartitions(b.system, partitionsActive), settled: b.settled, served: b.served, membership: &b.membership,
		switches: &b.switches, refusedKV: c.KV.refused(),
	}
	b.machine.catalog = b.system.Spawn(KindCatalog, func() Behavior {
		return &holder[*catalog.Machine]{load: func(r store.Reader) (*catalog.Machine, error) { return catalog.Load(r) }}
	})
	b.machine.deadLetters = b.system.Spawn(KindDeadLetters, func() Behavior {
		return &holder[struct{}]{load: func(store.Reader) (struct{}, error) { return struct{}{}, nil }}
	})
	b.machine.traces = b.system.Spawn(KindTraces, func() Behavior {
		return &holder[*trace.Machine]{load: func(r store.Reader) (*trace.Machine, error) { return trace.Load(r) }}
	})
	b.machine.kv = b.system.Spawn(KindKV, func() Behavior {
		return &holder[struct{}]{load: func(store.Reader) (struct{}, error) { return struct{}{}, nil }}
	})
	b.machine.timers = b.system.Spawn(KindTimers, func() Behavior {
		return &holder[*timer.Machine]{load: func(r store.Reader) (*timer.Machine, error) { return timer.Load(r) }}
	})
	b.apply = b.system.Spawn(KindApply, func() Behavior { return b.machine })
	return b, b.load()
}

// load publishes the catalog as it stands in the store.
func (b *Broker) load() error {
	view := b.store.View()
	defer view.Close()
	machine, err := catalog.Load(view)
	if err != nil {
		return fmt.Errorf("load catalog: %w", err)
	}
	for id, queue := range machine.Queues() {
		b.directory.publish(queue, machine.Groups(id))
	}
	row, err := view.Get(holdsKey)
	if err != nil {
		return fmt.Errorf("load holds: %w", err)
	}
	if row != nil {
		if b.machine.holds, err = cursor.DecodeHolds(row); err != nil {
			return fmt.Errorf("load holds: %w", err)
		}
	}
	b.machine.publishHolds()
	state, err := membership.Load(view)
	if err != nil {
		return err
	}
	b.membership.publish(state)
	off, err := switches.Off(view)
	if err != nil {
		return err
	}
	b.switches.publish(off)
	if b.machine.outcomes, err = window.Load(view); err != nil {
		return fmt.Errorf("load outcomes: %w", err)
	}
	b.machine.lastStamp, err = b.LastStampMicros()
	return err
}

// LastStampMicros is the greatest stamp applied before the start, for the clock of the leader.
func (b *Broker) LastStampMicros() (uint64, error) {
	view := b.store.View()
	defer view.Close()
	return lastStamp(view)
}

// lastStamp is the greatest stamp of the entries that are applied in a view.
func lastStamp(r store.Reader) (uint64, error) {
	row, err := r.Get(stampKey)
	if err != nil || len(row) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(row), nil
}

// Start connects the broker to the log and starts its clock and its background work.
func (b *Broker) Start(log Log) {
	b.log = log
	b.started.Store(true)
	b.workers.start(b)
}

// settled tells the log that a request of this node has been applied. What is replayed before Start is of an origin before.
func (b *Broker) settled(id command.RequestID) {
	if b.started.Load() {
		b.log.Settled(id)
	}
}

// Stop answers parked pops, ends the background work and stops the actors. The log takes no more commands by then.
func (b *Broker) Stop() {
	b.stop()
	b.workers.wait()
	b.groups.close()
	b.machine.partitions.stop()
	for _, handle := range b.machine.leases {
		handle.Stop()
	}
	b.machine.catalog.Stop()
	b.machine.deadLetters.Stop()
	b.machine.traces.Stop()
	b.machine.kv.Stop()
	b.machine.timers.Stop()
	b.apply.Stop()
	b.system.Stop()
}

// AnswerParked ends the wait of every parked pop, as if its time were over (cluster 17.1.3).
func (b *Broker) AnswerParked() { b.stop() }

// Apply executes one committed entry; called by the log, in order, from one goroutine. An apply actor that dies begins the
// entry again with a clean slate. The error wraps ErrApplyFailed, or ErrCrashed when the deaths do not end.
func (b *Broker) Apply(index, term uint64, data []byte) error {
	m := &applyEntry{index: index, term: term, data: data}
	began := time.Now()
	var err error
	for range attempts {
		if err = b.apply.Call(m); err == nil || m.done {
			b.config.Observer.EntryApplied(time.Since(began))
			return m.err
		}
	}
	return fmt.Errorf("apply entry %d: %w: %w", index, ErrApplyFailed, err)
}

// Flush returns when everything that Apply has executed can be read; called by the log after the entries it had at hand.
func (b *Broker) Flush() error { return b.machine.flush() }

// AppliedIndex is the index up to which the store holds the state, and the term of its last entry.
func (b *Broker) AppliedIndex() (index, term uint64) { return b.store.Applied() }

// DurablePoint makes what is applied durable and returns the index up to which the log may be cut.
func (b *Broker) DurablePoint() (uint64, error) {
	began := time.Now()
	index, err := b.store.DurablePoint()
	b.config.Observer.DurablePoint(time.Since(began))
	return index, err
}

// StoreUsage is what the store tells of itself.
type StoreUsage = store.Usage

// StoreOperations are what the store has been asked since it was opened, for the metrics.
func (b *Broker) StoreOperations() store.Operations { return b.store.Operations() }

// PartitionLoads counts the partitions that were brought into memory and put out of it since the start, and the claims that
// brought one in.
func (b *Broker) PartitionLoads() (loaded, unloaded, byClaims uint64) {
	l := &b.machine.partitions.loads
	return l.loaded.Load(), l.unloaded.Load(), l.byClaims.Load()
}

// StoreUsage describes the store for the metrics; it looks at the disk, which costs some milliseconds.
func (b *Broker) StoreUsage() StoreUsage { return b.store.Usage() }

// Directory is the published catalog.
func (b *Broker) Directory() *Directory { return b.directory }

// Actors reports running actors for the metrics.
func (b *Broker) Actors() *System { return b.system }

// Parked is the number of pops that wait.
func (b *Broker) Parked() int64 { return b.parked.Load() }

// Now is the leader's time in Unix microseconds.
func (b *Broker) Now() uint64 { return b.log.Now() }

// View opens a linearizable read view: everything that was committed when it is called is in it (cluster 9). The caller
// closes it.
func (b *Broker) View(ctx context.Context) (*store.View, error) {
	view, _, err := b.barrier(ctx)
	return view, err
}

// ViewAt is View with the instant of the read: the leader's time at the barrier, and never earlier than the newest stamp in the
// view, which may be of later (state 2.7).
func (b *Broker) ViewAt(ctx context.Context) (view *store.View, nowMicros uint64, err error) {
	view, nowMicros, err = b.barrier(ctx)
	if err != nil {
		return nil, 0, err
	}
	last, err := lastStamp(view)
	if err != nil {
		view.Close()
		return nil, 0, fmt.Errorf("read the newest stamp: %w", err)
	}
	return view, max(nowMicros, last), nil
}

func (b *Broker) barrier(ctx context.Context) (view *store.View, nowMicros uint64, err error) {
	ctx, cancel := b.untilNoQuorum(ctx)
	defer cancel()
	if nowMicros, err = b.log.ReadIndex(ctx); err != nil {
		switch {
		case errors.Is(context.Cause(ctx), ErrNoQuorum):
			return nil, 0, ErrNoQuorum
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, 0, ErrDeadline // a read waits for its deadline as a write does (cluster 8.3)
		}
		return nil, 0, err
	}
	return b.store.View(), nowMicros, nil
}

// LocalView opens a view of what is applied here, without asking anybody.
func (b *Broker) LocalView() *store.View { return b.store.View() }

// StateHash returns the applied index and a fingerprint of the state there, equal on all nodes (architecture, I1). It reads
// everything but messages.
func (b *Broker) StateHash() (index uint64, hash [32]byte, err error) {
	view := b.store.View()
	defer view.Close()
	hash, err = b.store.StateHash(view)
	return view.Index(), hash, err
}

// CountCursors counts the cursors of a group on a queue, as long as ctx lasts.
func CountCursors(ctx context.Context, view *store.View, queueID, groupID uint64) (count int, err error) {
	err = view.Scan(layout.CursorsOf(queueID, groupID), nil, func(_, _ []byte) bool {
		count++
		return count%scanSlice != 0 || ctx.Err() == nil
	})
	if ctx.Err() != nil {
		return 0, ErrDeadline
	}
	return count, err
}

// StorageFailed tells whether an error means that this node's store is damaged or has stopped: nothing can be said from
// here, another try may meet a healthy node (cluster 18).
func StorageFailed(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrStopped) || errors.Is(err, store.ErrDamaged) ||
		errors.Is(err, store.ErrNoSpace)
}

type outcome struct {
	result command.Result
	err    error
}

// Execute proposes a command and waits until it is applied here, or until the deadline: then ErrDeadline, and the outcome
// is unknown. A *command.Refusal comes back as the error.
func (b *Broker) Execute(span Span, c command.Command) (command.Result, error) {
	done := make(chan outcome, 1)
	id := b.submit(Proposal{Item: command.Item{Command: c}, Span: span}, done)
	return b.await(id, span.Deadline, done)
}

// submit proposes; the outcome arrives in done, which has room for it.
func (b *Broker) submit(p Proposal, done chan outcome) command.RequestID {
	p.Keys, p.Bytes = weigh(p.Item.Command)
	return b.propose(p, func(result command.Result) { done <- outcome{result: result} }, func(reason error) {
		done <- outcome{err: reason}
	})
}

// propose gives a command its request id and hands it to the log. Either applied is called with the result, or dropped with
// the reason, or neither when the request is taken out of pending before.
func (b *Broker) propose(p Proposal, applied func(command.Result), dropped func(error)) command.RequestID {
	if err := b.identify(&p, applied, dropped); err != nil {
		dropped(err)
		return command.RequestID{}
	}
	if err := b.log.Propose(p); err != nil {
		p.Dropped(err)
	}
	return p.Item.Request
}

// identify makes a request of a command that is to be proposed. The log asks Gone before it proposes the command, and before
// it does so again: one that has been answered or given up in the meantime must not be.
func (b *Broker) identify(p *Proposal, applied func(command.Result), dropped func(error)) error {
	id, answeredBelow, err := b.pending.open(applied)
	if err != nil {
		return err
	}
	p.Item.Request, p.Item.AnsweredBelow = id, answeredBelow
	gone := p.Gone
	p.Gone = func() bool { return !b.pending.worthProposing(id) || gone != nil && gone() }
	p.Dropped = func(reason error) {
		if b.pending.remove(id) {
			dropped(reason)
		}
	}
	return nil
}

func (b *Broker) await(id command.RequestID, deadline time.Time, done chan outcome) (command.Result, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	quorum := b.watchQuorum()
	defer quorum.stop()
	for {
		reason := ErrDeadline
		select {
		case o := <-done:
			return o.unpack()
		case <-quorum.C():
			if !quorum.lost() {
				continue
			}
			reason = ErrNoQuorum
		case <-timer.C:
		}
		if b.pending.remove(id) {
			return nil, reason
		}
		o := <-done
		return o.unpack()
	}
}

func (o outcome) unpack() (command.Result, error) {
	if refusal, ok := o.result.(*command.Refusal); ok {
		return nil, refusal
	}
	return o.result, o.err
}

// Holds are the lease holds of the terms so far (cluster 10), for reads that judge leases.
func (b *Broker) Holds() cursor.Holds { return b.machine.publishedHolds() }
