package actors

import (
	"github.com/google/uuid"

	"queen/actors/machine/catalog"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
	"queen/store/layout"
)

// purgeStep is how many dead letters one command deletes; the handler repeats it (messaging 11.6).
const purgeStep = 512

// deleteDeadLetters removes the dead letters of an address, or up to purgeStep of a queue.
func (a *apply) deleteDeadLetters(c *command.DeadLetterDelete) (command.Result, error) {
	rows, err := a.deadLettersOf(c)
	if err != nil {
		return nil, err
	}
	err = a.inDeadLetters(func() error {
		for _, row := range rows {
			deadletter.Delete(a.batch, row)
		}
		return nil
	})
	return &command.DeadLetterDeleteResult{Deleted: len(rows), More: !c.ByAddress && len(rows) == purgeStep}, err
}

func (a *apply) deadLettersOf(c *command.DeadLetterDelete) (rows []*deadletter.Row, err error) {
	var queue *catalog.Queue
	err = a.inCatalog(func(m *catalog.Machine) error {
		queue = m.Queue(c.Tenant, c.Queue)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.ByAddress {
		return a.deadLettersAt(c.Tenant, c.Partition, c.Txid)
	}
	if queue == nil {
		return nil, nil
	}
	var failure error
	err = a.batch.Scan(layout.DeadLettersOf(queue.ID), nil, func(_, value []byte) bool {
		row, err := deadletter.DecodeRow(value)
		if err != nil {
			failure = err
			return false
		}
		if c.AnyGroup || row.Group == c.Group {
			rows = append(rows, row)
		}
		return len(rows) < purgeStep
	})
	if failure != nil {
		return nil, failure
	}
	return rows, err
}

// deadLettersAt lists the dead letters of an address that belong to the tenant, oldest first.
func (a *apply) deadLettersAt(tenant command.Tenant, partitionID uint64, txid string) (owned []*deadletter.Row, err error) {
	rows, err := deadletter.At(a.batch, partitionID, []byte(txid))
	if err != nil {
		return nil, err
	}
	err = a.inCatalog(func(m *catalog.Machine) error {
		for _, row := range rows {
			if queue := m.QueueByID(row.QueueID); queue != nil && queue.Tenant == tenant {
				owned = append(owned, row)
			}
		}
		return nil
	})
	return owned, err
}

// replay appends a copy of a dead letter to its destination and deletes the row, in one step (messaging 11.5).
func (a *apply) replay(c *command.DeadLetterReplay) (command.Result, error) {
	row, queue, err := a.replayRow(c)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return &command.DeadLetterReplayResult{}, nil
	}
	result := &command.DeadLetterReplayResult{
		Row: row.ID, Group: row.Group, OriginalTxid: string(row.Txid), Queue: queue.Name, Partition: row.Partition,
	}
	if c.HasQueue {
		result.Queue = c.Queue
	}
	if c.HasPartition {
		result.Partition = c.Destination
	}
	push, inClear, err := a.replayPush(c, row, result)
	if err != nil {
		return nil, err
	}
	duplicate, err := a.duplicateOf(c.Tenant, push)
	if err != nil {
		return nil, err
	}
	if duplicate != nil {
		result.Outcome, result.Offset = command.ReplayDuplicate, duplicate.Offset
		return result, nil
	}
	if inClear {
		result.Outcome = command.ReplayInClear
		return result, nil
	}
	var stored command.PushGroupResult
	if err := a.pushGroup(c.Tenant, push, &stored); err != nil {
		return nil, err
	}
	result.Outcome, result.Offset = command.ReplayMoved, stored.FirstOffset
	return result, a.inDeadLetters(func() error {
		deadletter.Delete(a.batch, row)
		return nil
	})
}

func (a *apply) replayRow(c *command.DeadLetterReplay) (row *deadletter.Row, queue *catalog.Queue, err error) {
	if c.ByAddress {
		rows, err := a.deadLettersAt(c.Tenant, c.Partition, c.Txid)
		if err != nil || len(rows) == 0 {
			return nil, nil, err
		}
		row = rows[0]
	} else if row, err = deadletter.Find(a.batch, c.Row); err != nil || row == nil {
		return nil, nil, err
	}
	err = a.inCatalog(func(m *catalog.Machine) error {
		queue = m.QueueByID(row.QueueID)
		return nil
	})
	if err != nil || queue == nil || queue.Tenant != c.Tenant {
		return nil, nil, err
	}
	return row, queue, nil
}

// replayPush is the push of the copy: the original's payload, trace and producer under a txid of its own. inClear tells that
// it may not be stored like this: the destination encrypts at this point of the log, and nobody has sealed the payload.
func (a *apply) replayPush(c *command.DeadLetterReplay, row *deadletter.Row, to *command.DeadLetterReplayResult) (push *command.PushGroup, inClear bool, err error) {
	push = &command.PushGroup{Queue: to.Queue, Partition: to.Partition, Count: 1}
	encrypts := false
	err = a.inCatalog(func(m *catalog.Machine) error {
		queue := m.Queue(c.Tenant, to.Queue)
		encrypts = queue != nil && queue.Options.EncryptionEnabled
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	err = row.Stored(a.batch, func(stored []byte) error {
		message, err := deadletter.DecodeMessage(stored)
		if err != nil {
			return err
		}
		message.ID = c.MessageID
		message.Txid = ReplayTxid(row.ID)
		if encrypts && !message.Encrypted {
			if inClear = c.Sealed == nil; !inClear {
				message.Payload, message.Encrypted = c.Sealed, true
			}
		}
		push.Chunk = command.AppendMessage(nil, &message)
		return nil
	})
	return push, inClear, err
}

// ReplayTxid is the txid of the copy of a dead letter (messaging 11.5).
func ReplayTxid(row uuid.UUID) []byte { return []byte("dlq:" + row.String()) }

// duplicateOf finds the message that keeps a push of one message from being stored, without changing anything.
func (a *apply) duplicateOf(tenant command.Tenant, g *command.PushGroup) (duplicate *command.Duplicate, err error) {
	var queue *catalog.Queue
	var p *catalog.Partition
	err = a.inCatalog(func(m *catalog.Machine) (err error) {
		if queue = m.Queue(tenant, g.Queue); queue != nil {
			p, err = m.Partition(a.batch, queue.ID, g.Partition)
		}
		return err
	})
	if err != nil || p == nil {
		return nil, err
	}
	err = a.inPartition(queue, p, func(m *partition.Machine) error {
		judgement, err := m.CheckDuplicates(a.batch, a.appendInput(queue, g))
		if len(judgement.Window) > 0 {
			duplicate = &judgement.Window[0]
		}
		return err
	})
	return duplicate, err
}
