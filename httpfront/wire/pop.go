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

// PopWriter appends the answer to a pop piece by piece, so that messages go from the store to the answer without a stop
// in between: NewPopWriter, then for each batch Batch and its Messages, then End.
type PopWriter struct {
	dst    []byte
	answer *PopAnswer
	batch  *PopBatch
	// sharedStart and sharedEnd mark what all messages of the batch have in common, made once with its first message and
	// copied for the others.
	sharedStart, sharedEnd int
	messages               int
}

// NewPopWriter begins an answer. Its batches are known; their messages follow.
func NewPopWriter(dst []byte, a *PopAnswer) *PopWriter {
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
	return &PopWriter{dst: append(dst, `,"messages":[`...), answer: a}
}

// Batch begins the messages of a batch.
func (w *PopWriter) Batch(batch *PopBatch) {
	w.batch, w.sharedStart, w.sharedEnd = batch, 0, 0
}

// Message appends one message of the batch; its slices are not kept.
func (w *PopWriter) Message(m *PopMessage) {
	dst := w.dst
	if w.messages > 0 {
		dst = append(dst, ',')
	}
	w.messages++
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
	if w.sharedEnd == 0 {
		w.sharedStart = len(dst)
		dst = appendShared(dst, w.answer, w.batch)
		w.sharedEnd = len(dst)
	} else {
		dst = append(dst, dst[w.sharedStart:w.sharedEnd]...)
	}
	dst = strconv.AppendUint(dst, m.Offset, 10)
	if m.DecryptError {
		dst = append(dst, `,"decryptError":true`...)
	}
	w.dst = append(dst, '}')
}

// Messages is the number of messages so far.
func (w *PopWriter) Messages() int { return w.messages }

// Bytes is the size of the answer so far.
func (w *PopWriter) Bytes() int { return len(w.dst) }

// End returns the whole answer.
func (w *PopWriter) End() []byte {
	a := w.answer
	dst := append(w.dst, ']')
	dst = appendInt(dst, ',', "partitionsClaimed", int64(len(a.Batches)))
	if a.Conflation {
		dst = append(dst, `,"conflation":true`...)
	}
	if a.ConflationConflict {
		dst = append(dst, `,"conflationConflict":true`...)
	}
	if a.Autopilot != nil {
		dst = append(append(dst, `,"autopilot":`...), '{')
		if a.Autopilot.Partitions > 0 {
			dst = append(dst, `"partitions":`...)
			dst = strconv.AppendInt(dst, int64(a.Autopilot.Partitions), 10)
		}
		if a.Autopilot.Batch > 0 {
			if a.Autopilot.Partitions > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, `"batch":`...)
			dst = strconv.AppendInt(dst, int64(a.Autopilot.Batch), 10)
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

func appendShared(dst []byte, a *PopAnswer, batch *PopBatch) []byte {
	dst = appendPartitionID(dst, batch.PartitionID)
	dst = appendText(dst, ',', "partition", batch.Partition)
	dst = appendLease(dst, a.Lease)
	dst = appendText(dst, ',', "consumerGroup", a.Group)
	dst = appendUint(dst, ',', "deliveryAttempt", uint64(batch.Attempt))
	return append(dst, `,"offset":`...)
}
