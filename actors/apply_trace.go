package actors

import (
	"queen/actors/machine/catalog"
	"queen/actors/machine/trace"
	"queen/raftlog/command"
)

// trace records an event about a message (state 7). The partition need not exist; where it does, it must belong to the
// tenant, and its names are kept with the trace, which outlives them.
func (a *apply) trace(c *command.Trace) (command.Result, error) {
	input := &trace.Input{StampMicros: a.now, Tenant: c.Tenant, Record: trace.Record{
		Txid: c.Txid, Group: c.Group, EventType: c.EventType, Worker: c.Worker, Names: c.Names, Data: c.Data,
	}}
	owned, err := a.tracePlace(c, &input.Record)
	if err != nil {
		return nil, err
	}
	if !owned {
		return &command.TraceResult{Foreign: true}, nil
	}
	input.ID = a.mint()
	err = a.inTraces(func(m *trace.Machine) error { return m.Record(a.batch, a.batch, input) })
	return &command.TraceResult{ID: input.ID}, err
}

// tracePlace fills in the partition of a trace; owned is false when it belongs to another tenant.
func (a *apply) tracePlace(c *command.Trace, record *trace.Record) (owned bool, err error) {
	id, known, canonical, err := trace.Resolve(a.batch, c.Partition)
	record.Partition = canonical
	if err != nil || !known {
		return true, err
	}
	err = a.inCatalog(func(m *catalog.Machine) error {
		p, err := m.PartitionByID(a.batch, id)
		if err != nil || p == nil {
			owned = true
			return err
		}
		queue := m.QueueByID(p.QueueID)
		owned = queue.Tenant == c.Tenant
		record.Queue, record.PartitionName, record.Placed = queue.Name, p.Name, true
		return nil
	})
	return owned, err
}

// sweepTraces removes traces that are older than they are kept (state 7). Where the entry has no room left, the leader asks
// again.
func (a *apply) sweepTraces(c *command.TraceSweep) (command.Result, error) {
	result := &command.TraceSweepResult{}
	err := a.inTraces(func(m *trace.Machine) (err error) {
		result.Removed, result.More, err = m.Sweep(a.batch, a.batch, trace.SweepInput{
			BeforeMicros: c.BeforeMicros,
			MaxKeys:      int(c.MaxKeys),
			Fits:         func(keys, bytes int) bool { return a.fits(keys, bytes, 0) },
		})
		return err
	})
	return result, err
}

// inTraces runs a step of the traces actor.
func (a *apply) inTraces(run func(m *trace.Machine) error) error {
	return inActor(a, a.traces, run)
}
