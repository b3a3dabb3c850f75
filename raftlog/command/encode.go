package command

import (
	"encoding/binary"

	"github.com/google/uuid"
)

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendNumber(dst []byte, n uint64) []byte { return binary.AppendUvarint(dst, n) }

func appendSigned(dst []byte, n int64) []byte { return binary.AppendVarint(dst, n) }

func appendUUID(dst []byte, id uuid.UUID) []byte { return append(dst, id[:]...) }

// appendFlags packs up to eight booleans into one byte, the first one in the lowest bit.
func appendFlags(dst []byte, flags ...bool) []byte {
	var bits byte
	for i, set := range flags {
		if set {
			bits |= 1 << i
		}
	}
	return append(dst, bits)
}

func (c TermStart) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, c.Node)
	return appendNumber(dst, uint64(c.HoldMs))
}

func (Tick) appendTo(dst []byte) []byte { return dst }

func (c Push) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	return appendPushGroups(dst, c.Groups)
}

func appendPushGroups(dst []byte, groups []PushGroup) []byte {
	dst = appendNumber(dst, uint64(len(groups)))
	for i := range groups {
		group := &groups[i]
		dst = appendString(dst, group.Queue)
		dst = appendString(dst, group.Partition)
		dst = appendNumber(dst, uint64(group.Count))
		dst = appendBytes(dst, group.Chunk)
	}
	return dst
}

func (c Ack) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendString(dst, c.Group)
	dst = appendNumber(dst, uint64(len(c.Parts)))
	for i := range c.Parts {
		dst = appendAckPart(dst, &c.Parts[i])
	}
	return dst
}

func appendAckPart(dst []byte, part *AckPart) []byte {
	dst = appendNumber(dst, part.Partition)
	dst = appendUUID(dst, part.Lease)
	dst = appendNumber(dst, uint64(len(part.Items)))
	for i := range part.Items {
		item := &part.Items[i]
		// The status shares a byte with the two flags: an ack of 10,000 messages is mostly this.
		head := byte(item.Status) & ackStatusMask
		if item.HasError {
			head |= ackFlagHasError
		}
		if item.Error != "" {
			head |= ackFlagErrorText
		}
		dst = append(dst, head)
		dst = appendString(dst, item.Txid)
		if item.Error != "" {
			dst = appendString(dst, item.Error)
		}
	}
	return dst
}

const (
	ackStatusMask    = 0x0f
	ackFlagHasError  = 1 << 4
	ackFlagErrorText = 1 << 5
)

func (c Extend) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendUUID(dst, c.Lease)
	return appendNumber(dst, c.Seconds)
}

func appendSubscription(dst []byte, s Subscription) []byte {
	dst = append(dst, byte(s.Mode))
	return appendNumber(dst, s.InstantMicros)
}

func (c Claim) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendUUID(dst, c.Lease)
	dst = appendString(dst, c.Group)
	dst = appendNumber(dst, c.Batch)
	dst = appendNumber(dst, c.LeaseMs)
	dst = appendFlags(dst, c.CommitOnDelivery, c.serves())
	dst = appendNumber(dst, uint64(len(c.Parts)))
	for i := range c.Parts {
		part := &c.Parts[i]
		dst = appendString(dst, part.Queue)
		dst = appendNumber(dst, uint64(len(part.Targets)))
		for _, target := range part.Targets {
			dst = appendNumber(dst, target.Partition)
			dst = appendString(dst, target.Name)
		}
		dst = appendSubscription(dst, part.Seed)
	}
	if !c.serves() {
		return dst
	}
	dst = appendRequest(dst, c.For)
	dst = appendNumber(dst, uint64(c.AutoPartitions))
	return appendNumber(dst, uint64(c.AutoBatch))
}

func appendRequest(dst []byte, id RequestID) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, id.Origin)
	return appendNumber(dst, id.Sequence)
}

func (c HandBack) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendUUID(dst, c.Lease)
	dst = appendString(dst, c.Group)
	dst = appendNumber(dst, uint64(len(c.Parts)))
	for _, part := range c.Parts {
		dst = appendNumber(dst, part.Partition)
		dst = appendNumber(dst, part.FirstOffset)
		dst = appendNumber(dst, part.LastOffset)
	}
	return appendFlags(dst, c.CommitOnDelivery)
}

func (c Register) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendString(dst, c.Queue)
	dst = appendString(dst, c.Group)
	dst = appendFlags(dst, c.CreateQueue, c.Conflation)
	return appendSubscription(dst, c.Subscription)
}

func (c Configure) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendString(dst, c.Queue)
	dst = appendFlags(dst, c.Replace)
	dst = appendNumber(dst, uint64(len(c.Changes)))
	for i := range c.Changes {
		change := &c.Changes[i]
		dst = append(dst, byte(change.Key))
		dst = appendFlags(dst, change.Reset, change.Flag)
		dst = appendSigned(dst, int64(change.Number))
		dst = appendString(dst, change.Text)
	}
	return dst
}

func (c DeleteQueue) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	return appendString(dst, c.Queue)
}

func (c DeleteGroup) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendString(dst, c.Group)
	dst = appendString(dst, c.Queue)
	dst = appendFlags(dst, c.AllQueues, c.DeleteMetadata)
	return appendNumber(dst, c.After)
}

func (c Seek) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendString(dst, c.Group)
	dst = appendString(dst, c.Queue)
	dst = appendString(dst, c.Partition)
	dst = appendFlags(dst, c.AllPartitions, c.ToEnd)
	dst = appendNumber(dst, c.After)
	return appendSigned(dst, c.TimestampMicros)
}

func (c ChangeSubscription) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendString(dst, c.Group)
	dst = appendSigned(dst, c.TimestampMicros)
	return appendNumber(dst, c.After)
}

func (c Transaction) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendNumber(dst, uint64(len(c.RequiredLeases)))
	for _, lease := range c.RequiredLeases {
		dst = appendUUID(dst, lease)
	}
	dst = appendPushGroups(dst, c.Pushes)
	dst = appendNumber(dst, uint64(len(c.Acks)))
	for i := range c.Acks {
		dst = appendString(dst, c.Acks[i].Group)
		dst = appendAckPart(dst, &c.Acks[i].AckPart)
	}
	dst = appendNumber(dst, uint64(len(c.Positions)))
	for i := range c.Positions {
		position := &c.Positions[i]
		dst = appendString(dst, position.Queue)
		dst = appendString(dst, position.Group)
		dst = appendString(dst, position.Partition)
		dst = appendFlags(dst, position.HasOffset, position.HasMetadata)
		dst = appendSigned(dst, position.Offset)
		dst = appendString(dst, position.Metadata)
		dst = appendSubscription(dst, position.Subscription)
	}
	dst = c.KVLimits.appendTo(dst)
	dst = appendKVOps(dst, c.KV)
	return appendTimerOps(dst, c.Timers)
}

func (c DeadLetterDelete) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendFlags(dst, c.ByAddress, c.AnyGroup)
	dst = appendNumber(dst, c.Partition)
	dst = appendString(dst, c.Txid)
	dst = appendString(dst, c.Queue)
	return appendString(dst, c.Group)
}

func (c DeadLetterReplay) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendUUID(dst, c.Row)
	dst = appendFlags(dst, c.ByAddress, c.HasQueue, c.HasPartition, c.Sealed != nil)
	dst = appendNumber(dst, c.Partition)
	dst = appendString(dst, c.Txid)
	dst = appendString(dst, c.Queue)
	dst = appendString(dst, c.Destination)
	dst = appendUUID(dst, c.MessageID)
	if c.Sealed == nil {
		return dst
	}
	return appendBytes(dst, c.Sealed)
}

func (c Retain) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, uint64(len(c.Partitions)))
	for _, partition := range c.Partitions {
		dst = appendNumber(dst, partition.Partition)
		dst = appendNumber(dst, uint64(partition.MaxAppends))
	}
	return dst
}

func (c Sweep) appendTo(dst []byte) []byte { return appendNumber(dst, uint64(c.MaxKeys)) }

func (c MoveChunks) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, uint64(c.Bucket))
	dst = appendNumber(dst, c.Partition)
	return appendNumber(dst, uint64(c.MaxBytes))
}

func (c Trace) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	for _, text := range []string{c.Partition, c.Txid, c.Group, c.EventType, c.Worker} {
		dst = appendString(dst, text)
	}
	dst = appendNumber(dst, uint64(len(c.Names)))
	for _, name := range c.Names {
		dst = appendString(dst, name)
	}
	return appendBytes(dst, c.Data)
}

func (c TraceSweep) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, c.BeforeMicros)
	return appendNumber(dst, uint64(c.MaxKeys))
}
