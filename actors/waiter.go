package actors

import (
	"container/list"
	"sync/atomic"
	"time"

	"queen/raftlog/command"
)

// waiter is a pop that looks for partitions. The handler that made it owns it; the group actor holds it while it is
// parked and answers it exactly once, through offers.
type waiter struct {
	// limit is how many partitions the pop may claim; 0 leaves the choice to autopilot.
	limit int
	// autoBatch asks for a batch size as well.
	autoBatch bool
	// pinned waits for one partition: its id, or its name while it does not exist.
	pinned      bool
	partitionID uint64
	partition   string
	// wait parks the pop when nothing is ready.
	wait bool
	// since is when the pop came to its node: whoever has waited longest is served first, also when it asks again.
	since     time.Time
	nowMicros uint64
	spec      *claimSpec
	// offers has room for the one answer, so that the group actor never waits.
	offers chan offer

	// abandoned tells the group actor that nobody reads offers any more.
	abandoned atomic.Bool

	place *list.Element
	line  *list.List
}

// claimSpec is what every claim of one pop has in common. Immutable, so that a push may build the claim of a pop that
// rides with it. Discovery pops have none, for their claims span queues.
type claimSpec struct {
	tenant           command.Tenant
	queue            string
	group            string
	batch            uint64
	leaseMs          uint64
	commitOnDelivery bool
	seed             command.Subscription
	lease            command.LeaseID
	deadline         time.Time
	gone             func() bool
	// serves is the id under which the pop waits for what a claim gets it, at its own node.
	serves command.RequestID
}

// lost implements loser: the pop looks everything up again, unless it has been answered already.
func (w *waiter) lost() { w.answer(offerAgain) }

// answer ends the wait, unless it has been ended already.
func (w *waiter) answer(kind offerKind) {
	select {
	case w.offers <- offer{kind: kind}:
	default:
	}
}

type offerKind uint8

const (
	// offerTargets: partitions are reserved for the pop; it is to claim them.
	offerTargets offerKind = iota + 1
	// offerNothing: nothing is ready and the pop does not wait.
	offerNothing
	// offerAgain: the group actor was re-made or its queue is gone; look everything up anew.
	offerAgain
	// offerClaimed: a claim rode with a push; this is its result.
	offerClaimed
	// offerFailed: this node cannot read its store, so it does not know what is ready.
	offerFailed
	// offerRiding: a claim rides with a push, and nobody knows yet what becomes of it.
	offerRiding
)

// offer answers a waiter.
type offer struct {
	kind       offerKind
	partitions []uint64
	// autoPartitions and autoBatch are what autopilot chose; 0 where it was not asked.
	autoPartitions int
	autoBatch      int
	result         *command.ClaimResult
}

// cancelWaiter takes a parked pop back. removed false means that an offer is in its channel already.
type cancelWaiter struct {
	waiter  *waiter
	removed bool
}

// readySince asks since when the partitions have been ready that a pop of so many would get now, longest first. The pop
// that asks may get none of them and ask for ever, so it keeps the group in memory like one that gets something.
type readySince struct {
	limit     int
	nowMicros uint64
	// sinceMicros is appended to.
	sinceMicros []uint64
}

// giveBack returns reservations that led to no claim.
type giveBack struct {
	partitions []uint64
	nowMicros  uint64
}

// appendedNote tells a group what an entry appended to its queue. Sent once per entry.
type appendedNote struct {
	appends   []appendedPartition
	nowMicros uint64
	// delayMicros and windowMicros are the delays of the queue.
	delayMicros  uint64
	windowMicros uint64
}

type appendedPartition struct {
	id      uint64
	name    string
	created bool
}

// rideRequest asks for a parked pop that could be served by a push that is about to be proposed.
type rideRequest struct {
	partition string
	// id is 0 when the partition does not exist yet.
	id uint64
	// waiter is the pop that the group has let go; autoPartitions and autoBatch are what autopilot chose for it.
	waiter         *waiter
	autoPartitions int
	autoBatch      int
}

// scanNote tells that a scan is about to open its view of the store.
type scanNote struct{}

// foundNote brings partitions that a scan of the store found; last ends the scan.
type foundNote struct {
	scan       uint64
	partitions []foundPartition
	nowMicros  uint64
	last       bool
	// failed ends a scan that could not be finished.
	failed bool
}

type foundPartition struct {
	id          uint64
	untilMicros uint64
	byLease     bool
}

// wakeNote tells the time when something in the schedule is due.
type wakeNote struct{ nowMicros uint64 }

// reconsiderNote tells that the delays of the queue may have changed.
type reconsiderNote struct{ nowMicros uint64 }

func (g *group) pop(w *waiter) {
	if w.abandoned.Load() {
		w.offers <- offer{kind: offerNothing}
		return
	}
	g.shared.lastPopMicros.Store(w.nowMicros)
	if w.pinned {
		g.popPinned(w)
		return
	}
	g.park(&g.waiting, w)
	g.serve(w.nowMicros)
	if w.place != nil && !w.wait && g.loaded {
		g.sendAway(w)
	}
}

func (g *group) popPinned(w *waiter) {
	if w.partitionID == 0 {
		if !w.wait {
			w.offers <- offer{kind: offerNothing}
			return
		}
		g.park(lineOf(g.unborn, w.partition), w)
		return
	}
	g.serve(w.nowMicros)
	if g.schedule.TakeOne(w.partitionID) {
		w.offers <- offer{kind: offerTargets, partitions: []uint64{w.partitionID}}
		return
	}
	if !w.wait && g.loaded {
		w.offers <- offer{kind: offerNothing}
		return
	}
	g.park(lineOf(g.pinned, w.partitionID), w)
}

func lineOf[K comparable](lines map[K]*list.List, key K) *list.List {
	line := lines[key]
	if line == nil {
		line = list.New()
		lines[key] = line
	}
	return line
}

func (g *group) park(line *list.List, w *waiter) {
	w.stand(line)
	g.shared.waiters.Add(1)
}

// stand puts a pop into a line, behind those that have waited longer. A new one goes to the end at once, and one that asks
// again finds its place from the front, where it has been before.
func (w *waiter) stand(line *list.List) {
	w.line = line
	last := line.Back()
	if last == nil || !last.Value.(*waiter).since.After(w.since) {
		w.place = line.PushBack(w)
		return
	}
	next := line.Front()
	for !next.Value.(*waiter).since.After(w.since) {
		next = next.Next()
	}
	w.place = line.InsertBefore(w, next)
}

// unpark takes a waiter out of its line.
func (g *group) unpark(w *waiter) {
	w.line.Remove(w.place)
	if w.line.Len() == 0 && w.line != &g.waiting {
		if w.partitionID != 0 {
			delete(g.pinned, w.partitionID)
		} else {
			delete(g.unborn, w.partition)
		}
	}
	w.place, w.line = nil, nil
	g.shared.waiters.Add(-1)
}

func (g *group) cancel(w *waiter) bool {
	if w.place == nil {
		return false
	}
	g.unpark(w)
	return true
}

// serve hands ready partitions to those who wait: first to the pops pinned to what has just become ready, then longest
// ready to longest waiting. While a scan is under way, a pop that could get more than is known waits for its end.
func (g *group) serve(nowMicros uint64) {
	g.schedule.Wake(nowMicros)
	for _, partition := range g.schedule.Fresh() {
		line := g.pinned[partition]
		if line == nil || !g.schedule.TakeOne(partition) {
			continue
		}
		w := line.Front().Value.(*waiter)
		g.unpark(w)
		w.offers <- offer{kind: offerTargets, partitions: []uint64{partition}}
	}
	for g.waiting.Len() > 0 && g.schedule.ReadyCount() > 0 {
		w := g.waiting.Front().Value.(*waiter)
		if !g.loaded && g.schedule.ReadyCount() < w.most() {
			break // the scan may find more for it
		}
		answer := offer{kind: offerTargets}
		limit := w.limit
		if limit == 0 {
			limit = g.pace.partitions(g.schedule.ReadyCount(), g.waiting.Len())
			answer.autoPartitions = limit
		}
		if w.autoBatch {
			answer.autoBatch = g.pace.batch()
		}
		answer.partitions = g.schedule.Take(limit)
		g.unpark(w)
		w.offers <- answer
	}
	g.publish()
}

// most is how many partitions the pop can get.
func (w *waiter) most() int {
	if w.limit == 0 {
		return autoPartitionMax
	}
	return w.limit
}

// sendAway answers a pop that does not wait: nothing is ready.
func (g *group) sendAway(w *waiter) {
	g.unpark(w)
	w.offers <- offer{kind: offerNothing}
}

// sendAllAway answers the pops that only waited for the scan of the store to end.
func (g *group) sendAllAway() {
	away := func(line *list.List) {
		for e := line.Front(); e != nil; {
			w := e.Value.(*waiter)
			e = e.Next()
			if !w.wait {
				g.sendAway(w)
			}
		}
	}
	away(&g.waiting)
	for _, line := range g.pinned {
		away(line)
	}
}

// publish tells the clock when to come next.
func (g *group) publish() {
	g.shared.nextWakeMicros.Store(g.schedule.Wake(0))
}

func (g *group) appended(m *appendedNote) {
	visible := m.nowMicros + max(m.delayMicros, m.windowMicros)
	if m.delayMicros == 0 && m.windowMicros == 0 {
		visible = 0
	}
	for _, a := range m.appends {
		if a.created {
			g.born(a)
		}
		g.schedule.Appended(a.id, visible, m.nowMicros, m.windowMicros > 0)
	}
	g.serve(m.nowMicros)
}

// born moves the pops that waited for a partition by its name to the line of its id.
func (g *group) born(a appendedPartition) {
	line := g.unborn[a.name]
	if line == nil {
		return
	}
	delete(g.unborn, a.name)
	target := lineOf(g.pinned, a.id)
	for e := line.Front(); e != nil; e = e.Next() {
		w := e.Value.(*waiter)
		w.partitionID = a.id
		w.stand(target)
	}
}

// ride lets a parked pop go that is to be served in the entry of a push, and reserves the partition for it. Nothing else is
// ready, or the pop would not be parked once everything is known; so it claims this one partition.
func (g *group) ride(m *rideRequest) {
	w := g.rider(m)
	if w == nil || w.spec == nil || (m.id != 0 && !g.schedule.Reserve(m.id)) {
		return
	}
	if w.limit == 0 {
		m.autoPartitions = 1
	}
	if w.autoBatch {
		m.autoBatch = g.pace.batch()
	}
	g.unpark(w)
	m.waiter = w
	g.publish()
}

func (g *group) rider(m *rideRequest) *waiter {
	if m.id == 0 {
		if line := g.unborn[m.partition]; line != nil && line.Len() > 0 {
			return line.Front().Value.(*waiter)
		}
	} else if line := g.pinned[m.id]; line != nil && line.Len() > 0 {
		return line.Front().Value.(*waiter)
	}
	if g.waiting.Len() > 0 && g.loaded {
		return g.waiting.Front().Value.(*waiter)
	}
	return nil
}

func (g *group) found(m *foundNote) {
	newest := m.scan == g.shared.scans.Load()
	if newest { // what an older scan has found, the next one finds as well, and as it is by then
		for _, p := range m.partitions {
			g.schedule.Found(p.id, p.untilMicros, m.nowMicros, p.byLease)
		}
	}
	if newest && (m.last || m.failed) {
		g.schedule.ScanEnded()
	}
	ended := m.last && newest
	g.loaded = g.loaded || ended
	g.serve(m.nowMicros)
	switch {
	case m.failed:
		g.shared.scanned.Store(false) // the next pop tries again
		g.answerAll(offerFailed)
	case ended:
		g.sendAllAway()
	}
}
