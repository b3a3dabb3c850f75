package raftlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"queen/raftlog/transfer"
)

// drainTime is how long Close waits for what is in flight to commit (cluster 17.1).
const drainTime = 500 * time.Millisecond

// Node is this process's part of one Raft group. All methods may be called by any goroutine.
type Node struct {
	options   Options
	machine   StateMachine
	logger    zerolog.Logger
	log       *logStore
	snapshots *snapshotStore
	raft      *raft.Raft
	self      raft.ServerID
	time      *leaderTime
	gate      *appliedGate
	proposer  *proposer
	reads     *readIndexer
	keeper    *keeper
	level     *level
	fsm       *fsm
	// transport, uplink, herald, members, states and exchange are nil in a group without a network.
	transport *transport
	uplink    *uplink
	herald    *herald
	members   *members
	states    *transfer.Sender
	exchange  *exchange
	witnesses witnesses
	// handedOver is the last term in which this node has begun to hand leadership over.
	handedOver atomic.Uint64
	// votesFrom is the monotonic instant before which this node votes for nobody.
	votesFrom time.Duration
	// transferring is held while leadership is handed over.
	transferring sync.Mutex
	handingOver  atomic.Bool
	// resigned is the monotonic instant at which this node handed leadership to another, in nanoseconds; 0 when it never has.
	resigned atomic.Int64
	// links ends the serving of other nodes' links.
	links      context.Context
	closeLinks context.CancelFunc
	serving    sync.WaitGroup

	// notify is the library's word about leadership. It is not buffered: the library goes on only after the word has been
	// taken.
	notify  chan bool
	changes chan LeadershipChange
	// raftDone is closed when every goroutine of the library has ended.
	raftDone chan struct{}
	// started is closed when raft and reads are set; the library's goroutines run before that.
	started    chan struct{}
	stopRaft   func()
	background sync.WaitGroup

	mu           sync.Mutex
	failure      error
	applyFailure *ApplyFailure
	closing      bool

	// openedAt is the monotonic instant at which the group was opened.
	openedAt time.Duration
	counts   forwardCounts
	// lastCommit is the monotonic instant, in nanoseconds, at which an entry was last applied here; 0 is never.
	lastCommit atomic.Int64
	// leaders counts the leaders that this node has heard of.
	leaders atomic.Uint64
}

// LeadershipChange says whether this node leads the group and has applied the first entry of its term.
type LeadershipChange struct {
	Leading bool
	// Term is 0 when Leading is false.
	Term uint64
}

// Open verifies the log in Options.Dir, starts the group and returns at once; leadership comes later. An empty directory
// becomes a group of Options.Voters. Errors wrap ErrDamaged when the directory is not what was written.
//
// The machine must be ready to apply when Open is called. Open owns nothing of it, and Close does not close it.
func Open(options Options, machine StateMachine) (*Node, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("open raft log: %w", err)
	}
	if err := os.MkdirAll(options.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create log directory: %w", err)
	}
	n := &Node{
		options:  options,
		machine:  machine,
		logger:   options.Logger,
		self:     serverID(options.NodeID),
		gate:     &appliedGate{},
		notify:   make(chan bool),
		changes:  make(chan LeadershipChange, 1),
		raftDone: make(chan struct{}),
		started:  make(chan struct{}),
		openedAt: options.Clock.Monotonic(),
	}
	n.witnesses.note(options.Witnesses...)
	n.links, n.closeLinks = context.WithCancel(context.Background())
	if err := n.openStorage(); err != nil {
		return nil, err
	}
	if err := n.start(); err != nil {
		return nil, joinClose(err, n.log)
	}
	return n, nil
}

// start builds the parts around an open log and lets them run.
func (n *Node) start() error {
	n.time = newLeaderTime(n.options.Clock, max(n.options.LastStampMicros, n.log.stampEnd.Load()))
	n.proposer = newProposer(&n.options, n.time, n.logger)
	n.proposer.stampEnd = func() uint64 { return max(n.log.stampEnd.Load(), n.options.LastStampMicros+1) }
	n.proposer.leaderElsewhere = n.leaderElsewhere
	n.proposer.logSettled = n.logSettled
	n.proposer.holdMs = n.holdMs
	n.proposer.outside = func() bool { return !n.fsm.member.Load() || n.options.outside() }
	n.keeper = newKeeper(&n.options, n.log, n.snapshots, n.logger)
	n.keeper.failed = n.fail
	n.log.failed = n.fail
	n.log.appended = n.noteAppended

	held, _ := n.machine.AppliedIndex()
	record := n.snapshots.current()
	n.gate.index.Store(max(held, record.Index))
	n.keeper.durable.Store(record.Index)
	n.level = newLevel(n.options.Clock, n.gate.index.Load(), n.options.LastStampMicros)
	machine := &fsm{
		options: &n.options, machine: n.machine, gate: n.gate, held: held, self: n.self, advanced: n.level.advance,
		committed: n.observeCommits, applied: n.applied, grown: n.keeper.grown, failed: n.failApply,
	}
	n.fsm = machine
	if record.Index > 0 {
		machine.noteMembership(record.MembershipIndex, raft.Configuration{Servers: record.Servers})
	}
	n.keeper.fsm = machine
	n.stopRaft = sync.OnceFunc(func() {
		<-n.started
		n.reads.close()
		if n.herald != nil {
			n.herald.close()
			n.transport.end()
		}
		// Shutdown fails never; its future waits for the library's goroutines, and closes the transport.
		_ = n.raft.Shutdown().Error()
		close(n.raftDone)
	})
	if err := n.startRaft(machine); err != nil {
		return err
	}
	n.proposer.raft = n.raft
	machine.noteFirst(n.servers())
	if n.options.Network != nil {
		n.connect()
	}
	n.votesFrom = n.firstVote()
	n.reads = newReadIndexer(n)
	n.watchLeaders()
	close(n.started)
	n.background.Go(n.watchLeadership)
	n.background.Go(n.publishLeadership)
	go n.proposer.run()
	go n.keeper.run()
	if n.uplink != nil {
		go n.uplink.run()
		n.serveLinks()
	}
	return nil
}

// startRaft starts the library. Every option is set, with its reason.
func (n *Node) startRaft(machine *fsm) error {
	election := time.Duration(n.options.ElectionMs) * time.Millisecond
	const never = 365 * 24 * time.Hour
	config := &raft.Config{
		ProtocolVersion: raft.ProtocolVersionMax,
		LocalID:         n.self,
		// Both count from 1× to 2×; cluster 20, note 1.
		HeartbeatTimeout:   election,
		ElectionTimeout:    election,
		LeaderLeaseTimeout: election * 4 / 5,
		// How often a follower hears of the commit index at least, drawn from 1× to 2×. The herald tells it of each commit at once
		// (cluster 8.1 allows 10 ms); this is for news that was lost. At 5 ms three idle nodes took a third of a core.
		CommitTimeout:    commitTimeout,
		MaxAppendEntries: maxAppendEntries,
		// The proposer must not wait for the library's main goroutine, which fsyncs. The promise that this breaks, about
		// the time-out of Apply, is not used.
		BatchApplyCh: true,
		// A removed leader hands over first; stopping is ours to decide (cluster 4.3).
		ShutdownOnRemove: false,
		// Snapshots are records that the keeper makes at durable points, and the keeper cuts the log.
		SnapshotInterval:         never,
		SnapshotThreshold:        1 << 62,
		TrailingLogs:             1 << 62,
		NoSnapshotRestoreOnStart: true,
		NotifyCh:                 n.notify,
		Logger:                   newLibraryLogger(n.logger, n.options.Clock, "raft"),
		PreVoteDisabled:          false,
		NoLegacyTelemetry:        true,
		// Needs a log store that keeps the commit index. Ours does not: entries are applied again only after the election.
		RestoreCommittedLogs: false,
	}
	var err error
	if n.options.Network == nil {
		_, alone := raft.NewInmemTransportWithTimeout(localAddress, localTimeout)
		if n.raft, err = raft.NewRaft(config, machine, n.log, n.log, n.snapshots, alone); err != nil {
			return fmt.Errorf("start raft: %w", err)
		}
		if n.log.soleVoter.Load() {
			n.background.Go(func() { n.campaign(alone) })
		}
		return nil
	}
	n.transport = newTransport(n, newLibraryLogger(n.logger, n.options.Clock, "raft-net"))
	n.raft, err = raft.NewRaft(config, machine, n.log, n.log, n.snapshots, n.transport)
	if err != nil {
		return errors.Join(fmt.Errorf("start raft: %w", err), n.transport.Close())
	}
	if n.log.soleVoter.Load() {
		n.transport.takeOver(n.self)
	}
	return nil
}

// commitTimeout is the library's own interval for news of commits.
const commitTimeout = 50 * time.Millisecond

// localAddress is this node's address in a membership without peers: nobody dials it.
const localAddress raft.ServerAddress = "local"

// localTimeout is a tenth of the time that campaign waits for an answer that does not come because the node is being closed;
// nothing else is ever sent.
const localTimeout = 10 * time.Millisecond

// campaign makes the only voter of a group stand for election at once, by sending itself what a leader sends to its
// successor. Without it the node waits for one to two election time-outs for a leader that cannot exist.
func (n *Node) campaign(transport *raft.InmemTransport) {
	transport.Connect(localAddress, transport)
	request := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.self), Addr: []byte(localAddress)}}
	if err := transport.TimeoutNow(n.self, localAddress, request, &raft.TimeoutNowResponse{}); err != nil {
		n.logger.Debug().Err(err).Msg("raft: election waits for its time-out")
	}
}

// noteAppended is called by the library's main goroutine. Entries of other leaders carry their time on: should this node lead
// next, time does not stand still because its own clock is behind (cluster 10). Entries of its own do not: their stamps run
// ahead of the clock by a microsecond per command.
func (n *Node) noteAppended(term, number, stampEnd uint64) {
	if !n.proposer.noteAppended(term, number) {
		n.time.advance(stampEnd)
	}
}

// applied is called by the apply goroutine for every entry.
func (n *Node) applied(term, number uint64) {
	n.lastCommit.Store(int64(n.options.Clock.Monotonic()))
	n.proposer.applied(term, number)
}

// watchLeadership passes the library's word on.
func (n *Node) watchLeadership() {
	for {
		select {
		case leads := <-n.notify:
			n.turn(leads)
		case <-n.raftDone:
			n.proposer.follow()
			return
		}
	}
}

// turn takes in that this node has begun or ceased to lead.
func (n *Node) turn(leads bool) {
	if !leads {
		n.proposer.follow()
		if n.exchange != nil {
			n.exchange.follow()
			n.transport.release()
		}
		return
	}
	term := n.raft.CurrentTerm()
	if n.transport != nil {
		n.transport.lead()
	}
	n.proposer.lead(term)
	if n.exchange != nil {
		n.exchange.lead(term)
	}
}

// publishLeadership keeps the newest state of leadership in the channel.
func (n *Node) publishLeadership() {
	defer close(n.changes)
	var last LeadershipChange
	for {
		term, ready, changed, closed := n.proposer.leadership()
		now := LeadershipChange{Leading: ready && closed == nil}
		if now.Leading {
			now.Term = term
		}
		if now != last {
			select {
			case <-n.changes:
			default:
			}
			n.changes <- now
			last = now
			n.logger.Info().Bool("leading", now.Leading).Uint64("term", now.Term).Msg("raft: leadership")
		}
		if closed != nil {
			return
		}
		<-changed
	}
}

// Leadership returns the channel of changes. It holds the newest one only: who reads late sees the present state. It is
// closed when this node takes part no more. One reader.
func (n *Node) Leadership() <-chan LeadershipChange { return n.changes }

// servers is the newest membership in the log.
func (n *Node) servers() []raft.Server {
	future := n.raft.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// proposerTerm is the term in which this node leads; 0 while it does not.
func (n *Node) proposerTerm() uint64 {
	term, _, _, _ := n.proposer.leadership()
	return term
}

func (n *Node) leaderElsewhere() bool { return n.otherLeader() != 0 }

// otherLeader returns the node that leads; 0 when none is known, or it is this one.
func (n *Node) otherLeader() uint64 {
	_, leader := n.raft.LeaderWithID()
	if leader == n.self {
		return 0
	}
	return nodeID(leader)
}

// OtherLeader returns the node that leads, as the library knows it; 0 when none is known, or it is this one.
func (n *Node) OtherLeader() uint64 { return n.otherLeader() }

// logSettled says whether everything in the log is committed and applied.
func (n *Node) logSettled() bool {
	last := n.raft.LastIndex()
	return n.raft.CommitIndex() == last && n.gate.index.Load() == last
}

// Propose hands a command over and returns at once. After nil the command is applied, or its Dropped is called, or both
// (see Proposal). Errors: ErrQueueFull, ErrTooLarge, ErrNotLeader, ErrClosed, ErrStorage, ErrApply; then nothing was taken
// in and Dropped is not called. While no leader is known, commands wait for one until their deadline.
func (n *Node) Propose(c Proposal) error { return n.proposer.propose(&c) }

// ReadIndex returns once everything that was committed before the call is applied here, and the index of that: a read of
// the local state is then linearizable (cluster 9). It waits for leadership as long as ctx allows.
func (n *Node) ReadIndex(ctx context.Context) (uint64, error) {
	index, _, err := n.ReadPoint(ctx)
	return index, err
}

// ReadPoint is ReadIndex with the time at which the leader confirmed itself, in Unix microseconds: the now of a read. It is
// above every stamp up to that index. 0 when a leader of an older build did not tell it.
func (n *Node) ReadPoint(ctx context.Context) (index, nowMicros uint64, err error) {
	point, err := n.reads.point(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("confirm leadership: %w", err)
	}
	return point.index, point.nowMicros, n.WaitApplied(ctx, point.index)
}

// WaitApplied returns once the entry at index is applied on this node.
func (n *Node) WaitApplied(ctx context.Context, index uint64) error {
	if err := n.gate.wait(ctx, index); err != nil {
		return fmt.Errorf("wait for entry %d: %w", index, err)
	}
	return nil
}

// Now returns the time of the group in Unix microseconds (cluster 10): the leader's, or this node's estimate of it. It
// never goes back, and it is above every stamp in the log.
func (n *Node) Now() uint64 { return max(n.time.micros(), n.proposer.stampEnd()) }

// Leads tells whether this node leads the group and has applied the first entry of its term.
func (n *Node) Leads() bool {
	_, ready, _, closed := n.proposer.leadership()
	return ready && closed == nil
}

// Monotonic returns the clock of Proposal.DeadlineMonotonic.
func (n *Node) Monotonic() time.Duration { return n.options.Clock.Monotonic() }

// fail stops the group on this node. Any goroutine may call it; only the first reason counts.
func (n *Node) fail(err error) {
	n.mu.Lock()
	if n.failure != nil || n.closing {
		n.mu.Unlock()
		return
	}
	n.failure = err
	n.background.Go(func() {
		<-n.started
		n.stopServing() // it is not live any more: neither its disk nor its log counts for the others
		n.stopRaft()
	})
	n.mu.Unlock()
	n.logger.Error().Str("why", err.Error()).Msg("this node stops")
	n.proposer.close(err)
	n.gate.close(err)
	if n.options.Failed != nil {
		n.options.Failed(err)
	}
}

func (n *Node) failApply(failure *ApplyFailure) {
	n.mu.Lock()
	if n.applyFailure == nil {
		n.applyFailure = failure
	}
	n.mu.Unlock()
	n.logger.Error().Uint64("term", failure.Term).
		Err(failure.Err).Msg(fmt.Sprintf("APPLY FAILED at entry %d digest=%s", failure.Index, failure.Digest))
	n.fail(failure)
}

// Close stops the group (cluster 17.1, as far as one voter goes): no further commands, what is in flight commits within
// drainTime or until ctx ends, the library stops, a last durable point, the log is closed. Whatever was not applied is
// dropped before Close returns. A second call does nothing.
func (n *Node) Close(ctx context.Context) error {
	n.mu.Lock()
	if n.closing {
		n.mu.Unlock()
		return nil
	}
	failed := n.failure
	n.closing = true
	n.mu.Unlock()

	n.proposer.refuse(ErrClosed)
	n.stopServing()
	draining, cancel := context.WithTimeout(ctx, drainTime)
	n.proposer.waitIdle(draining)
	cancel()
	if n.uplink != nil {
		n.uplink.close()
		n.exchange.close()
	}
	n.proposer.close(ErrClosed)
	n.stopRaft()
	n.background.Wait()
	close(n.proposer.stop)
	<-n.proposer.done
	n.gate.close(ErrClosed)
	n.keeper.close()
	var err error
	if failed == nil {
		err = n.keeper.point(true)
	}
	return joinClose(err, n.log)
}
