package api

import (
	"cmp"
	"slices"

	"queen/actors"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/api/history"
)

// grouping reads groupBy: what a queue counts for. grouped is false when the request does not ask for it.
func (a *API) grouping(r *httpfront.Request) (keyOf func(queue string) string, grouped bool, err error) {
	by, present, err := r.QueryText("groupBy")
	if err != nil || !present {
		return nil, false, err
	}
	labelOf := func(label func(*actors.QueueView) string) func(string) string {
		return func(queue string) string {
			if view := a.broker().Directory().Queue(r.Tenant, queue); view != nil {
				return label(view)
			}
			return "" // deleted since: what it was labelled is not known any more
		}
	}
	switch by {
	case "queue":
		return func(queue string) string { return queue }, true, nil
	case "namespace":
		return labelOf(func(q *actors.QueueView) string { return q.Options.Namespace }), true, nil
	case "task":
		return labelOf(func(q *actors.QueueView) string { return q.Options.Task }), true, nil
	}
	return nil, false, httpfront.Refuse(httpfront.CodeBadRequest, "groupBy must be namespace, task or queue")
}

// workloadCounts are what went through this node over some time.
type workloadCounts struct {
	PushMessages uint64 `json:"pushMessages"`
	PopMessages  uint64 `json:"popMessages"`
	AckSuccess   uint64 `json:"ackSuccess"`
	AckFailed    uint64 `json:"ackFailed"`
	Transactions uint64 `json:"transactions"`
}

func newWorkloadCounts(n *history.Counts) workloadCounts {
	return workloadCounts{
		n[history.PushMessages], n[history.PopMessages], n[history.AckSuccess], n[history.AckFailed], n[history.Transactions],
	}
}

type workloadWindow struct {
	workloadCounts
	AvgLagMs      float64 `json:"avgLagMs"`
	MaxLagMs      float64 `json:"maxLagMs"`
	PushPerSecond float64 `json:"pushPerSecond"`
	PopPerSecond  float64 `json:"popPerSecond"`
	AckPerSecond  float64 `json:"ackPerSecond"`
}

// workloadSeries has one number per bucket, in the order of buckets.
type workloadSeries struct {
	Push []uint64 `json:"push"`
	Pop  []uint64 `json:"pop"`
	Ack  []uint64 `json:"ack"`
}

// workloadNow is the replicated state of the queues.
type workloadNow struct {
	Partitions    uint64        `json:"partitions"`
	Messages      messageCounts `json:"messages"`
	RetainedBytes uint64        `json:"retainedBytes"`
}

type workloadSum struct {
	Queues int            `json:"queues"`
	Window workloadWindow `json:"window"`
	Series workloadSeries `json:"series"`
	Now    workloadNow    `json:"now"`

	tally  history.Tally
	counts query.Counts
}

type workloadRow struct {
	Key string `json:"key"`
	*workloadSum
}

// workloadRowsMax bounds the rows of an answer, by traffic.
const workloadRowsMax = 1000

// workload answers /api/v1/analytics/workload.
func (a *API) workload(r *httpfront.Request, w *window) error {
	keyOf, grouped, err := a.grouping(r)
	if err == nil && !grouped {
		err = httpfront.Refuse(httpfront.CodeBadRequest, "groupBy must be namespace, task or queue")
	}
	if err != nil {
		return err
	}
	buckets := w.Buckets(w.now)
	place := make(map[int64]int, len(buckets))
	for i, bucketMs := range buckets {
		place[bucketMs] = i
	}
	sums := &workloadSums{byKey: map[string]*workloadSum{}, buckets: len(buckets)}
	tenant := sums.empty()
	err = a.history.EachQueueRow(r.Tenant, w.Window, func(bucketMs int64, row *history.QueueRow) {
		at, ok := place[bucketMs]
		for _, sum := range []*workloadSum{tenant, sums.of(keyOf(row.Queue))} {
			sum.tally.Add(&row.Tally)
			if ok {
				sum.Series.add(at, &row.Counts)
			}
		}
	})
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		for _, queue := range a.sortedQueues(r) {
			summary, err := q.Summarize(queue)
			if err != nil {
				return err
			}
			tenant.addNow(summary)
			sums.of(keyOf(queue.Name)).addNow(summary)
		}
		tenant.finish(w)
		return answerJSON(r, 200, map[string]any{"rows": sums.rows(w), "tenant": tenant, "buckets": bucketTimes(buckets)})
	})
}

func bucketTimes(buckets []int64) []micros {
	times := make([]micros, len(buckets))
	for i, bucketMs := range buckets {
		times[i] = bucketTime(bucketMs)
	}
	return times
}

// workloadSums gathers by key.
type workloadSums struct {
	byKey   map[string]*workloadSum
	buckets int
}

func (s *workloadSums) empty() *workloadSum {
	numbers := func() []uint64 { return make([]uint64, s.buckets) }
	return &workloadSum{Series: workloadSeries{numbers(), numbers(), numbers()}}
}

func (s *workloadSums) of(key string) *workloadSum {
	if s.byKey[key] == nil {
		s.byKey[key] = s.empty()
	}
	return s.byKey[key]
}

// rows lists the sums by traffic.
func (s *workloadSums) rows(w *window) []workloadRow {
	rows := make([]workloadRow, 0, len(s.byKey))
	for key, sum := range s.byKey {
		sum.finish(w)
		rows = append(rows, workloadRow{key, sum})
	}
	slices.SortFunc(rows, func(x, y workloadRow) int {
		return cmp.Or(cmp.Compare(y.tally.Counts.Activity(), x.tally.Counts.Activity()), cmp.Compare(x.Key, y.Key))
	})
	return rows[:min(len(rows), workloadRowsMax)]
}

func (s *workloadSeries) add(at int, n *history.Counts) {
	s.Push[at] += n[history.PushMessages]
	s.Pop[at] += n[history.PopMessages]
	s.Ack[at] += n[history.AckSuccess]
}

func (s *workloadSum) addNow(summary query.Summary) {
	s.Queues++
	s.counts.Add(summary.Counts)
	s.Now.Partitions += summary.Partitions
	s.Now.RetainedBytes += summary.RetainedBytes
}

func (s *workloadSum) finish(w *window) {
	s.Now.Messages = waitingCounts(s.counts)
	s.Window.workloadCounts = newWorkloadCounts(&s.tally.Counts)
	s.Window.AvgLagMs, s.Window.MaxLagMs = s.tally.Lag()
	seconds := max(min(w.to.Sub(w.from), w.now.Sub(w.from)).Seconds(), 1)
	s.Window.PushPerSecond = float64(s.Window.PushMessages) / seconds
	s.Window.PopPerSecond = float64(s.Window.PopMessages) / seconds
	s.Window.AckPerSecond = float64(s.Window.AckSuccess) / seconds
}
