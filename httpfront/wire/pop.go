package wire

import (
	"strconv"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// PopAnswer is the 200 of a pop (messaging 5.3, 5.4). Without batches it is the empty answer that reports conflation.
type PopAnswer struct {
	// Queue is empty on discovery.
	Queue string
	// Lease is the zero value on a commit-on-delivery pop.
	Lease command.LeaseID
	Group string
	// Batches are in the order of claiming.
	Batches []PopBatch
	// Conflation and ConflationConflict are shown only when true (messaging 5.9).
	Conflation         bool
	ConflationConflict bool
	// Autopilot is shown when it chose something (messaging 5.10).
	Autopilot *Autopilot
}

// Autopilot is what the server chose for a pop: at least one of the two, 0 for what the request had set.
type Autopilot struct {
	Partitions int
	Batch      int
}

// PopBatch is what a pop claimed in one partition.
type PopBatch struct {
	PartitionID uint64
	Partition   string
	Attempt     uint32
	Messages    []PopMessage
}

// PopMessage is one delivered message. The slices are only read while the answer is appended.
type PopMessage struct {
	ID uuid.UUID
	// Txid is empty when the client named none; the answer shows the id then.
	Txid []byte
	// TraceID is uuid.Nil when there is none.
	TraceID uuid.UUID
	// Data is the payload as JSON text.
	Data []byte
	// ProducerSub is empty when there is none.
	ProducerSub   []byte
	CreatedMicros uint64
	Offset        uint64
	// DecryptError says that Data is the stored form, because no key fits (state 8.4).
	DecryptError bool
}

// AppendPop appends the answer to a pop.
func AppendPop(dst []byte, a *PopAnswer) []byte {
	dst = append(dst, `{"success":true`...)
	dst = appendText(dst, ',', "queue", a.Queue)
	if len(a.Batches) > 0 {
		dst = appendText(dst, ',', "partition", a.Batches[0].Partition)
		dst = appendPartitionID(dst, a.Batches[0].PartitionID)
		dst = appendLease(dst, a.Lease)
	} else {
		dst = append(dst, `,"partition":"","partitionId":"","leaseId":""`...)
	}
	dst = appendText(dst, ',', "consumerGroup", a.Group)
	dst = append(dst, `,"messages":[`...)
	first := true
	for i := range a.Batches {
		dst = appendBatch(dst, a, &a.Batches[i], first)
		first = first && len(a.Batches[i].Messages) == 0
	}
	dst = append(dst, ']')
	dst = appendInt(dst, ',', "partitionsClaimed", int64(len(a.Batches)))
	if a.Conflation {
		dst = append(dst, `,"conflation":true`...)
	}
	if a.ConflationConflict {
		dst = append(dst, `,"conflationConflict":true`...)
	}
	if a.Autopilot != nil {
		dst = append(dst, `,"autopilot":`...)
		separator := byte('{')
		if a.Autopilot.Partitions > 0 {
			dst = appendInt(dst, separator, "partitions", int64(a.Autopilot.Partitions))
			separator = ','
		}
		if a.Autopilot.Batch > 0 {
			dst = appendInt(dst, separator, "batch", int64(a.Autopilot.Batch))
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func appendPartitionID(dst []byte, id uint64) []byte {
	dst = append(dst, `,"partitionId":"`...)
	return append(strconv.AppendUint(dst, id, 10), '"')
}

func appendLease(dst []byte, lease command.LeaseID) []byte {
	if lease == (command.LeaseID{}) {
		return append(dst, `,"leaseId":""`...)
	}
	return appendID(dst, ',', "leaseId", lease)
}

// appendBatch appends the messages of one partition. What is the same for all of them is made once, with the first
// message, and copied for the others.
func appendBatch(dst []byte, a *PopAnswer, batch *PopBatch, first bool) []byte {
	sharedStart, sharedEnd := 0, 0
	for i := range batch.Messages {
		m := &batch.Messages[i]
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendID(dst, '{', "id", m.ID)
		dst = appendTxid(dst, "transactionId", m.Txid, m.ID)
		if m.TraceID == uuid.Nil {
			dst = append(dst, `,"traceId":null,"data":`...)
		} else {
			dst = append(appendID(dst, ',', "traceId", m.TraceID), `,"data":`...)
		}
		dst = append(dst, m.Data...)
		dst = appendTextOrNull(dst, ',', "producerSub", m.ProducerSub, len(m.ProducerSub) > 0)
		dst = append(dst, `,"createdAt":"`...)
		dst = append(AppendTimeMs(dst, m.CreatedMicros), '"')
		if sharedEnd == 0 {
			sharedStart = len(dst)
			dst = appendShared(dst, a, batch)
			sharedEnd = len(dst)
		} else {
			dst = append(dst, dst[sharedStart:sharedEnd]...)
		}
		dst = strconv.AppendUint(dst, m.Offset, 10)
		if m.DecryptError {
			dst = append(dst, `,"decryptError":true`...)
		}
		dst = append(dst, '}')
	}
	return dst
}

func appendShared(dst []byte, a *PopAnswer, batch *PopBatch) []byte {
	dst = appendPartitionID(dst, batch.PartitionID)
	dst = appendText(dst, ',', "partition", batch.Partition)
	dst = appendLease(dst, a.Lease)
	dst = appendText(dst, ',', "consumerGroup", a.Group)
	dst = appendUint(dst, ',', "deliveryAttempt", uint64(batch.Attempt))
	return append(dst, `,"offset":`...)
}
