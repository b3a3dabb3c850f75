package command

import (
	"fmt"

	"github.com/google/uuid"
)

// The smallest encodings of list elements, for decoder.count.
const (
	// minMessageBytes: flags, id, payload length.
	minMessageBytes = 1 + 16 + 1
	// minPushGroupBytes: two empty names, count, chunk length, one message.
	minPushGroupBytes      = 4 + minMessageBytes
	minAckPartBytes        = 1 + 16 + 1
	minAckItemBytes        = 2
	minClaimPartBytes      = 1 + 1 + 2
	minClaimTargetBytes    = 2
	minHandBackPartBytes   = 3
	minOptionChangeBytes   = 4
	minTransactionAckBytes = 1 + minAckPartBytes
	minPositionBytes       = 3 + 1 + 1 + 1 + 2
	minRetainBytes         = 2
	minTraceNameBytes      = 1
)

// command reads the fields of the command with the opcode.
func (d *decoder) command(op Opcode) (Command, error) {
	switch op {
	case OpTermStart:
		return TermStart{Node: d.number(), HoldMs: d.number32()}, nil
	case OpTick:
		return Tick{}, nil
	case OpPush:
		return Push{Tenant: d.uuid(), Groups: d.pushGroups()}, nil
	case OpAck:
		return d.ack(), nil
	case OpExtend:
		return Extend{Tenant: d.uuid(), Lease: d.uuid(), Seconds: d.number()}, nil
	case OpClaim:
		return d.claim(), nil
	case OpHandBack:
		return d.handBack(), nil
	case OpRegister:
		return d.register(), nil
	case OpConfigure:
		return d.configure(), nil
	case OpDeleteQueue:
		return DeleteQueue{Tenant: d.uuid(), Queue: d.name()}, nil
	case OpDeleteGroup:
		return d.deleteGroup(), nil
	case OpSeek:
		return d.seek(), nil
	case OpSubscription:
		return ChangeSubscription{Tenant: d.uuid(), Group: d.name(), TimestampMicros: d.signed(), After: d.number()}, nil
	case OpTransaction:
		return d.transaction(), nil
	case OpDeadLetterDelete:
		return d.deadLetterDelete(), nil
	case OpDeadLetterReplay:
		return d.deadLetterReplay(), nil
	case OpRetain:
		return d.retain(), nil
	case OpSweep:
		return Sweep{MaxKeys: d.number32()}, nil
	case OpMoveChunks:
		return MoveChunks{Bucket: d.number32(), Partition: d.number(), MaxBytes: d.number32()}, nil
	case OpTrace:
		return d.trace(), nil
	case OpTraceSweep:
		return TraceSweep{BeforeMicros: d.number(), MaxKeys: d.number32()}, nil
	case OpMembership:
		return d.membership(), nil
	case OpKV:
		return d.kv(), nil
	case OpKVSweep:
		return d.kvSweep(), nil
	case OpLock:
		return d.lock(), nil
	case OpTimers:
		return d.timers(), nil
	case OpTimerFire:
		return d.timerFire(), nil
	case OpSwitches:
		return d.switches(), nil
	}
	return nil, fmt.Errorf("read command %d: %w", op, ErrUnknownFormat)
}

// list makes a slice of n elements; an empty list is nil, so that encoding and decoding give equal values.
func list[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, n)
}

func (d *decoder) pushGroups() []PushGroup {
	groups := list[PushGroup](d.count(minPushGroupBytes))
	for i := range groups {
		group := &groups[i]
		group.Queue = d.name()
		group.Partition = d.name()
		group.Count = d.number32()
		group.Chunk = d.bytes()
		if d.err == nil && (group.Count == 0 || uint64(group.Count)*minMessageBytes > uint64(len(group.Chunk))) {
			d.fail("message count of a chunk")
		}
		if d.err != nil {
			return nil
		}
	}
	return groups
}

func (d *decoder) ack() Ack {
	c := Ack{Tenant: d.uuid(), Group: d.name()}
	c.Parts = list[AckPart](d.count(minAckPartBytes))
	for i := range c.Parts {
		d.ackPart(&c.Parts[i])
	}
	return c
}

func (d *decoder) ackPart(part *AckPart) {
	part.Partition = d.number()
	part.Lease = d.uuid()
	part.Items = list[AckItem](d.count(minAckItemBytes))
	for i := range part.Items {
		item := &part.Items[i]
		head := d.byte("ack status")
		if head&^byte(ackStatusMask|ackFlagHasError|ackFlagErrorText) != 0 {
			d.fail("ack flags")
		}
		item.Status = AckStatus(head & ackStatusMask)
		if item.Status > AckDeadLetter {
			d.fail("ack status")
		}
		item.HasError = head&ackFlagHasError != 0
		item.Txid = d.aliased()
		if head&ackFlagErrorText != 0 {
			if item.Error = d.aliased(); item.Error == "" {
				d.fail("ack error")
			}
		}
		if d.err != nil {
			part.Items = nil
			return
		}
	}
}

func (d *decoder) subscription() Subscription {
	s := Subscription{Mode: SubscriptionMode(d.byte("subscription mode")), InstantMicros: d.number()}
	if s.Mode > SubscriptionTimestamp {
		d.fail("subscription mode")
	}
	return s
}

func (d *decoder) claim() Claim {
	c := Claim{Tenant: d.uuid(), Lease: d.uuid(), Group: d.name(), Batch: d.number(), LeaseMs: d.number()}
	flags := d.flags(2)
	c.CommitOnDelivery = bit(flags, 0)
	c.Parts = list[ClaimPart](d.count(minClaimPartBytes))
	for i := range c.Parts {
		part := &c.Parts[i]
		part.Queue = d.name()
		part.Targets = list[ClaimTarget](d.count(minClaimTargetBytes))
		for j := range part.Targets {
			part.Targets[j] = ClaimTarget{Partition: d.number(), Name: d.name()}
		}
		part.Seed = d.subscription()
	}
	if bit(flags, 1) {
		c.For = d.request()
		c.AutoPartitions, c.AutoBatch = d.number32(), d.number32()
		if !c.serves() {
			d.fail("pop of a claim")
		}
	}
	return c
}

func (d *decoder) handBack() HandBack {
	c := HandBack{Tenant: d.uuid(), Lease: d.uuid(), Group: d.name()}
	c.Parts = list[HandBackPart](d.count(minHandBackPartBytes))
	for i := range c.Parts {
		c.Parts[i] = HandBackPart{Partition: d.number(), FirstOffset: d.number(), LastOffset: d.number()}
	}
	c.CommitOnDelivery = bit(d.flags(1), 0)
	return c
}

func (d *decoder) register() Register {
	c := Register{Tenant: d.uuid(), Queue: d.name(), Group: d.name()}
	flags := d.flags(2)
	c.CreateQueue, c.Conflation = bit(flags, 0), bit(flags, 1)
	c.Subscription = d.subscription()
	return c
}

func (d *decoder) configure() Configure {
	c := Configure{Tenant: d.uuid(), Queue: d.name()}
	c.Replace = bit(d.flags(1), 0)
	c.Changes = list[OptionChange](d.count(minOptionChangeBytes))
	for i := range c.Changes {
		change := &c.Changes[i]
		change.Key = OptionKey(d.byte("option"))
		if change.Key < OptionNamespace || change.Key > OptionRetentionSinkHoldMaxSeconds {
			d.fail("option")
		}
		flags := d.flags(2)
		change.Reset, change.Flag = bit(flags, 0), bit(flags, 1)
		change.Number = d.signed32()
		change.Text = d.name()
	}
	return c
}

func (d *decoder) deleteGroup() DeleteGroup {
	c := DeleteGroup{Tenant: d.uuid(), Group: d.name(), Queue: d.name()}
	flags := d.flags(2)
	c.AllQueues, c.DeleteMetadata = bit(flags, 0), bit(flags, 1)
	c.After = d.number()
	return c
}

func (d *decoder) seek() Seek {
	c := Seek{Tenant: d.uuid(), Group: d.name(), Queue: d.name(), Partition: d.name()}
	flags := d.flags(2)
	c.AllPartitions, c.ToEnd = bit(flags, 0), bit(flags, 1)
	c.After = d.number()
	c.TimestampMicros = d.signed()
	return c
}

func (d *decoder) transaction() Transaction {
	c := Transaction{Tenant: d.uuid()}
	c.RequiredLeases = list[LeaseID](d.count(len(uuid.UUID{})))
	for i := range c.RequiredLeases {
		c.RequiredLeases[i] = d.uuid()
	}
	c.Pushes = d.pushGroups()
	c.Acks = list[TransactionAck](d.count(minTransactionAckBytes))
	for i := range c.Acks {
		c.Acks[i].Group = d.name()
		d.ackPart(&c.Acks[i].AckPart)
	}
	c.Positions = list[Position](d.count(minPositionBytes))
	for i := range c.Positions {
		position := &c.Positions[i]
		position.Queue, position.Group, position.Partition = d.name(), d.name(), d.name()
		flags := d.flags(2)
		position.HasOffset, position.HasMetadata = bit(flags, 0), bit(flags, 1)
		position.Offset = d.signed()
		position.Metadata = d.name()
		position.Subscription = d.subscription()
	}
	c.KVLimits, c.KV, c.Timers = d.kvLimits(), d.kvOps(), d.timerOps()
	return c
}

func (d *decoder) deadLetterDelete() DeadLetterDelete {
	c := DeadLetterDelete{Tenant: d.uuid()}
	flags := d.flags(2)
	c.ByAddress, c.AnyGroup = bit(flags, 0), bit(flags, 1)
	c.Partition = d.number()
	c.Txid, c.Queue, c.Group = d.name(), d.name(), d.name()
	return c
}

func (d *decoder) deadLetterReplay() DeadLetterReplay {
	c := DeadLetterReplay{Tenant: d.uuid(), Row: d.uuid()}
	flags := d.flags(4)
	c.ByAddress, c.HasQueue, c.HasPartition = bit(flags, 0), bit(flags, 1), bit(flags, 2)
	c.Partition = d.number()
	c.Txid, c.Queue, c.Destination = d.name(), d.name(), d.name()
	c.MessageID = d.uuid()
	if bit(flags, 3) {
		c.Sealed = d.bytes()
	}
	return c
}

func (d *decoder) retain() Retain {
	c := Retain{Partitions: list[RetainPartition](d.count(minRetainBytes))}
	for i := range c.Partitions {
		c.Partitions[i] = RetainPartition{Partition: d.number(), MaxAppends: d.number32()}
	}
	return c
}

func (d *decoder) trace() Trace {
	c := Trace{Tenant: d.uuid(), Partition: d.name(), Txid: d.name(), Group: d.name(), EventType: d.name(), Worker: d.name()}
	c.Names = list[string](d.count(minTraceNameBytes))
	for i := range c.Names {
		c.Names[i] = d.name()
	}
	c.Data = d.bytes()
	return c
}
