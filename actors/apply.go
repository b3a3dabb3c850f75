package actors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/lease"
	window "queen/actors/machine/outcome"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// apply is the behavior of the apply actor: it executes committed entries in log order. It has no business rules of its
// own; it asks the actors that own the state, one command after the other, collects effects and results, and writes the
// effects of an entry as one store batch (architecture 1.4, 5).
type apply struct {
	store     *store.Store
	system    *System
	directory *Directory
	pending   *pending
	arrivals  *arrivals
	// rescan looks through the partitions of a queue again for a group: what its schedule knew is no longer true.
	rescan func(actor *groupActor)
	// served is told what a claim got for a pop that waits here.
	served   func(*command.Claim, *command.ClaimResult)
	observer Observer
	log      zerolog.Logger

	// settled tells the log that a request of this node is applied.
	settled func(command.RequestID)

	catalog     *Handle
	leases      map[uint64]*Handle
	partitions  *partitions
	groups      *groups
	deadLetters *Handle
	traces      *Handle
	kv          *Handle
	timers      *Handle
	// refusedKV is the row whose writes are apply failures, for tests; none usually.
	refusedKV kvPlace
	// outcomes is the request-id window (I9); nil until it has been loaded again after an entry that was abandoned.
	outcomes *window.Window

	// membership is what the broker shows of the members table and the plan.
	membership *membershipBoard
	// switches is what the broker shows of the operator's switches.
	switches *switchBoard

	holds cursor.Holds
	// lastStamp is the greatest stamp of the entries before the one in execution.
	lastStamp uint64
	// published is a copy of holds for the scans of groups.
	published atomic.Pointer[cursor.Holds]

	// committed gets the outcome of the newest store commit.
	committed chan error

	// The rest is of the entry and the command in execution.
	batch  *store.Batch
	term   uint64
	header *command.Header
	// commands is how many the entry has.
	commands int
	now      uint64
	minted   uint64
	touched  []*Handle // by the entry; command resets those of its own
	stored   []storedAppend
	publish  map[uint64]struct{}
	after    []func()
	// holdsBefore are the holds as the entry found them.
	holdsBefore cursor.Holds
	// catalogStep and partitionStep serve every call: an actor is never called from within one of its kind.
	catalogStep   step[*catalog.Machine]
	partitionStep step[*partition.Machine]
}

// attempts is how often a command is tried when actors die under it, and an entry when the apply actor dies, before that
// is an apply failure (architecture 5).
const attempts = 3

// ErrApplyFailed wraps the reason why an entry cannot be applied. The group stops; the process stays up (cluster 13).
var ErrApplyFailed = errors.New("entry cannot be applied")

var (
	holdsKey = layout.Meta("holds")
	stampKey = layout.Meta("last-stamp")
)

// applyEntry asks the apply actor to execute one committed entry.
type applyEntry struct {
	index, term uint64
	data        []byte
	// done is set when the entry has been handed to the store or cannot be applied: then it is not tried again.
	done bool
	err  error
}

// Receive implements Behavior.
func (a *apply) Receive(message any) {
	m, ok := message.(*applyEntry)
	if !ok {
		panic("BUG: apply actor got a message it does not know")
	}
	a.abandon() // what an apply actor that died has left
	m.err = a.entry(m.index, m.term, m.data)
	m.done = true
	if m.err != nil {
		a.abandon()
	}
}

// abandon forgets an entry that was begun and not handed over, with everything that actors remember of it.
func (a *apply) abandon() {
	if a.batch == nil {
		return
	}
	a.batch.Discard()
	a.batch = nil
	if a.outcomes != nil && a.outcomes.Unfinished() {
		a.outcomes = nil
	}
	for _, handle := range a.touched {
		handle.Reset()
	}
	a.holds = a.holdsBefore
	a.publishHolds()
}

func (a *apply) entry(index, term uint64, data []byte) error {
	entry, err := command.DecodeEntry(data)
	if err != nil {
		return fmt.Errorf("decode entry %d: %w: %w", index, ErrApplyFailed, err)
	}
	a.batch, a.term, a.header = a.store.Begin(index, term), term, &entry.Header
	a.touched, a.after, a.holdsBefore = a.touched[:0], nil, a.holds
	a.stored = make([]storedAppend, 0, len(a.stored)) // the committer has that of the entry before
	clear(a.publish)
	a.commands = len(entry.Items)
	if err := a.beginOutcomes(index); err != nil {
		return fmt.Errorf("apply entry %d: %w: %w", index, ErrApplyFailed, err)
	}
	done := executed{entry: &entry, results: make([]command.Result, len(entry.Items))}
	for i := range entry.Items {
		a.now = entry.Header.StampMicros + uint64(i)
		a.system.chaos.begin()
		if err := a.once(&done, i); err != nil {
			return fmt.Errorf("apply command %d of entry %d: %w: %w", i, index, ErrApplyFailed, err)
		}
	}
	a.lastStamp = max(a.lastStamp, a.now)
	a.batch.Put(stampKey, binary.BigEndian.AppendUint64(nil, a.lastStamp))
	a.finishOutcomes()
	a.handOver(&done)
	return nil
}

// handOver gives the batch of the entry to the store. Only what can be read is told: groups and readers are woken, then
// requests answered, when the store has committed it. So a group that becomes active meanwhile finds the messages with
// its scan, and nobody who has an answer misses what it promises.
func (a *apply) handOver(done *executed) {
	batch, stored, after := a.batch, a.stored, a.after
	committed := make(chan error, 1)
	a.batch, a.committed = nil, committed
	handed := time.Now()
	a.store.Commit(batch, func(err error) {
		defer func() { committed <- err }()
		if err != nil {
			return // flush tells the log; the requests stay unanswered until their deadline
		}
		a.wake(stored)
		for _, f := range after {
			f()
		}
		a.observer.StoreWritten(time.Since(handed))
		done.publish(a.observer, a.pending, a.settled)
	})
}

// flush waits for the store to commit the newest entry, and with it all before.
func (a *apply) flush() error {
	if a.committed == nil {
		return nil
	}
	committed := a.committed
	a.committed = nil
	if err := <-committed; err != nil {
		return fmt.Errorf("commit entry to the store: %w", err)
	}
	return nil
}

// command executes one command, again when an actor dies under it: the effects so far are rolled back, every actor that
// was touched forgets what it did, and the same command meets the same state (I10).
func (a *apply) command(c command.Command) (command.Result, error) {
	var err error
	for range attempts {
		mark := a.batch.Mark()
		a.minted = 0
		stored, after, touched := len(a.stored), len(a.after), len(a.touched)
		var result command.Result
		if result, err = a.execute(c); err == nil {
			if err = a.overflow(); err == nil {
				err = a.publishCatalog()
			}
		}
		if err == nil {
			return result, nil
		}
		refusal := a.refusalOf(err)
		if refusal == nil && !errors.Is(err, ErrCrashed) {
			return nil, err
		}
		a.batch.Rollback(mark)
		a.stored, a.after = a.stored[:stored], a.after[:after]
		clear(a.publish)
		for _, handle := range a.touched[touched:] {
			handle.Reset()
		}
		if refusal != nil {
			return refusal, nil
		}
	}
	return nil, err
}

// refusalOf is the result of a command that is taken back for a reason of its own; nil for every other error.
func (a *apply) refusalOf(err error) *command.Refusal {
	switch {
	case errors.Is(err, store.ErrTooBig):
		return a.refuseOverflow()
	case errors.Is(err, errInClear):
		return &command.Refusal{Code: "retry", Text: "the queue has begun to encrypt, and the node that took this had not heard of it"}
	default:
		return nil
	}
}

// refuseOverflow is the result of a command that writes more than one entry may hold, which no estimate has foreseen:
// nothing of it happened, and no node stops over it (I11). Alone in its entry it is too large; beside others it may fit
// another one.
func (a *apply) refuseOverflow() *command.Refusal {
	if a.commands > 1 {
		return &command.Refusal{Code: "retry", Text: "the entry has no room for the command"}
	}
	return &command.Refusal{Code: "payload_too_large", Text: "the command writes more than one log entry may hold"}
}

func (a *apply) execute(c command.Command) (command.Result, error) {
	switch c := c.(type) {
	case command.TermStart:
		return a.termStart(&c)
	case command.Tick:
		return command.Done{}, nil
	case command.Push:
		return a.push(&c)
	case command.Ack:
		return a.ack(&c)
	case command.Extend:
		return a.extend(&c)
	case command.Claim:
		return a.claim(&c)
	case command.HandBack:
		return a.handBack(&c)
	case command.Register:
		return a.register(&c)
	case command.Configure:
		return a.configure(&c)
	case command.DeleteQueue:
		return a.deleteQueue(&c)
	case command.DeleteGroup:
		return a.deleteGroup(&c)
	case command.Seek:
		return a.seek(&c)
	case command.ChangeSubscription:
		return a.changeSubscription(&c)
	case command.Transaction:
		return a.transaction(&c)
	case command.DeadLetterDelete:
		return a.deleteDeadLetters(&c)
	case command.DeadLetterReplay:
		return a.replay(&c)
	case command.Retain:
		return a.retain(&c)
	case command.Sweep:
		return a.sweep(&c)
	case command.MoveChunks:
		return a.moveChunks(&c)
	case command.Trace:
		return a.trace(&c)
	case command.TraceSweep:
		return a.sweepTraces(&c)
	case command.KV:
		return a.runKV(&c)
	case command.KVSweep:
		return a.sweepKV(&c)
	case command.Lock:
		return a.runLock(&c)
	case command.Membership:
		return a.changeMembership(&c)
	case command.Timers:
		return a.runTimers(&c)
	case command.TimerFire:
		return a.fireTimers(&c)
	case command.Switches:
		return a.changeSwitches(&c)
	default:
		return nil, fmt.Errorf("execute %T: no such command", c)
	}
}

// termStart remembers how long leases of earlier terms are held (cluster 10).
func (a *apply) termStart(c *command.TermStart) (command.Result, error) {
	a.holds = a.holds.Begin(cursor.TermHold{
		Term: a.term, HoldMicros: uint64(c.HoldMs) * 1000, PriorMicros: a.lastStamp,
	})
	a.publishHolds()
	a.batch.Put(holdsKey, a.holds.AppendTo(nil))
	a.outcomes.BeginTerm(a.batch)
	return command.Done{}, nil
}

func (a *apply) publishHolds() {
	holds := a.holds
	a.published.Store(&holds)
}

func (a *apply) publishedHolds() cursor.Holds {
	if holds := a.published.Load(); holds != nil {
		return *holds
	}
	return nil
}

// call runs a message in an actor and remembers that the command has touched it.
func (a *apply) call(handle *Handle, message any) error {
	a.touched = append(a.touched, handle)
	return handle.Call(message)
}

// at is the time and randomness of the command in execution.
func (a *apply) at() catalog.Moment {
	return catalog.Moment{StampMicros: a.now, Seed: a.header.Seed}
}

// inCatalog runs a step of the catalog machine.
func (a *apply) inCatalog(run func(m *catalog.Machine) error) error {
	a.catalogStep = step[*catalog.Machine]{reader: a.batch, run: run}
	if err := a.call(a.catalog, &a.catalogStep); err != nil {
		return err
	}
	return a.catalogStep.err
}

// inLeases runs a step of the lease table of a queue.
func (a *apply) inLeases(queueID uint64, run func(t *lease.Table) error) error {
	handle := a.leases[queueID]
	if handle == nil {
		handle = a.system.Spawn(KindLeases, func() Behavior {
			return &holder[*lease.Table]{load: func(store.Reader) (*lease.Table, error) {
				return lease.NewTable(queueID), nil
			}}
		})
		a.leases[queueID] = handle
	}
	s := &step[*lease.Table]{reader: a.batch, run: run}
	if err := a.call(handle, s); err != nil {
		return err
	}
	return s.err
}

// changed marks a queue whose catalog entry is to be published when the command is done.
func (a *apply) changed(queueID uint64) {
	if a.publish == nil {
		a.publish = map[uint64]struct{}{}
	}
	a.publish[queueID] = struct{}{}
}

func (a *apply) publishCatalog() error {
	if len(a.publish) == 0 {
		return nil
	}
	err := a.inCatalog(func(m *catalog.Machine) error {
		for id := range a.publish {
			if queue := m.QueueByID(id); queue != nil {
				a.directory.publish(queue, m.Groups(id))
			}
		}
		return nil
	})
	if err == nil {
		clear(a.publish)
	}
	return err
}

// hashWindowMicros is how long a txid of a queue can be resolved (messaging 1).
func (a *apply) hashWindowMicros(o *command.Options) uint64 {
	return hashWindow(o, a.header.Settings.TxidWindowMinSeconds)
}

func hashWindow(o *command.Options, leastSeconds uint32) uint64 {
	return max(uint64(o.DedupWindowSeconds), uint64(o.CompletedRetentionSeconds), uint64(leastSeconds)) * microsPerSecond
}

const microsPerSecond = 1_000_000
