package bench

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies records spans of one kind from many goroutines, in microseconds.
type latencies struct {
	shards []latencyShard
}

// latencyShard is one histogram and its lock, so that clients rarely meet.
type latencyShard struct {
	mutex     sync.Mutex
	histogram *hdrhistogram.Histogram
	maxUs     int64
	_         [64]byte // own cache lines
}

const (
	// longestUs is the highest latency that keeps its precision; longer ones count as this, and the maximum is exact anyway.
	longestUs = 600 * 1_000_000
	// significantDigits gives an error below 0.1 %.
	significantDigits = 3
	// maxLatencyShards bounds the memory: a histogram takes about 170 KB.
	maxLatencyShards = 16
)

func newLatencies(clients int) *latencies {
	l := &latencies{shards: make([]latencyShard, max(1, min(clients, maxLatencyShards)))}
	for i := range l.shards {
		l.shards[i].histogram = hdrhistogram.New(1, longestUs, significantDigits)
	}
	return l
}

// record adds one span of one client.
func (l *latencies) record(client int, spanUs int64) { l.recordMany(client, spanUs, 1) }

// recordMany adds the same span count times.
func (l *latencies) recordMany(client int, spanUs, count int64) {
	shard := &l.shards[client%len(l.shards)]
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	shard.maxUs = max(shard.maxUs, spanUs)
	if err := shard.histogram.RecordValues(min(max(spanUs, 1), longestUs), count); err != nil {
		panic("BUG: latency outside the histogram: " + err.Error())
	}
}

// Percentiles summarises the latencies of one kind of request, in milliseconds.
type Percentiles struct {
	Count  int64   `json:"count"`
	MeanMs float64 `json:"meanMs"`
	P50Ms  float64 `json:"p50Ms"`
	P90Ms  float64 `json:"p90Ms"`
	P99Ms  float64 `json:"p99Ms"`
	P999Ms float64 `json:"p999Ms"`
	MaxMs  float64 `json:"maxMs"`
}

// percentiles merges all clients. It may run while others record.
func (l *latencies) percentiles() Percentiles {
	total := hdrhistogram.New(1, longestUs, significantDigits)
	var maxUs int64
	for i := range l.shards {
		shard := &l.shards[i]
		shard.mutex.Lock()
		total.Merge(shard.histogram)
		maxUs = max(maxUs, shard.maxUs)
		shard.mutex.Unlock()
	}
	ms := func(us int64) float64 { return float64(us) / 1000 }
	at := func(percentile float64) float64 { return ms(min(total.ValueAtPercentile(percentile), maxUs)) }
	return Percentiles{
		Count: total.TotalCount(), MeanMs: round(total.Mean() / 1000), P50Ms: at(50), P90Ms: at(90), P99Ms: at(99), P999Ms: at(99.9),
		MaxMs: ms(maxUs),
	}
}
