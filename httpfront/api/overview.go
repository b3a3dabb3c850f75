package api

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"queen/actors"
	"queen/actors/machine/partition"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/api/history"
)

type lagNumbers struct {
	Avg    float64 `json:"avg"`
	Median int     `json:"median"`
	Min    int     `json:"min"`
	Max    float64 `json:"max"`
}

type overviewAnswer struct {
	Queues     int    `json:"queues"`
	Partitions uint64 `json:"partitions"`
	Namespaces int    `json:"namespaces"`
	Tasks      int    `json:"tasks"`
	Messages   struct {
		messageCounts
		Failed int `json:"failed"`
	} `json:"messages"`
	Lag struct {
		Time   lagNumbers `json:"time"`
		Offset lagNumbers `json:"offset"`
	} `json:"lag"`
	Throughput struct {
		IngestedPerSecond  float64 `json:"ingestedPerSecond"`
		ProcessedPerSecond float64 `json:"processedPerSecond"`
	} `json:"throughput"`
	Timestamp micros `json:"timestamp"`
	StatsAge  int    `json:"statsAge"`
}

// overview sums everything up (messaging 9.10).
func (a *API) overview(r *httpfront.Request) error {
	return a.reading(r, func(q *query.Reads) error {
		answer := &overviewAnswer{Timestamp: nowISO()}
		namespaces, tasks := map[string]bool{}, map[string]bool{}
		var total query.Counts
		var lag lagSum
		for _, queue := range a.sortedQueues(r) {
			answer.Queues++
			namespaces[queue.Options.Namespace] = queue.Options.Namespace != ""
			tasks[queue.Options.Task] = queue.Options.Task != ""
			sum, err := a.sumQueue(q, queue, &lag)
			if err != nil {
				return err
			}
			total.Add(sum.Counts)
			answer.Partitions += sum.Partitions
		}
		delete(namespaces, "")
		delete(tasks, "")
		answer.Namespaces, answer.Tasks = len(namespaces), len(tasks)
		answer.Messages.messageCounts = waitingCounts(total)
		answer.Lag.Time, answer.Lag.Offset = lag.numbers()
		answer.Throughput.IngestedPerSecond, answer.Throughput.ProcessedPerSecond = a.throughput(r.Tenant)
		return answerJSON(r, 200, answer)
	})
}

// throughput is what the tenant has pushed and acked through this node in the last minute, per second; a younger node
// counts from its start.
func (a *API) throughput(tenant uuid.UUID) (ingested, processed float64) {
	var sum history.Tally
	for _, queue := range a.history.LastMinute() {
		if queue.Tenant == tenant {
			sum.Add(&queue.Tally)
		}
	}
	seconds := min(max(time.Since(a.stats.Started).Seconds(), 1), time.Minute.Seconds())
	return float64(sum.Counts[history.PushMessages]) / seconds, float64(sum.Counts[history.AckSuccess]) / seconds
}

// lagSum gathers the lags of partitions that are behind.
type lagSum struct {
	partitions         int
	seconds, messages  float64
	maxSeconds, maxOff float64
}

func (l *lagSum) numbers() (time, offset lagNumbers) {
	if l.partitions > 0 {
		time.Avg, offset.Avg = l.seconds/float64(l.partitions), l.messages/float64(l.partitions)
	}
	time.Max, offset.Max = l.maxSeconds, l.maxOff
	return time, offset
}

func (a *API) sumQueue(q *query.Reads, queue *actors.QueueView, lag *lagSum) (query.Summary, error) {
	sum, err := q.Summarize(queue)
	if err != nil {
		return sum, err
	}
	err = q.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
		counts, reader, err := q.Count(queue, id, head)
		if err != nil || counts.Backlog == 0 {
			return true, err
		}
		at := head.LogStart
		if reader != nil {
			at = reader.Cursor
		}
		stamp, err := q.OldestUnconsumed(queue.ID, id, at)
		seconds := lagSeconds(q.Now(), stamp)
		lag.partitions++
		lag.seconds += seconds
		lag.messages += float64(counts.Backlog)
		lag.maxSeconds, lag.maxOff = max(lag.maxSeconds, seconds), max(lag.maxOff, float64(counts.Backlog))
		return true, err
	})
	return sum, err
}

type labelMessages struct {
	Total   uint64 `json:"total"`
	Pending uint64 `json:"pending"`
}

type labelRow struct {
	name       string
	queues     int
	partitions uint64
	messages   labelMessages
}

// labels sums up the queues of each label that is not empty (messaging 9.10).
func (a *API) labels(r *httpfront.Request, list, key string, labelOf func(*actors.QueueView) string) error {
	return a.reading(r, func(q *query.Reads) error {
		byName := map[string]*labelRow{}
		for _, queue := range a.sortedQueues(r) {
			name := labelOf(queue)
			if name == "" {
				continue
			}
			row := byName[name]
			if row == nil {
				row = &labelRow{name: name}
				byName[name] = row
			}
			sum, err := q.Summarize(queue)
			if err != nil {
				return err
			}
			row.queues++
			row.partitions += sum.Partitions
			row.messages.Total += sum.Total
			row.messages.Pending += sum.Backlog - sum.Processing
		}
		rows := make([]*labelRow, 0, len(byName))
		for _, row := range byName {
			rows = append(rows, row)
		}
		slices.SortFunc(rows, func(x, y *labelRow) int { return cmp.Compare(x.name, y.name) })
		shown := make([]map[string]any, len(rows))
		for i, row := range rows {
			shown[i] = map[string]any{key: row.name, "queues": row.queues, "partitions": row.partitions, "messages": row.messages}
		}
		return answerJSON(r, 200, map[string]any{list: shown})
	})
}

func (a *API) namespaces(r *httpfront.Request) error {
	return a.labels(r, "namespaces", "namespace", func(q *actors.QueueView) string { return q.Options.Namespace })
}

func (a *API) tasks(r *httpfront.Request) error {
	return a.labels(r, "tasks", "task", func(q *actors.QueueView) string { return q.Options.Task })
}
