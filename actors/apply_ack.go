package actors

import (
	"unsafe"

	"github.com/google/uuid"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
)

// ack settles messages, one part after the other (messaging 6.4).
func (a *apply) ack(c *command.Ack) (command.Result, error) {
	result := &command.AckResult{Parts: make([]command.AckPartResult, len(c.Parts))}
	for i := range c.Parts {
		verdicts, err := a.ackPart(c.Tenant, c.Group, &c.Parts[i])
		if err != nil {
			return nil, err
		}
		result.Parts[i].Items = verdicts
	}
	return result, nil
}

func (a *apply) ackPart(tenant command.Tenant, groupName string, part *command.AckPart) ([]command.AckVerdict, error) {
	queue, group, p, refusal, err := a.locate(tenant, part.Partition, groupName)
	if err != nil {
		return nil, err
	}
	if refusal != command.AckOK {
		return refuseAll(part, refusal), nil
	}
	if group == nil {
		if part.Lease != uuid.Nil {
			return refuseAll(part, command.AckBadLease), nil
		}
		if group, err = a.ensureGroup(queue, groupName); err != nil {
			return nil, err
		}
	}
	return a.settle(queue, group, p, part)
}

func refuseAll(part *command.AckPart, reason command.AckError) []command.AckVerdict {
	verdicts := make([]command.AckVerdict, len(part.Items))
	for i := range verdicts {
		verdicts[i].Error = reason
	}
	return verdicts
}

// locate finds what an address on the message plane names: a partition id and a group name. group is nil when the queue
// does not know it.
func (a *apply) locate(tenant command.Tenant, partitionID uint64, groupName string) (queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, refusal command.AckError, err error) {
	err = a.inCatalog(func(m *catalog.Machine) (err error) {
		if p, err = m.PartitionByID(a.batch, partitionID); err != nil {
			return err
		}
		if p == nil {
			refusal = command.AckNoPartition
			return nil
		}
		queue = m.QueueByID(p.QueueID)
		if queue.Tenant != tenant {
			queue, refusal = nil, command.AckForeignTenant
			return nil
		}
		group = m.Group(queue.ID, groupName)
		return nil
	})
	return queue, group, p, refusal, err
}

func (a *apply) ensureGroup(queue *catalog.Queue, name string) (group *catalog.Group, err error) {
	err = a.inCatalog(func(m *catalog.Machine) error {
		group = m.EnsureGroup(a.batch, a.at(), queue, name)
		a.changed(queue.ID)
		return nil
	})
	return group, err
}

// settle applies the items of one part: look the txids up in the partition, let the row decide, file dead letters, take
// a released lease out of its table.
func (a *apply) settle(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, part *command.AckPart) ([]command.AckVerdict, error) {
	var outcome cursor.AckOutcome
	var failure error
	var tooMany bool
	s := a.rowStep(queue, group, p, command.Subscription{})
	s.lease = part.Lease
	s.step = func(row *cursor.State) bool {
		var call cursor.AckCall
		var tail uint64
		call, tail, failure = a.ackCall(queue, p, row, part)
		if failure != nil {
			return false
		}
		next := *row
		outcome = next.Ack(a.now, call, policy(&queue.Options))
		if tooMany, failure = a.tooManyFilings(queue, p, part, &outcome); tooMany || failure != nil {
			return false
		}
		*row = next
		s.effect = ackEffect(row, &outcome, part, tail)
		return outcome.Changed
	}
	if err := a.inGroup(queue, group, s); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, failure
	}
	if tooMany {
		return refuseAll(part, command.AckTooManyDeadLetters), nil
	}
	return outcome.Verdicts, a.fileAll(queue, group, p, part, outcome.Filings)
}

// tooManyFilings tells whether the dead letters of an ack would not fit what the entry writes already. Nothing of the part
// happens then; sent again in smaller calls it will.
func (a *apply) tooManyFilings(queue *catalog.Queue, p *catalog.Partition, part *command.AckPart, outcome *cursor.AckOutcome) (tooMany bool, err error) {
	if len(outcome.Filings) == 0 {
		return false, nil
	}
	rowBytes, chunkBytes := 0, 0
	err = a.inPartition(queue, p, func(m *partition.Machine) error {
		for _, filing := range outcome.Filings {
			size, err := m.PayloadBytes(a.batch, filing.Offset, filing.Offset+1)
			if err != nil {
				return err
			}
			txid := len(part.Items[filing.Item].Txid)
			rowBytes += deadletter.RowBytes(len(filing.Error), txid)
			chunkBytes += int(size) + txid + messageOverheadBytes
		}
		return nil
	})
	return !a.fits(deadletter.Rows*len(outcome.Filings), rowBytes, chunkBytes), err
}

// messageOverheadBytes is what a stored message takes besides payload and txid: ids, lengths, the producer.
const messageOverheadBytes = 512

// fileAll makes the dead letters that an ack asks for.
func (a *apply) fileAll(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, part *command.AckPart, filings []cursor.Filing) error {
	for _, filing := range filings {
		if err := a.file(queue, group, p, part, filing); err != nil {
			return err
		}
	}
	return nil
}

func policy(o *command.Options) cursor.Policy {
	delay := uint64(0)
	if o.RetryDelayExplicit {
		delay = uint64(o.RetryDelayMs) * 1000
	}
	return cursor.Policy{
		RetryLimit:       uint32(o.RetryLimit),
		RetryDelayMicros: delay,
		FileDeadLetters:  o.DeadLetterQueue || o.DLQAfterMaxRetries,
	}
}

func ackEffect(row *cursor.State, outcome *cursor.AckOutcome, part *command.AckPart, tail uint64) rowEffect {
	var effect rowEffect
	if outcome.Released != uuid.Nil || (outcome.Moved && row.Lease.ID == uuid.Nil) {
		effect.kind = effectReleased
		effect.backlog = tail > row.Cursor
		effect.untilMicros = row.NotBeforeMicros
	}
	return effect
}

// ackCall resolves the items of a part against a row.
func (a *apply) ackCall(queue *catalog.Queue, p *catalog.Partition, row *cursor.State, part *command.AckPart) (call cursor.AckCall, tail uint64, err error) {
	call = cursor.AckCall{Lease: part.Lease, Holds: a.holds, Items: make([]cursor.AckItem, len(part.Items))}
	err = a.inPartition(queue, p, func(m *partition.Machine) error {
		tail = m.Tail()
		call.LogStart = m.LogStart()
		lookup := row.Lookup(a.now, part.Lease, call.LogStart, tail, a.holds)
		in := partition.ResolveInput{
			From: lookup.Low, End: lookup.End, Leased: lookup.Leased,
			NowMicros: a.now, HashWindowMicros: a.hashWindowMicros(&queue.Options),
			Hashes: make([]partition.Hash, len(part.Items)),
		}
		for i := range part.Items {
			item := &part.Items[i]
			in.Hashes[i] = partition.HashTxid(unsafe.Slice(unsafe.StringData(item.Txid), len(item.Txid)))
			call.Items[i] = cursor.AckItem{Txid: in.Hashes[i], Status: item.Status, Error: item.Error, HasError: item.HasError}
		}
		if !lookup.Needed {
			return nil
		}
		resolved, err := m.Resolve(a.batch, in)
		if err != nil {
			return err
		}
		for i := range resolved {
			call.Items[i].Offset = resolved[i].Offset
			switch resolved[i].Kind {
			case partition.InRange:
				call.Items[i].Where = cursor.InRange
			case partition.Below:
				call.Items[i].Where = cursor.Below
			}
		}
		return nil
	})
	return call, tail, err
}

// file makes a dead letter of a message (messaging 6.5).
func (a *apply) file(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, part *command.AckPart, filing cursor.Filing) error {
	row := deadletter.Row{
		ID:            a.mint(),
		QueueID:       queue.ID,
		PartitionID:   p.ID,
		PartitionUUID: p.UUID,
		Partition:     p.Name,
		Group:         group.Name,
		Offset:        filing.Offset,
		RetryCount:    filing.RetryCount,
		FailedMicros:  a.now,
	}
	row.Error, row.HasError = filing.Error, filing.HasError
	var stored []byte
	err := partition.ReadMessages(a.batch,
		partition.MessageRange{Queue: queue.ID, Partition: p.ID, First: filing.Offset, End: filing.Offset + 1},
		func(_, stampMicros uint64, m *command.Message) (bool, error) {
			row.CreatedMicros = stampMicros
			row.Txid = append([]byte(nil), m.EffectiveTxid(nil)...)
			stored = command.AppendMessage(nil, m)
			return false, nil
		})
	if err != nil || stored == nil {
		return err
	}
	return a.inDeadLetters(func() error { return deadletter.File(a.batch, a.batch, row, stored) })
}

// mint makes an id that only apply can make.
func (a *apply) mint() uuid.UUID {
	a.minted++
	return catalog.MintUUID(a.at(), a.minted)
}

// inDeadLetters runs a step of the dead letter actor, whose machine keeps nothing in memory.
func (a *apply) inDeadLetters(run func() error) error {
	return inActor(a, a.deadLetters, func(struct{}) error { return run() })
}

// extend prolongs every live batch of a lease (messaging 7).
func (a *apply) extend(c *command.Extend) (command.Result, error) {
	result := &command.ExtendResult{}
	err := a.eachMember(c.Tenant, c.Lease, func(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition) error {
		s := a.rowStep(queue, group, p, command.Subscription{})
		s.seed = nil
		s.step = func(row *cursor.State) bool {
			expires, ok := row.Extend(a.now, c.Lease, c.Seconds*microsPerSecond, a.term, a.holds)
			if !ok {
				return false
			}
			result.Renewed++
			if result.ExpiresMicros == 0 || expires < result.ExpiresMicros {
				result.ExpiresMicros = expires
			}
			end, _ := row.LeaseEnd(a.holds)
			s.effect = rowEffect{kind: effectClaimed, untilMicros: end}
			return true
		}
		return a.inGroup(queue, group, s)
	})
	return result, err
}
