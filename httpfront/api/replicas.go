package api

import (
	"cmp"
	"slices"

	"queen/httpfront"
	"queen/httpfront/api/history"
)

// gaugeStat is one value of the node over a bucket.
type gaugeStat struct {
	Avg  float64 `json:"avg"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Last float64 `json:"last"`
}

type systemSample struct {
	Timestamp   micros               `json:"timestamp"`
	SampleCount int                  `json:"sampleCount"`
	Metrics     map[string]gaugeStat `json:"metrics"`

	bucketMs int64
	stats    [history.Gauges]gaugeStat
}

func (s *systemSample) add(row *history.NodeRow) {
	s.SampleCount++
	for i, value := range row {
		stat := &s.stats[i]
		if s.SampleCount == 1 {
			*stat = gaugeStat{Min: value, Max: value}
		}
		stat.Avg += (value - stat.Avg) / float64(s.SampleCount)
		stat.Min, stat.Max, stat.Last = min(stat.Min, value), max(stat.Max, value), value
	}
}

type replicaRow struct {
	workerRow
	TimeSeries []*systemSample `json:"timeSeries"`
}

// systemMetrics answers /api/v1/analytics/system-metrics: this node over time.
func (a *API) systemMetrics(r *httpfront.Request, w *window) error {
	samples := []*systemSample{}
	err := a.history.EachNodeRow(w.Window, func(bucketMs int64, row *history.NodeRow) {
		if n := len(samples); n == 0 || samples[n-1].bucketMs != bucketMs {
			samples = append(samples, &systemSample{Timestamp: bucketTime(bucketMs), bucketMs: bucketMs})
		}
		samples[len(samples)-1].add(row)
	})
	if err != nil {
		return err
	}
	for _, sample := range samples {
		sample.Metrics = make(map[string]gaugeStat, len(sample.stats))
		for i, stat := range sample.stats {
			sample.Metrics[history.Gauge(i).String()] = stat
		}
	}
	replicas := []replicaRow{{a.workers()[0], samples}}
	return answerJSON(r, 200, map[string]any{
		"timeRange": w.timeRange(), "replicaCount": len(replicas), "replicas": replicas,
		"bucketMinutes": w.BucketMinutes, "pointCount": len(samples),
	})
}

// workerCounts are what went through this node, with the rates over some seconds.
type workerCounts struct {
	workloadCounts
	PushRequests  uint64  `json:"pushRequests"`
	PopRequests   uint64  `json:"popRequests"`
	PopEmpty      uint64  `json:"popEmpty"`
	AckRequests   uint64  `json:"ackRequests"`
	AvgLagMs      float64 `json:"avgLagMs"`
	MaxLagMs      float64 `json:"maxLagMs"`
	PushPerSecond float64 `json:"pushPerSecond"`
	PopPerSecond  float64 `json:"popPerSecond"`
	AckPerSecond  float64 `json:"ackPerSecond"`
}

func newWorkerCounts(tally *history.Tally, seconds float64) workerCounts {
	n := &tally.Counts
	counts := workerCounts{
		workloadCounts: newWorkloadCounts(n), PushRequests: n[history.PushRequests],
		PopRequests: n[history.PopRequests], PopEmpty: n[history.PopEmpty], AckRequests: n[history.AckRequests],
		PushPerSecond: float64(n[history.PushMessages]) / seconds,
		PopPerSecond:  float64(n[history.PopMessages]) / seconds,
		AckPerSecond:  float64(n[history.AckSuccess]) / seconds,
	}
	counts.AvgLagMs, counts.MaxLagMs = tally.Lag()
	return counts
}

type workerPoint struct {
	Timestamp micros `json:"timestamp"`
	workerCounts
}

type queueTotal struct {
	QueueName string `json:"queueName"`
	workerCounts
}

// workerMetrics answers /api/v1/analytics/worker-metrics: what went through this node, in all queues of the tenant.
func (a *API) workerMetrics(r *httpfront.Request, w *window) error {
	var total history.Tally
	byBucket, byQueue := map[int64]*history.Tally{}, map[string]*history.Tally{}
	err := a.history.EachQueueRow(r.Tenant, w.Window, func(bucketMs int64, row *history.QueueRow) {
		total.Add(&row.Tally)
		tallyIn(byBucket, bucketMs).Add(&row.Tally)
		tallyIn(byQueue, row.Queue).Add(&row.Tally)
	})
	if err != nil {
		return err
	}
	series := []workerPoint{}
	for _, bucketMs := range w.Buckets(w.now) {
		if tally := byBucket[bucketMs]; tally != nil {
			series = append(series, workerPoint{bucketTime(bucketMs), newWorkerCounts(tally, w.Seconds(bucketMs, w.now))})
		}
	}
	seconds := max(min(w.to.Sub(w.from), w.now.Sub(w.from)).Seconds(), 1)
	return answerJSON(r, 200, map[string]any{
		"timeRange": w.timeRange(), "bucketMinutes": w.BucketMinutes, "pointCount": len(series), "timeSeries": series,
		"workers": a.workers(), "queues": queueTotals(byQueue, seconds),
		"summary": newWorkerCounts(&total, seconds),
	})
}

// queueTotals lists the queues by traffic, at most workloadRowsMax.
func queueTotals(byQueue map[string]*history.Tally, seconds float64) []queueTotal {
	names := make([]string, 0, len(byQueue))
	for name := range byQueue {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(byQueue[y].Counts.Activity(), byQueue[x].Counts.Activity()), cmp.Compare(x, y))
	})
	totals := []queueTotal{}
	for _, name := range names[:min(len(names), workloadRowsMax)] {
		totals = append(totals, queueTotal{name, newWorkerCounts(byQueue[name], seconds)})
	}
	return totals
}
