package api

import (
	"strings"

	"github.com/google/uuid"

	"queen/actors/machine/timer"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
)

const (
	// timersListed is the page of a list that names no limit.
	timersListed = 100
	// timersPrefixBytes is the longest prefix of a count (state 3.5).
	timersPrefixBytes = 128
)

// timerAddress is the queue and the key of a path.
func timerAddress(r *httpfront.Request) (queue, key string, err error) {
	queue, key = r.Param("queue"), r.Param("timerKey")
	switch {
	case queue == "":
		err = wire.TimerRefusal(wire.TimersQueueRequired, "the path names no queue")
	case key == "":
		err = wire.TimerRefusal(wire.TimersBadOp, "the path names no timer")
	default:
		err = checkTimerNames(queue, key, "")
	}
	return queue, key, err
}

// cancelTimer cancels one timer (state 3.3).
func (a *API) cancelTimer(r *httpfront.Request) error {
	op := wire.TimerOp{Cancel: true}
	var err error
	if op.Queue, op.Key, err = timerAddress(r); err != nil {
		return err
	}
	if op.Txid, op.HasTxid, err = r.QueryText("txn"); err != nil {
		return err
	}
	results, err := a.executeTimers(r, []wire.TimerOp{op})
	if err != nil {
		return err
	}
	r.JSONOwned(200, wire.AppendTimer(nil, &results[0]))
	return nil
}

// instant is a time in Unix microseconds that may lie before 1970.
type instant int64

// MarshalJSON implements json.Marshaler.
func (i instant) MarshalJSON() ([]byte, error) {
	return append(wire.AppendInstant([]byte{'"'}, int64(i)), '"'), nil
}

// timerRow is a pending timer as lists show it.
type timerRow struct {
	Found       bool      `json:"found"`
	Queue       string    `json:"queue"`
	TimerKey    string    `json:"timerKey"`
	Partition   string    `json:"partition"`
	DeliverAt   instant   `json:"deliverAt"`
	Txn         string    `json:"txn"`
	MessageID   uuid.UUID `json:"messageId"`
	PayloadZstd bool      `json:"payloadZstd"`
	Encrypted   bool      `json:"encrypted"`
	ProducerSub *string   `json:"producerSub"`
	Attempts    uint32    `json:"attempts"`
	LastError   *string   `json:"lastError"`
	// Claimed is never true: what is listed can be cancelled.
	Claimed   bool   `json:"claimed"`
	CreatedAt micros `json:"createdAt"`
	UpdatedAt micros `json:"updatedAt"`
}

func showTimer(row *timer.Row) timerRow {
	return timerRow{
		Found: true, Queue: row.Queue, TimerKey: row.Key, Partition: row.Partition, DeliverAt: instant(row.DeliverMicros), Txn: row.Txid,
		MessageID: row.MessageID, PayloadZstd: row.Zstd, Encrypted: row.Encrypted, ProducerSub: textOrNull(row.ProducerSub),
		Attempts: row.Attempts, LastError: textOrNull(row.LastError), CreatedAt: micros(row.CreatedMicros), UpdatedAt: micros(row.UpdatedMicros),
	}
}

// textOrNull is null for an empty text.
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// peekTimer shows a timer with its payload as stored (state 3.4).
func (a *API) peekTimer(r *httpfront.Request) error {
	queue, key, err := timerAddress(r)
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		row, payload, err := q.Timers().Peek(r.Tenant, queue, key)
		if err != nil {
			return err
		}
		if row == nil {
			return answerJSON(r, 200, struct {
				Found    bool   `json:"found"`
				Queue    string `json:"queue"`
				TimerKey string `json:"timerKey"`
			}{false, queue, key})
		}
		return answerJSON(r, 200, struct {
			timerRow
			Payload []byte `json:"payload"` // in base64
		}{showTimer(row), append([]byte{}, payload...)})
	})
}

// readTimers lists or counts the timers of a queue (state 3.5).
func (a *API) readTimers(r *httpfront.Request) error {
	mode, present, err := r.QueryText("mode")
	switch {
	case err == nil && mode == "count":
		return a.countTimers(r)
	case err == nil && (!present || mode == "list"):
		return a.listTimers(r)
	}
	return wire.TimerRefusal("timers_read_mode_unknown", "mode must be list or count")
}

func (a *API) listTimers(r *httpfront.Request) error {
	after, _, err := r.QueryText("after")
	if err != nil {
		return err
	}
	limit, err := r.QueryClamped("limit", timersListed, 1, timer.MaxListed)
	if err != nil {
		return err
	}
	if err := checkTimerNames(r.Param("queue"), after, ""); err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		rows, truncated, err := q.Timers().List(r.Tenant, r.Param("queue"), after, int(limit))
		if err != nil {
			return err
		}
		page := struct {
			Rows      []timerRow `json:"rows"`
			Truncated bool       `json:"truncated"`
			NextAfter *string    `json:"nextAfter"`
		}{make([]timerRow, len(rows)), truncated, nil}
		for i, row := range rows {
			page.Rows[i] = showTimer(row)
		}
		if truncated {
			page.NextAfter = &rows[len(rows)-1].Key
		}
		return answerJSON(r, 200, page)
	})
}

func (a *API) countTimers(r *httpfront.Request) error {
	for _, name := range []string{"after", "limit"} {
		if _, present, err := r.QueryText(name); present || err != nil {
			return wire.TimerRefusal("timers_count_no_paging", "a count has no %s", name)
		}
	}
	prefix, _, err := r.QueryText("prefix")
	switch {
	case err != nil || strings.ContainsRune(prefix, 0):
		return wire.TimerRefusal("timers_count_bad_prefix", "prefix must be UTF-8 without a NUL")
	case prefix == "":
		return wire.TimerRefusal("timers_count_prefix_required", "a count needs a prefix")
	case len(prefix) > timersPrefixBytes:
		return wire.TimerRefusal("timers_count_prefix_too_long", "prefix is longer than %d bytes", timersPrefixBytes)
	}
	if err := checkTimerNames(r.Param("queue"), "", ""); err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		count, err := q.Timers().Count(r.Tenant, r.Param("queue"), prefix)
		if err != nil {
			return err
		}
		return answerJSON(r, 200, struct {
			Count uint64 `json:"count"`
		}{count})
	})
}
