package api

import (
	"queen/httpfront"
	"queen/httpfront/api/history"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// configure sets options of a queue (messaging 9.1).
func (a *API) configure(r *httpfront.Request) error {
	body, err := wire.DecodeConfigure(r.Body())
	if err == nil {
		err = checkNames(body.Queue, "")
	}
	for i := 0; err == nil && i < len(body.Changes); i++ {
		err = checkNames(body.Changes[i].Text, "") // labels are names too
	}
	if err != nil {
		return err
	}
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	applied, err := a.broker().Execute(span, &command.Configure{
		Tenant: r.Tenant, Queue: body.Queue, Replace: body.Replace, Changes: body.Changes,
	})
	if err != nil {
		return err
	}
	result := applied.(*command.ConfigureResult)
	r.JSONOwned(200, wire.AppendConfigure(nil, &wire.ConfigureAnswer{
		QueueID: result.QueueUUID, Queue: body.Queue, Options: result.Options,
	}))
	return nil
}

// deleteQueue removes a queue and everything under it (messaging 9.11).
func (a *API) deleteQueue(r *httpfront.Request) error {
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	name := r.Param("queue")
	partitions := a.partitionsOf(r.Tenant, name)
	applied, err := a.broker().Execute(span, &command.DeleteQueue{Tenant: r.Tenant, Queue: name})
	if err != nil {
		return err
	}
	existed := applied.(*command.DeleteQueueResult).Existed
	if existed {
		a.history.Changed(r.Tenant, name, history.PartitionsDeleted, partitions)
	}
	r.JSONOwned(200, wire.AppendQueueDeleted(nil, name, existed))
	return nil
}

// partitionsCounted bounds how many partitions of a queue are counted before it is deleted, for the history alone: about
// 1 µs each.
const partitionsCounted = 1 << 18

// partitionsOf counts the partitions of a queue as this node knows them.
func (a *API) partitionsOf(tenant command.Tenant, name string) uint64 {
	queue := a.broker().Directory().Queue(tenant, name)
	if queue == nil {
		return 0
	}
	return a.broker().CountPartitions(queue.ID, partitionsCounted)
}
