package api

import (
	"encoding/json"

	"github.com/google/uuid"

	"queen/actors"
	"queen/actors/machine/catalog"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/partition"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

type messageDetail struct {
	ID             uuid.UUID         `json:"id"`
	TransactionID  string            `json:"transactionId"`
	TraceID        *uuid.UUID        `json:"traceId"`
	ProducerSub    *string           `json:"producerSub"`
	CreatedAt      micros            `json:"createdAt"`
	PartitionID    uuid.UUID         `json:"partitionId"`
	Partition      string            `json:"partition"`
	Queue          string            `json:"queue"`
	QueuePath      string            `json:"queuePath"`
	Namespace      string            `json:"namespace"`
	Task           string            `json:"task"`
	Status         string            `json:"status"`
	ErrorMessage   *string           `json:"errorMessage"`
	RetryCount     uint32            `json:"retryCount"`
	IsEncrypted    bool              `json:"isEncrypted"`
	QueueConfig    json.RawMessage   `json:"queueConfig"`
	Mode           readingMode       `json:"mode"`
	ConsumerGroups []messageConsumer `json:"consumerGroups"`
}

type messageConsumer struct {
	Name           string `json:"name"`
	Committed      uint64 `json:"committed"`
	Consumed       bool   `json:"consumed"`
	LeaseExpiresAt micros `json:"leaseExpiresAt"`
}

// describeMessage shows one message, from the log or else from its dead letter (messaging 11.2).
func (a *API) describeMessage(r *httpfront.Request) error {
	deadline, err := a.deadline(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	id, ok, err := a.addressedPartition(r.Param("partitionId"), deadline)
	if err != nil {
		return err
	}
	txid := r.Param("transactionId")
	return a.reading(r, func(q *query.Reads) error {
		missing := httpfront.RefuseStatus(404, "Message not found")
		if !ok {
			return missing
		}
		found, err := a.locateMessage(r, q, id, txid)
		if err != nil {
			return err
		}
		if found == nil {
			return missing
		}
		// Once for the size and once for the answer: nothing large is held while the answer waits for room.
		var size int64
		err = found.read(q, func(_ *messageRow, m *command.Message) error {
			size = shownBytes(1, uint64(len(m.Payload)))
			return nil
		})
		if err == nil {
			err = r.ReserveAnswer(size)
		}
		if err != nil {
			return err
		}
		return found.read(q, func(row *messageRow, m *command.Message) error {
			body, err := a.appendShown(make([]byte, 0, size), found.detail(row), m.Payload, m.Encrypted)
			if err == nil {
				r.JSONOwned(200, body)
			}
			return err
		})
	})
}

// locatedMessage is where a message is found: at an offset of the log, or in its dead letter.
type locatedMessage struct {
	source  *query.Source
	offset  uint64
	inLog   bool
	letters []*deadletter.Row
}

// locateMessage finds a message by its address; nil when there is none.
func (a *API) locateMessage(r *httpfront.Request, q *query.Reads, id uint64, txid string) (*locatedMessage, error) {
	letters, err := deadletter.At(q.View(), id, []byte(txid))
	if err != nil {
		return nil, err
	}
	queue, identity, err := a.ownedPartition(r, q, id, letters)
	if err != nil || queue == nil {
		return nil, err
	}
	source, err := openSource(q, queue, identity)
	if err != nil {
		return nil, err
	}
	found := &locatedMessage{source: source, letters: letters}
	found.offset, found.inLog, err = partition.FindTxid(q.View(), queue.ID, id, partition.HashTxid([]byte(txid)))
	if err != nil || !found.inLog && len(letters) == 0 {
		return nil, err
	}
	return found, nil
}

// read visits the message with its row; what visit receives is valid inside it only.
func (f *locatedMessage) read(q *query.Reads, visit func(row *messageRow, m *command.Message) error) error {
	show := func(offset, stampMicros uint64, m *command.Message) error {
		judge, err := newJudge(f.source, offset, offset+1)
		if err != nil {
			return err
		}
		in := &partition.Append{Base: offset, Count: 1, StampMicros: stampMicros}
		return visit(newMessageRow(f.source, in, offset, m, judge.verdict(offset)), m)
	}
	if f.inLog {
		span := partition.MessageRange{Queue: f.source.Queue.ID, Partition: f.source.Partition.ID, First: f.offset, End: f.offset + 1}
		return partition.ReadMessages(q.View(), span, func(offset, stampMicros uint64, m *command.Message) (bool, error) {
			return false, show(offset, stampMicros, m)
		})
	}
	letter := f.letters[0]
	return letter.Stored(q.View(), func(stored []byte) error {
		message, err := deadletter.DecodeMessage(stored)
		if err != nil {
			return err
		}
		return show(letter.Offset, letter.CreatedMicros, &message)
	})
}

func (a *API) ownedPartition(r *httpfront.Request, q *query.Reads, id uint64, letters []*deadletter.Row) (*actors.QueueView, *catalog.Partition, error) {
	identity, err := q.MaybeIdentity(id)
	if err != nil {
		return nil, nil, err
	}
	if identity == nil {
		if len(letters) == 0 {
			return nil, nil, nil
		}
		letter := letters[0]
		identity = &catalog.Partition{ID: id, QueueID: letter.QueueID, UUID: letter.PartitionUUID, Name: letter.Partition}
	}
	queue := a.broker().Directory().QueueByID(identity.QueueID)
	if queue == nil || queue.Tenant != r.Tenant {
		return nil, nil, nil
	}
	return queue, identity, nil
}

// detail shows everything about the message but its payload.
func (f *locatedMessage) detail(row *messageRow) *messageDetail {
	queueMode, busGroups := false, map[string]bool{}
	detail := &messageDetail{
		ID: row.ID, TransactionID: row.TransactionID,
		TraceID: row.TraceID, ProducerSub: row.ProducerSub, CreatedAt: row.CreatedAt, PartitionID: row.PartitionID,
		Partition: row.Partition, Queue: row.Queue, QueuePath: row.QueuePath, Namespace: row.Namespace, Task: row.Task,
		Status: row.Status, IsEncrypted: row.IsEncrypted, ConsumerGroups: []messageConsumer{},
		QueueConfig: wire.AppendOptions(nil, &f.source.Queue.Options),
	}
	for _, s := range f.source.Standings {
		consumer := messageConsumer{Name: s.Group.Name, Committed: s.Cursor, Consumed: row.Offset < s.Cursor}
		if s.Leased > 0 {
			consumer.LeaseExpiresAt = micros(s.ExpiresMicros)
		}
		detail.ConsumerGroups = append(detail.ConsumerGroups, consumer)
		if s.Group.QueueMode() {
			queueMode = true
		} else {
			busGroups[s.Group.Name] = true
		}
	}
	detail.Mode = modeOf(queueMode, busGroups)
	if len(f.letters) > 0 {
		newest := f.letters[len(f.letters)-1]
		detail.RetryCount = newest.RetryCount
		if newest.HasError {
			detail.ErrorMessage = &newest.Error
		}
	}
	return detail
}
