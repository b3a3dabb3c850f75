package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"slices"
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
	// lastLook is the least time for the look that ends a wait.
	lastLook = 2 * time.Second

	unknownPartition = "UNKNOWN_TOPIC_OR_PARTITION"
	outOfRange       = "OFFSET_OUT_OF_RANGE"
	badCursor        = "BAD_CURSOR"
)

// fetch reads records by offset, without cursor and lease, and waits for them (messaging 13.1).
func (a *API) fetch(r *httpfront.Request) error {
	body, err := wire.DecodeFetch(r.Body())
	if err != nil {
		return err
	}
	watch := r.WatchClient()
	defer watch.Close()
	waitUntil := r.Arrived.Add(time.Duration(body.WaitMs) * time.Millisecond)
	ctx, cancel := contextUntil(fetchDeadline(r.Arrived, waitUntil, a.config.WriteTimeout))
	defer cancel()
	queues := fetchedQueues(body)
	for waiting := body.WaitMs > 0; waiting; {
		var answered bool
		if answered, waiting, err = a.fetchOrWait(ctx, r, body, queues, waitUntil, watch.C); answered || err != nil {
			return err
		}
	}
	_, err = a.fetchOnce(ctx, r, body, true)
	return err
}

// fetchDeadline is when a fetch ends that finds no majority: that of any read, and not a whole read later than its wait.
func fetchDeadline(arrived, waitUntil time.Time, timeout time.Duration) time.Time {
	deadline := arrived.Add(timeout)
	if latest := waitUntil.Add(lastLook); latest.After(deadline) {
		return latest
	}
	return deadline
}

// fetchedQueues are the queues that a fetch names, each once.
func fetchedQueues(body *wire.Fetch) []string {
	queues := make([]string, len(body.Entries))
	for i := range body.Entries {
		queues[i] = body.Entries[i].Queue
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// fetchOrWait answers when enough is there, and else waits until something happens to one of the queues; waiting false
// tells that the wait is over.
func (a *API) fetchOrWait(ctx context.Context, r *httpfront.Request, body *wire.Fetch, queues []string, until time.Time,
	gone <-chan struct{}) (answered, waiting bool, err error) {
	changed, end := a.broker().Await(r.Tenant, queues)
	defer end()
	if answered, err = a.fetchOnce(ctx, r, body, false); answered || err != nil {
		return answered, false, err
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-changed:
		// Appends may follow each other without end: past its time a fetch does not wait for the next.
		return false, time.Now().Before(until), nil
	case <-timer.C:
	case <-gone:
	case <-r.Draining():
	}
	return false, false, nil
}

// fetchOnce answers with what is there, unless that is less than asked for and this is not the final look. Most answers are
// small and made at once. One that turns out large is measured, waits for room, and is made again.
func (a *API) fetchOnce(ctx context.Context, r *httpfront.Request, body *wire.Fetch, final bool) (answered bool, err error) {
	view, err := a.broker().View(ctx)
	if err != nil {
		return false, err
	}
	defer view.Close()
	reader := &fetchReader{api: a, tenant: r.Tenant, q: query.New(ctx, view, a.broker().Now(), a.broker().Holds()), body: body}
	answer, payloadBytes, err := reader.append(nil, httpfront.FreeAnswerBytes)
	large := errors.Is(err, errLargeAnswer)
	var size int64
	if large {
		size, payloadBytes, err = reader.bytes()
	}
	if err != nil || payloadBytes < body.MinBytes && !final {
		return false, err
	}
	if large {
		if err := r.ReserveAnswer(size); err != nil {
			return false, err
		}
		if answer, _, err = reader.append(make([]byte, 0, size), math.MaxInt); err != nil {
			return false, err
		}
	}
	r.JSONOwned(200, answer)
	return true, nil
}

// fetchReader reads the entries of a fetch from one view.
type fetchReader struct {
	api    *API
	tenant command.Tenant
	q      *query.Reads
	body   *wire.Fetch
}

// each reads an entry: visit gets its records, which are valid inside visit only. left is what the payloads of the answer
// may still take; the first record of the answer goes always.
func (f *fetchReader) each(entry *wire.FetchEntry, left int64, first bool,
	visit func(offset, stampMicros uint64, m *command.Message) error) (place wire.FetchPlace, payloadBytes int64, err error) {
	place.PartitionName = entry.PartitionName
	queue, id, head, err := f.api.fetchPlace(f.tenant, f.q, entry.Queue, entry.Partition)
	if err != nil || queue == nil {
		place.Error = unknownPartition
		return place, 0, err
	}
	place.HighWatermark, place.LogStartOffset = head.Tail, head.LogStart
	from := uint64(entry.Offset)
	if from < head.LogStart || from > head.Tail {
		place.Error = outOfRange
		return place, 0, nil
	}
	if left <= 0 && !first {
		return place, 0, nil
	}
	limit := min(entry.MaxBytes, max(left, 0))
	records := 0
	span := partition.MessageRange{Queue: queue.ID, Partition: id, First: from, End: min(head.Tail, from+fetchMaxRecords)}
	err = partition.ReadMessages(f.q.View(), span, func(offset, stampMicros uint64, m *command.Message) (bool, error) {
		size := int64(len(m.Payload))
		forced := records == 0 && (left >= size || first)
		if payloadBytes+size > limit && !forced {
			return false, nil
		}
		records++
		payloadBytes += size
		err := visit(offset, stampMicros, m)
		return err == nil, err
	})
	return place, payloadBytes, err
}

// What a record and an entry take in an answer besides their texts.
const (
	fetchRecordBytes = 120
	fetchEntryBytes  = 160
)

// bytes is what the answer takes, and its payloads alone.
func (f *fetchReader) bytes() (size, payloadBytes int64, err error) {
	for i := range f.body.Entries {
		entry := &f.body.Entries[i]
		size += fetchEntryBytes + int64(len(entry.Queue)+len(entry.Partition))
		_, read, err := f.each(entry, fetchMaxBytes-payloadBytes, payloadBytes == 0, func(_, _ uint64, m *command.Message) error {
			size += fetchRecordBytes + int64(len(m.Payload)+len(m.Txid))
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
		payloadBytes += read
	}
	return size, payloadBytes, nil
}

// append reads the records straight into the answer; it ends with errLargeAnswer when that exceeds mostBytes.
func (f *fetchReader) append(dst []byte, mostBytes int) (answer []byte, payloadBytes int64, err error) {
	w := wire.NewFetchWriter(dst)
	for i := range f.body.Entries {
		entry := &f.body.Entries[i]
		w.Open(&entry.PartitionName)
		place, read, err := f.each(entry, fetchMaxBytes-payloadBytes, payloadBytes == 0, func(offset, stampMicros uint64, m *command.Message) error {
			if w.Bytes()+len(m.Payload) > mostBytes {
				return errLargeAnswer
			}
			record := wire.FetchRecord{Offset: offset, Txid: m.EffectiveTxid(nil), Payload: m.Payload, StampMicros: stampMicros}
			if m.Encrypted {
				record.Payload, record.DecryptError = f.api.open(m.Payload)
			}
			w.Record(&record)
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		w.Close(&place)
		payloadBytes += read
	}
	return w.End(), payloadBytes, nil
}

func (a *API) fetchPlace(tenant command.Tenant, q *query.Reads, queueName, name string) (queue *actors.QueueView, id uint64, head partition.Head, err error) {
	if queue = a.broker().Directory().Queue(tenant, queueName); queue == nil {
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
func (a *API) fetchOffsets(r *httpfront.Request) error {
	entries, err := wire.DecodeFetchOffsets(r.Body())
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		answers := []offsetAnswer{}
		for i := range entries {
			entry := &entries[i]
			answer := offsetAnswer{Queue: entry.Queue, Partition: entry.Partition}
			queue, id, head, err := a.fetchPlace(r.Tenant, q, entry.Queue, entry.Partition)
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
		return answerJSON(r, 200, map[string]any{"entries": answers})
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
func (a *API) changed(r *httpfront.Request) error {
	entries, err := wire.DecodeChanged(r.Body())
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		answers := []any{}
		for i := range entries {
			answer, err := a.changedEntry(r, q, &entries[i])
			if err != nil {
				return err
			}
			answers = append(answers, answer)
		}
		safe, err := a.broker().LastStampMicros()
		if err != nil {
			return err
		}
		return answerJSON(r, 200, map[string]any{"safeTime": micros(safe), "safeTimeDegraded": false, "entries": answers})
	})
}

func (a *API) changedEntry(r *httpfront.Request, q *query.Reads, entry *wire.ChangedQuery) (any, error) {
	queue := a.broker().Directory().Queue(r.Tenant, entry.Queue)
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
