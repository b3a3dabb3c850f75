package actors

import "queen/actors/machine/catalog"

// storedAppend is one append of an entry, for the groups that read its queue.
type storedAppend struct {
	queue     *catalog.Queue
	nowMicros uint64
	appendedPartition
}

// appended notes that messages were stored, or that a partition was made.
func (a *apply) appended(queue *catalog.Queue, p appendedPartition) {
	a.stored = append(a.stored, storedAppend{queue: queue, nowMicros: a.now, appendedPartition: p})
}

// wake tells the groups that are in memory what an entry has stored, one message per group, and readers that wait without a
// group. It runs in the committer of the store.
func (a *apply) wake(stored []storedAppend) {
	if len(stored) == 0 {
		return
	}
	notes := map[uint64]*appendedNote{}
	for i := range stored {
		note := notes[stored[i].queue.ID]
		if note == nil {
			note = &appendedNote{}
			notes[stored[i].queue.ID] = note
		}
		note.add(&stored[i])
	}
	queueIDs := make([]uint64, 0, len(notes))
	for queueID, note := range notes {
		queueIDs = append(queueIDs, queueID)
		for _, actor := range a.groups.of(queueID) {
			actor.Tell(note)
		}
	}
	a.arrivals.announce(queueIDs...)
}

// add takes an append in; the options of the newest one hold.
func (n *appendedNote) add(s *storedAppend) {
	n.appends = append(n.appends, s.appendedPartition)
	n.nowMicros = s.nowMicros
	n.delayMicros = uint64(s.queue.Options.DelayedProcessingSeconds) * microsPerSecond
	n.windowMicros = uint64(s.queue.Options.WindowBufferSeconds) * microsPerSecond
}
