package query

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"queen/actors"
	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/partition"
	"queen/store"
	"queen/store/layout"
)

// Reads is one view with what its readers share. It belongs to one request.
type Reads struct {
	ctx  context.Context
	view store.Reader
	// now is the leader's time at which leases are judged.
	now   uint64
	holds cursor.Holds
}

// New makes the reads of one request.
func New(ctx context.Context, view store.Reader, nowMicros uint64, holds cursor.Holds) *Reads {
	return &Reads{ctx: ctx, view: view, now: nowMicros, holds: holds}
}

// checkEvery is how many rows pass between two looks at the context.
const checkEvery = 256

// EachPartition visits the heads of a queue in the order in which the partitions were made, those above an id.
func (r *Reads) EachPartition(queueID, after uint64, visit func(id uint64, head *partition.Head) (more bool, err error)) error {
	var failure error
	count := 0
	err := r.view.Scan(layout.HeadsOf(queueID), layout.Head(queueID, after+1), func(key, value []byte) bool {
		if count++; count%checkEvery == 0 && r.ctx.Err() != nil {
			failure = r.ctx.Err()
			return false
		}
		head, err := partition.DecodeHead(value)
		if err != nil {
			failure = err
			return false
		}
		more, err := visit(layout.LastNumber(key), &head)
		failure = err
		return more && err == nil
	})
	if failure != nil {
		return failure
	}
	return err
}

// Identity reads name and UUID of a partition.
func (r *Reads) Identity(id uint64) (*catalog.Partition, error) {
	row, err := r.view.Get(layout.Partition(id))
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, fmt.Errorf("find identity of partition %d: %w", id, catalog.ErrBadRow)
	}
	return catalog.DecodePartition(id, row)
}

// PartitionByName finds the id of a partition; ok is false when there is none.
func (r *Reads) PartitionByName(queueID uint64, name string) (id uint64, ok bool, err error) {
	row, err := r.view.Get(layout.PartitionName(queueID, name))
	if err != nil || row == nil {
		return 0, false, err
	}
	p, err := catalog.DecodePartitionName(queueID, name, row)
	if err != nil {
		return 0, false, err
	}
	return p.ID, true, nil
}

// Standing is where a group stands in a partition.
type Standing struct {
	Group *catalog.Group
	// Cursor is the next offset, raised to the log start.
	Cursor uint64
	// Leased is the number of messages in the live lease, whose id and expiry follow.
	Leased        uint64
	Lease         uuid.UUID
	ExpiresMicros uint64
	TotalConsumed uint64
}

// Backlog is how many retained messages stand at or above the cursor.
func (s *Standing) Backlog(head *partition.Head) uint64 { return head.Tail - min(head.Tail, s.Cursor) }

// Standing reads the cursor row of a group in a partition; nil when it has none.
func (r *Reads) Standing(group *catalog.Group, id uint64, head *partition.Head) (*Standing, error) {
	row, err := r.view.Get(layout.Cursor(group.QueueID, group.ID, id))
	if err != nil || row == nil {
		return nil, err
	}
	state, err := cursor.Decode(row)
	if err != nil {
		return nil, err
	}
	s := &Standing{Group: group, Cursor: max(state.Cursor, head.LogStart), TotalConsumed: state.TotalConsumed}
	if state.LeaseLive(r.now, r.holds) {
		s.Lease = state.Lease.ID
		s.ExpiresMicros, _ = state.LeaseEnd(r.holds)
		s.Leased = state.Lease.End + 1 - min(state.Lease.End+1, s.Cursor)
	}
	return s, nil
}

// Measuring returns the reader that counts in a partition: the named group with the lowest cursor; queue mode only when
// the queue has no named group; nil when nobody has a cursor (messaging 9.5).
func (r *Reads) Measuring(queue *actors.QueueView, id uint64, head *partition.Head) (*Standing, error) {
	var lowest *Standing
	named := false
	for _, group := range queue.Groups {
		if group.QueueMode() {
			continue
		}
		named = true
		standing, err := r.Standing(group, id, head)
		if err != nil {
			return nil, err
		}
		if standing != nil && (lowest == nil || standing.Cursor < lowest.Cursor) {
			lowest = standing
		}
	}
	if mode := queue.QueueMode(); !named && mode != nil {
		return r.Standing(mode, id, head)
	}
	return lowest, nil
}

// Counts are the message counts of one or more partitions (messaging 9.5). Backlog includes Processing.
type Counts struct {
	Total, Backlog, Processing, DeadLetters uint64
}

// Completed is what the measuring reader is past.
func (c *Counts) Completed() uint64 { return c.Total - c.Backlog }

// Add sums.
func (c *Counts) Add(o Counts) {
	c.Total += o.Total
	c.Backlog += o.Backlog
	c.Processing += o.Processing
	c.DeadLetters += o.DeadLetters
}

// Count counts one partition by its measuring reader.
func (r *Reads) Count(queue *actors.QueueView, id uint64, head *partition.Head) (Counts, *Standing, error) {
	counts := Counts{Total: head.Messages(), Backlog: head.Messages()}
	reader, err := r.Measuring(queue, id, head)
	if err != nil || reader == nil {
		return counts, nil, err
	}
	counts.Backlog, counts.Processing = reader.Backlog(head), reader.Leased
	return counts, reader, nil
}

// Summary is a queue as the lists show it.
type Summary struct {
	Counts
	Partitions    uint64
	Segments      uint64
	RetainedBytes uint64
}

// Summarize walks through the partitions of a queue.
func (r *Reads) Summarize(queue *actors.QueueView) (Summary, error) {
	var sum Summary
	err := r.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
		counts, _, err := r.Count(queue, id, head)
		sum.Add(counts)
		sum.Partitions++
		sum.Segments += head.Segments
		sum.RetainedBytes += head.RetainedBytes
		return true, err
	})
	if err != nil {
		return sum, err
	}
	sum.DeadLetters, err = r.countDeadLetters(queue.ID)
	return sum, err
}

func (r *Reads) countDeadLetters(queueID uint64) (count uint64, err error) {
	err = r.view.Scan(layout.DeadLettersOf(queueID), nil, func(_, _ []byte) bool {
		count++
		return count%checkEvery != 0 || r.ctx.Err() == nil
	})
	if err == nil {
		err = r.ctx.Err()
	}
	return count, err
}

// OldestUnconsumed is the stamp of the append that holds the message at an offset; 0 when there is none.
func (r *Reads) OldestUnconsumed(queueID, id, offset uint64) (stampMicros uint64, err error) {
	return partition.StampOf(r.view, queueID, id, offset)
}

// DeadLettersByPartition counts the dead letters of a queue by partition id.
func (r *Reads) DeadLettersByPartition(queueID uint64) (map[uint64]uint64, error) {
	counts := map[uint64]uint64{}
	err := r.EachDeadLetter(queueID, func(row *deadletter.Row) (bool, error) {
		counts[row.PartitionID]++
		return true, nil
	})
	return counts, err
}

// EachDeadLetter visits the dead letters of a queue in the order of their ids.
func (r *Reads) EachDeadLetter(queueID uint64, visit func(row *deadletter.Row) (more bool, err error)) error {
	var failure error
	count := 0
	err := r.view.Scan(layout.DeadLettersOf(queueID), nil, func(_, value []byte) bool {
		if count++; count%checkEvery == 0 && r.ctx.Err() != nil {
			failure = r.ctx.Err()
			return false
		}
		row, err := deadletter.DecodeRow(value)
		if err != nil {
			failure = err
			return false
		}
		more, err := visit(row)
		failure = err
		return more && err == nil
	})
	if failure != nil {
		return failure
	}
	return err
}

// View is what the reads read from.
func (r *Reads) View() store.Reader { return r.view }

// Now is the instant at which leases and ages are judged.
func (r *Reads) Now() uint64 { return r.now }

// PositionMetadata is what a position write has stored beside a cursor; nil when there is nothing.
func (r *Reads) PositionMetadata(group *catalog.Group, id uint64) ([]byte, error) {
	return r.view.Get(layout.Position(group.QueueID, group.ID, id))
}
