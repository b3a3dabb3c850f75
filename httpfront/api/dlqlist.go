package api

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"queen/actors/machine/deadletter"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
)

type deadLetterRow struct {
	ID            uuid.UUID       `json:"id"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	PartitionID   uuid.UUID       `json:"partitionId"`
	ConsumerGroup string          `json:"consumerGroup"`
	Offset        uint64          `json:"offset"`
	MessageID     uuid.UUID       `json:"messageId"`
	TransactionID string          `json:"transactionId"`
	Data          json.RawMessage `json:"data"`
	Payload       json.RawMessage `json:"payload"`
	DecryptError  bool            `json:"decryptError,omitempty"`
	ErrorMessage  *string         `json:"errorMessage"`
	RetryCount    uint32          `json:"retryCount"`
	CreatedAt     micros          `json:"createdAt"`
	FailedAt      micros          `json:"failedAt"`
}

type pagination struct {
	Limit  int64 `json:"limit"`
	Offset int64 `json:"offset"`
}

const (
	dlqDefault = 100
	listMax    = 1000
	// listWindow bounds how deep a list can be browsed: what lies above it is skipped without being kept.
	listWindow = 1 << 20
)

// deadLetterFilter is the query of a dead-letter list (messaging 11.4).
type deadLetterFilter struct {
	queue, group, partition string
	hasGroup, hasPartition  bool
	hasQueue                bool
	from, to                uint64
	pagination
}

func (a *API) deadLetterFilter(r *httpfront.Request) (f deadLetterFilter, err error) {
	if f.Limit, err = r.QueryClamped("limit", dlqDefault, 1, listMax); err != nil {
		return f, err
	}
	if f.Offset, err = r.QueryClamped("offset", 0, 0, listWindow); err != nil {
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
	instant := func(name string) uint64 {
		text, _, _ := r.QueryText(name)
		at, ok := wire.ParseTime(text)
		if !ok || at < 0 {
			return 0 // a value that does not parse is ignored
		}
		return uint64(at)
	}
	f.from, f.to = instant("from"), instant("to")
	return f, nil
}

func (f *deadLetterFilter) admits(row *deadletter.Row) bool {
	return (!f.hasGroup || row.Group == f.group) && (!f.hasPartition || row.Partition == f.partition) &&
		(f.from == 0 || row.FailedMicros >= f.from) && (f.to == 0 || row.FailedMicros < f.to)
}

// listDeadLetters shows dead letters, newest first (messaging 11.4).
func (a *API) listDeadLetters(r *httpfront.Request) {
	filter, err := a.deadLetterFilter(r)
	if err != nil {
		r.Fail(err)
		return
	}
	a.reading(r, func(q *query.Reads) error {
		rows, names, total, err := a.findDeadLetters(r, q, &filter)
		if err != nil {
			return err
		}
		messages := []deadLetterRow{}
		for _, row := range rows {
			shown, err := a.showDeadLetter(q, names[row.QueueID], row)
			if err != nil {
				return err
			}
			messages = append(messages, *shown)
		}
		answerJSON(r, 200, map[string]any{"messages": messages, "total": total, "pagination": filter.pagination})
		return nil
	})
}

// findDeadLetters returns the page of the filter and the number of all matches. Rows without their messages are small, so
// up to the end of the page all of them are kept.
func (a *API) findDeadLetters(r *httpfront.Request, q *query.Reads, f *deadLetterFilter) (rows []*deadletter.Row, names map[uint64]string, total int, err error) {
	names = map[uint64]string{}
	keep := int(f.Offset + f.Limit)
	newest := func(x, y *deadletter.Row) int {
		return cmp.Or(cmp.Compare(y.FailedMicros, x.FailedMicros), slices.Compare(y.ID[:], x.ID[:]))
	}
	for _, queue := range a.sortedQueues(r) {
		if f.hasQueue && queue.Name != f.queue {
			continue
		}
		names[queue.ID] = queue.Name
		err := q.EachDeadLetter(queue.ID, func(row *deadletter.Row) (bool, error) {
			if !f.admits(row) {
				return true, nil
			}
			total++
			if rows = append(rows, row); len(rows) >= 2*keep+64 {
				slices.SortFunc(rows, newest)
				rows = rows[:keep]
			}
			return true, nil
		})
		if err != nil {
			return nil, nil, 0, err
		}
	}
	slices.SortFunc(rows, newest)
	first := min(int(f.Offset), len(rows))
	return rows[first:min(keep, len(rows))], names, total, nil
}

func (a *API) showDeadLetter(q *query.Reads, queue string, row *deadletter.Row) (*deadLetterRow, error) {
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
		shown.Data = append(json.RawMessage(nil), message.Payload...)
		if message.Encrypted {
			shown.Data, shown.DecryptError = a.open(shown.Data)
		}
		shown.Payload = shown.Data
		return nil
	})
	return shown, err
}
