package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"

	"queen/actors/machine/deadletter"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
)

// deadLetterRow is a dead letter without its payload; see appendShown.
type deadLetterRow struct {
	ID            uuid.UUID `json:"id"`
	Queue         string    `json:"queue"`
	Partition     string    `json:"partition"`
	PartitionID   uuid.UUID `json:"partitionId"`
	ConsumerGroup string    `json:"consumerGroup"`
	Offset        uint64    `json:"offset"`
	MessageID     uuid.UUID `json:"messageId"`
	TransactionID string    `json:"transactionId"`
	ErrorMessage  *string   `json:"errorMessage"`
	RetryCount    uint32    `json:"retryCount"`
	CreatedAt     micros    `json:"createdAt"`
	FailedAt      micros    `json:"failedAt"`
}

type pagination struct {
	Limit  int64 `json:"limit"`
	Offset int64 `json:"offset"`
}

const (
	dlqDefault = 100
	listMax    = 1000
	// listWindow bounds how deep the list of traces can be browsed.
	listWindow = 1 << 20
)

// deadLetterFilter is the query of a dead-letter list (messaging 11.4).
type deadLetterFilter struct {
	queue, group, partition string
	hasGroup, hasPartition  bool
	hasQueue                bool
	from, to                int64
	hasFrom, hasTo          bool
	pagination
}

func (a *API) deadLetterFilter(r *httpfront.Request) (f deadLetterFilter, err error) {
	if f.Limit, err = r.QueryClamped("limit", dlqDefault, 1, listMax); err != nil {
		return f, err
	}
	if f.Offset, err = r.QueryClamped("offset", 0, 0, math.MaxInt64); err != nil {
		return f, err
	}
	texts := []struct {
		name string
		into *string
		has  *bool
	}{{"queue", &f.queue, &f.hasQueue}, {"consumerGroup", &f.group, &f.hasGroup}, {"partition", &f.partition, &f.hasPartition}}
	for _, t := range texts {
		if *t.into, *t.has, err = r.QueryText(t.name); err != nil {
			return f, err
		}
		*t.has = *t.has && *t.into != ""
	}
	// A value that does not parse is ignored.
	instant := func(name string) (micros int64, ok bool) {
		text, _, _ := r.QueryText(name)
		return wire.ParseTime(text)
	}
	f.from, f.hasFrom = instant("from")
	f.to, f.hasTo = instant("to")
	return f, nil
}

func (f *deadLetterFilter) admits(row *deadletter.Row) bool {
	return (!f.hasGroup || row.Group == f.group) && (!f.hasPartition || row.Partition == f.partition) &&
		(!f.hasFrom || int64(row.FailedMicros) >= f.from) && (!f.hasTo || int64(row.FailedMicros) < f.to)
}

// listDeadLetters shows dead letters, newest first (messaging 11.4).
func (a *API) listDeadLetters(r *httpfront.Request) error {
	filter, err := a.deadLetterFilter(r)
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		found, err := a.findDeadLetters(r, q, &filter)
		if err != nil {
			return err
		}
		rows, size, err := found.page(q, a.pageBytes)
		if err == nil {
			err = r.ReserveAnswer(size)
		}
		if err != nil {
			return err
		}
		dst := append(make([]byte, 0, size), `{"messages":[`...)
		for i, row := range rows {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = a.appendDeadLetter(dst, q, found.names[row.QueueID], row); err != nil {
				return err
			}
		}
		rest, err := json.Marshal(struct {
			Total      int        `json:"total"`
			Pagination pagination `json:"pagination"`
		}{found.total, filter.pagination})
		if err != nil {
			return fmt.Errorf("encode page: %w", err)
		}
		r.JSONOwned(200, append(append(dst, "],"...), rest[1:]...))
		return nil
	})
}

// letterPlace is what decides the order of a dead letter and finds it again.
type letterPlace struct {
	failedMicros, queue uint64
	id                  uuid.UUID
}

// newestLetter orders dead letters, the newest first.
func newestLetter(x, y letterPlace) int {
	return cmp.Or(cmp.Compare(y.failedMicros, x.failedMicros), slices.Compare(y.id[:], x.id[:]))
}

// foundLetters are the places of a page, the names of their queues and the number of all matches.
type foundLetters struct {
	places []letterPlace
	names  map[uint64]string
	total  int
}

// findDeadLetters finds the page of the filter. Up to the end of the page places are kept, not rows.
func (a *API) findDeadLetters(r *httpfront.Request, q *query.Reads, f *deadLetterFilter) (*foundLetters, error) {
	found := &foundLetters{names: map[uint64]string{}}
	// Kept are a page more than is shown at least, twice as much at most; more dead letters than an int counts there are not.
	keep := int(min(f.Offset, math.MaxInt64/4)) + int(f.Limit)
	for _, queue := range a.sortedQueues(r) {
		if f.hasQueue && queue.Name != f.queue {
			continue
		}
		found.names[queue.ID] = queue.Name
		err := q.EachDeadLetter(queue.ID, func(row *deadletter.Row) (bool, error) {
			if !f.admits(row) {
				return true, nil
			}
			found.total++
			found.places = append(found.places, letterPlace{row.FailedMicros, row.QueueID, row.ID})
			if len(found.places) >= 2*keep+64 {
				slices.SortFunc(found.places, newestLetter)
				found.places = found.places[:keep]
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found.places, newestLetter)
	first := min(keep-int(f.Limit), len(found.places))
	found.places = found.places[first:min(keep, len(found.places))]
	return found, nil
}

// page reads the rows of the page, as many as have room with their payloads in mostBytes, and returns what the answer takes at most.
func (f *foundLetters) page(q *query.Reads, mostBytes uint64) (rows []*deadletter.Row, answerBytes int64, err error) {
	payloadBytes, textBytes := uint64(0), 0
	for _, place := range f.places {
		row, err := deadletter.Get(q.View(), place.queue, place.id)
		if err != nil {
			return nil, 0, err
		}
		if row == nil {
			return nil, 0, fmt.Errorf("read dead letter of its own view: %w", deadletter.ErrBadRow)
		}
		size := uint64(len(row.Message))
		if row.Chunk != nil {
			size = uint64(row.Chunk.Bytes)
		}
		if len(rows) > 0 && payloadBytes+size > mostBytes {
			break
		}
		payloadBytes += size
		textBytes += len(row.Error) + len(row.Txid)
		rows = append(rows, row)
	}
	return rows, shownBytes(len(rows), payloadBytes) + int64(textBytes), nil
}

func (a *API) appendDeadLetter(dst []byte, q *query.Reads, queue string, row *deadletter.Row) ([]byte, error) {
	shown := &deadLetterRow{
		ID: row.ID, Queue: queue, Partition: row.Partition, PartitionID: row.PartitionUUID, ConsumerGroup: row.Group,
		Offset: row.Offset, TransactionID: string(row.Txid), RetryCount: row.RetryCount,
		CreatedAt: micros(row.FailedMicros), FailedAt: micros(row.FailedMicros),
	}
	if row.HasError {
		shown.ErrorMessage = &row.Error
	}
	err := row.Stored(q.View(), func(stored []byte) error {
		message, err := deadletter.DecodeMessage(stored)
		if err != nil {
			return err
		}
		shown.MessageID = message.ID
		dst, err = a.appendShown(dst, shown, message.Payload, message.Encrypted)
		return err
	})
	return dst, err
}
