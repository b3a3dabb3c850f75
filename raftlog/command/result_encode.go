package command

import (
	"encoding/binary"
	"fmt"
)

// ResultKind names the kind of a result in its encoding. Numbers are never reused. Those of results that belong to one
// command are its opcode.
type ResultKind uint8

// The kinds of format 7.
const (
	ResultRefusal          ResultKind = 1
	ResultDone             ResultKind = 2
	ResultPush             ResultKind = ResultKind(OpPush)
	ResultAck              ResultKind = ResultKind(OpAck)
	ResultExtend           ResultKind = ResultKind(OpExtend)
	ResultClaim            ResultKind = ResultKind(OpClaim)
	ResultHandBack         ResultKind = ResultKind(OpHandBack)
	ResultRegister         ResultKind = ResultKind(OpRegister)
	ResultConfigure        ResultKind = ResultKind(OpConfigure)
	ResultDeleteQueue      ResultKind = ResultKind(OpDeleteQueue)
	ResultDeleteGroup      ResultKind = ResultKind(OpDeleteGroup)
	ResultSeek             ResultKind = ResultKind(OpSeek)
	ResultSubscription     ResultKind = ResultKind(OpSubscription)
	ResultTransaction      ResultKind = ResultKind(OpTransaction)
	ResultDeadLetterDelete ResultKind = ResultKind(OpDeadLetterDelete)
	ResultDeadLetterReplay ResultKind = ResultKind(OpDeadLetterReplay)
	ResultRetain           ResultKind = ResultKind(OpRetain)
	ResultSweep            ResultKind = ResultKind(OpSweep)
	ResultMoveChunks       ResultKind = ResultKind(OpMoveChunks)
	ResultTrace            ResultKind = ResultKind(OpTrace)
	ResultTraceSweep       ResultKind = ResultKind(OpTraceSweep)
	ResultKV               ResultKind = ResultKind(OpKV)
	ResultKVSweep          ResultKind = ResultKind(OpKVSweep)
	ResultLock             ResultKind = ResultKind(OpLock)
	ResultTimers           ResultKind = ResultKind(OpTimers)
	ResultTimerFire        ResultKind = ResultKind(OpTimerFire)
	ResultSwitches         ResultKind = ResultKind(OpSwitches)
)

// resultVersion is the version of every result of format 7. A result whose fields change gets its own next one.
const resultVersion = 1

// encodableResult is a result of this package.
type encodableResult interface {
	kind() ResultKind
	appendTo(dst []byte) []byte
}

// AppendResult appends the encoding of a result: kind, version, fields in the order of the Go struct, in the forms that
// entries use. Equal results have equal encodings, except that an empty list is encoded like none. It panics when the
// result is not one of this package.
func AppendResult(dst []byte, result Result) []byte {
	r, ok := result.(encodableResult)
	if !ok {
		panic(fmt.Sprintf("BUG: %T is not a result of this package", result))
	}
	dst = append(dst, byte(r.kind()), resultVersion)
	return r.appendTo(dst)
}

// appendCount encodes a count or the length of a list; it is never negative.
func appendCount(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

func (r *Refusal) appendTo(dst []byte) []byte {
	dst = appendString(dst, r.Code)
	return appendString(dst, r.Text)
}

func (Done) appendTo(dst []byte) []byte { return dst }

func (r *PushResult) appendTo(dst []byte) []byte { return appendPushGroupResults(dst, r.Groups) }

func appendPushGroupResults(dst []byte, groups []PushGroupResult) []byte {
	dst = appendCount(dst, len(groups))
	for i := range groups {
		group := &groups[i]
		dst = appendFlags(dst, group.Refusal != nil)
		if group.Refusal != nil {
			dst = group.Refusal.appendTo(dst)
		}
		dst = appendNumber(dst, group.Partition)
		dst = appendNumber(dst, group.FirstOffset)
		dst = appendCount(dst, len(group.Duplicates))
		for j := range group.Duplicates {
			duplicate := &group.Duplicates[j]
			dst = appendNumber(dst, uint64(duplicate.Item))
			dst = appendUUID(dst, duplicate.ID)
			dst = appendNumber(dst, duplicate.Offset)
		}
	}
	return dst
}

func (r *AckResult) appendTo(dst []byte) []byte { return appendAckPartResults(dst, r.Parts) }

// A verdict is one byte: its error below three flags.
const (
	verdictErrorMask    = 0x0f
	verdictReleased     = 1 << 4
	verdictDeadLettered = 1 << 5
	verdictNoop         = 1 << 6
)

func appendAckPartResults(dst []byte, parts []AckPartResult) []byte {
	dst = appendCount(dst, len(parts))
	for i := range parts {
		dst = appendCount(dst, len(parts[i].Items))
		for _, verdict := range parts[i].Items {
			bits := byte(verdict.Error) & verdictErrorMask
			if verdict.LeaseReleased {
				bits |= verdictReleased
			}
			if verdict.DeadLettered {
				bits |= verdictDeadLettered
			}
			if verdict.Noop {
				bits |= verdictNoop
			}
			dst = append(dst, bits)
		}
	}
	return dst
}

func (r *ExtendResult) appendTo(dst []byte) []byte {
	dst = appendCount(dst, r.Renewed)
	return appendNumber(dst, r.ExpiresMicros)
}

func (r *ClaimResult) appendTo(dst []byte) []byte {
	dst = appendCount(dst, len(r.Batches))
	for i := range r.Batches {
		batch := &r.Batches[i]
		dst = appendString(dst, batch.Queue)
		dst = appendNumber(dst, batch.QueueID)
		dst = appendNumber(dst, batch.Partition)
		dst = appendString(dst, batch.PartitionName)
		dst = appendNumber(dst, batch.FirstOffset)
		dst = appendNumber(dst, batch.LastOffset)
		dst = appendNumber(dst, uint64(batch.Attempt))
		dst = appendFlags(dst, batch.DeliverLastOnly)
		dst = appendNumber(dst, batch.ExpiresMicros)
	}
	return dst
}

func (r *HandBackResult) appendTo(dst []byte) []byte { return appendCount(dst, r.Undone) }

func (r *RegisterResult) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, r.QueueID)
	dst = appendNumber(dst, r.GroupID)
	dst = append(dst, byte(r.Mode))
	return appendFlags(dst, r.Conflation)
}

func (r *ConfigureResult) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, r.QueueID)
	dst = appendUUID(dst, r.QueueUUID)
	return r.Options.appendTo(dst)
}

// appendTo puts the flags of options together; all else is in the order of the struct.
func (o *Options) appendTo(dst []byte) []byte {
	dst = appendFlags(dst, o.RetryDelayExplicit, o.DeadLetterQueue, o.DLQAfterMaxRetries, o.RetentionEnabled, o.EncryptionEnabled)
	dst = appendString(dst, o.Namespace)
	dst = appendString(dst, o.Task)
	for _, number := range o.numbers() {
		dst = appendSigned(dst, int64(*number))
	}
	return appendString(dst, o.RetentionSinkHold)
}

// numbers lists the numeric options in the order of their encoding.
func (o *Options) numbers() [14]*int32 {
	return [...]*int32{
		&o.Priority, &o.LeaseTimeSeconds, &o.RetryLimit, &o.RetryDelayMs, &o.MaxSize, &o.TTLSeconds, &o.DelayedProcessingSeconds,
		&o.WindowBufferSeconds, &o.RetentionSeconds, &o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds, &o.MinPopWaitTimeMs,
		&o.DedupWindowSeconds, &o.RetentionSinkHoldMaxSeconds,
	}
}

func (r *DeleteQueueResult) appendTo(dst []byte) []byte { return appendFlags(dst, r.Existed) }

func (r *DeleteGroupResult) appendTo(dst []byte) []byte {
	dst = appendCount(dst, r.Partitions)
	dst = appendFlags(dst, r.MetadataDeleted, r.More)
	dst = appendCount(dst, len(r.Queues))
	for _, queue := range r.Queues {
		dst = appendString(dst, queue)
	}
	return appendNumber(dst, r.Last)
}

func (r *SeekResult) appendTo(dst []byte) []byte { return appendStep(dst, r.Updated, r.More, r.Last) }

func (r *ChangeSubscriptionResult) appendTo(dst []byte) []byte {
	return appendStep(dst, r.Updated, r.More, r.Last)
}

// appendStep encodes the result of a command that visits a bounded number of things.
func appendStep(dst []byte, updated int, more bool, last uint64) []byte {
	dst = appendCount(dst, updated)
	dst = appendFlags(dst, more)
	return appendNumber(dst, last)
}

func (r *TransactionResult) appendTo(dst []byte) []byte {
	dst = appendString(dst, r.Reason)
	dst = appendString(dst, r.Text)
	dst = appendPushGroupResults(dst, r.Pushes)
	dst = appendAckPartResults(dst, r.Acks)
	dst = r.KV.appendTo(dst)
	return appendTimerOpResults(dst, r.Timers)
}

func (r *DeadLetterDeleteResult) appendTo(dst []byte) []byte {
	return appendFlags(appendCount(dst, r.Deleted), r.More)
}

func (r *DeadLetterReplayResult) appendTo(dst []byte) []byte {
	dst = append(dst, byte(r.Outcome))
	dst = appendUUID(dst, r.Row)
	for _, text := range []string{r.Queue, r.Partition, r.Group, r.OriginalTxid} {
		dst = appendString(dst, text)
	}
	return appendNumber(dst, r.Offset)
}

func (r *RetainResult) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, r.Appends)
	dst = appendNumber(dst, r.Messages)
	dst = appendCount(dst, len(r.More))
	for _, partition := range r.More {
		dst = appendNumber(dst, partition)
	}
	return dst
}

func (r *SweepResult) appendTo(dst []byte) []byte { return appendFlags(dst, r.More) }

func (r *MoveChunksResult) appendTo(dst []byte) []byte {
	return appendFlags(appendNumber(dst, r.Bytes), r.More)
}

func (r *TraceResult) appendTo(dst []byte) []byte {
	return appendFlags(appendUUID(dst, r.ID), r.Foreign)
}

func (r *TraceSweepResult) appendTo(dst []byte) []byte {
	return appendFlags(appendCount(dst, r.Removed), r.More)
}

func (*Refusal) kind() ResultKind                  { return ResultRefusal }
func (Done) kind() ResultKind                      { return ResultDone }
func (*PushResult) kind() ResultKind               { return ResultPush }
func (*AckResult) kind() ResultKind                { return ResultAck }
func (*ExtendResult) kind() ResultKind             { return ResultExtend }
func (*ClaimResult) kind() ResultKind              { return ResultClaim }
func (*HandBackResult) kind() ResultKind           { return ResultHandBack }
func (*RegisterResult) kind() ResultKind           { return ResultRegister }
func (*ConfigureResult) kind() ResultKind          { return ResultConfigure }
func (*DeleteQueueResult) kind() ResultKind        { return ResultDeleteQueue }
func (*DeleteGroupResult) kind() ResultKind        { return ResultDeleteGroup }
func (*SeekResult) kind() ResultKind               { return ResultSeek }
func (*ChangeSubscriptionResult) kind() ResultKind { return ResultSubscription }
func (*TransactionResult) kind() ResultKind        { return ResultTransaction }
func (*DeadLetterDeleteResult) kind() ResultKind   { return ResultDeadLetterDelete }
func (*DeadLetterReplayResult) kind() ResultKind   { return ResultDeadLetterReplay }
func (*RetainResult) kind() ResultKind             { return ResultRetain }
func (*SweepResult) kind() ResultKind              { return ResultSweep }
func (*MoveChunksResult) kind() ResultKind         { return ResultMoveChunks }
func (*TraceResult) kind() ResultKind              { return ResultTrace }
func (*TraceSweepResult) kind() ResultKind         { return ResultTraceSweep }
func (*KVResult) kind() ResultKind                 { return ResultKV }
func (*KVSweepResult) kind() ResultKind            { return ResultKVSweep }
func (*LockResult) kind() ResultKind               { return ResultLock }
func (*TimersResult) kind() ResultKind             { return ResultTimers }
func (*TimerFireResult) kind() ResultKind          { return ResultTimerFire }
func (*SwitchesResult) kind() ResultKind           { return ResultSwitches }
