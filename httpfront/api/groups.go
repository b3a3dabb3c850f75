package api

import (
	"time"

	"queen/actors"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// deleteGroup forgets a group on all queues, deleteGroupOnQueue on one (messaging 10.4).
func (a *API) deleteGroup(r *httpfront.Request) error { return a.forgetGroup(r, "", true) }

func (a *API) deleteGroupOnQueue(r *httpfront.Request) error {
	return a.forgetGroup(r, r.Param("queue"), false)
}

func (a *API) forgetGroup(r *httpfront.Request, queue string, all bool) error {
	metadata, present, err := r.QueryBool("deleteMetadata")
	if err != nil {
		return err
	}
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	name := r.Param("group")
	cursors, err := a.countCursors(r, name, queue, all, span.Deadline)
	if err != nil {
		return err
	}
	result, err := a.deleteOnAll(&command.DeleteGroup{
		Tenant: r.Tenant, Group: name, Queue: queue, AllQueues: all, DeleteMetadata: metadata || !present,
	}, span)
	if err != nil {
		return err
	}
	answer := struct {
		Success           bool     `json:"success"`
		ConsumerGroup     string   `json:"consumerGroup"`
		QueueName         *string  `json:"queueName"`
		DeletedPartitions int      `json:"deletedPartitions"`
		MetadataDeleted   bool     `json:"metadataDeleted"`
		Queues            []string `json:"queues"`
	}{true, name, nil, cursors, result.MetadataDeleted, orEmpty(result.Queues)}
	if !all {
		answer.QueueName = &queue
	}
	return answerJSON(r, 200, answer)
}

// deleteOnAll repeats a deletion until all queues are visited; each command visits a bounded number of them.
func (a *API) deleteOnAll(call *command.DeleteGroup, span actors.Span) (*command.DeleteGroupResult, error) {
	sum := &command.DeleteGroupResult{}
	for {
		step := *call
		applied, err := a.broker().Execute(span, &step)
		if err != nil {
			return nil, err
		}
		result := applied.(*command.DeleteGroupResult)
		sum.Queues = append(sum.Queues, result.Queues...)
		sum.MetadataDeleted = sum.MetadataDeleted || result.MetadataDeleted
		if !result.More {
			return sum, nil
		}
		call.After = result.Last
	}
}

// countCursors tells how many cursors a deletion is about to forget. Apply does not count them: it only retires the id of
// the group, so that a deletion costs the same for a million partitions as for one.
func (a *API) countCursors(r *httpfront.Request, group, queue string, all bool, deadline time.Time) (int, error) {
	ctx, cancel := contextUntil(deadline)
	defer cancel()
	view, err := a.broker().View(ctx)
	if err != nil {
		return 0, err
	}
	defer view.Close()
	count := 0
	for _, q := range a.broker().Directory().Queues(r.Tenant) {
		known := q.Groups[group]
		if known == nil || (!all && q.Name != queue) {
			continue
		}
		n, err := actors.CountCursors(ctx, view, q.ID, known.ID)
		if err != nil {
			return 0, err
		}
		count += n
	}
	return count, nil
}

// seekQueue and seekPartition move the cursors of a group to the end or to a time (messaging 10.5).
func (a *API) seekQueue(r *httpfront.Request) error { return a.seek(r, nil) }

func (a *API) seekPartition(r *httpfront.Request) error {
	name := r.Param("partition")
	return a.seek(r, &name)
}

type seekAnswer struct {
	Success           bool    `json:"success"`
	Error             string  `json:"error,omitempty"`
	ConsumerGroup     string  `json:"consumerGroup"`
	QueueName         string  `json:"queueName"`
	PartitionName     *string `json:"partitionName"`
	SeekToEnd         bool    `json:"seekToEnd"`
	TargetTimestamp   *string `json:"targetTimestamp"`
	PartitionsUpdated int     `json:"partitionsUpdated"`
	Updated           int     `json:"updated"`
}

type seekMissing struct {
	Success           bool   `json:"success"`
	Error             string `json:"error"`
	ConsumerGroup     string `json:"consumerGroup"`
	QueueName         string `json:"queueName"`
	PartitionsUpdated int    `json:"partitionsUpdated"`
}

func (a *API) seek(r *httpfront.Request, partitionName *string) error {
	target, err := wire.DecodeSeek(r.Body())
	if err != nil {
		return err
	}
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	call := &command.Seek{
		Tenant: r.Tenant, Group: r.Param("group"), Queue: r.Param("queue"),
		AllPartitions: partitionName == nil, ToEnd: target.ToEnd, TimestampMicros: target.TimestampMicros,
	}
	if err := checkNames(call.Queue, call.Group); err != nil {
		return err
	}
	if partitionName != nil {
		call.Partition = *partitionName
	}
	updated, err := a.seekAll(call, span)
	if err != nil {
		return err
	}
	if updated == 0 {
		text := "Queue not found or has no partitions"
		if partitionName != nil {
			text = "Partition not found"
		}
		return answerJSON(r, 404, seekMissing{Error: text, ConsumerGroup: call.Group, QueueName: call.Queue})
	}
	answer := seekAnswer{
		Success: true, ConsumerGroup: call.Group, QueueName: call.Queue, PartitionName: partitionName,
		SeekToEnd: target.ToEnd, PartitionsUpdated: updated, Updated: updated,
	}
	if !target.ToEnd {
		text := string(wire.AppendTimeMicros(nil, uint64(max(target.TimestampMicros, 0))))
		answer.TargetTimestamp = &text
	}
	return answerJSON(r, 200, answer)
}

// seekAll repeats the seek until all partitions are visited; each command visits a bounded number of them.
func (a *API) seekAll(call *command.Seek, span actors.Span) (updated int, err error) {
	for {
		step := *call
		applied, err := a.broker().Execute(span, &step)
		if err != nil {
			return 0, err
		}
		result := applied.(*command.SeekResult)
		updated += result.Updated
		if !result.More {
			return updated, nil
		}
		call.After = result.Last
	}
}

// changeSubscription sets the instant of the registrations of a group (messaging 10.6).
func (a *API) changeSubscription(r *httpfront.Request) error {
	micros, err := wire.DecodeSubscription(r.Body())
	if err != nil {
		return err
	}
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	group := r.Param("group")
	call := command.ChangeSubscription{Tenant: r.Tenant, Group: group, TimestampMicros: micros}
	updated := 0
	for more := true; more; {
		step := call
		applied, err := a.broker().Execute(span, &step)
		if err != nil {
			return err
		}
		result := applied.(*command.ChangeSubscriptionResult)
		updated, more, call.After = updated+result.Updated, result.More, result.Last
	}
	return answerJSON(r, 200, struct {
		Success       bool   `json:"success"`
		ConsumerGroup string `json:"consumerGroup"`
		NewTimestamp  string `json:"newTimestamp"`
		RowsUpdated   int    `json:"rowsUpdated"`
	}{true, group, string(wire.AppendTimeMicros(nil, uint64(max(micros, 0)))), updated})
}
