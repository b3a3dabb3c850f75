package query

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"queen/actors"
	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
	"queen/store/layout"
)

const (
	hourMicros = 3600 * 1_000_000
	dayMicros  = 24 * hourMicros
)

// Liveness tells when the partitions of a queue were last written to, and made.
type Liveness struct {
	Partitions, LiveHour, LiveDay, LiveWeek, CreatedDay uint64
	// OldestWriteMicros and NewestWriteMicros are the earliest and the latest last write of a partition; 0 when none was
	// ever written to.
	OldestWriteMicros, NewestWriteMicros uint64
	// Pending is what the measuring reader has not consumed, leased messages aside.
	Pending uint64
}

// Liveness walks through the partitions of a queue.
func (r *Reads) Liveness(queue *actors.QueueView) (Liveness, error) {
	var l Liveness
	within := func(stampMicros, span uint64) uint64 {
		if stampMicros > 0 && stampMicros+span > r.now {
			return 1
		}
		return 0
	}
	err := r.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
		counts, _, err := r.Count(queue, id, head)
		l.Partitions++
		l.Pending += counts.Backlog - counts.Processing
		l.LiveHour += within(head.LastStampMicros, hourMicros)
		l.LiveDay += within(head.LastStampMicros, dayMicros)
		l.LiveWeek += within(head.LastStampMicros, 7*dayMicros)
		l.CreatedDay += within(head.CreatedMicros, dayMicros)
		if written := head.LastStampMicros; written > 0 {
			l.NewestWriteMicros = max(l.NewestWriteMicros, written)
			if l.OldestWriteMicros == 0 || written < l.OldestWriteMicros {
				l.OldestWriteMicros = written
			}
		}
		return true, err
	})
	return l, err
}

// EachLease visits the live leases of a queue, one call per partition that is held.
func (r *Reads) EachLease(queue *actors.QueueView, visit func(lease uuid.UUID)) error {
	living := map[uint64]bool{}
	for _, group := range queue.Groups {
		living[group.ID] = true
	}
	prefix := layout.AllCursorsOf(queue.ID)
	var failure error
	count := 0
	err := r.view.Scan(prefix, nil, func(key, value []byte) bool {
		if count++; count%checkEvery == 0 && r.ctx.Err() != nil {
			failure = r.ctx.Err()
			return false
		}
		if len(key) < len(prefix)+8 || !living[binary.BigEndian.Uint64(key[len(prefix):])] {
			return true // of a deleted group, to be swept
		}
		state, err := cursor.Decode(value)
		if err != nil {
			failure = err
			return false
		}
		if state.LeaseLive(r.now, r.holds) {
			visit(state.Lease.ID)
		}
		return true
	})
	if failure != nil {
		return failure
	}
	return err
}

// Lag is how far a group is behind on a queue.
type Lag struct {
	// Messages is the sum over the partitions of what is retained at or above the cursor.
	Messages uint64
	// OldestMicros is the stamp of the oldest message that is not consumed; 0 when the group is level.
	OldestMicros uint64
}

// Lag measures a group. A registered group counts in partitions in which it has no cursor yet with the one that its
// registration will give it. *budget is what the walk may still visit; it ends early when that is used up.
func (r *Reads) Lag(queue *actors.QueueView, group *catalog.Group, budget *int) (Lag, error) {
	var lag Lag
	err := r.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
		if *budget--; *budget < 0 {
			return false, nil
		}
		at, known, err := r.position(group, id, head)
		if err != nil || !known || at >= head.Tail {
			return true, err
		}
		stamp := head.OldestStampMicros
		if at > head.LogStart {
			if stamp, err = r.OldestUnconsumed(queue.ID, id, at); err != nil {
				return false, err
			}
		}
		lag.Messages += head.Tail - at
		if stamp > 0 && (lag.OldestMicros == 0 || stamp < lag.OldestMicros) {
			lag.OldestMicros = stamp
		}
		return true, nil
	})
	return lag, err
}

// position is the next offset of a group in a partition, not below the log start. known is false when the group has
// nothing to do with the partition.
func (r *Reads) position(group *catalog.Group, id uint64, head *partition.Head) (at uint64, known bool, err error) {
	standing, err := r.Standing(group, id, head)
	switch {
	case err != nil:
		return 0, false, err
	case standing != nil:
		return standing.Cursor, true, nil
	case !group.Registered():
		return 0, false, nil
	case group.Subscription.Mode == command.SubscriptionAll:
		return head.LogStart, true, nil
	case head.LastStampMicros < group.Subscription.InstantMicros:
		return head.Tail, true, nil
	}
	at = head.Tail
	span := partition.AppendRange{Queue: group.QueueID, Partition: id, FromMicros: group.Subscription.InstantMicros}
	err = partition.ForEachAppend(r.view, span, func(a *partition.Append) (bool, error) {
		at = max(a.Base, head.LogStart)
		return false, nil
	})
	return at, true, err
}

// CountDeadLetters counts the dead letters of a queue.
func (r *Reads) CountDeadLetters(queueID uint64) (uint64, error) { return r.countDeadLetters(queueID) }

// NewestDeadLetters returns the newest dead letters of a queue by the order of their ids, at most limit, and the number of
// all.
func (r *Reads) NewestDeadLetters(queueID uint64, limit int) (rows []*deadletter.Row, total uint64, err error) {
	if total, err = r.countDeadLetters(queueID); err != nil {
		return nil, 0, err
	}
	var failure error
	err = r.view.ScanReverse(layout.DeadLettersOf(queueID), nil, func(_, value []byte) bool {
		if len(rows) == limit {
			return false
		}
		row, err := deadletter.DecodeRow(value)
		if err != nil {
			failure = fmt.Errorf("read dead letter: %w", err)
			return false
		}
		rows = append(rows, row)
		return true
	})
	if failure != nil {
		return nil, 0, failure
	}
	return rows, total, err
}
