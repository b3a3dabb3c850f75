package api

import (
	"cmp"
	"slices"

	"queen/httpfront"
	"queen/httpfront/api/history"
)

// seriesRowsMax bounds the rows of a series by queue: at about 400 bytes each the answer stays below 10 MiB. The queues
// with the least traffic are left out first.
const seriesRowsMax = 20_000

// queueBucket is one queue in one bucket.
type queueBucket struct {
	queue    string
	bucketMs int64
	history.Tally
	// parked is the largest of the samples in the bucket.
	parked uint64
}

// queueBuckets sums the rows of the tenant by queue and bucket: by time, then by name.
func (a *API) queueBuckets(r *httpfront.Request, w *window) (rows []*queueBucket, truncated bool, err error) {
	type key struct {
		queue    string
		bucketMs int64
	}
	byKey := map[key]*queueBucket{}
	activity, buckets := map[string]uint64{}, map[string]int{}
	err = a.history.EachQueueRow(r.Tenant, w.Window, func(bucketMs int64, row *history.QueueRow) {
		k := key{row.Queue, bucketMs}
		sum := byKey[k]
		if sum == nil {
			sum = &queueBucket{queue: row.Queue, bucketMs: bucketMs}
			byKey[k] = sum
			rows = append(rows, sum)
			buckets[row.Queue]++
		}
		sum.Add(&row.Tally)
		sum.parked = max(sum.parked, row.Parked)
		activity[row.Queue] += row.Counts.Activity()
	})
	if err != nil {
		return nil, false, err
	}
	if len(rows) > seriesRowsMax {
		rows, truncated = busiest(rows, activity, buckets), true
	}
	slices.SortFunc(rows, func(x, y *queueBucket) int {
		return cmp.Or(cmp.Compare(x.bucketMs, y.bucketMs), cmp.Compare(x.queue, y.queue))
	})
	return rows, truncated, nil
}

// busiest keeps the rows of as many queues as fit, those with the most traffic.
func busiest(rows []*queueBucket, activity map[string]uint64, buckets map[string]int) []*queueBucket {
	names := make([]string, 0, len(activity))
	for name := range activity {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(activity[y], activity[x]), cmp.Compare(x, y))
	})
	kept, left := map[string]bool{}, seriesRowsMax
	for _, name := range names {
		if left -= buckets[name]; left < 0 {
			break
		}
		kept[name] = true
	}
	return slices.DeleteFunc(rows, func(row *queueBucket) bool { return !kept[row.queue] })
}

func queueNames(rows []*queueBucket) []string {
	seen, names := map[string]bool{}, []string{}
	for _, row := range rows {
		if !seen[row.queue] {
			seen[row.queue] = true
			names = append(names, row.queue)
		}
	}
	slices.Sort(names)
	return names
}

type queueLagRow struct {
	QueueName     string  `json:"queueName"`
	PopCount      uint64  `json:"popCount"`
	AvgLagMs      float64 `json:"avgLagMs"`
	MaxLagMs      float64 `json:"maxLagMs"`
	BucketMinutes int64   `json:"bucketMinutes"`
	BucketTime    micros  `json:"bucketTime"`
}

// queueLag answers /api/v1/analytics/queue-lag: the age of messages at their delivery.
func (a *API) queueLag(r *httpfront.Request, w *window) error {
	rows, _, err := a.queueBuckets(r, w)
	if err != nil {
		return err
	}
	answer := []queueLagRow{}
	for _, row := range rows {
		if row.Counts[history.PopMessages] == 0 {
			continue
		}
		shown := queueLagRow{
			QueueName: row.queue, PopCount: row.Counts[history.PopMessages], BucketMinutes: w.BucketMinutes,
			BucketTime: bucketTime(row.bucketMs),
		}
		shown.AvgLagMs, shown.MaxLagMs = row.Lag()
		answer = append(answer, shown)
	}
	return answerJSON(r, 200, answer)
}

type queueOpsRow struct {
	Bucket            micros  `json:"bucket"`
	QueueName         string  `json:"queueName"`
	PushRequests      uint64  `json:"pushRequests"`
	PushMessages      uint64  `json:"pushMessages"`
	PopMessages       uint64  `json:"popMessages"`
	PopEmpty          uint64  `json:"popEmpty"`
	AckRequests       uint64  `json:"ackRequests"`
	AckSuccess        uint64  `json:"ackSuccess"`
	AckFailed         uint64  `json:"ackFailed"`
	Transactions      uint64  `json:"transactions"`
	PartitionsCreated uint64  `json:"partitionsCreated"`
	PartitionsDeleted uint64  `json:"partitionsDeleted"`
	PartitionCount    *uint64 `json:"partitionCount"`
	AvgLagMs          float64 `json:"avgLagMs"`
	MaxLagMs          float64 `json:"maxLagMs"`
	PushPerSecond     float64 `json:"pushPerSecond"`
	PopPerSecond      float64 `json:"popPerSecond"`
	AckPerSecond      float64 `json:"ackPerSecond"`
	EmptyPerSecond    float64 `json:"emptyPerSecond"`
	ParkedCount       uint64  `json:"parkedCount"`
}

func newQueueOpsRow(w *window, row *queueBucket) queueOpsRow {
	n := &row.Counts
	seconds := w.Seconds(row.bucketMs, w.now)
	shown := queueOpsRow{
		Bucket: bucketTime(row.bucketMs), QueueName: row.queue, PushRequests: n[history.PushRequests],
		PushMessages: n[history.PushMessages], PopMessages: n[history.PopMessages], PopEmpty: n[history.PopEmpty],
		AckRequests: n[history.AckRequests], AckSuccess: n[history.AckSuccess], AckFailed: n[history.AckFailed],
		Transactions: n[history.Transactions], PartitionsCreated: n[history.PartitionsCreated],
		PartitionsDeleted: n[history.PartitionsDeleted], ParkedCount: row.parked,
		PushPerSecond:  float64(n[history.PushMessages]) / seconds,
		PopPerSecond:   float64(n[history.PopMessages]) / seconds,
		AckPerSecond:   float64(n[history.AckSuccess]) / seconds,
		EmptyPerSecond: float64(n[history.PopEmpty]) / seconds,
	}
	shown.AvgLagMs, shown.MaxLagMs = row.Lag()
	return shown
}

// queueOps answers /api/v1/analytics/queue-ops.
func (a *API) queueOps(r *httpfront.Request, w *window) error {
	rows, truncated, err := a.queueBuckets(r, w)
	if err != nil {
		return err
	}
	series := make([]queueOpsRow, len(rows))
	for i, row := range rows {
		series[i] = newQueueOpsRow(w, row)
	}
	answer := map[string]any{
		"timeRange": w.timeRange(), "bucketMinutes": w.BucketMinutes, "series": series, "queues": queueNames(rows),
	}
	return answerSeries(r, answer, truncated)
}

// answerSeries says so when a series was cut.
func answerSeries(r *httpfront.Request, answer map[string]any, truncated bool) error {
	if truncated {
		answer["truncated"] = true
	}
	return answerJSON(r, 200, answer)
}

type parkedRow struct {
	Bucket      micros `json:"bucket"`
	QueueName   string `json:"queueName"`
	Hostname    string `json:"hostname"`
	WorkerID    int    `json:"workerId"`
	ParkedCount uint64 `json:"parkedCount"`
}

// queueParked answers /api/v1/analytics/queue-parked-replicas: pops that wait, on this node.
func (a *API) queueParked(r *httpfront.Request, w *window) error {
	rows, truncated, err := a.queueBuckets(r, w)
	if err != nil {
		return err
	}
	series := make([]parkedRow, len(rows))
	for i, row := range rows {
		series[i] = parkedRow{
			Bucket: bucketTime(row.bucketMs), QueueName: row.queue, Hostname: a.config.ServerID, ParkedCount: row.parked,
		}
	}
	return answerSeries(r, map[string]any{
		"timeRange": w.timeRange(), "bucketMinutes": w.BucketMinutes, "series": series, "replicas": a.workers(),
	}, truncated)
}

// retentionCounts are what retention removed. Which rule it was is not told apart: one pass applies all of them.
type retentionCounts struct {
	RetentionMsgs          uint64 `json:"retentionMsgs"`
	CompletedRetentionMsgs uint64 `json:"completedRetentionMsgs"`
	EvictionMsgs           uint64 `json:"evictionMsgs"`
	TotalMsgs              uint64 `json:"totalMsgs"`
	EventCount             uint64 `json:"eventCount"`
}

func (c *retentionCounts) add(n *history.Counts) {
	c.RetentionMsgs += n[history.RetentionMessages]
	c.TotalMsgs += n[history.RetentionMessages]
	c.EventCount += n[history.RetentionEvents]
}

type retentionPoint struct {
	Bucket micros `json:"bucket"`
	retentionCounts
}

type retentionRow struct {
	Key string `json:"key"`
	retentionCounts
}

// retention answers /api/v1/analytics/retention.
func (a *API) retention(r *httpfront.Request, w *window) error {
	keyOf, grouped, err := a.grouping(r)
	if err != nil {
		return err
	}
	var totals retentionCounts
	byBucket, byKey := map[int64]*retentionCounts{}, map[string]*retentionCounts{}
	err = a.history.EachQueueRow(r.Tenant, w.Window, func(bucketMs int64, row *history.QueueRow) {
		if row.Counts[history.RetentionMessages] == 0 {
			return
		}
		totals.add(&row.Counts)
		retentionIn(byBucket, bucketMs).add(&row.Counts)
		if grouped {
			retentionIn(byKey, keyOf(row.Queue)).add(&row.Counts)
		}
	})
	if err != nil {
		return err
	}
	series := []retentionPoint{}
	for bucketMs, counts := range byBucket {
		series = append(series, retentionPoint{bucketTime(bucketMs), *counts})
	}
	slices.SortFunc(series, func(x, y retentionPoint) int { return cmp.Compare(x.Bucket, y.Bucket) })
	answer := map[string]any{"series": series, "totals": totals}
	if grouped {
		rows := []retentionRow{}
		for key, counts := range byKey {
			rows = append(rows, retentionRow{key, *counts})
		}
		slices.SortFunc(rows, func(x, y retentionRow) int {
			return cmp.Or(cmp.Compare(y.TotalMsgs, x.TotalMsgs), cmp.Compare(x.Key, y.Key))
		})
		answer["rows"] = rows
	}
	return answerJSON(r, 200, answer)
}

func retentionIn[K comparable](byKey map[K]*retentionCounts, key K) *retentionCounts {
	counts := byKey[key]
	if counts == nil {
		counts = &retentionCounts{}
		byKey[key] = counts
	}
	return counts
}
