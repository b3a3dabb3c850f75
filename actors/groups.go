package actors

import (
	"sync"

	"queen/actors/machine/cursor"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// groupActor is a handle on an active consumer group actor.
type groupActor struct {
	*Handle
	queueID uint64
	id      uint64
	shared  *groupShared
}

type groupKey struct{ queueID, id uint64 }

// groups are the active consumer group actors. Any goroutine may activate one. A waiter is sent under the lock, so that an
// actor that has been taken out gets no more of them, and what is in its mailbox by then is still received.
type groups struct {
	system *System
	mu     sync.RWMutex
	active map[groupKey]*groupActor
	ofQ    map[uint64][]*groupActor
	// closed is set when the broker stops: no actor is activated any more.
	closed bool
}

func newGroups(system *System) *groups {
	return &groups{system: system, active: map[groupKey]*groupActor{}, ofQ: map[uint64][]*groupActor{}}
}

// get returns the actor of a group and activates it when it is not in memory; nil when the broker has stopped.
func (g *groups) get(queueID, id uint64) *groupActor {
	if actor := g.find(queueID, id); actor != nil {
		return actor
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	key := groupKey{queueID, id}
	if actor := g.active[key]; actor != nil || g.closed {
		return actor
	}
	actor := &groupActor{queueID: queueID, id: id, shared: &groupShared{}}
	actor.Handle = g.system.Spawn(KindGroup, func() Behavior { return newGroup(queueID, id, actor.shared) })
	g.active[key] = actor
	g.ofQ[queueID] = append(g.ofQ[queueID], actor)
	return actor
}

// send puts a pop into the mailbox of a group's actor and returns the actor; nil when the broker has stopped.
func (g *groups) send(queueID, id uint64, w *waiter) *groupActor {
	for {
		actor := g.get(queueID, id)
		if actor == nil {
			return nil
		}
		g.mu.RLock()
		if g.active[groupKey{queueID, id}] == actor {
			actor.Tell(w)
			g.mu.RUnlock()
			return actor
		}
		g.mu.RUnlock()
	}
}

// of lists the active groups of a queue. The slice must not be changed.
func (g *groups) of(queueID uint64) []*groupActor {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.ofQ[queueID]
}

// due appends the groups whose schedule has something to wake at an instant.
func (g *groups) due(nowMicros uint64, list []*groupActor) []*groupActor {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, actor := range g.active {
		if next := actor.shared.nextWakeMicros.Load(); next != 0 && next <= nowMicros {
			list = append(list, actor)
		}
	}
	return list
}

// all lists the active groups.
func (g *groups) all() []*groupActor {
	g.mu.RLock()
	defer g.mu.RUnlock()
	list := make([]*groupActor, 0, len(g.active))
	for _, actor := range g.active {
		list = append(list, actor)
	}
	return list
}

// stop takes a group out of memory; its waiters are told to look again.
func (g *groups) stop(actor *groupActor) {
	g.mu.Lock()
	key := groupKey{actor.queueID, actor.id}
	if g.active[key] == actor {
		delete(g.active, key)
		rest := make([]*groupActor, 0, len(g.ofQ[actor.queueID]))
		for _, other := range g.ofQ[actor.queueID] {
			if other != actor {
				rest = append(rest, other)
			}
		}
		g.ofQ[actor.queueID] = rest
		if len(rest) == 0 {
			delete(g.ofQ, actor.queueID)
		}
	}
	g.mu.Unlock()
	actor.Retire()
}

// stopQueue takes all groups of a queue out of memory.
func (g *groups) stopQueue(queueID uint64) {
	for _, actor := range g.of(queueID) {
		g.stop(actor)
	}
}

// close stops all groups for good. When it returns, every pop that was parked has its answer; one that is in a mailbox
// still gets it there.
func (g *groups) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	for _, actor := range g.all() {
		actor.close()
		g.stop(actor)
	}
}

// scanSlice is how many partitions one message of the scan brings.
const scanSlice = 1024

// scan looks through the partitions of a queue for those that are worth a claim of a group, and tells its actor in slices.
// It runs in a goroutine of its own: neither applying nor other groups wait for it.
func scan(view *store.View, actor *groupActor, number uint64, start command.Subscription, now func() uint64, holds cursor.Holds) error {
	cursors, err := newRowWalker(view, layout.CursorsOf(actor.queueID, actor.id))
	if err != nil {
		actor.Tell(&foundNote{scan: number, nowMicros: now(), failed: true})
		return err
	}
	note := &foundNote{scan: number, nowMicros: now()}
	var failure error
	err = view.Scan(layout.HeadsOf(actor.queueID), nil, func(key, value []byte) bool {
		id := layout.LastNumber(key)
		head, err := partition.DecodeHead(value)
		if err != nil {
			failure = err
			return false
		}
		found := foundPartition{id: id}
		row, ok, err := cursors.at(id)
		if err != nil {
			failure = err
			return false
		}
		if !ok && start.Mode >= command.SubscriptionNew && head.LastStampMicros < start.InstantMicros {
			return true // the registration starts behind everything that is here
		}
		if head.Tail <= max(row.Cursor, head.LogStart) {
			return true
		}
		if end, leased := row.LeaseEnd(holds); leased && end > note.nowMicros {
			found.untilMicros, found.byLease = end, true
		} else {
			found.untilMicros = row.NotBeforeMicros
		}
		note.partitions = append(note.partitions, found)
		if len(note.partitions) == scanSlice {
			actor.Tell(note)
			note = &foundNote{scan: number, nowMicros: now()}
		}
		return true
	})
	if failure == nil {
		failure = err
	}
	note.last, note.failed = failure == nil, failure != nil
	actor.Tell(note)
	return failure
}

// rowWalker reads cursor rows beside an ascending walk over partition ids, a page at a time, so that the two range scans
// make one merge.
type rowWalker struct {
	view   *store.View
	prefix []byte
	page   []walkedRow
	done   bool
}

type walkedRow struct {
	partition uint64
	state     cursor.State
}

func newRowWalker(view *store.View, prefix []byte) (*rowWalker, error) {
	w := &rowWalker{view: view, prefix: prefix}
	return w, w.fill(0)
}

func (w *rowWalker) fill(from uint64) error {
	w.page = w.page[:0]
	w.done = true
	var failure error
	key := append(append([]byte(nil), w.prefix...), 0, 0, 0, 0, 0, 0, 0, 0)
	for i := range 8 {
		key[len(w.prefix)+i] = byte(from >> (56 - 8*i))
	}
	err := w.view.Scan(w.prefix, key, func(key, value []byte) bool {
		if len(w.page) == scanSlice {
			w.done = false
			return false
		}
		state, err := cursor.Decode(value)
		if err != nil {
			failure = err
			return false
		}
		w.page = append(w.page, walkedRow{layout.LastNumber(key), state})
		return true
	})
	if failure != nil {
		return failure
	}
	return err
}

// at returns the row of a partition, the zero value when it has none; ids must rise from call to call.
func (w *rowWalker) at(partition uint64) (state cursor.State, ok bool, err error) {
	for {
		for len(w.page) > 0 && w.page[0].partition < partition {
			w.page = w.page[1:]
		}
		if len(w.page) > 0 && w.page[0].partition == partition {
			return w.page[0].state, true, nil
		}
		if len(w.page) > 0 || w.done {
			return cursor.State{}, false, nil
		}
		if err := w.fill(partition); err != nil {
			return cursor.State{}, false, err
		}
	}
}

// find returns the actor of a group when it is in memory.
func (g *groups) find(queueID, id uint64) *groupActor {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.active[groupKey{queueID, id}]
}
