package api

import (
	"github.com/google/uuid"

	"queen/actors"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/api/history"
)

// throughputPoint is what went through this node in one bucket, in all queues of the tenant.
type throughputPoint struct {
	Timestamp          micros  `json:"timestamp"`
	Ingested           uint64  `json:"ingested"`
	Processed          uint64  `json:"processed"`
	Delivered          uint64  `json:"delivered"`
	IngestedPerSecond  float64 `json:"ingestedPerSecond"`
	ProcessedPerSecond float64 `json:"processedPerSecond"`
	DeliveredPerSecond float64 `json:"deliveredPerSecond"`
	AvgLagMs           float64 `json:"avgLagMs"`
	MaxLagMs           float64 `json:"maxLagMs"`
}

func newThroughputPoint(w *window, bucketMs int64, tally *history.Tally) throughputPoint {
	p := throughputPoint{
		Timestamp: bucketTime(bucketMs), Ingested: tally.Counts[history.PushMessages],
		Processed: tally.Counts[history.AckSuccess], Delivered: tally.Counts[history.PopMessages],
	}
	p.AvgLagMs, p.MaxLagMs = tally.Lag()
	seconds := w.Seconds(bucketMs, w.now)
	p.IngestedPerSecond, p.ProcessedPerSecond, p.DeliveredPerSecond =
		float64(p.Ingested)/seconds, float64(p.Processed)/seconds, float64(p.Delivered)/seconds
	return p
}

type statusMessages struct {
	messageCounts
	Failed int `json:"failed"`
}

type statusAnswer struct {
	TimeRange     timeRange         `json:"timeRange"`
	BucketMinutes int64             `json:"bucketMinutes"`
	PointCount    int               `json:"pointCount"`
	Throughput    []throughputPoint `json:"throughput"`
	Queues        int               `json:"queues"`
	Messages      statusMessages    `json:"messages"`
	Leases        struct {
		Active     int `json:"active"`
		Partitions int `json:"partitionsWithLeases"`
	} `json:"leases"`
	DeadLetterQueue struct {
		TotalMessages  uint64 `json:"totalMessages"`
		AffectedQueues int    `json:"affectedQueues"`
	} `json:"deadLetterQueue"`
	Workers []workerRow `json:"workers"`
	Errors  struct {
		AckFailed uint64 `json:"ackFailed"`
	} `json:"errors"`
	StatsAge int    `json:"statsAge"`
	Engine   string `json:"engine"`
}

// workerRow is a process that serves the tenant: this node.
type workerRow struct {
	Hostname string `json:"hostname"`
	Port     int    `json:"port"`
	WorkerID int    `json:"workerId"`
}

func (a *API) workers() []workerRow {
	return []workerRow{{Hostname: a.config.ServerID, Port: a.config.Port}}
}

// statusSummary answers /api/v1/status: the counts of now, and what went through this node in the time range.
func (a *API) statusSummary(r *httpfront.Request, w *window) error {
	answer := &statusAnswer{
		TimeRange: w.timeRange(), BucketMinutes: w.BucketMinutes, Throughput: []throughputPoint{}, Workers: a.workers(),
		Engine: "raft",
	}
	byBucket := map[int64]*history.Tally{}
	err := a.history.EachQueueRow(r.Tenant, w.Window, func(bucketMs int64, row *history.QueueRow) {
		tallyIn(byBucket, bucketMs).Add(&row.Tally)
		answer.Errors.AckFailed += row.Counts[history.AckFailed]
	})
	if err != nil {
		return err
	}
	for _, bucketMs := range w.Buckets(w.now) {
		answer.Throughput = append(answer.Throughput, newThroughputPoint(w, bucketMs, tallyIn(byBucket, bucketMs)))
	}
	answer.PointCount = len(answer.Throughput)
	return a.reading(r, func(q *query.Reads) error {
		var total query.Counts
		leases := map[uuid.UUID]bool{}
		for _, queue := range a.sortedQueues(r) {
			sum, err := q.Summarize(queue)
			if err != nil {
				return err
			}
			answer.Queues++
			total.Add(sum.Counts)
			if sum.DeadLetters > 0 {
				answer.DeadLetterQueue.AffectedQueues++
			}
			err = q.EachLease(queue, func(lease uuid.UUID) {
				leases[lease] = true
				answer.Leases.Partitions++
			})
			if err != nil {
				return err
			}
		}
		answer.Messages.messageCounts = waitingCounts(total)
		answer.Leases.Active, answer.DeadLetterQueue.TotalMessages = len(leases), total.DeadLetters
		return answerJSON(r, 200, answer)
	})
}

func tallyIn[K comparable](byKey map[K]*history.Tally, key K) *history.Tally {
	tally := byKey[key]
	if tally == nil {
		tally = &history.Tally{}
		byKey[key] = tally
	}
	return tally
}

// statusQueues answers /api/v1/status/queues: the rows of the queue list.
func (a *API) statusQueues(r *httpfront.Request, _ *window) error {
	return a.reading(r, func(q *query.Reads) error {
		rows, err := a.queueRows(r, q)
		if err != nil {
			return err
		}
		return answerJSON(r, 200, map[string]any{"queues": rows})
	})
}

type statusQueue struct {
	ID            uuid.UUID    `json:"id"`
	Name          string       `json:"name"`
	Namespace     string       `json:"namespace"`
	Task          string       `json:"task"`
	CreatedAt     micros       `json:"createdAt"`
	Priority      int64        `json:"priority"`
	Config        *optionsJSON `json:"config"`
	Segments      segmentsJSON `json:"segments"`
	RetainedBytes uint64       `json:"retainedBytes"`
}

// statusOfQueue answers /api/v1/status/queues/:queue.
func (a *API) statusOfQueue(r *httpfront.Request, _ *window) error {
	return a.readingQueue(r, func(q *query.Reads, queue *actors.QueueView) error {
		detail, err := detailOf(q, queue)
		if err != nil {
			return err
		}
		return answerJSON(r, 200, map[string]any{
			"queue": &statusQueue{
				ID: detail.ID, Name: detail.Name, Namespace: detail.Namespace, Task: detail.Task, CreatedAt: detail.CreatedAt,
				Priority: int64(queue.Options.Priority), Config: detail.Options, Segments: detail.Segments,
				RetainedBytes: detail.RetainedBytes,
			},
			"partitions": detail.Partitions, "totals": detail.Totals,
		})
	})
}

// statusAnalytics answers /api/v1/status/analytics: the counts of now as the only point.
func (a *API) statusAnalytics(r *httpfront.Request, w *window) error {
	type point struct {
		Timestamp micros         `json:"timestamp"`
		Messages  statusMessages `json:"messages"`
	}
	return a.reading(r, func(q *query.Reads) error {
		var total query.Counts
		for _, queue := range a.sortedQueues(r) {
			sum, err := q.Summarize(queue)
			if err != nil {
				return err
			}
			total.Add(sum.Counts)
		}
		return answerJSON(r, 200, map[string]any{
			"dataPoints": []point{{Timestamp: microsOf(w.now), Messages: statusMessages{messageCounts: waitingCounts(total)}}},
			"interval":   "hour", "from": microsOf(w.from), "to": microsOf(w.to),
		})
	})
}
