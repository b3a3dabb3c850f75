// Package catalog is the pure machine of the catalog actor: queues with their options, partitions by name and id, groups
// with their registrations. Queues and groups are held in memory whole (their number is a matter of design of the
// application, not of its traffic); partitions are looked up in the store and the recently used ones remembered.
package catalog

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"queen/actors/machine/recent"
	"queen/raftlog/command"
	"queen/store/layout"
)

// Reader is what the catalog reads rows through.
type Reader interface {
	Get(key []byte) ([]byte, error)
	Scan(prefix, from []byte, visit func(key, value []byte) bool) error
}

// Writer takes the catalog's effects.
type Writer interface {
	Put(key, value []byte)
	Delete(key []byte)
}

// Moment is the time and randomness of one command.
type Moment struct {
	StampMicros uint64
	Seed        [16]byte
}

// partitionsRemembered bounds the catalog's memory of partitions by id: about 200 bytes each.
const partitionsRemembered = 1 << 16

type queueKey struct {
	tenant command.Tenant
	name   string
}

type partitionKey struct {
	queue uint64
	name  string
}

// Machine belongs to the catalog actor.
type Machine struct {
	queues  map[uint64]*Queue
	byName  map[queueKey]*Queue
	groups  map[uint64]map[string]*Group
	names   *nameMemory
	byID    *recent.Map[uint64, *Partition]
	lastIDs lastIDs
}

// lastIDs are the newest ids given out; ids are never reused.
type lastIDs struct {
	queue, partition, group uint64
}

var lastIDsKey = layout.Meta("last-ids")

// Load reads the catalog from the store.
func Load(r Reader) (*Machine, error) {
	m := &Machine{
		queues: map[uint64]*Queue{},
		byName: map[queueKey]*Queue{},
		groups: map[uint64]map[string]*Group{},
		names:  newNames(),
		byID:   recent.New[uint64, *Partition](partitionsRemembered),
	}
	value, err := r.Get(lastIDsKey)
	if err != nil {
		return nil, fmt.Errorf("read last ids: %w", err)
	}
	if value != nil {
		if len(value) != 24 {
			return nil, fmt.Errorf("decode last ids of %d bytes: %w", len(value), ErrBadRow)
		}
		m.lastIDs = lastIDs{binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:]), binary.BigEndian.Uint64(value[16:])}
	}
	if err := m.loadQueues(r); err != nil {
		return nil, err
	}
	return m, m.loadGroups(r)
}

func (m *Machine) loadQueues(r Reader) error {
	var bad error
	err := r.Scan([]byte{layout.FamilyQueue}, nil, func(_, value []byte) bool {
		queue, err := DecodeQueue(value)
		if err != nil {
			bad = err
			return false
		}
		m.queues[queue.ID] = queue
		m.byName[queueKey{queue.Tenant, queue.Name}] = queue
		return true
	})
	if bad != nil {
		return bad
	}
	return err
}

func (m *Machine) loadGroups(r Reader) error {
	var bad error
	err := r.Scan([]byte{layout.FamilyGroup}, nil, func(_, value []byte) bool {
		group, err := DecodeGroup(value)
		if err != nil {
			bad = err
			return false
		}
		if m.queues[group.QueueID] != nil {
			m.rememberGroup(group)
		}
		return true
	})
	if bad != nil {
		return bad
	}
	return err
}

func (m *Machine) rememberGroup(group *Group) {
	groups := m.groups[group.QueueID]
	if groups == nil {
		groups = map[string]*Group{}
		m.groups[group.QueueID] = groups
	}
	groups[group.Name] = group
}

// Queue finds a queue by name; nil when there is none.
func (m *Machine) Queue(tenant command.Tenant, name string) *Queue {
	return m.byName[queueKey{tenant, name}]
}

// QueueByID finds a queue that has not been deleted; nil when there is none.
func (m *Machine) QueueByID(id uint64) *Queue { return m.queues[id] }

// Group finds a group of a queue; nil when there is none.
func (m *Machine) Group(queue uint64, name string) *Group { return m.groups[queue][name] }

// Groups returns the groups of a queue in no particular order. The map must not be changed.
func (m *Machine) Groups(queue uint64) map[string]*Group { return m.groups[queue] }

// GroupsOf lists the groups of a queue in the order of their ids.
func (m *Machine) GroupsOf(queue uint64) []*Group {
	groups := make([]*Group, 0, len(m.groups[queue]))
	for _, group := range m.groups[queue] {
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b *Group) int { return cmp.Compare(a.ID, b.ID) })
	return groups
}

// Queues returns all queues by id. The map must not be changed.
func (m *Machine) Queues() map[uint64]*Queue { return m.queues }

// EnsureQueue returns the queue of that name and makes it with the implicit defaults when it is missing.
func (m *Machine) EnsureQueue(w Writer, at Moment, tenant command.Tenant, name string) (queue *Queue, created bool) {
	if queue := m.Queue(tenant, name); queue != nil {
		return queue, false
	}
	return m.createQueue(w, at, tenant, name, command.ImplicitDefaults(name)), true
}

func (m *Machine) createQueue(w Writer, at Moment, tenant command.Tenant, name string, options command.Options) *Queue {
	m.lastIDs.queue++
	m.putLastIDs(w)
	queue := &Queue{
		ID:            m.lastIDs.queue,
		UUID:          mintUUID(at, 'q', m.lastIDs.queue),
		Tenant:        tenant,
		Name:          name,
		CreatedMicros: at.StampMicros,
		Options:       options,
	}
	m.putQueue(w, queue)
	return queue
}

func (m *Machine) putQueue(w Writer, queue *Queue) {
	m.queues[queue.ID] = queue
	m.byName[queueKey{queue.Tenant, queue.Name}] = queue
	w.Put(layout.Queue(queue.ID), encodeJSON(queue))
}

// Configure sets options of a queue, which it makes from the configure defaults when it is missing (messaging 9.1).
func (m *Machine) Configure(w Writer, at Moment, c *command.Configure) (queue *Queue, created bool) {
	old := m.Queue(c.Tenant, c.Queue)
	if old == nil {
		options := command.ConfigureDefaults().Apply(c.Replace, c.Changes)
		return m.createQueue(w, at, c.Tenant, c.Queue, options), true
	}
	changed := *old
	changed.Options = old.Options.Apply(c.Replace, c.Changes)
	m.putQueue(w, &changed)
	return &changed, false
}

// DeleteQueue takes a queue out of the catalog and leaves its rows to be swept; nil when there is none.
func (m *Machine) DeleteQueue(w Writer, tenant command.Tenant, name string) *Queue {
	queue := m.Queue(tenant, name)
	if queue == nil {
		return nil
	}
	delete(m.queues, queue.ID)
	delete(m.byName, queueKey{tenant, name})
	delete(m.groups, queue.ID)
	w.Delete(layout.Queue(queue.ID))
	w.Put(layout.Trash(queue.ID, 0), []byte{})
	return queue
}

// Partition finds a partition by name; nil when there is none.
func (m *Machine) Partition(r Reader, queue uint64, name string) (*Partition, error) {
	if partition, ok := m.names.get(queue, name); ok {
		return partition, nil
	}
	value, err := r.Get(layout.PartitionName(queue, name))
	if err != nil || value == nil {
		return nil, err
	}
	partition, err := DecodePartitionName(queue, name, value)
	if err != nil {
		return nil, err
	}
	m.names.put(partition)
	return partition, nil
}

// PartitionByID finds a partition by id; nil when there is none or its queue has been deleted.
func (m *Machine) PartitionByID(r Reader, id uint64) (*Partition, error) {
	if partition, ok := m.byID.Get(id); ok {
		if m.queues[partition.QueueID] == nil {
			return nil, nil
		}
		return partition, nil
	}
	value, err := r.Get(layout.Partition(id))
	if err != nil || value == nil {
		return nil, err
	}
	partition, err := DecodePartition(id, value)
	if err != nil || m.queues[partition.QueueID] == nil {
		return nil, err
	}
	m.byID.Put(id, partition)
	return partition, nil
}

// EnsurePartition returns the partition of that name and makes it when it is missing.
func (m *Machine) EnsurePartition(r Reader, w Writer, at Moment, queue *Queue, name string) (*Partition, bool, error) {
	partition, err := m.Partition(r, queue.ID, name)
	if err != nil || partition != nil {
		return partition, false, err
	}
	m.lastIDs.partition++
	m.putLastIDs(w)
	partition = &Partition{
		ID:            m.lastIDs.partition,
		QueueID:       queue.ID,
		UUID:          mintUUID(at, 'p', m.lastIDs.partition),
		Name:          name,
		CreatedMicros: at.StampMicros,
	}
	m.names.put(partition)
	w.Put(layout.Partition(partition.ID), appendPartition(nil, partition))
	w.Put(layout.PartitionName(queue.ID, name), appendPartitionName(nil, partition))
	w.Put(layout.PartitionUUID(partition.UUID), binary.BigEndian.AppendUint64(nil, partition.ID))
	return partition, true, nil
}

// ForgetPartition takes a partition out of the catalog: its name is free again.
func (m *Machine) ForgetPartition(w Writer, partition *Partition) {
	m.byID.Delete(partition.ID)
	m.names.forget(partition)
	w.Delete(layout.Partition(partition.ID))
	w.Delete(layout.PartitionName(partition.QueueID, partition.Name))
	w.Delete(layout.PartitionUUID(partition.UUID))
}

// EnsureGroup returns the group of that name on a queue and makes it, unregistered, when it is missing.
func (m *Machine) EnsureGroup(w Writer, at Moment, queue *Queue, name string) *Group {
	if group := m.Group(queue.ID, name); group != nil {
		return group
	}
	return m.createGroup(w, at, Group{QueueID: queue.ID, Name: name})
}

func (m *Machine) createGroup(w Writer, at Moment, group Group) *Group {
	m.lastIDs.group++
	m.putLastIDs(w)
	group.ID = m.lastIDs.group
	group.CreatedMicros = at.StampMicros
	m.putGroup(w, &group)
	return &group
}

func (m *Machine) putGroup(w Writer, group *Group) {
	m.rememberGroup(group)
	w.Put(layout.Group(group.QueueID, group.ID), encodeJSON(group))
}

// Register stores the subscription of a named group unless it has one (messaging 5.8). An instant of 0 stands for now.
func (m *Machine) Register(w Writer, at Moment, queue *Queue, name string, s command.Subscription, conflation bool) *Group {
	group := m.EnsureGroup(w, at, queue, name)
	if group.Registered() {
		return group
	}
	if s.InstantMicros == 0 {
		s.InstantMicros = at.StampMicros
	}
	changed := *group
	changed.Subscription, changed.Conflation = s, conflation
	m.putGroup(w, &changed)
	return &changed
}

// ChangeSubscription sets the instant of a stored registration; mode all becomes timestamp (messaging 10.6).
func (m *Machine) ChangeSubscription(w Writer, group *Group, instantMicros uint64) *Group {
	changed := *group
	changed.Subscription.InstantMicros = instantMicros
	if changed.Subscription.Mode == command.SubscriptionAll {
		changed.Subscription.Mode = command.SubscriptionTimestamp
	}
	m.putGroup(w, &changed)
	return &changed
}

// DeleteGroup forgets the cursors of a group on a queue by retiring its id: its rows are swept later. Without
// deleteMetadata a registration lives on under a new id (messaging 10.4).
func (m *Machine) DeleteGroup(w Writer, at Moment, group *Group, deleteMetadata bool) {
	w.Delete(layout.Group(group.QueueID, group.ID))
	w.Put(layout.Trash(group.QueueID, group.ID), []byte{})
	delete(m.groups[group.QueueID], group.Name)
	if group.Registered() && !deleteMetadata {
		successor := m.createGroup(w, at, Group{
			QueueID:      group.QueueID,
			Name:         group.Name,
			Subscription: group.Subscription,
			Conflation:   group.Conflation,
		})
		kept := *successor
		kept.CreatedMicros = group.CreatedMicros
		m.putGroup(w, &kept)
	}
}

func (m *Machine) putLastIDs(w Writer) {
	value := make([]byte, 0, 24)
	value = binary.BigEndian.AppendUint64(value, m.lastIDs.queue)
	value = binary.BigEndian.AppendUint64(value, m.lastIDs.partition)
	value = binary.BigEndian.AppendUint64(value, m.lastIDs.group)
	w.Put(lastIDsKey, value)
}

// mintUUID makes a version 7 UUID out of the command's time and the entry's seed, so that every node mints the same.
func mintUUID(at Moment, kind byte, number uint64) uuid.UUID {
	var material [33]byte
	copy(material[:], at.Seed[:])
	material[16] = kind
	binary.BigEndian.PutUint64(material[17:], number)
	binary.BigEndian.PutUint64(material[25:], at.StampMicros)
	hash := xxh3.Hash128(material[:]).Bytes()
	id := uuid.UUID(hash)
	milliseconds := at.StampMicros / 1000
	id[0], id[1], id[2] = byte(milliseconds>>40), byte(milliseconds>>32), byte(milliseconds>>24)
	id[3], id[4], id[5] = byte(milliseconds>>16), byte(milliseconds>>8), byte(milliseconds)
	id[6] = 0x70 | id[6]&0x0f
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// MintUUID makes an id that only apply can mint, such as that of a dead letter; number tells the ids of one command apart.
func MintUUID(at Moment, number uint64) uuid.UUID { return mintUUID(at, 'd', number) }

// GroupByID finds a group of a queue by its id; nil when there is none.
func (m *Machine) GroupByID(queue, id uint64) *Group {
	for _, group := range m.groups[queue] {
		if group.ID == id {
			return group
		}
	}
	return nil
}

// QueuesOf lists the queues of a tenant in the order of their ids.
func (m *Machine) QueuesOf(tenant command.Tenant) []*Queue {
	var queues []*Queue
	for _, queue := range m.queues {
		if queue.Tenant == tenant {
			queues = append(queues, queue)
		}
	}
	slices.SortFunc(queues, func(a, b *Queue) int { return cmp.Compare(a.ID, b.ID) })
	return queues
}
