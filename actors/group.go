package actors

import (
	"container/list"
	"sync/atomic"

	"github.com/google/uuid"

	"queen/actors/machine/cursor"
	"queen/actors/machine/recent"
	"queen/actors/machine/schedule"
	"queen/store"
	"queen/store/layout"
)

// rowsRemembered bounds the cursor rows of one group that are held in memory, about 200 bytes each without the items of
// a repeatable ack. The others are read from the store again.
const rowsRemembered = 1 << 14

// group is the behavior of the consumer group actor of one queue. The rows are replicated state, changed by the apply
// actor alone through rowStep. Everything else is the leader's advice about whom to offer what, and may be lost.
type group struct {
	queueID uint64
	id      uint64
	rows    *recent.Map[uint64, *cursor.State]

	schedule *schedule.Schedule
	waiting  list.List // of *waiter that take any partition, first come first served
	pinned   map[uint64]*list.List
	unborn   map[string]*list.List // pinned waiters of partitions that do not exist yet
	loaded   bool
	pace     pace

	// shared is what other goroutines may look at without a message.
	shared *groupShared
}

// groupShared is published by the group actor and read by anyone.
type groupShared struct {
	// waiters counts parked pops, so that a push finds out cheaply that nobody could ride with it.
	waiters atomic.Int64
	// nextWakeMicros is when the schedule has something to wake; 0 means never.
	nextWakeMicros atomic.Uint64
	// scanned is set when the scan that fills the schedule has been started. scans numbers the scans: only the end of the
	// newest one means that the schedule is complete.
	scanned atomic.Bool
	scans   atomic.Uint64
	// lastPopMicros is when somebody last asked; an idle group is unloaded.
	lastPopMicros atomic.Uint64
}

func newGroup(queueID, id uint64, shared *groupShared) *group {
	shared.waiters.Store(0)
	// A scan that is under way has told a predecessor a part. It is outdated before the next may begin: the other way round the next
	// would be, and the schedule would never count as complete.
	shared.scans.Add(1)
	shared.scanned.Store(false)
	return &group{
		queueID:  queueID,
		id:       id,
		rows:     recent.New[uint64, *cursor.State](rowsRemembered),
		schedule: schedule.New(),
		pinned:   map[uint64]*list.List{},
		unborn:   map[string]*list.List{},
		shared:   shared,
	}
}

// Receive implements Behavior.
func (g *group) Receive(message any) {
	switch m := message.(type) {
	case *rowStep:
		m.err = g.step(m)
	case *waiter:
		g.pop(m)
	case *cancelWaiter:
		m.removed = g.cancel(m.waiter)
	case *readySince:
		g.shared.lastPopMicros.Store(m.nowMicros)
		m.sinceMicros = g.schedule.ReadySince(m.sinceMicros, m.limit)
	case *giveBack:
		for _, partition := range m.partitions {
			g.schedule.Return(partition, m.nowMicros)
		}
		g.serve(m.nowMicros)
	case *appendedNote:
		g.appended(m)
	case *rideRequest:
		g.ride(m)
	case *scanNote:
		g.schedule.ScanBegins()
	case *foundNote:
		g.found(m)
	case *wakeNote:
		g.serve(m.nowMicros)
	case *reconsiderNote:
		g.loaded = false // until the scan that follows has ended
		g.schedule.Reconsider(m.nowMicros)
		g.serve(m.nowMicros)
	default:
		panic("BUG: group actor got a message it does not know")
	}
}

// Close implements Closer: pops that wait here are told to ask again.
func (g *group) Close() { g.answerAll(offerAgain) }

// answerAll gives every pop that waits here the same answer.
func (g *group) answerAll(kind offerKind) {
	answer := func(l *list.List) {
		for e := l.Front(); e != nil; e = e.Next() {
			w := e.Value.(*waiter)
			w.place = nil
			w.answer(kind)
		}
		l.Init()
	}
	answer(&g.waiting)
	for _, l := range g.pinned {
		answer(l)
	}
	for _, l := range g.unborn {
		answer(l)
	}
	clear(g.pinned)
	clear(g.unborn)
	g.shared.waiters.Store(0)
}

// rowStep changes the cursor row of one partition. Sent by the apply actor, as an inline call.
type rowStep struct {
	reader    store.Reader
	writer    *store.Batch
	partition uint64
	nowMicros uint64
	// seed makes the cursor of a row that does not exist; ok false leaves it missing and skips the step.
	seed func() (state cursor.State, ok bool, err error)
	// lease is the one that an ack names, uuid.Nil elsewhere: it tells whether the memory of the last release is needed.
	lease uuid.UUID
	// peek runs the step on a copy: nothing is stored or remembered.
	peek bool
	// step runs the machine and tells whether the row changed.
	step func(row *cursor.State) (changed bool)
	// effect is filled by step: what the schedule is to know.
	effect rowEffect
	// missing is set when there was no row and seed made none.
	missing bool
	// left is the lease that the row named before the step and does not name any more.
	left uuid.UUID
	err  error
}

// rowEffect is what a step means for the schedule of the group.
type rowEffect struct {
	kind        effectKind
	untilMicros uint64
	backlog     bool
	byLease     bool
}

type effectKind uint8

const (
	effectNone effectKind = iota
	effectClaimed
	effectMissed
	effectPassedOver // its claim had all it could take before it came to this partition
	effectReleased
)

func (g *group) step(m *rowStep) error {
	row, made, err := g.row(m)
	if err != nil {
		return err
	}
	if row == nil {
		m.missing = true
		return nil
	}
	if err := g.attachReleased(m, row); err != nil {
		return err
	}
	if m.peek {
		copied := *row
		m.step(&copied)
		return nil
	}
	lease, released, spilled, consumed := row.Lease.ID, row.Released.Lease, row.Spilled(), row.TotalConsumed
	changed := m.step(row)
	if row.Lease.ID != lease {
		m.left = lease
	}
	if changed || made {
		m.writer.Put(layout.Cursor(g.queueID, g.id, m.partition), row.AppendTo(nil))
	}
	if row.Released.Lease != released {
		g.storeReleased(m, row, spilled)
	}
	if made {
		g.rows.Put(m.partition, row)
	}
	switch m.effect.kind {
	case effectClaimed:
		// A node that follows hears of pops by their claims alone: it keeps the groups in memory that it would lead next.
		g.shared.lastPopMicros.Store(max(g.shared.lastPopMicros.Load(), m.nowMicros))
		g.schedule.Claimed(m.partition, m.effect.untilMicros, m.nowMicros)
	case effectMissed:
		g.schedule.Missed(m.partition, m.effect.untilMicros, m.nowMicros, m.effect.byLease)
	case effectPassedOver:
		g.schedule.Return(m.partition, m.nowMicros)
	case effectReleased:
		g.schedule.Released(m.partition, m.effect.backlog, m.effect.untilMicros, m.nowMicros)
	}
	if row.TotalConsumed > consumed {
		g.pace.note(int(row.TotalConsumed-consumed), m.nowMicros)
	}
	if m.effect.kind != effectNone {
		g.serve(m.nowMicros)
	}
	return nil
}

// attachReleased reads the memory of the last release when the ack that comes may be a repeat of it (messaging 6.4.2).
func (g *group) attachReleased(m *rowStep, row *cursor.State) error {
	if !row.NeedsSpill(m.lease) {
		return nil
	}
	value, err := m.reader.Get(layout.Released(g.queueID, g.id, m.partition))
	if err != nil {
		return err
	}
	return row.AttachSpill(value)
}

// storeReleased writes the memory of a new release into a row of its own when the cursor row has no room for it.
func (g *group) storeReleased(m *rowStep, row *cursor.State, spilledBefore bool) {
	key := layout.Released(g.queueID, g.id, m.partition)
	if row.Spilled() {
		m.writer.Put(key, row.SpillTo(nil))
	} else if spilledBefore {
		m.writer.Delete(key)
	}
}

func (g *group) row(m *rowStep) (row *cursor.State, made bool, err error) {
	if row, ok := g.rows.Get(m.partition); ok {
		return row, false, nil
	}
	value, err := m.reader.Get(layout.Cursor(g.queueID, g.id, m.partition))
	if err != nil {
		return nil, false, err
	}
	if value != nil {
		state, err := cursor.Decode(value)
		if err != nil {
			return nil, false, err
		}
		g.rows.Put(m.partition, &state)
		return &state, false, nil
	}
	if m.seed == nil {
		return nil, false, nil
	}
	state, ok, err := m.seed()
	if err != nil || !ok {
		return nil, false, err
	}
	return &state, true, nil
}
