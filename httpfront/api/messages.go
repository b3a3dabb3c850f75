package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"queen/actors"
	"queen/actors/machine/catalog"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/partition"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// The statuses of a message in the browser (messaging 11.1).
const (
	statusPending    = "pending"
	statusProcessing = "processing"
	statusCompleted  = "completed"
	statusDeadLetter = "dead_letter"
)

type messageRow struct {
	ID               uuid.UUID       `json:"id"`
	TransactionID    string          `json:"transactionId"`
	TxnHash          string          `json:"txnHash"`
	PartitionID      uuid.UUID       `json:"partitionId"`
	QueuePath        string          `json:"queuePath"`
	Queue            string          `json:"queue"`
	Partition        string          `json:"partition"`
	Offset           uint64          `json:"offset"`
	Namespace        string          `json:"namespace"`
	Task             string          `json:"task"`
	QueuePriority    int32           `json:"queuePriority"`
	Status           string          `json:"status"`
	QueueStatus      *string         `json:"queueStatus"`
	BusStatus        busStatus       `json:"busStatus"`
	TraceID          *uuid.UUID      `json:"traceId"`
	ProducerSub      *string         `json:"producerSub"`
	IsEncrypted      bool            `json:"isEncrypted"`
	PayloadAvailable bool            `json:"payloadAvailable"`
	Segment          segmentPlace    `json:"segment"`
	CreatedAt        micros          `json:"createdAt"`
	LeaseExpiresAt   micros          `json:"leaseExpiresAt"`
	Data             json.RawMessage `json:"data"`
	Payload          json.RawMessage `json:"payload"`
	DecryptError     bool            `json:"decryptError,omitempty"`
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
	from, to                                  uint64
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
	if f.Offset, err = r.QueryClamped("offset", 0, 0, listWindow); err != nil {
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
	now := time.UnixMicro(int64(a.broker.Now()))
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
func (a *API) listMessages(r *httpfront.Request) {
	filter, err := a.messageFilter(r)
	if err != nil {
		r.Fail(err)
		return
	}
	a.reading(r, func(q *query.Reads) error {
		browser := &messageBrowser{api: a, q: q, filter: &filter}
		rows, err := browser.page(a.messageQueues(r, &filter))
		if err != nil {
			return err
		}
		answerJSON(r, 200, map[string]any{
			"messages": rows, "total": len(rows), "pagination": filter.pagination, "mode": browser.mode(),
		})
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

// messageBrowser builds one page of the list.
type messageBrowser struct {
	api       *API
	q         *query.Reads
	filter    *messageFilter
	queueMode bool
	busGroups map[string]bool
}

func (b *messageBrowser) mode() readingMode {
	mode := readingMode{HasQueueMode: b.queueMode, BusGroupsCount: len(b.busGroups), Type: "none"}
	switch {
	case b.queueMode && len(b.busGroups) > 0:
		mode.Type = "hybrid"
	case b.queueMode:
		mode.Type = "queue"
	case len(b.busGroups) > 0:
		mode.Type = "bus"
	}
	return mode
}

// page merges the partitions, newest append first. Without a status filter whole appends are skipped by their counts, so
// a page deep down costs about the same as the first one.
func (b *messageBrowser) page(queues []*actors.QueueView) ([]messageRow, error) {
	b.busGroups = map[string]bool{}
	merge := &query.Newest{}
	for _, queue := range queues {
		if err := b.addQueue(merge, queue); err != nil {
			return nil, err
		}
	}
	rows := []messageRow{}
	skip := uint64(b.filter.Offset)
	for len(rows) < int(b.filter.Limit) {
		source, a, err := merge.Next()
		if err != nil || source == nil {
			return rows, err
		}
		if count := a.End() - max(a.Base, source.Head.LogStart); b.filter.status == "" && skip >= count {
			skip -= count
			continue
		}
		if rows, err = b.open(rows, &skip, source, a); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (b *messageBrowser) addQueue(merge *query.Newest, queue *actors.QueueView) error {
	return b.q.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
		standings, err := b.standings(queue, id, head)
		if err != nil {
			return false, err
		}
		identity, err := b.q.Identity(id)
		if err != nil || (b.filter.partition != "" && identity.Name != b.filter.partition) {
			return true, err
		}
		return true, merge.Add(&query.Source{
			Reader: b.q.View(), Queue: queue, Partition: identity, Head: *head, Standings: standings,
			FromMicros: b.filter.from, ToMicros: b.filter.to,
		})
	})
}

func (b *messageBrowser) standings(queue *actors.QueueView, id uint64, head *partition.Head) ([]*query.Standing, error) {
	var standings []*query.Standing
	for _, group := range sortedGroups(queue) {
		standing, err := b.q.Standing(group, id, head)
		if err != nil {
			return nil, err
		}
		if standing == nil {
			continue
		}
		standings = append(standings, standing)
		if group.QueueMode() {
			b.queueMode = true
		} else {
			b.busGroups[group.Name] = true
		}
	}
	return standings, nil
}

// open adds the messages of an append, newest first, that the page still wants.
func (b *messageBrowser) open(rows []messageRow, skip *uint64, source *query.Source, a *partition.Append) ([]messageRow, error) {
	var messages []messageRow
	err := partition.ReadAppend(b.q.View(), a, func(offset uint64, m *command.Message) (bool, error) {
		if offset < source.Head.LogStart {
			return true, nil
		}
		row, err := b.api.messageRow(b.q, source, a, offset, m)
		if err != nil {
			return false, err
		}
		if b.filter.status == "" || row.Status == b.filter.status {
			messages = append(messages, *row)
		}
		return true, nil
	})
	for i := len(messages) - 1; i >= 0 && len(rows) < int(b.filter.Limit); i-- {
		if *skip > 0 {
			*skip--
			continue
		}
		rows = append(rows, messages[i])
	}
	return rows, err
}

func (a *API) messageRow(q *query.Reads, source *query.Source, in *partition.Append, offset uint64, m *command.Message) (*messageRow, error) {
	txid := m.EffectiveTxid(nil)
	queue, p := source.Queue, source.Partition
	row := &messageRow{
		ID: m.ID, TransactionID: string(txid), TxnHash: fmt.Sprintf("%016x", xxh3.Hash(txid)), PartitionID: p.UUID,
		QueuePath: queue.Name + "/" + p.Name, Queue: queue.Name, Partition: p.Name, Offset: offset,
		Namespace: queue.Options.Namespace, Task: queue.Options.Task, QueuePriority: queue.Options.Priority,
		IsEncrypted: m.Encrypted, PayloadAvailable: true, Segment: segmentPlace{in.Base, offset - in.Base}, CreatedAt: micros(in.StampMicros),
		Data: append(json.RawMessage(nil), m.Payload...),
	}
	if m.TraceID != uuid.Nil {
		trace := m.TraceID
		row.TraceID = &trace
	}
	if len(m.ProducerSub) > 0 {
		sub := string(m.ProducerSub)
		row.ProducerSub = &sub
	}
	if m.Encrypted {
		row.Data, row.DecryptError = a.open(row.Data)
	}
	row.Payload = row.Data
	return row, row.judge(q, source, txid)
}

// judge fills in what the groups have made of a message (messaging 11.1).
func (row *messageRow) judge(q *query.Reads, source *query.Source, txid []byte) error {
	letters, err := deadletter.At(q.View(), source.Partition.ID, txid)
	if err != nil {
		return err
	}
	dead, queueDead := false, false
	for _, letter := range letters {
		if letter.Offset == row.Offset {
			dead = true
			queueDead = queueDead || letter.Group == command.QueueModeGroup
		}
	}
	groups := 0
	for _, group := range source.Queue.Groups {
		if !group.QueueMode() {
			groups++
		}
	}
	row.BusStatus.TotalGroups = groups
	named, passed, leased, queuePassed := 0, 0, false, false
	for _, s := range source.Standings {
		past := row.Offset < s.Cursor
		covered := !past && s.Leased > 0 && row.Offset < s.Cursor+s.Leased
		if covered {
			leased = true
			row.LeaseExpiresAt = micros(s.ExpiresMicros)
		}
		if s.Group.QueueMode() {
			queuePassed = past
			status := statusOf(queueDead, covered, past)
			row.QueueStatus = &status
			continue
		}
		named++
		if past {
			passed++
		}
	}
	row.BusStatus.ConsumedBy = passed
	done := queuePassed
	if named > 0 {
		done = passed == named
	}
	row.Status = statusOf(dead, leased, done)
	return nil
}

func statusOf(dead, leased, done bool) string {
	switch {
	case dead:
		return statusDeadLetter
	case leased:
		return statusProcessing
	case done:
		return statusCompleted
	default:
		return statusPending
	}
}

type messageDetail struct {
	ID             uuid.UUID         `json:"id"`
	TransactionID  string            `json:"transactionId"`
	Data           json.RawMessage   `json:"data"`
	Payload        json.RawMessage   `json:"payload"`
	DecryptError   bool              `json:"decryptError,omitempty"`
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
func (a *API) describeMessage(r *httpfront.Request) {
	id, ok := a.addressedPartition(r.Param("partitionId"))
	txid := r.Param("transactionId")
	a.reading(r, func(q *query.Reads) error {
		if !ok {
			return httpfront.RefuseStatus(404, "Message not found")
		}
		detail, err := a.messageDetail(r, q, id, txid)
		if err != nil {
			return err
		}
		if detail == nil {
			return httpfront.RefuseStatus(404, "Message not found")
		}
		answerJSON(r, 200, detail)
		return nil
	})
}

func (a *API) messageDetail(r *httpfront.Request, q *query.Reads, id uint64, txid string) (*messageDetail, error) {
	letters, err := deadletter.At(q.View(), id, []byte(txid))
	if err != nil {
		return nil, err
	}
	queue, identity, err := a.ownedPartition(r, q, id, letters)
	if err != nil || queue == nil {
		return nil, err
	}
	browser := &messageBrowser{api: a, q: q, busGroups: map[string]bool{}}
	var head partition.Head
	if head, err = partition.ReadHead(q.View(), queue.ID, id); err != nil {
		return nil, err
	}
	standings, err := browser.standings(queue, id, &head)
	if err != nil {
		return nil, err
	}
	source := &query.Source{Reader: q.View(), Queue: queue, Partition: identity, Head: head, Standings: standings}
	row, err := a.findMessage(q, source, txid, letters)
	if err != nil || row == nil {
		return nil, err
	}
	detail := newMessageDetail(row, queue, standings, browser.mode())
	if len(letters) > 0 {
		newest := letters[len(letters)-1]
		detail.RetryCount = newest.RetryCount
		if newest.HasError {
			detail.ErrorMessage = &newest.Error
		}
	}
	return detail, nil
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
	queue := a.broker.Directory().QueueByID(identity.QueueID)
	if queue == nil || queue.Tenant != r.Tenant {
		return nil, nil, nil
	}
	return queue, identity, nil
}

// findMessage reads a message from the log, else from its dead letter.
func (a *API) findMessage(q *query.Reads, source *query.Source, txid string, letters []*deadletter.Row) (row *messageRow, err error) {
	offset, found, err := partition.FindTxid(q.View(), source.Queue.ID, source.Partition.ID, partition.HashTxid([]byte(txid)))
	if err != nil {
		return nil, err
	}
	if found {
		span := partition.MessageRange{Queue: source.Queue.ID, Partition: source.Partition.ID, First: offset, End: offset + 1}
		err = partition.ReadMessages(q.View(), span, func(offset, stampMicros uint64, m *command.Message) (bool, error) {
			in := &partition.Append{Base: offset, Count: 1, StampMicros: stampMicros}
			row, err = a.messageRow(q, source, in, offset, m)
			return false, err
		})
		return row, err
	}
	if len(letters) == 0 {
		return nil, nil
	}
	letter := letters[0]
	err = letter.Stored(q.View(), func(stored []byte) error {
		message, err := deadletter.DecodeMessage(stored)
		if err != nil {
			return err
		}
		in := &partition.Append{Base: letter.Offset, Count: 1, StampMicros: letter.CreatedMicros}
		row, err = a.messageRow(q, source, in, letter.Offset, &message)
		return err
	})
	return row, err
}

func newMessageDetail(row *messageRow, queue *actors.QueueView, standings []*query.Standing, mode readingMode) *messageDetail {
	detail := &messageDetail{
		ID: row.ID, TransactionID: row.TransactionID, Data: row.Data, Payload: row.Payload, DecryptError: row.DecryptError,
		TraceID: row.TraceID, ProducerSub: row.ProducerSub, CreatedAt: row.CreatedAt, PartitionID: row.PartitionID,
		Partition: row.Partition, Queue: row.Queue, QueuePath: row.QueuePath, Namespace: row.Namespace, Task: row.Task,
		Status: row.Status, IsEncrypted: row.IsEncrypted, Mode: mode, ConsumerGroups: []messageConsumer{},
		QueueConfig: wire.AppendOptions(nil, &queue.Options),
	}
	for _, s := range standings {
		consumer := messageConsumer{Name: s.Group.Name, Committed: s.Cursor, Consumed: row.Offset < s.Cursor}
		if s.Leased > 0 {
			consumer.LeaseExpiresAt = micros(s.ExpiresMicros)
		}
		detail.ConsumerGroups = append(detail.ConsumerGroups, consumer)
	}
	return detail
}
