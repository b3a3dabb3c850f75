package api

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"queen/actors"
	"queen/actors/machine/partition"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// messageRow is a message without its payload; see appendShown.
type messageRow struct {
	ID               uuid.UUID    `json:"id"`
	TransactionID    string       `json:"transactionId"`
	TxnHash          string       `json:"txnHash"`
	PartitionID      uuid.UUID    `json:"partitionId"`
	QueuePath        string       `json:"queuePath"`
	Queue            string       `json:"queue"`
	Partition        string       `json:"partition"`
	Offset           uint64       `json:"offset"`
	Namespace        string       `json:"namespace"`
	Task             string       `json:"task"`
	QueuePriority    int32        `json:"queuePriority"`
	Status           string       `json:"status"`
	QueueStatus      *string      `json:"queueStatus"`
	BusStatus        busStatus    `json:"busStatus"`
	TraceID          *uuid.UUID   `json:"traceId"`
	ProducerSub      *string      `json:"producerSub"`
	IsEncrypted      bool         `json:"isEncrypted"`
	PayloadAvailable bool         `json:"payloadAvailable"`
	Segment          segmentPlace `json:"segment"`
	CreatedAt        micros       `json:"createdAt"`
	LeaseExpiresAt   micros       `json:"leaseExpiresAt"`
}

type busStatus struct {
	ConsumedBy  int `json:"consumedBy"`
	TotalGroups int `json:"totalGroups"`
}

type segmentPlace struct {
	Seq      uint64 `json:"seq"`
	FrameIdx uint64 `json:"frameIdx"`
}

type readingMode struct {
	HasQueueMode   bool   `json:"hasQueueMode"`
	BusGroupsCount int    `json:"busGroupsCount"`
	Type           string `json:"type"`
}

// messageFilter is the query of the message list (messaging 11.1).
type messageFilter struct {
	queue, partition, namespace, task, status string
	// from is inclusive, to exclusive; to is 0 for an end before 1970, which leaves nothing.
	from, to uint64
	pagination
}

const (
	messagesDefault = 200
	messagesAge     = time.Hour
)

func (a *API) messageFilter(r *httpfront.Request) (f messageFilter, err error) {
	if f.Limit, err = r.QueryClamped("limit", messagesDefault, 1, listMax); err != nil {
		return f, err
	}
	if f.Offset, err = r.QueryClamped("offset", 0, 0, math.MaxInt64); err != nil {
		return f, err
	}
	for name, into := range map[string]*string{
		"queue": &f.queue, "partition": &f.partition, "namespace": &f.namespace, "task": &f.task, "status": &f.status,
	} {
		if *into, _, err = r.QueryText(name); err != nil {
			return f, err
		}
	}
	switch f.status {
	case "failed":
		f.status = statusDeadLetter
	case "", statusPending, statusProcessing, statusCompleted, statusDeadLetter:
	default:
		return f, httpfront.Refuse(httpfront.CodeBadRequest, "status must be pending, processing, completed or dead_letter")
	}
	now := time.UnixMicro(int64(a.broker().Now()))
	from, to := now.Add(-messagesAge), now
	if from, err = queryTime(r, "from", from); err != nil {
		return f, err
	}
	if to, err = queryTime(r, "to", to); err != nil {
		return f, err
	}
	f.from = uint64(max(from.UnixMicro(), 0))
	f.to = uint64(max(to.Truncate(time.Minute).Add(time.Minute).UnixMicro(), 0))
	return f, nil
}

// queryTime reads an instant; one that does not parse is refused.
func queryTime(r *httpfront.Request, name string, fallback time.Time) (time.Time, error) {
	text, present, err := r.QueryText(name)
	if err != nil || !present || text == "" {
		return fallback, err
	}
	at, ok := wire.ParseTime(text)
	if !ok {
		return fallback, httpfront.Refuse(httpfront.CodeBadRequest, name+" must be a timestamp")
	}
	return time.UnixMicro(at), nil
}

// listMessages shows messages, newest first (messaging 11.1).
func (a *API) listMessages(r *httpfront.Request) error {
	filter, err := a.messageFilter(r)
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		browser := &messageBrowser{api: a, q: q, filter: &filter}
		if err := browser.choose(a.messageQueues(r, &filter)); err != nil {
			return err
		}
		if err := r.ReserveAnswer(browser.answerBytes()); err != nil {
			return err
		}
		body, err := browser.page()
		if err != nil {
			return err
		}
		r.JSONOwned(200, body)
		return nil
	})
}

func (a *API) messageQueues(r *httpfront.Request, f *messageFilter) []*actors.QueueView {
	var queues []*actors.QueueView
	for _, queue := range a.sortedQueues(r) {
		if (f.queue == "" || queue.Name == f.queue) && (f.namespace == "" || queue.Options.Namespace == f.namespace) &&
			(f.task == "" || queue.Options.Task == f.task) {
			queues = append(queues, queue)
		}
	}
	return queues
}

// newMessageRow is a message as it is listed.
func newMessageRow(source *query.Source, in *partition.Append, offset uint64, m *command.Message, verdict verdict) *messageRow {
	txid := m.EffectiveTxid(nil)
	queue, p := source.Queue, source.Partition
	row := &messageRow{
		ID: m.ID, TransactionID: string(txid), TxnHash: fmt.Sprintf("%016x", xxh3.Hash(txid)), PartitionID: p.UUID,
		QueuePath: queue.Name + "/" + p.Name, Queue: queue.Name, Partition: p.Name, Offset: offset,
		Namespace: queue.Options.Namespace, Task: queue.Options.Task, QueuePriority: queue.Options.Priority,
		Status: verdict.status, BusStatus: verdict.bus, LeaseExpiresAt: verdict.leaseExpiresAt,
		IsEncrypted: m.Encrypted, PayloadAvailable: true, Segment: segmentPlace{in.Base, offset - in.Base}, CreatedAt: micros(in.StampMicros),
	}
	if verdict.queueStatus != "" {
		row.QueueStatus = &verdict.queueStatus
	}
	if m.TraceID != uuid.Nil {
		trace := m.TraceID
		row.TraceID = &trace
	}
	if len(m.ProducerSub) > 0 {
		sub := string(m.ProducerSub)
		row.ProducerSub = &sub
	}
	return row
}

// appendShown appends the JSON of a row with the payload as its last members, "data" and "payload": straight from the store
// into the answer.
func (a *API) appendShown(dst []byte, row any, stored []byte, encrypted bool) ([]byte, error) {
	shown, err := json.Marshal(row)
	if err != nil {
		return dst, fmt.Errorf("encode row: %w", err)
	}
	payload, failed := stored, false
	if encrypted {
		payload, failed = a.open(stored)
	}
	if len(payload) == 0 {
		payload = []byte("null")
	}
	dst = append(dst, shown[:len(shown)-1]...)
	dst = append(append(dst, `,"data":`...), payload...)
	dst = append(append(dst, `,"payload":`...), payload...)
	if failed {
		dst = append(dst, `,"decryptError":true`...)
	}
	return append(dst, '}'), nil
}

// Limits of the lists that show payloads.
const (
	// shownMaxBytes bounds the payloads of one page, its first row aside: a page then has fewer rows than asked for.
	shownMaxBytes = 64 << 20
	// shownRowBytes is what a row takes besides its payload, generously.
	shownRowBytes = 2 << 10
)

// shownBytes is what an answer takes with so many rows and so many bytes of payload, each of which is shown twice.
func shownBytes(rows int, payloadBytes uint64) int64 {
	return int64(rows)*shownRowBytes + 2*int64(payloadBytes)
}
