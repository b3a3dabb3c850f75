package actors

import (
	"github.com/google/uuid"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/lease"
	"queen/raftlog/command"
	"queen/store/layout"
)

// eachMember visits the rows that a lease id holds, in all queues of the tenant.
func (a *apply) eachMember(tenant command.Tenant, id uuid.UUID, visit func(*catalog.Queue, *catalog.Group, *catalog.Partition) error) error {
	var queueIDs []uint64
	err := a.batch.Scan(layout.LeaseOf(id), nil, func(key, _ []byte) bool {
		queueIDs = append(queueIDs, layout.LastNumber(key))
		return true
	})
	if err != nil {
		return err
	}
	for _, queueID := range queueIDs {
		var members []lease.Member
		err := a.inLeases(queueID, func(t *lease.Table) (err error) {
			members, err = t.Members(a.batch, id)
			return err
		})
		if err != nil {
			return err
		}
		for _, member := range members {
			if err := a.visitMember(tenant, queueID, member, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *apply) visitMember(tenant command.Tenant, queueID uint64, member lease.Member, visit func(*catalog.Queue, *catalog.Group, *catalog.Partition) error) error {
	var queue *catalog.Queue
	var group *catalog.Group
	var p *catalog.Partition
	err := a.inCatalog(func(m *catalog.Machine) (err error) {
		if queue = m.QueueByID(queueID); queue == nil || queue.Tenant != tenant {
			return nil
		}
		group = m.GroupByID(queueID, member.Group)
		p, err = m.PartitionByID(a.batch, member.Partition)
		return err
	})
	if err != nil || group == nil || p == nil {
		return err
	}
	return visit(queue, group, p)
}

// register stores the subscription of a group (messaging 5.8); queue mode has none, but the wildcard route makes its
// queue all the same.
func (a *apply) register(c *command.Register) (command.Result, error) {
	result := &command.RegisterResult{}
	err := a.inCatalog(func(m *catalog.Machine) error {
		queue := m.Queue(c.Tenant, c.Queue)
		if queue == nil {
			if !c.CreateQueue {
				return nil
			}
			queue, _ = m.EnsureQueue(a.batch, a.at(), c.Tenant, c.Queue)
		}
		var group *catalog.Group
		if c.Group == command.QueueModeGroup {
			group = m.EnsureGroup(a.batch, a.at(), queue, c.Group)
		} else {
			group = m.Register(a.batch, a.at(), queue, c.Group, c.Subscription, c.Conflation)
		}
		a.changed(queue.ID)
		result.QueueID, result.GroupID = queue.ID, group.ID
		result.Mode, result.Conflation = group.Subscription.Mode, group.Conflation
		return nil
	})
	return result, err
}

// configure sets options (messaging 9.1); they hold from the next command on, so the groups look again at what the old
// delays had hidden.
func (a *apply) configure(c *command.Configure) (command.Result, error) {
	result := &command.ConfigureResult{}
	err := a.inCatalog(func(m *catalog.Machine) error {
		queue, _ := m.Configure(a.batch, a.at(), c)
		a.changed(queue.ID)
		result.QueueID, result.QueueUUID, result.Options = queue.ID, queue.UUID, queue.Options
		return nil
	})
	if err != nil {
		return nil, err
	}
	now := a.now
	a.after = append(a.after, func() {
		for _, actor := range a.groups.of(result.QueueID) {
			actor.Tell(&reconsiderNote{nowMicros: now})
			a.rescan(actor)
		}
	})
	return result, nil
}

// deleteQueue takes a queue out of the catalog and its actors out of memory; its rows are swept in steps (messaging 9.11).
func (a *apply) deleteQueue(c *command.DeleteQueue) (command.Result, error) {
	var queue *catalog.Queue
	err := a.inCatalog(func(m *catalog.Machine) error {
		queue = m.DeleteQueue(a.batch, c.Tenant, c.Queue)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if queue == nil {
		return &command.DeleteQueueResult{}, nil
	}
	a.after = append(a.after, func() {
		a.directory.withdraw(queue)
		a.arrivals.announce(queue.ID) // after the directory: who waits now has seen it without the queue, or hears this
		a.groups.stopQueue(queue.ID)
	})
	return &command.DeleteQueueResult{Existed: true}, nil
}

// catalogStep is how many queues one command over all queues of a tenant visits; the handler repeats it.
const catalogStep = 512

// deleteGroup retires the id of a group on one queue or on all of the tenant (messaging 10.4).
func (a *apply) deleteGroup(c *command.DeleteGroup) (command.Result, error) {
	result := &command.DeleteGroupResult{}
	var retired []*catalog.Group
	err := a.inCatalog(func(m *catalog.Machine) error {
		for _, queue := range m.QueuesOf(c.Tenant) {
			group := m.Group(queue.ID, c.Group)
			if group == nil || (!c.AllQueues && queue.Name != c.Queue) || queue.ID <= c.After {
				continue
			}
			if len(retired) == catalogStep {
				result.More = true
				break
			}
			result.Last = queue.ID
			m.DeleteGroup(a.batch, a.at(), group, c.DeleteMetadata)
			a.changed(queue.ID)
			retired = append(retired, group)
			result.Queues = append(result.Queues, queue.Name)
			result.MetadataDeleted = result.MetadataDeleted || (c.DeleteMetadata && group.Registered())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.after = append(a.after, func() {
		for _, group := range retired {
			if actor := a.groups.find(group.QueueID, group.ID); actor != nil {
				a.groups.stop(actor)
			}
		}
	})
	return result, nil
}

// changeSubscription sets the instant of the registrations of a group (messaging 10.6).
func (a *apply) changeSubscription(c *command.ChangeSubscription) (command.Result, error) {
	result := &command.ChangeSubscriptionResult{}
	err := a.inCatalog(func(m *catalog.Machine) error {
		for _, queue := range m.QueuesOf(c.Tenant) {
			group := m.Group(queue.ID, c.Group)
			if group == nil || !group.Registered() || queue.ID <= c.After {
				continue
			}
			if result.Updated == catalogStep {
				result.More = true
				break
			}
			result.Last = queue.ID
			m.ChangeSubscription(a.batch, group, uint64(max(c.TimestampMicros, 1)))
			a.changed(queue.ID)
			result.Updated++
		}
		return nil
	})
	return result, err
}

// seekStep is how many partitions one seek command visits (messaging 10.5).
const seekStep = 512

// seek moves cursors to the end or to a time.
func (a *apply) seek(c *command.Seek) (command.Result, error) {
	queue, group, targets, more, err := a.seekTargets(c)
	if err != nil || len(targets) == 0 {
		return &command.SeekResult{}, err
	}
	result := &command.SeekResult{More: more, Last: targets[len(targets)-1].ID}
	for _, p := range targets {
		if err := a.seekOne(queue, group, p, c); err != nil {
			return nil, err
		}
		result.Updated++
	}
	return result, nil
}

func (a *apply) seekTargets(c *command.Seek) (queue *catalog.Queue, group *catalog.Group, targets []*catalog.Partition, more bool, err error) {
	err = a.inCatalog(func(m *catalog.Machine) error {
		if queue = m.Queue(c.Tenant, c.Queue); queue == nil {
			return nil
		}
		if !c.AllPartitions {
			p, err := m.Partition(a.batch, queue.ID, c.Partition)
			if err == nil && p != nil {
				targets = append(targets, p)
			}
			return err
		}
		ids, rest, err := a.partitionsAfter(queue.ID, c.After, seekStep)
		if err != nil {
			return err
		}
		more = rest
		for _, id := range ids {
			p, err := m.PartitionByID(a.batch, id)
			if err != nil {
				return err
			}
			if p != nil {
				targets = append(targets, p)
			}
		}
		return nil
	})
	if err != nil || len(targets) == 0 {
		return nil, nil, nil, false, err
	}
	group, err = a.ensureGroup(queue, c.Group)
	return queue, group, targets, more, err
}

// partitionsAfter lists the ids of the partitions of a queue above one, at most limit; rest tells that there are more.
func (a *apply) partitionsAfter(queueID, after uint64, limit int) (ids []uint64, rest bool, err error) {
	err = a.batch.Scan(layout.HeadsOf(queueID), layout.Head(queueID, after+1), func(key, _ []byte) bool {
		if len(ids) == limit {
			rest = true
			return false
		}
		ids = append(ids, layout.LastNumber(key))
		return true
	})
	return ids, rest, err
}

func (a *apply) seekOne(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, c *command.Seek) error {
	to := command.Subscription{Mode: command.SubscriptionTimestamp, InstantMicros: uint64(max(c.TimestampMicros, 1))}
	offset, tail, err := a.seekOffset(queue, p, c, to)
	if err != nil {
		return err
	}
	return a.moveCursor(queue, group, p, offset, tail)
}

func (a *apply) seekOffset(queue *catalog.Queue, p *catalog.Partition, c *command.Seek, to command.Subscription) (offset, tail uint64, err error) {
	tail, err = a.tail(queue, p)
	if err != nil || c.ToEnd {
		return tail, tail, err
	}
	offset, err = a.firstOffset(queue, p, to)
	return offset, tail, err
}

// moveCursor puts a cursor to an offset and releases what the group held (messaging 17.1, seek and position).
func (a *apply) moveCursor(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, offset, tail uint64) error {
	s := a.rowStep(queue, group, p, command.Subscription{})
	s.seed = func() (cursor.State, bool, error) { return cursor.New(offset), true, nil }
	s.step = func(row *cursor.State) bool {
		row.Seek(offset)
		s.effect = rowEffect{kind: effectReleased, backlog: tail > offset}
		return true
	}
	return a.inGroup(queue, group, s)
}
