package command

import (
	"errors"
	"fmt"
	"math"
)

// ErrBadResult is returned for bytes that are no result: cut, damaged, or not in the canonical form.
var ErrBadResult = errors.New("result is malformed")

// The smallest encodings of list elements, for decoder.count.
const (
	minPushGroupResultBytes = 4
	minDuplicateBytes       = 1 + 16 + 1
	minAckPartResultBytes   = 1
	minVerdictBytes         = 1
	minClaimedBatchBytes    = 9
	minNameBytes            = 1
	minNumberBytes          = 1
)

// DecodeResult reads what AppendResult has written, all of data. Errors are ErrBadResult and ErrUnknownFormat, wrapped.
// Nothing of the result aliases data. An empty list comes back as none.
func DecodeResult(data []byte) (Result, error) {
	d := decoder{rest: data}
	kind := ResultKind(d.byte("result kind"))
	version := d.byte("result version")
	if d.err != nil {
		return nil, fmt.Errorf("read result: %w: %w", ErrBadResult, d.err)
	}
	if version != resultVersion {
		return nil, fmt.Errorf("read result %d version %d: %w", kind, version, ErrUnknownFormat)
	}
	result := d.result(kind)
	switch {
	case d.err != nil:
		return nil, fmt.Errorf("read result %d: %w: %w", kind, ErrBadResult, d.err)
	case result == nil:
		return nil, fmt.Errorf("read result %d: %w", kind, ErrUnknownFormat)
	case len(d.rest) > 0:
		return nil, fmt.Errorf("read result %d: %d bytes after its last field: %w", kind, len(d.rest), ErrBadResult)
	}
	return result, nil
}

// result reads the fields of a result; nil for a kind that this build does not know.
func (d *decoder) result(kind ResultKind) Result {
	switch kind {
	case ResultRefusal:
		return d.refusal()
	case ResultDone:
		return Done{}
	case ResultPush:
		return &PushResult{Groups: d.pushGroupResults()}
	case ResultAck:
		return &AckResult{Parts: d.ackPartResults()}
	case ResultExtend:
		return &ExtendResult{Renewed: d.size(), ExpiresMicros: d.number()}
	case ResultClaim:
		return &ClaimResult{Batches: d.claimedBatches()}
	case ResultHandBack:
		return &HandBackResult{Undone: d.size()}
	case ResultRegister:
		return d.registerResult()
	case ResultConfigure:
		return &ConfigureResult{QueueID: d.number(), QueueUUID: d.uuid(), Options: d.options()}
	case ResultDeleteQueue:
		return &DeleteQueueResult{Existed: d.flag()}
	case ResultDeleteGroup:
		return d.deleteGroupResult()
	case ResultSeek:
		return &SeekResult{Updated: d.size(), More: d.flag(), Last: d.number()}
	case ResultSubscription:
		return &ChangeSubscriptionResult{Updated: d.size(), More: d.flag(), Last: d.number()}
	case ResultTransaction:
		return &TransactionResult{
			Reason: d.name(), Text: d.name(), Pushes: d.pushGroupResults(), Acks: d.ackPartResults(), KV: *d.kvResult(), Timers: d.timerOpResults(),
		}
	case ResultDeadLetterDelete:
		return &DeadLetterDeleteResult{Deleted: d.size(), More: d.flag()}
	case ResultDeadLetterReplay:
		return d.deadLetterReplayResult()
	case ResultRetain:
		return d.retainResult()
	case ResultSweep:
		return &SweepResult{More: d.flag()}
	case ResultMoveChunks:
		return &MoveChunksResult{Bytes: d.number(), More: d.flag()}
	case ResultTrace:
		return &TraceResult{ID: d.uuid(), Foreign: d.flag()}
	case ResultTraceSweep:
		return &TraceSweepResult{Removed: d.size(), More: d.flag()}
	case ResultKV:
		return d.kvResult()
	case ResultKVSweep:
		return d.kvSweepResult()
	case ResultLock:
		return d.lockResult()
	case ResultTimers:
		return d.timersResult()
	case ResultTimerFire:
		return d.timerFireResult()
	case ResultSwitches:
		return d.switchesResult()
	}
	return nil
}

// size reads a count that is an int in its struct.
func (d *decoder) size() int {
	value := d.number()
	if value > math.MaxInt {
		d.fail("count")
		return 0
	}
	return int(value)
}

// flag reads a set of one flag.
func (d *decoder) flag() bool { return bit(d.flags(1), 0) }

func (d *decoder) refusal() *Refusal { return &Refusal{Code: d.name(), Text: d.name()} }

func (d *decoder) pushGroupResults() []PushGroupResult {
	groups := list[PushGroupResult](d.count(minPushGroupResultBytes))
	for i := range groups {
		group := &groups[i]
		if d.flag() {
			group.Refusal = d.refusal()
		}
		group.Partition, group.FirstOffset = d.number(), d.number()
		group.Duplicates = list[Duplicate](d.count(minDuplicateBytes))
		for j := range group.Duplicates {
			group.Duplicates[j] = Duplicate{Item: d.number32(), ID: d.uuid(), Offset: d.number()}
		}
		if d.err != nil {
			return nil
		}
	}
	return groups
}

func (d *decoder) ackPartResults() []AckPartResult {
	parts := list[AckPartResult](d.count(minAckPartResultBytes))
	for i := range parts {
		parts[i].Items = list[AckVerdict](d.count(minVerdictBytes))
		for j := range parts[i].Items {
			parts[i].Items[j] = d.verdict()
		}
		if d.err != nil {
			return nil
		}
	}
	return parts
}

func (d *decoder) verdict() AckVerdict {
	bits := d.byte("verdict")
	v := AckVerdict{
		Error: AckError(bits & verdictErrorMask), LeaseReleased: bits&verdictReleased != 0,
		DeadLettered: bits&verdictDeadLettered != 0, Noop: bits&verdictNoop != 0,
	}
	if v.Error > AckTooManyDeadLetters || bits > verdictErrorMask|verdictReleased|verdictDeadLettered|verdictNoop {
		d.fail("verdict")
	}
	return v
}

func (d *decoder) claimedBatches() []ClaimedBatch {
	batches := list[ClaimedBatch](d.count(minClaimedBatchBytes))
	for i := range batches {
		batches[i] = ClaimedBatch{
			Queue: d.name(), QueueID: d.number(), Partition: d.number(), PartitionName: d.name(), FirstOffset: d.number(),
			LastOffset: d.number(), Attempt: d.number32(), DeliverLastOnly: d.flag(), ExpiresMicros: d.number(),
		}
	}
	return batches
}

func (d *decoder) registerResult() *RegisterResult {
	r := &RegisterResult{QueueID: d.number(), GroupID: d.number(), Mode: SubscriptionMode(d.byte("subscription mode")), Conflation: d.flag()}
	if r.Mode > SubscriptionTimestamp {
		d.fail("subscription mode")
	}
	return r
}

func (d *decoder) options() (o Options) {
	flags := d.flags(5)
	o.RetryDelayExplicit, o.DeadLetterQueue, o.DLQAfterMaxRetries = bit(flags, 0), bit(flags, 1), bit(flags, 2)
	o.RetentionEnabled, o.EncryptionEnabled = bit(flags, 3), bit(flags, 4)
	o.Namespace, o.Task = d.name(), d.name()
	for _, number := range o.numbers() {
		*number = d.signed32()
	}
	o.RetentionSinkHold = d.name()
	return o
}

func (d *decoder) deleteGroupResult() *DeleteGroupResult {
	r := &DeleteGroupResult{Partitions: d.size()}
	flags := d.flags(2)
	r.MetadataDeleted, r.More = bit(flags, 0), bit(flags, 1)
	r.Queues = list[string](d.count(minNameBytes))
	for i := range r.Queues {
		r.Queues[i] = d.name()
	}
	r.Last = d.number()
	return r
}

func (d *decoder) deadLetterReplayResult() *DeadLetterReplayResult {
	r := &DeadLetterReplayResult{
		Outcome: ReplayOutcome(d.byte("replay outcome")), Row: d.uuid(), Queue: d.name(), Partition: d.name(), Group: d.name(),
		OriginalTxid: d.name(), Offset: d.number(),
	}
	if r.Outcome > ReplayInClear {
		d.fail("replay outcome")
	}
	return r
}

func (d *decoder) retainResult() *RetainResult {
	r := &RetainResult{Appends: d.number(), Messages: d.number()}
	r.More = list[uint64](d.count(minNumberBytes))
	for i := range r.More {
		r.More[i] = d.number()
	}
	return r
}
