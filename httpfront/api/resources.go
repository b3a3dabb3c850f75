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
)

type segmentsJSON struct {
	Segments uint64 `json:"segments"`
	Messages uint64 `json:"messages"`
}

type messageCounts struct {
	Total      uint64 `json:"total"`
	Pending    uint64 `json:"pending"`
	Processing uint64 `json:"processing"`
	Completed  uint64 `json:"completed"`
	DeadLetter uint64 `json:"deadLetter"`
}

// waiting counts without leased messages, as the lists show it; the detail shows the backlog (messaging 9.5).
func waitingCounts(c query.Counts) messageCounts {
	return messageCounts{c.Total, c.Backlog - c.Processing, c.Processing, c.Completed(), c.DeadLetters}
}

func backlogCounts(c query.Counts) messageCounts {
	return messageCounts{c.Total, c.Backlog, c.Processing, c.Completed(), c.DeadLetters}
}

type queueRow struct {
	ID            uuid.UUID     `json:"id"`
	Name          string        `json:"name"`
	Queue         string        `json:"queue"`
	Namespace     string        `json:"namespace"`
	Task          string        `json:"task"`
	Storage       string        `json:"storage"`
	Partitions    uint64        `json:"partitions"`
	Segments      segmentsJSON  `json:"segments"`
	Messages      messageCounts `json:"messages"`
	RetainedBytes uint64        `json:"retainedBytes"`
	Options       *optionsJSON  `json:"options"`
	CreatedAt     micros        `json:"createdAt"`
	KVRows        int           `json:"kvRows"`
	KVBytes       int           `json:"kvBytes"`
	TimerRows     int           `json:"timerRows"`
	TimerBytes    int           `json:"timerBytes"`
}

func newQueueRow(queue *actors.QueueView, sum query.Summary) queueRow {
	return queueRow{
		ID: queue.UUID, Name: queue.Name, Queue: queue.Name, Namespace: queue.Options.Namespace, Task: queue.Options.Task,
		Storage: "segments", Partitions: sum.Partitions, Segments: segmentsJSON{sum.Segments, sum.Total},
		Messages: waitingCounts(sum.Counts), RetainedBytes: sum.RetainedBytes,
		Options: (*optionsJSON)(&queue.Options), CreatedAt: micros(queue.CreatedMicros),
	}
}

// queuesNewestFirst lists the queues of the tenant.
func (a *API) queuesNewestFirst(r *httpfront.Request) []*actors.QueueView {
	queues := a.broker().Directory().Queues(r.Tenant)
	slices.SortFunc(queues, func(x, y *actors.QueueView) int { return cmp.Compare(y.ID, x.ID) })
	return queues
}

// listQueues shows all queues of the tenant, newest first (messaging 9.6); lanes is the short form.
func (a *API) listQueues(r *httpfront.Request) error {
	stats, _, err := r.QueryText("stats")
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		if stats == "lanes" {
			return a.listLanes(r, q)
		}
		rows, err := a.queueRows(r, q)
		if err != nil {
			return err
		}
		return answerJSON(r, 200, map[string]any{"queues": rows})
	})
}

func (a *API) queueRows(r *httpfront.Request, q *query.Reads) ([]queueRow, error) {
	rows := []queueRow{}
	for _, queue := range a.queuesNewestFirst(r) {
		sum, err := q.Summarize(queue)
		if err != nil {
			return nil, err
		}
		rows = append(rows, newQueueRow(queue, sum))
	}
	return rows, nil
}

func (a *API) listLanes(r *httpfront.Request, q *query.Reads) error {
	type lane struct {
		ID         uuid.UUID `json:"id"`
		Name       string    `json:"name"`
		Queue      string    `json:"queue"`
		Partitions uint64    `json:"partitions"`
		CreatedAt  micros    `json:"createdAt"`
	}
	rows := []lane{}
	for _, queue := range a.queuesNewestFirst(r) {
		row := lane{ID: queue.UUID, Name: queue.Name, Queue: queue.Name, CreatedAt: micros(queue.CreatedMicros)}
		err := q.EachPartition(queue.ID, 0, func(uint64, *partition.Head) (bool, error) {
			row.Partitions++
			return true, nil
		})
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return answerJSON(r, 200, map[string]any{"queues": rows, "stats": "lanes"})
}

type partitionCounts struct {
	Total      uint64 `json:"total"`
	Pending    uint64 `json:"pending"`
	Processing uint64 `json:"processing"`
	Completed  uint64 `json:"completed"`
	Failed     *int   `json:"failed"`
	DeadLetter uint64 `json:"deadLetter"`
}

type partitionDetail struct {
	ID        uuid.UUID       `json:"id"`
	Name      string          `json:"name"`
	CreatedAt micros          `json:"createdAt"`
	Messages  partitionCounts `json:"messages"`
	Stats     partitionCounts `json:"stats"`
	Cursor    struct {
		TotalConsumed   uint64 `json:"totalConsumed"`
		BatchesConsumed int    `json:"batchesConsumed"`
	} `json:"cursor"`
	LastActivity  micros `json:"lastActivity"`
	OldestMessage micros `json:"oldestMessage"`
	NewestMessage micros `json:"newestMessage"`
	RetainedBytes uint64 `json:"retainedBytes"`
}

// queueDetail shows one queue with its partitions (messaging 9.7).
type queueDetail struct {
	ID            uuid.UUID         `json:"id"`
	Name          string            `json:"name"`
	Namespace     string            `json:"namespace"`
	Task          string            `json:"task"`
	CreatedAt     micros            `json:"createdAt"`
	Options       *optionsJSON      `json:"options"`
	Partitions    []partitionDetail `json:"partitions"`
	Segments      segmentsJSON      `json:"segments"`
	Totals        messageCounts     `json:"totals"`
	RetainedBytes uint64            `json:"retainedBytes"`
}

func (a *API) describeQueue(r *httpfront.Request) error {
	return a.readingQueue(r, func(q *query.Reads, queue *actors.QueueView) error {
		detail, err := detailOf(q, queue)
		if err != nil {
			return err
		}
		return answerJSON(r, 200, detail)
	})
}

func detailOf(q *query.Reads, queue *actors.QueueView) (*queueDetail, error) {
	detail := &queueDetail{
		ID: queue.UUID, Name: queue.Name, Namespace: queue.Options.Namespace, Task: queue.Options.Task,
		CreatedAt: micros(queue.CreatedMicros), Options: (*optionsJSON)(&queue.Options), Partitions: []partitionDetail{},
	}
	var total query.Counts
	letters, err := q.DeadLettersByPartition(queue.ID)
	if err != nil {
		return nil, err
	}
	err = q.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
		row, counts, err := partitionRow(q, queue, id, head, letters[id])
		if err != nil {
			return false, err
		}
		total.Add(counts)
		detail.Segments.Segments += head.Segments
		detail.RetainedBytes += head.RetainedBytes
		detail.Partitions = append(detail.Partitions, *row)
		return true, nil
	})
	detail.Segments.Messages = total.Total
	detail.Totals = backlogCounts(total)
	return detail, err
}

func partitionRow(q *query.Reads, queue *actors.QueueView, id uint64, head *partition.Head, letters uint64) (*partitionDetail, query.Counts, error) {
	counts, reader, err := q.Count(queue, id, head)
	if err != nil {
		return nil, counts, err
	}
	counts.DeadLetters = letters
	identity, err := q.Identity(id)
	if err != nil {
		return nil, counts, err
	}
	row := &partitionDetail{
		ID: identity.UUID, Name: identity.Name, CreatedAt: micros(identity.CreatedMicros),
		Messages:     partitionCounts{counts.Total, counts.Backlog, counts.Processing, counts.Completed(), nil, letters},
		LastActivity: micros(head.LastStampMicros), OldestMessage: micros(head.OldestStampMicros), RetainedBytes: head.RetainedBytes,
	}
	if head.Messages() > 0 {
		row.NewestMessage = micros(head.LastStampMicros)
	}
	row.Stats = row.Messages
	if reader != nil {
		row.Cursor.TotalConsumed = reader.TotalConsumed
	}
	return row, counts, nil
}

type depthRow struct {
	Partition  string `json:"partition"`
	Pending    uint64 `json:"pending"`
	Processing uint64 `json:"processing"`
	Ready      uint64 `json:"ready"`
}

type depthAnswer struct {
	Queue             string     `json:"queue"`
	Group             *string    `json:"group"`
	Pending           uint64     `json:"pending"`
	Processing        uint64     `json:"processing"`
	Ready             uint64     `json:"ready"`
	PartitionsPending uint64     `json:"partitionsPending"`
	PartitionsReady   uint64     `json:"partitionsReady"`
	Conflation        bool       `json:"conflation"`
	EffectivePending  uint64     `json:"effectivePending"`
	EffectiveReady    uint64     `json:"effectiveReady"`
	Partitions        []depthRow `json:"partitions"`
}

// depth shows the backlog of a group, or of the measuring reader (messaging 9.8).
func (a *API) depth(r *httpfront.Request) error {
	name, named, err := r.QueryText("group")
	if err != nil {
		return err
	}
	return a.readingQueue(r, func(q *query.Reads, queue *actors.QueueView) error {
		answer := &depthAnswer{Queue: queue.Name, Partitions: []depthRow{}}
		if named {
			answer.Group = &name
			if group := queue.Groups[name]; group != nil {
				answer.Conflation = group.Conflation
			}
		}
		err := q.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
			return true, answer.add(q, queue, id, head)
		})
		if err != nil {
			return err
		}
		answer.EffectivePending, answer.EffectiveReady = answer.Pending, answer.Ready
		if answer.Conflation {
			answer.EffectivePending, answer.EffectiveReady = answer.PartitionsPending, answer.PartitionsReady
		}
		return answerJSON(r, 200, answer)
	})
}

func (d *depthAnswer) add(q *query.Reads, queue *actors.QueueView, id uint64, head *partition.Head) error {
	row := depthRow{Pending: head.Messages()}
	var reader *query.Standing
	var err error
	if d.Group == nil {
		reader, err = q.Measuring(queue, id, head)
	} else if group := queue.Groups[*d.Group]; group != nil {
		reader, err = q.Standing(group, id, head)
	}
	if err != nil {
		return err
	}
	if reader != nil {
		row.Pending, row.Processing = reader.Backlog(head), reader.Leased
	}
	row.Ready = row.Pending - min(row.Pending, row.Processing)
	identity, err := q.Identity(id)
	if err != nil {
		return err
	}
	row.Partition = identity.Name
	d.Pending += row.Pending
	d.Processing += row.Processing
	d.Ready += row.Ready
	if row.Pending > 0 {
		d.PartitionsPending++
	}
	if row.Ready > 0 {
		d.PartitionsReady++
	}
	d.Partitions = append(d.Partitions, row)
	return nil
}

// sizes shows the retained bytes of each partition, of the first SizesMax ones (messaging 9.8).
func (a *API) sizes(r *httpfront.Request) error {
	return a.readingQueue(r, func(q *query.Reads, queue *actors.QueueView) error {
		bytes := map[string]uint64{}
		truncated := false
		err := q.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
			if truncated = len(bytes) == a.config.SizesMax; truncated {
				return false, nil
			}
			identity, err := q.Identity(id)
			if err == nil {
				bytes[identity.Name] = head.RetainedBytes
			}
			return true, err
		})
		if err != nil {
			return err
		}
		answer := map[string]any{"queue": queue.Name, "partitions": bytes}
		if truncated {
			answer["truncated"] = true
		}
		return answerJSON(r, 200, answer)
	})
}

type slowPartition struct {
	Queue       string    `json:"queue"`
	Partition   string    `json:"partition"`
	PartitionID uuid.UUID `json:"partitionId"`
	Pending     uint64    `json:"pending"`
	Processing  uint64    `json:"processing"`
	LagSeconds  *float64  `json:"lagSeconds"`

	queue  *actors.QueueView
	id     uint64
	cursor uint64
	lags   bool
}

const (
	partitionsDefault = 610
	partitionsMax     = 5000
)

// listPartitions shows the partitions with the most pending messages (messaging 9.9).
func (a *API) listPartitions(r *httpfront.Request) error {
	limit, err := r.QueryClamped("limit", partitionsDefault, 1, partitionsMax)
	if err != nil {
		return err
	}
	name, named, err := r.QueryText("queue")
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		rows := []slowPartition{}
		for _, queue := range a.queuesNewestFirst(r) {
			if named && name != "" && queue.Name != name {
				continue
			}
			if rows, err = slowest(q, queue, rows, int(limit)); err != nil {
				return err
			}
		}
		for i := range rows {
			if err := rows[i].describe(q, a.broker().Now()); err != nil {
				return err
			}
		}
		return answerJSON(r, 200, map[string]any{"partitions": rows})
	})
}

// slowest adds the partitions of a queue to rows and keeps those with the most pending messages.
func slowest(q *query.Reads, queue *actors.QueueView, rows []slowPartition, limit int) ([]slowPartition, error) {
	byPending := func(x, y slowPartition) int {
		return cmp.Or(cmp.Compare(y.Pending, x.Pending), cmp.Compare(x.id, y.id))
	}
	err := q.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
		counts, reader, err := q.Count(queue, id, head)
		if err != nil {
			return false, err
		}
		row := slowPartition{Queue: queue.Name, queue: queue, id: id, Pending: counts.Backlog, Processing: counts.Processing, cursor: head.LogStart}
		if reader != nil {
			row.cursor = reader.Cursor
		}
		row.lags = counts.Backlog > 0
		rows = append(rows, row)
		if len(rows) >= 2*limit+64 {
			slices.SortFunc(rows, byPending)
			rows = rows[:limit]
		}
		return true, nil
	})
	slices.SortFunc(rows, byPending)
	return rows[:min(limit, len(rows))], err
}

func (p *slowPartition) describe(q *query.Reads, nowMicros uint64) error {
	identity, err := q.Identity(p.id)
	if err != nil {
		return err
	}
	p.Partition, p.PartitionID = identity.Name, identity.UUID
	if !p.lags {
		return nil
	}
	stamp, err := q.OldestUnconsumed(p.queue.ID, p.id, p.cursor)
	if err == nil && stamp > 0 {
		lag := lagSeconds(nowMicros, stamp)
		p.LagSeconds = &lag
	}
	return err
}

// refreshStats answers that there is nothing to refresh: counts are always current.
func (a *API) refreshStats(r *httpfront.Request) error {
	r.JSON(200, []byte(`{"success":true,"refreshed":false,"engine":"raft"}`))
	return nil
}

func nowISO() micros { return micros(time.Now().UnixMicro()) }
