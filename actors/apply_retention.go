package actors

import (
	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/moving"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
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
	err = a.inGroup(queue, group, s)
	return row, found, err
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
	err = a.inGroup(queue, sink, s)
	return committed, err
}

// moveChunks copies what is still referenced of an old bucket in one partition into the open one (architecture 7), or what rows
// refer to.
func (a *apply) moveChunks(c *command.MoveChunks) (command.Result, error) {
	if c.Partition == command.NoPartition {
		return a.moveRowChunks(c)
	}
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

// moveRowChunks empties an old bucket of what rows outside of partitions refer to, of one kind at a time: after the last chunk of one it
// says that there is more, which the next step finds out.
func (a *apply) moveRowChunks(c *command.MoveChunks) (command.Result, error) {
	in := moving.Input{Bucket: c.Bucket, MaxBytes: uint64(c.MaxBytes), Fits: a.fits}
	kinds := []func(moving.Input) (uint64, bool, error){a.moveValues, a.movePayloads}
	for i, move := range kinds {
		bytes, more, err := move(in)
		if err != nil {
			return nil, err
		}
		if bytes > 0 || more {
			return &command.MoveChunksResult{Bytes: bytes, More: more || i+1 < len(kinds)}, nil
		}
	}
	return &command.MoveChunksResult{}, nil
}
