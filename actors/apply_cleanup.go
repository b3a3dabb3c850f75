package actors

import (
	"github.com/google/uuid"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/lease"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
	"queen/store/layout"
)

const microsPerDay = 24 * 3600 * microsPerSecond

// idleSince tells whether nothing was stored in a partition for days and nothing is retained (messaging 15).
func idleSince(messages, lastStampMicros, nowMicros uint64, days uint32) bool {
	return days > 0 && messages == 0 && lastStampMicros+uint64(days)*microsPerDay < nowMicros
}

// cleanUp deletes a partition that has long been empty and idle, unless something still refers to it: a dead letter, a
// live lease or a txid inside its hash window.
func (a *apply) cleanUp(queue *catalog.Queue, p *catalog.Partition) error {
	idle := false
	err := a.inPartition(queue, p, func(m *partition.Machine) error {
		// A position write makes a partition that nothing was ever stored in.
		last := max(m.LastStampMicros(), p.CreatedMicros)
		idle = idleSince(m.Tail()-m.LogStart(), last, a.now, a.header.Settings.PartitionCleanupDays) &&
			!m.HoldsHashes(a.now, a.hashWindowMicros(&queue.Options))
		return nil
	})
	if err != nil || !idle {
		return err
	}
	if held, err := a.hasDeadLetters(p.ID); err != nil || held {
		return err
	}
	groups, ended, leased, err := a.readersOf(queue, p)
	if err != nil || leased {
		return err
	}
	a.partitions.drop(p.ID)
	done, err := partition.Sweep(a.batch, a.batch, partition.SweepInput{Queue: queue.ID, Partition: p.ID, MaxAppends: 1})
	if err != nil || !done {
		return err // hashes out of their window are left; the next pass goes on
	}
	for i, group := range groups {
		if err := a.unlist(queue.ID, ended[i], lease.Member{Group: group.ID, Partition: p.ID}); err != nil {
			return err
		}
		a.batch.Delete(layout.Cursor(queue.ID, group.ID, p.ID))
		a.batch.Delete(layout.Released(queue.ID, group.ID, p.ID))
		a.batch.Delete(layout.Position(queue.ID, group.ID, p.ID))
	}
	return a.forgetPartition(queue.ID, p.ID)
}

func (a *apply) hasDeadLetters(partitionID uint64) (found bool, err error) {
	err = a.batch.Scan(layout.DeadLetterPlacesOf(partitionID), nil, func(_, _ []byte) bool {
		found = true
		return false
	})
	return found, err
}

// readersOf lists the groups of a queue, with the leases that they still have rows of in a partition, and tells whether one
// of those is live.
func (a *apply) readersOf(queue *catalog.Queue, p *catalog.Partition) (groups []*catalog.Group, ended []uuid.UUID, leased bool, err error) {
	err = a.inCatalog(func(m *catalog.Machine) error {
		groups = m.GroupsOf(queue.ID)
		return nil
	})
	ended = make([]uuid.UUID, len(groups))
	for i, group := range groups {
		if err != nil || leased {
			break
		}
		s := a.rowStep(queue, group, p, command.Subscription{})
		s.peek, s.seed = true, nil
		s.step = func(row *cursor.State) bool {
			leased, ended[i] = row.LeaseLive(a.now, a.holds), row.Lease.ID
			return false
		}
		err = a.inGroup(queue, group, s)
	}
	return groups, ended, leased, err
}
