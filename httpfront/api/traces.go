package api

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"queen/actors/machine/trace"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

const (
	// traceKeyBytes bounds 36 for the tenant + the transaction id, or a name (messaging 2.11). The partition is held to it as
	// well: it may be any text.
	traceKeyBytes = 511
	// tracesDefault and traceNamesDefault are the pages of the two lists, tracesMost clamps both.
	tracesDefault     = 100
	traceNamesDefault = 50
	tracesMost        = 10_000
	// tracesAnswerBytes bounds the data of one answer, its first trace aside: what a pop may carry as well.
	tracesAnswerBytes = 64 << 20
)

// recordTrace stores an event about a message (state 7).
func (a *API) recordTrace(r *httpfront.Request) error {
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	body, err := wire.DecodeTrace(r.Body())
	if err != nil {
		return err
	}
	if text := traceTooLong(body); text != "" {
		// The one place where this code is a 400: it is about one field, not about the budget of names together.
		r.JSONOwned(400, wire.AppendEnvelope(nil, &wire.Envelope{Error: text, Code: string(httpfront.CodeNameTooLong)}))
		return nil
	}
	if refusal := a.gate.Closed(); refusal != nil {
		return refusal
	}
	applied, err := a.broker().Execute(span, &command.Trace{
		Tenant: r.Tenant, Partition: body.Partition, Txid: body.Txid, Group: body.Group, EventType: body.EventType,
		Worker: a.config.ServerID, Names: body.Names, Data: httpfront.Keep(body.Data),
	})
	if err != nil {
		return err
	}
	result := applied.(*command.TraceResult)
	if result.Foreign {
		return answerJSON(r, 404, struct {
			Success bool   `json:"success"`
			Error   string `json:"error"`
		}{false, "Message not found"})
	}
	return answerJSON(r, 201, struct {
		Success bool      `json:"success"`
		TraceID uuid.UUID `json:"traceId"`
	}{true, result.ID})
}

// traceTooLong says which text of a trace is beyond the key of the store; empty when all fit.
func traceTooLong(body *wire.Trace) string {
	const most = traceKeyBytes - tenantBytes
	switch {
	case len(body.Txid) > most:
		return fmt.Sprintf("transactionId is longer than %d bytes", most)
	case len(body.Partition) > most:
		return fmt.Sprintf("partitionId is longer than %d bytes", most)
	}
	for i, name := range body.Names {
		if len(name) > most {
			return fmt.Sprintf("traceNames[%d] is longer than %d bytes", i, most)
		}
	}
	return ""
}

// traceRow is a trace as it is shown by its address.
type traceRow struct {
	ID            uuid.UUID       `json:"id"`
	EventType     string          `json:"event_type"`
	Data          json.RawMessage `json:"data"`
	ConsumerGroup string          `json:"consumer_group"`
	WorkerID      string          `json:"worker_id"`
	CreatedAt     micros          `json:"created_at"`
	TraceNames    []string        `json:"trace_names"`
}

// namedTraceRow is a trace as it is shown by its name.
type namedTraceRow struct {
	traceRow
	TransactionID  string  `json:"transaction_id"`
	PartitionID    string  `json:"partition_id"`
	QueueName      *string `json:"queue_name"`
	PartitionName  *string `json:"partition_name"`
	MessagePayload *string `json:"message_payload"`
}

func showTrace(t *trace.Stored) traceRow {
	return traceRow{
		ID: t.ID, EventType: t.EventType, Data: t.Data, ConsumerGroup: t.Group, WorkerID: t.Worker,
		CreatedAt: micros(t.StampMicros), TraceNames: t.Record.Names,
	}
}

func showNamedTrace(t *trace.Stored) namedTraceRow {
	shown := namedTraceRow{traceRow: showTrace(t), TransactionID: t.Txid, PartitionID: t.Partition}
	if t.Placed {
		shown.QueueName, shown.PartitionName = &t.Queue, &t.PartitionName
	}
	return shown
}

// traceBudget counts the data of an answer.
type traceBudget struct{ bytes int }

// takes tells whether a trace is still to be shown.
func (b *traceBudget) takes(t *trace.Stored) bool {
	first := b.bytes == 0
	b.bytes += len(t.Data)
	return first || b.bytes <= tracesAnswerBytes
}

// describeTraces shows the traces of an address, newest first (state 7).
func (a *API) describeTraces(r *httpfront.Request) error {
	return a.reading(r, func(q *query.Reads) error {
		traces := []traceRow{}
		var budget traceBudget
		err := q.Traces().At(r.Tenant, r.Param("partitionId"), r.Param("transactionId"), func(t *trace.Stored) (bool, error) {
			if !budget.takes(t) {
				return false, nil
			}
			traces = append(traces, showTrace(t))
			return true, nil
		})
		if err != nil {
			return err
		}
		return answerJSON(r, 200, map[string]any{"traces": traces})
	})
}

// tracePage reads limit and offset of a list.
func tracePage(r *httpfront.Request, limit int64) (shown pagination, page trace.Page, err error) {
	if shown.Limit, err = r.QueryClamped("limit", limit, 1, tracesMost); err != nil {
		return shown, page, err
	}
	shown.Offset, err = r.QueryClamped("offset", 0, 0, listWindow)
	return shown, trace.Page{Skip: uint64(shown.Offset), Limit: uint64(shown.Limit)}, err
}

// listTraces shows the traces of a name, newest first (state 7).
func (a *API) listTraces(r *httpfront.Request) error {
	shown, page, err := tracePage(r, tracesDefault)
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		traces := []namedTraceRow{}
		var budget traceBudget
		total, err := q.Traces().Named(r.Tenant, r.Param("traceName"), page, func(t *trace.Stored) (bool, error) {
			if !budget.takes(t) {
				return false, nil
			}
			traces = append(traces, showNamedTrace(t))
			return true, nil
		})
		if err != nil {
			return err
		}
		return answerJSON(r, 200, map[string]any{"traces": traces, "total": total, "pagination": shown})
	})
}

type traceNameRow struct {
	TraceName    string `json:"trace_name"`
	TraceCount   uint64 `json:"trace_count"`
	MessageCount uint64 `json:"message_count"`
	LastSeen     micros `json:"last_seen"`
}

// listTraceNames shows the names of traces, the most recently seen first (state 7).
func (a *API) listTraceNames(r *httpfront.Request) error {
	shown, page, err := tracePage(r, traceNamesDefault)
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		names, total, err := q.Traces().Names(r.Tenant, page)
		if err != nil {
			return err
		}
		rows := make([]traceNameRow, len(names))
		for i, name := range names {
			rows[i] = traceNameRow{name.Name, name.Traces, name.Messages, micros(name.LastStampMicros)}
		}
		return answerJSON(r, 200, map[string]any{"trace_names": rows, "total": total, "pagination": shown})
	})
}
