package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"time"

	"queen/actors"
	"queen/actors/machine/partition"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

const (
	// fetchMaxRecords bounds the records of one entry, fetchMaxBytes the payloads of one answer (messaging 13.1).
	fetchMaxRecords = 10_000
	fetchMaxBytes   = 64 << 20

	unknownPartition = "UNKNOWN_TOPIC_OR_PARTITION"
	outOfRange       = "OFFSET_OUT_OF_RANGE"
	badCursor        = "BAD_CURSOR"
)

type fetchRecord struct {
	Offset        uint64          `json:"offset"`
	TransactionID string          `json:"transactionId"`
	Payload       json.RawMessage `json:"payload"`
	Timestamp     micros          `json:"ts"`
	DecryptError  bool            `json:"decryptError,omitempty"`
}

type fetchAnswer struct {
	Queue          string        `json:"queue"`
	Partition      string        `json:"partition"`
	Records        []fetchRecord `json:"records"`
	HighWatermark  uint64        `json:"highWatermark"`
	LogStartOffset uint64        `json:"logStartOffset"`
	Error          string        `json:"error,omitempty"`
}

// fetch reads records by offset, without cursor and lease, and waits for them (messaging 13.1).
func (a *API) fetch(r *httpfront.Request) {
	body, err := wire.DecodeFetch(r.Body())
	if err != nil {
		r.Fail(err)
		return
	}
	watch := r.WatchClient()
	defer watch.Close()
	waitUntil := r.Arrived.Add(time.Duration(body.WaitMs) * time.Millisecond)
	var queueIDs []uint64
	for i := range body.Entries {
		if queue := a.broker.Directory().Queue(r.Tenant, body.Entries[i].Queue); queue != nil {
			queueIDs = append(queueIDs, queue.ID)
		}
	}
	for {
		stored, end := a.broker.Await(queueIDs)
		answers, bytes, err := a.fetchOnce(r, body)
		if err != nil || bytes >= body.MinBytes || !a.awaitStored(r, stored, waitUntil, watch.C) {
			end()
			if err != nil {
				a.fail(r, err)
				return
			}
			answerJSON(r, 200, map[string]any{"entries": answers})
			return
		}
		end()
	}
}

// awaitStored waits for the next append to one of the queues; false when the wait is over.
func (a *API) awaitStored(r *httpfront.Request, stored []<-chan struct{}, until time.Time, gone <-chan struct{}) bool {
	left := time.Until(until)
	if left <= 0 {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	any := make(chan struct{}, len(stored))
	for _, ch := range stored {
		go func() {
			select {
			case <-ch:
				any <- struct{}{}
			case <-ctx.Done():
			}
		}()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-any:
		return true
	case <-timer.C:
	case <-gone:
	case <-r.Draining():
	}
	return false
}

func (a *API) fetchOnce(r *httpfront.Request, body *wire.Fetch) (answers []fetchAnswer, bytes int64, err error) {
	ctx, cancel := contextUntil(time.Now().Add(a.config.WriteTimeout))
	defer cancel()
	view, err := a.broker.View(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer view.Close()
	q := query.New(ctx, view, a.broker.Now(), a.broker.Holds())
	for i := range body.Entries {
		answer, read, err := a.fetchEntry(r, q, &body.Entries[i], fetchMaxBytes-bytes, i == 0 || bytes == 0)
		if err != nil {
			return nil, 0, err
		}
		bytes += read
		answers = append(answers, answer)
	}
	return orEmpty(answers), bytes, nil
}

// fetchEntry reads one entry. left is what the answer may still hold; the first record of the answer goes always.
func (a *API) fetchEntry(r *httpfront.Request, q *query.Reads, entry *wire.FetchEntry, left int64, first bool) (answer fetchAnswer, bytes int64, err error) {
	answer = fetchAnswer{Queue: entry.Queue, Partition: entry.Partition, Records: []fetchRecord{}}
	queue, id, head, err := a.fetchPlace(r, q, entry.Queue, entry.Partition)
	if err != nil || queue == nil {
		answer.Error = unknownPartition
		return answer, 0, err
	}
	answer.HighWatermark, answer.LogStartOffset = head.Tail, head.LogStart
	from := uint64(entry.Offset)
	if from < head.LogStart || from > head.Tail {
		answer.Error = outOfRange
		return answer, 0, nil
	}
	if left <= 0 && !first {
		return answer, 0, nil
	}
	limit := min(entry.MaxBytes, max(left, 0))
	span := partition.MessageRange{Queue: queue.ID, Partition: id, First: from, End: min(head.Tail, from+fetchMaxRecords)}
	err = partition.ReadMessages(q.View(), span, func(offset, stamp uint64, m *command.Message) (bool, error) {
		size := int64(len(m.Payload))
		forced := len(answer.Records) == 0 && (left >= size || first)
		if bytes+size > limit && !forced {
			return false, nil
		}
		record := fetchRecord{
			Offset: offset, TransactionID: string(m.EffectiveTxid(nil)), Timestamp: micros(stamp),
			Payload: append(json.RawMessage(nil), m.Payload...),
		}
		if m.Encrypted {
			record.Payload, record.DecryptError = a.open(record.Payload)
		}
		answer.Records = append(answer.Records, record)
		bytes += size
		return true, nil
	})
	return answer, bytes, err
}

func (a *API) fetchPlace(r *httpfront.Request, q *query.Reads, queueName, name string) (queue *actors.QueueView, id uint64, head partition.Head, err error) {
	if queue = a.broker.Directory().Queue(r.Tenant, queueName); queue == nil {
		return nil, 0, head, nil
	}
	id, ok, err := q.PartitionByName(queue.ID, name)
	if err != nil || !ok {
		return nil, 0, head, err
	}
	head, err = partition.ReadHead(q.View(), queue.ID, id)
	return queue, id, head, err
}

type offsetAnswer struct {
	Queue          string  `json:"queue"`
	Partition      string  `json:"partition"`
	Offset         *uint64 `json:"offset"`
	Timestamp      micros  `json:"ts"`
	HighWatermark  uint64  `json:"highWatermark"`
	LogStartOffset uint64  `json:"logStartOffset"`
	Error          string  `json:"error,omitempty"`
}

// fetchOffsets finds the first record stamped at or after a time (messaging 13.2).
func (a *API) fetchOffsets(r *httpfront.Request) {
	entries, err := wire.DecodeFetchOffsets(r.Body())
	if err != nil {
		r.Fail(err)
		return
	}
	a.reading(r, func(q *query.Reads) error {
		answers := []offsetAnswer{}
		for i := range entries {
			entry := &entries[i]
			answer := offsetAnswer{Queue: entry.Queue, Partition: entry.Partition}
			queue, id, head, err := a.fetchPlace(r, q, entry.Queue, entry.Partition)
			if err != nil {
				return err
			}
			if queue == nil {
				answer.Error = unknownPartition
			} else {
				answer.HighWatermark, answer.LogStartOffset = head.Tail, head.LogStart
				span := partition.AppendRange{Queue: queue.ID, Partition: id, FromMicros: uint64(max(entry.TimestampMicros, 0))}
				err = partition.ForEachAppend(q.View(), span, func(in *partition.Append) (bool, error) {
					offset := max(in.Base, head.LogStart)
					answer.Offset, answer.Timestamp = &offset, micros(in.StampMicros)
					return false, nil
				})
			}
			if err != nil {
				return err
			}
			answers = append(answers, answer)
		}
		answerJSON(r, 200, map[string]any{"entries": answers})
		return nil
	})
}

type changedPartition struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	LastOffset  int64  `json:"lastOffset"`
	LogStart    uint64 `json:"logStart"`
	LastWriteAt micros `json:"lastWriteAt"`
}

type changedAnswer struct {
	Queue      string             `json:"queue"`
	Partitions []changedPartition `json:"partitions"`
	Next       *string            `json:"next"`
}

type changedRefusal struct {
	Queue string `json:"queue"`
	Error string `json:"error"`
}

// changed lists the partitions that were written since an instant, in the order of their creation (messaging 13.3).
func (a *API) changed(r *httpfront.Request) {
	entries, err := wire.DecodeChanged(r.Body())
	if err != nil {
		r.Fail(err)
		return
	}
	a.reading(r, func(q *query.Reads) error {
		answers := []any{}
		for i := range entries {
			answer, err := a.changedEntry(r, q, &entries[i])
			if err != nil {
				return err
			}
			answers = append(answers, answer)
		}
		safe, err := a.broker.LastStampMicros()
		if err != nil {
			return err
		}
		answerJSON(r, 200, map[string]any{"safeTime": micros(safe), "safeTimeDegraded": false, "entries": answers})
		return nil
	})
}

func (a *API) changedEntry(r *httpfront.Request, q *query.Reads, entry *wire.ChangedQuery) (any, error) {
	queue := a.broker.Directory().Queue(r.Tenant, entry.Queue)
	if queue == nil {
		return changedRefusal{entry.Queue, unknownPartition}, nil
	}
	after, ok := decodeCursor(entry.After)
	if !ok {
		return changedRefusal{entry.Queue, badCursor}, nil
	}
	answer := changedAnswer{Queue: entry.Queue, Partitions: []changedPartition{}}
	err := q.EachPartition(queue.ID, after, func(id uint64, head *partition.Head) (bool, error) {
		if entry.HasSince && int64(head.LastStampMicros) < entry.SinceMicros {
			return true, nil
		}
		if len(answer.Partitions) == int(entry.Limit) {
			next := encodeCursor(after)
			answer.Next = &next
			return false, nil
		}
		identity, err := q.Identity(id)
		if err != nil {
			return false, err
		}
		after = id
		answer.Partitions = append(answer.Partitions, changedPartition{
			ID: partitionID(id), Name: identity.Name, LastOffset: int64(head.Tail) - 1, LogStart: head.LogStart,
			LastWriteAt: micros(head.LastStampMicros),
		})
		return true, nil
	})
	return answer, err
}

// encodeCursor makes the opaque cursor of a page out of the last id on it.
func encodeCursor(after uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64([]byte{cursorVersion}, after))
}

const cursorVersion = 1

func decodeCursor(text string) (after uint64, ok bool) {
	if text == "" {
		return 0, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != 9 || raw[0] != cursorVersion {
		return 0, false
	}
	return binary.BigEndian.Uint64(raw[1:]), true
}
