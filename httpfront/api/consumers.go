package api

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"queen/actors"
	"queen/actors/machine/catalog"
	"queen/actors/machine/partition"
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

type groupRow struct {
	Name                  string   `json:"name"`
	Topics                []string `json:"topics"`
	QueueName             string   `json:"queueName"`
	Members               int      `json:"members"`
	PartitionCursors      int      `json:"partitionCursors"`
	PartitionsWithLag     int      `json:"partitionsWithLag"`
	TotalLag              uint64   `json:"totalLag"`
	MaxTimeLag            float64  `json:"maxTimeLag"`
	State                 string   `json:"state"`
	Storage               string   `json:"storage"`
	Kind                  string   `json:"kind"`
	SubscriptionMode      *string  `json:"subscriptionMode"`
	SubscriptionTimestamp micros   `json:"subscriptionTimestamp"`
	SubscriptionCreatedAt micros   `json:"subscriptionCreatedAt"`
	Conflation            bool     `json:"conflation"`

	leases   map[uuid.UUID]bool
	consumed uint64
}

// groupLaggingSeconds is the lag above which a group counts as lagging (messaging 10.1).
const groupLaggingSeconds = 300

func subscriptionMode(m command.SubscriptionMode) *string {
	names := map[command.SubscriptionMode]string{
		command.SubscriptionAll: "all", command.SubscriptionNew: "new", command.SubscriptionTimestamp: "timestamp",
	}
	name, ok := names[m]
	if !ok {
		return nil
	}
	return &name
}

func newGroupRow(queue *actors.QueueView, group *catalog.Group) *groupRow {
	row := &groupRow{
		Name: group.Name, Topics: []string{queue.Name}, QueueName: queue.Name, Storage: "segments", Kind: "queen",
		SubscriptionMode: subscriptionMode(group.Subscription.Mode), Conflation: group.Conflation, leases: map[uuid.UUID]bool{},
	}
	if group.Registered() {
		row.SubscriptionCreatedAt = micros(group.CreatedMicros)
		row.SubscriptionTimestamp = micros(group.Subscription.InstantMicros)
	}
	return row
}

func (g *groupRow) add(q *query.Reads, queue *actors.QueueView, id uint64, head *partition.Head, s *query.Standing) error {
	g.PartitionCursors++
	g.consumed += s.TotalConsumed
	if s.Leased > 0 {
		g.leases[s.Lease] = true
	}
	backlog := s.Backlog(head)
	if backlog == 0 {
		return nil
	}
	g.PartitionsWithLag++
	g.TotalLag += backlog
	stamp, err := q.OldestUnconsumed(queue.ID, id, s.Cursor)
	g.MaxTimeLag = max(g.MaxTimeLag, lagSeconds(q.Now(), stamp))
	return err
}

func (g *groupRow) finish() {
	g.Members = len(g.leases)
	switch {
	case g.MaxTimeLag > groupLaggingSeconds:
		g.State = "Lagging"
	case g.consumed > 0:
		g.State = "Stable"
	default:
		g.State = "Dead"
	}
}

// sortedQueues lists the queues of the tenant by name, and sortedGroups the groups of a queue.
func (a *API) sortedQueues(r *httpfront.Request) []*actors.QueueView {
	queues := a.broker().Directory().Queues(r.Tenant)
	slices.SortFunc(queues, func(x, y *actors.QueueView) int { return cmp.Compare(x.Name, y.Name) })
	return queues
}

func sortedGroups(queue *actors.QueueView) []*catalog.Group {
	groups := make([]*catalog.Group, 0, len(queue.Groups))
	for _, group := range queue.Groups {
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(x, y *catalog.Group) int { return cmp.Compare(x.Name, y.Name) })
	return groups
}

// eachStanding visits every cursor of the tenant: queue by queue, group by group, partition by partition.
func (a *API) eachStanding(r *httpfront.Request, q *query.Reads, visit func(*actors.QueueView, *catalog.Group, uint64, *partition.Head, *query.Standing) error) error {
	for _, queue := range a.sortedQueues(r) {
		for _, group := range sortedGroups(queue) {
			err := q.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
				standing, err := q.Standing(group, id, head)
				if err != nil || standing == nil {
					return true, err
				}
				return true, visit(queue, group, id, head, standing)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// listGroups shows every reader that has a cursor (messaging 10.1).
func (a *API) listGroups(r *httpfront.Request) error {
	return a.reading(r, func(q *query.Reads) error {
		rows := []*groupRow{}
		var last *catalog.Group
		err := a.eachStanding(r, q, func(queue *actors.QueueView, group *catalog.Group, id uint64, head *partition.Head, s *query.Standing) error {
			if group != last {
				rows = append(rows, newGroupRow(queue, group))
				last = group
			}
			return rows[len(rows)-1].add(q, queue, id, head, s)
		})
		if err != nil {
			return err
		}
		for _, row := range rows {
			row.finish()
		}
		return answerJSON(r, 200, rows)
	})
}

type laggingRow struct {
	ConsumerGroup      string    `json:"consumer_group"`
	QueueName          string    `json:"queue_name"`
	PartitionName      string    `json:"partition_name"`
	PartitionID        uuid.UUID `json:"partition_id"`
	WorkerID           *string   `json:"worker_id"`
	Kind               string    `json:"kind"`
	OffsetLag          uint64    `json:"offset_lag"`
	TimeLagSeconds     float64   `json:"time_lag_seconds"`
	LagHours           float64   `json:"lag_hours"`
	OldestUnconsumedAt micros    `json:"oldest_unconsumed_at"`
	LastConsumedAt     *string   `json:"last_consumed_at"`
}

const minLagDefaultSeconds = 3600

// lagging shows the cursors that are behind by more than minLagSeconds (messaging 10.2).
func (a *API) lagging(r *httpfront.Request) error {
	least, err := r.QueryInt("minLagSeconds", minLagDefaultSeconds)
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		rows := []laggingRow{}
		err := a.eachStanding(r, q, func(queue *actors.QueueView, group *catalog.Group, id uint64, head *partition.Head, s *query.Standing) error {
			if s.Backlog(head) == 0 {
				return nil
			}
			stamp, err := q.OldestUnconsumed(queue.ID, id, s.Cursor)
			lag := lagSeconds(q.Now(), stamp)
			if err != nil || lag < float64(least) {
				return err
			}
			identity, err := q.Identity(id)
			if err != nil {
				return err
			}
			rows = append(rows, laggingRow{
				ConsumerGroup: group.Name, QueueName: queue.Name, PartitionName: identity.Name, PartitionID: identity.UUID,
				WorkerID: workerID(s), Kind: "queen", OffsetLag: s.Backlog(head), TimeLagSeconds: lag, LagHours: lag / 3600,
				OldestUnconsumedAt: micros(stamp),
			})
			return nil
		})
		if err != nil {
			return err
		}
		return answerJSON(r, 200, rows)
	})
}

func workerID(s *query.Standing) *string {
	if s.Leased == 0 {
		return nil
	}
	id := s.Lease.String()
	return &id
}

type groupPartition struct {
	Partition      string  `json:"partition"`
	WorkerID       *string `json:"workerId"`
	LastConsumedAt *string `json:"lastConsumedAt"`
	TotalConsumed  uint64  `json:"totalConsumed"`
	OffsetLag      uint64  `json:"offsetLag"`
	TimeLagSeconds float64 `json:"timeLagSeconds"`
	LeaseActive    bool    `json:"leaseActive"`
}

type groupQueue struct {
	Conflation bool             `json:"conflation"`
	Kind       string           `json:"kind"`
	Partitions []groupPartition `json:"partitions"`
}

// describeGroup shows where a group stands, by queue (messaging 10.3).
func (a *API) describeGroup(r *httpfront.Request) error {
	name := r.Param("group")
	return a.reading(r, func(q *query.Reads) error {
		queues := map[string]*groupQueue{}
		err := a.eachStanding(r, q, func(queue *actors.QueueView, group *catalog.Group, id uint64, head *partition.Head, s *query.Standing) error {
			if group.Name != name {
				return nil
			}
			in := queues[queue.Name]
			if in == nil {
				in = &groupQueue{Conflation: group.Conflation, Kind: "queen"}
				queues[queue.Name] = in
			}
			identity, err := q.Identity(id)
			if err != nil {
				return err
			}
			row := groupPartition{
				Partition: identity.Name, WorkerID: workerID(s), TotalConsumed: s.TotalConsumed, OffsetLag: s.Backlog(head),
				LeaseActive: s.Leased > 0,
			}
			if row.OffsetLag > 0 {
				stamp, err := q.OldestUnconsumed(queue.ID, id, s.Cursor)
				if err != nil {
					return err
				}
				row.TimeLagSeconds = lagSeconds(q.Now(), stamp)
			}
			in.Partitions = append(in.Partitions, row)
			return nil
		})
		if err != nil {
			return err
		}
		if len(queues) == 0 {
			return httpfront.RefuseStatus(404, "Consumer group not found")
		}
		return answerJSON(r, 200, queues)
	})
}

type positionRow struct {
	Queue     string  `json:"queue"`
	Partition string  `json:"partition"`
	Offset    *uint64 `json:"offset"`
	Metadata  *string `json:"metadata"`
}

// positions shows the next offsets of a group (messaging 10.7).
func (a *API) positions(r *httpfront.Request) error {
	entries, all, err := wire.DecodePositions(r.Body())
	if err != nil {
		return err
	}
	name := r.Param("group")
	return a.reading(r, func(q *query.Reads) error {
		rows := []positionRow{}
		if all {
			err = a.eachStanding(r, q, func(queue *actors.QueueView, group *catalog.Group, id uint64, head *partition.Head, s *query.Standing) error {
				if group.Name != name {
					return nil
				}
				identity, err := q.Identity(id)
				if err != nil {
					return err
				}
				row, err := positionOf(q, queue, group, id, identity.Name)
				rows = append(rows, row)
				return err
			})
		} else {
			rows, err = a.positionsOf(r, q, name, entries)
		}
		if err != nil {
			return err
		}
		return answerJSON(r, 200, map[string]any{"consumerGroup": name, "entries": rows})
	})
}

func (a *API) positionsOf(r *httpfront.Request, q *query.Reads, group string, entries []wire.PartitionName) ([]positionRow, error) {
	rows := make([]positionRow, 0, len(entries))
	for _, entry := range entries {
		row := positionRow{Queue: entry.Queue, Partition: entry.Partition}
		if queue := a.broker().Directory().Queue(r.Tenant, entry.Queue); queue != nil && queue.Groups[group] != nil {
			id, ok, err := q.PartitionByName(queue.ID, entry.Partition)
			if err == nil && ok {
				row, err = positionOf(q, queue, queue.Groups[group], id, entry.Partition)
			}
			if err != nil {
				return nil, err
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func positionOf(q *query.Reads, queue *actors.QueueView, group *catalog.Group, id uint64, name string) (positionRow, error) {
	row := positionRow{Queue: queue.Name, Partition: name}
	head, err := partition.ReadHead(q.View(), queue.ID, id)
	if err != nil {
		return row, err
	}
	standing, err := q.Standing(group, id, &head)
	if err != nil {
		return row, err
	}
	if standing != nil {
		row.Offset = &standing.Cursor
	}
	metadata, err := q.PositionMetadata(group, id)
	if err == nil && metadata != nil {
		text := string(metadata)
		row.Metadata = &text
	}
	return row, err
}
