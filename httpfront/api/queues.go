package api

import (
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// configure sets options of a queue (messaging 9.1).
func (a *API) configure(r *httpfront.Request) {
	body, err := wire.DecodeConfigure(r.Body())
	if err == nil {
		err = checkNames(body.Queue, "")
	}
	if err != nil {
		r.Fail(err)
		return
	}
	deadline, err := a.deadline(r, a.config.WriteTimeout)
	if err != nil {
		r.Fail(err)
		return
	}
	applied, err := a.broker.Execute(deadline, &command.Configure{
		Tenant: r.Tenant, Queue: body.Queue, Replace: body.Replace, Changes: body.Changes,
	})
	if err != nil {
		a.fail(r, err)
		return
	}
	result := applied.(*command.ConfigureResult)
	r.JSONOwned(200, wire.AppendConfigure(nil, &wire.ConfigureAnswer{
		QueueID: result.QueueUUID, Queue: body.Queue, Options: result.Options,
	}))
}

// deleteQueue removes a queue and everything under it (messaging 9.11).
func (a *API) deleteQueue(r *httpfront.Request) {
	deadline, err := a.deadline(r, a.config.WriteTimeout)
	if err != nil {
		r.Fail(err)
		return
	}
	name := r.Param("queue")
	applied, err := a.broker.Execute(deadline, &command.DeleteQueue{Tenant: r.Tenant, Queue: name})
	if err != nil {
		a.fail(r, err)
		return
	}
	existed := applied.(*command.DeleteQueueResult).Existed
	r.JSONOwned(200, wire.AppendQueueDeleted(nil, name, existed))
}
