package api

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"queen/actors"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// reading runs a console read over a linearizable view, within the deadline of its request (cluster 9).
func (a *API) reading(r *httpfront.Request, read func(q *query.Reads) error) error {
	deadline, err := a.deadline(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	ctx, cancel := contextUntil(deadline)
	defer cancel()
	view, err := a.broker().View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	err = read(query.New(ctx, view, a.broker().Now(), a.broker().Holds()))
	if errors.Is(err, context.DeadlineExceeded) {
		return actors.ErrDeadline
	}
	return err
}

// micros is a time as management reads show it: microseconds in UTC, null for none (messaging 2.12).
type micros uint64

// MarshalJSON implements json.Marshaler.
func (m micros) MarshalJSON() ([]byte, error) {
	if m == 0 {
		return []byte("null"), nil
	}
	return append(wire.AppendTimeMicros([]byte{'"'}, uint64(m)), '"'), nil
}

// optionsJSON shows the 20 option keys of messaging 9.4.
type optionsJSON command.Options

// MarshalJSON implements json.Marshaler.
func (o *optionsJSON) MarshalJSON() ([]byte, error) {
	return wire.AppendOptions(nil, (*command.Options)(o)), nil
}

var _ json.Marshaler = (*optionsJSON)(nil)

// readingQueue is reading for the queue that a path names; a missing one is the 404 of messaging 9.7. The queue is looked up within the
// read: this node may not have applied yet what made, changed or removed it.
func (a *API) readingQueue(r *httpfront.Request, read func(q *query.Reads, queue *actors.QueueView) error) error {
	return a.reading(r, func(q *query.Reads) error {
		queue := a.broker().Directory().Queue(r.Tenant, r.Param("queue"))
		if queue == nil {
			return httpfront.RefuseStatus(404, "Queue not found")
		}
		return read(q, queue)
	})
}

// lagSeconds is the age of an instant in whole seconds.
func lagSeconds(nowMicros, stampMicros uint64) float64 {
	if stampMicros == 0 || stampMicros > nowMicros {
		return 0
	}
	return float64((nowMicros-stampMicros)/1000) / 1000
}

// partitionID is the id of a partition on the message plane (messaging 2.12).
func partitionID(id uint64) string { return strconv.FormatUint(id, 10) }
