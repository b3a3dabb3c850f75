package actors

import (
	"encoding/binary"
	"errors"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
	"queen/store/layout"
)

// retain removes due appends and hashes of partitions (messaging 15).
func (a *apply) retain(c *command.Retain) (command.Result, error) {
	result := &command.RetainResult{}
	for _, target := range c.Partitions {
		if !a.fits(retainStepKeys, retainStepBytes, 0) {
			result.More = append(result.More, target.Partition)
			continue
		}
		if err := a.retainOne(target, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// retainStepKeys and retainStepBytes are what one partition's step writes at most, its appends aside: the hashes that
// outlive them.
const (
	retainStepKeys  = 1024
	retainStepBytes = 640 << 10
)

func (a *apply) retainOne(target command.RetainPartition, result *command.RetainResult) error {
	var queue *catalog.Queue
	var p *catalog.Partition
	err := a.inCatalog(func(m *catalog.Machine) (err error) {
		if p, err = m.PartitionByID(a.batch, target.Partition); p != nil {
			queue = m.QueueByID(p.QueueID)
		}
		return err
	})
	if err != nil || p == nil {
		return err
	}
	rules, err := a.retentionRules(queue, p)
	if err != nil {
		return err
	}
	err = a.inPartition(queue, p, func(m *partition.Machine) error {
		out, err := m.Retain(a.batch, a.batch, partition.RetainInput{
			NowMicros: a.now, HashWindowMicros: a.hashWindowMicros(&queue.Options), Rules: rules, MaxAppends: target.MaxAppends,
		})
		result.Appends += uint64(out.Appends)
		result.Messages += out.Messages
		if out.More {
			result.More = append(result.More, target.Partition)
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.cleanUp(queue, p)
}

// retentionRules are the rules of messaging 15 for one partition, with the cursors that they depend on.
func (a *apply) retentionRules(queue *catalog.Queue, p *catalog.Partition) (rules partition.Retention, err error) {
	if rules, err = a.ageRules(queue, p); err != nil {
		return rules, err
	}
	if o := &queue.Options; o.RetentionEnabled && o.CompletedRetentionSeconds > 0 {
		rules.CompletedMicros = uint64(o.CompletedRetentionSeconds) * microsPerSecond
		rules.CommittedBelow, err = a.committedBelow(queue, p)
	}
	return rules, err
}

// ageRules are those that hide messages even before a pass has removed them: rule 1 with the hold of the sink, and
// maxWaitTimeSeconds.
func (a *apply) ageRules(queue *catalog.Queue, p *catalog.Partition) (rules partition.Retention, err error) {
	o := &queue.Options
	rules.EvictMicros = uint64(o.MaxWaitTimeSeconds) * microsPerSecond
	if !o.RetentionEnabled {
		return rules, nil
	}
	rules.AgeMicros = uint64(o.RetentionSeconds) * microsPerSecond
	if o.RetentionSinkHold != "" {
		rules.Held = true
		rules.HoldMicros = uint64(o.RetentionSinkHoldMaxSeconds) * microsPerSecond
		rules.HoldCommittedBelow, err = a.sinkCommitted(queue, p, o.RetentionSinkHold)
	}
	return rules, err
}

// committedBelow is the lowest cursor of the partition; 0 when no group has one. A registered group without a cursor
// counts with the one that its registration would give it.
func (a *apply) committedBelow(queue *catalog.Queue, p *catalog.Partition) (uint64, error) {
	var groups []*catalog.Group
	err := a.inCatalog(func(m *catalog.Machine) error {
		groups = m.GroupsOf(queue.ID)
		return nil
	})
	if err != nil {
		return 0, err
	}
	lowest, any := uint64(0), false
	for _, group := range groups {
		row, found, err := a.peekRow(queue, group, p)
		if err != nil {
			return 0, err
		}
		if found && (!any || row.Cursor < lowest) {
			lowest, any = row.Cursor, true
		}
	}
	return lowest, nil
}

// peekRow reads the row of a group, or the one that its registration would make, without storing anything.
func (a *apply) peekRow(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition) (row cursor.State, found bool, err error) {
	s := a.rowStep(queue, group, p, command.Subscription{})
	s.peek = true
	if !group.Registered() {
		s.seed = nil
	}
	s.step = func(current *cursor.State) bool {
		row, found = *current, true
		return false
	}
	return row, found, a.inGroup(queue, group, s)
}

func (a *apply) sinkCommitted(queue *catalog.Queue, p *catalog.Partition, name string) (uint64, error) {
	var sink *catalog.Group
	err := a.inCatalog(func(m *catalog.Machine) error {
		sink = m.Group(queue.ID, name)
		return nil
	})
	if err != nil || sink == nil {
		return 0, err
	}
	s := a.rowStep(queue, sink, p, command.Subscription{})
	s.peek, s.seed = true, nil
	var committed uint64
	s.step = func(row *cursor.State) bool {
		committed = row.Cursor
		return false
	}
	return committed, a.inGroup(queue, sink, s)
}

// sweep deletes rows of what the catalog has given up, a bounded number at a time (messaging 9.11, 10.4).
func (a *apply) sweep(c *command.Sweep) (command.Result, error) {
	result := &command.SweepResult{}
	left := int(c.MaxKeys)
	for left > 0 {
		trash, found, err := a.firstTrash()
		if err != nil || !found {
			return result, err
		}
		deleted, done, err := a.sweepOne(trash, left)
		if err != nil {
			return nil, err
		}
		left -= max(deleted, 1)
		if done {
			a.batch.Delete(layout.Trash(trash.QueueID, trash.GroupID))
		}
	}
	_, result.More, _ = a.firstTrash()
	return result, nil
}

func (a *apply) firstTrash() (trash sweeping, found bool, err error) {
	err = a.batch.Scan([]byte{layout.FamilyTrash}, nil, func(key, value []byte) bool {
		trash.QueueID, trash.GroupID = binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])
		if len(value) == 8 {
			trash.after = binary.BigEndian.Uint64(value)
		}
		found = true
		return false
	})
	return trash, found, err
}

// sweeping is trash with the partition up to which it has been swept, so that no sweep walks over what earlier ones have
// deleted.
type sweeping struct {
	catalog.Trash
	after uint64
}

func (a *apply) sweepOne(trash sweeping, limit int) (deleted int, done bool, err error) {
	if trash.GroupID != 0 {
		return a.sweepPrefixes(limit, trash.QueueID,
			layout.CursorsOf(trash.QueueID, trash.GroupID), layout.ReleasedOf(trash.QueueID, trash.GroupID),
			layout.PositionsOf(trash.QueueID, trash.GroupID))
	}
	deleted, done, err = a.sweepPartitions(trash, limit)
	if err != nil || !done {
		return deleted, false, err
	}
	rest, done, err := a.sweepPrefixes(max(limit-deleted, 1), trash.QueueID,
		layout.AllCursorsOf(trash.QueueID), layout.AllReleasedOf(trash.QueueID),
		layout.AllPositionsOf(trash.QueueID), layout.GroupsOf(trash.QueueID))
	if err != nil || !done {
		return deleted + rest, false, err
	}
	letters, done, err := a.sweepDeadLetters(trash.QueueID, max(limit-deleted-rest, 1))
	return deleted + rest + letters, done, err
}

// sweepPrefixes deletes rows by prefix; cursor rows take the row of their lease along.
func (a *apply) sweepPrefixes(limit int, queueID uint64, prefixes ...[]byte) (deleted int, done bool, err error) {
	for _, prefix := range prefixes {
		var keys [][]byte
		var failure error
		err := a.batch.Scan(prefix, nil, func(key, value []byte) bool {
			keys = append(keys, key)
			if prefix[0] == layout.FamilyCursor {
				row, err := cursor.Decode(value)
				if err != nil {
					failure = err
					return false
				}
				keys = append(keys, layout.Lease(row.Lease.ID, queueID))
			}
			return len(keys) < limit
		})
		if err != nil || failure != nil {
			return deleted, false, errors.Join(err, failure)
		}
		for _, key := range keys {
			a.batch.Delete(key)
		}
		deleted += len(keys)
		if limit -= len(keys); limit <= 0 {
			return deleted, false, nil
		}
	}
	return deleted, true, nil
}

// sweptPerPartition is what a small partition counts for: its head, its identity and some pages.
const sweptPerPartition = 4

// sweepPartitions deletes the partitions of a deleted queue, with their chunks.
func (a *apply) sweepPartitions(trash sweeping, limit int) (deleted int, done bool, err error) {
	ids, rest, err := a.partitionsAfter(trash.QueueID, trash.after, max(limit/sweptPerPartition, 1))
	if err != nil {
		return 0, false, err
	}
	for _, id := range ids {
		a.partitions.drop(id)
		gone, err := partition.Sweep(a.batch, a.batch, partition.SweepInput{
			Queue: trash.QueueID, Partition: id, MaxAppends: uint32(limit),
		})
		if err != nil {
			return deleted, false, err
		}
		if !gone {
			return limit, false, nil
		}
		if err := a.forgetPartition(trash.QueueID, id); err != nil {
			return deleted, false, err
		}
		deleted += sweptPerPartition
		a.batch.Put(layout.Trash(trash.QueueID, 0), binary.BigEndian.AppendUint64(nil, id))
	}
	return deleted, !rest, nil
}

// forgetPartition deletes what is left of a swept partition.
func (a *apply) forgetPartition(queueID, id uint64) error {
	row, err := a.batch.Get(layout.Partition(id))
	if err != nil {
		return err
	}
	a.batch.Delete(layout.Head(queueID, id))
	if row == nil {
		return nil
	}
	p, err := catalog.DecodePartition(id, row)
	if err != nil {
		return err
	}
	return a.inCatalog(func(m *catalog.Machine) error {
		m.ForgetPartition(a.batch, p)
		return nil
	})
}

func (a *apply) sweepDeadLetters(queueID uint64, limit int) (deleted int, done bool, err error) {
	var rows []*deadletter.Row
	var failure error
	err = a.batch.Scan(layout.DeadLettersOf(queueID), nil, func(_, value []byte) bool {
		row, err := deadletter.DecodeRow(value)
		if err != nil {
			failure = err
			return false
		}
		rows = append(rows, row)
		return 4*len(rows) < limit
	})
	if err != nil || failure != nil {
		return 0, false, errors.Join(err, failure)
	}
	for _, row := range rows {
		deadletter.Delete(a.batch, row)
	}
	return 4 * len(rows), 4*len(rows) < limit, nil
}

// moveChunks copies what is still referenced of an old bucket in one partition into the open one (architecture 7).
func (a *apply) moveChunks(c *command.MoveChunks) (command.Result, error) {
	var queue *catalog.Queue
	var p *catalog.Partition
	err := a.inCatalog(func(m *catalog.Machine) (err error) {
		if p, err = m.PartitionByID(a.batch, c.Partition); p != nil {
			queue = m.QueueByID(p.QueueID)
		}
		return err
	})
	result := &command.MoveChunksResult{}
	if err != nil || p == nil {
		return result, err
	}
	err = a.inPartition(queue, p, func(m *partition.Machine) error {
		moved, err := m.MoveChunks(a.batch, a.batch, partition.MoveInput{Bucket: c.Bucket, MaxBytes: uint64(c.MaxBytes)})
		result.Bytes, result.More = moved.Bytes, moved.More
		return err
	})
	return result, err
}
