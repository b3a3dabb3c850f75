package api

import (
	"cmp"
	"slices"

	"queen/actors/query"
	"queen/httpfront"
)

const (
	livenessRows    = 20
	livenessRowsMax = 200
)

type livenessRow struct {
	Queue         string `json:"queue"`
	Namespace     string `json:"namespace"`
	Task          string `json:"task"`
	Partitions    uint64 `json:"partitions"`
	Live1h        uint64 `json:"live1h"`
	Live24h       uint64 `json:"live24h"`
	Live7d        uint64 `json:"live7d"`
	Created24h    uint64 `json:"created24h"`
	OldestWriteAt micros `json:"oldestWriteAt"`
	NewestWriteAt micros `json:"newestWriteAt"`
	Pending       uint64 `json:"pending"`
}

// partitionLiveness answers /api/v1/analytics/partition-liveness: the queues with the most partitions, and how many of
// these are still written to.
func (a *API) partitionLiveness(r *httpfront.Request, w *window) error {
	limit, err := r.QueryClamped("limit", livenessRows, 1, livenessRowsMax)
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		rows := []livenessRow{}
		for _, queue := range a.sortedQueues(r) {
			l, err := q.Liveness(queue)
			if err != nil {
				return err
			}
			rows = append(rows, livenessRow{
				Queue: queue.Name, Namespace: queue.Options.Namespace, Task: queue.Options.Task, Partitions: l.Partitions,
				Live1h: l.LiveHour, Live24h: l.LiveDay, Live7d: l.LiveWeek, Created24h: l.CreatedDay,
				OldestWriteAt: micros(l.OldestWriteMicros), NewestWriteAt: micros(l.NewestWriteMicros), Pending: l.Pending,
			})
		}
		slices.SortStableFunc(rows, func(x, y livenessRow) int { return cmp.Compare(y.Partitions, x.Partitions) })
		return answerJSON(r, 200, map[string]any{"capturedAt": microsOf(w.now), "rows": rows[:min(len(rows), int(limit))]})
	})
}
