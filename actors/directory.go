package actors

import (
	"sync"

	"queen/actors/machine/catalog"
	"queen/raftlog/command"
)

// QueueView is a queue with its groups as last applied here. Immutable.
type QueueView struct {
	*catalog.Queue
	Groups map[string]*catalog.Group
}

// Directory is what the catalog actor has published: immutable values that any goroutine may read without asking the
// actor. It may be older than the newest applied entry only while that entry is being applied.
type Directory struct {
	mu       sync.RWMutex
	byName   map[directoryKey]*QueueView
	byID     map[uint64]*QueueView
	awaiting map[directoryKey]map[bell]struct{}
}

type directoryKey struct {
	tenant command.Tenant
	name   string
}

func newDirectory() *Directory {
	return &Directory{
		byName:   map[directoryKey]*QueueView{},
		byID:     map[uint64]*QueueView{},
		awaiting: map[directoryKey]map[bell]struct{}{},
	}
}

// Queue finds a queue by name; nil when there is none.
func (d *Directory) Queue(tenant command.Tenant, name string) *QueueView {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byName[directoryKey{tenant, name}]
}

// QueueByID finds a queue by id; nil when there is none.
func (d *Directory) QueueByID(id uint64) *QueueView {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[id]
}

// Queues lists the queues of a tenant in no particular order.
func (d *Directory) Queues(tenant command.Tenant) []*QueueView {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var queues []*QueueView
	for _, queue := range d.byID {
		if queue.Tenant == tenant {
			queues = append(queues, queue)
		}
	}
	return queues
}

// All lists the queues of all tenants in no particular order.
func (d *Directory) All() []*QueueView {
	d.mu.RLock()
	defer d.mu.RUnlock()
	queues := make([]*QueueView, 0, len(d.byID))
	for _, queue := range d.byID {
		queues = append(queues, queue)
	}
	return queues
}

// AwaitQueue returns a channel that fires once when the queue exists, and a function that ends the wait. One waiter costs
// one channel.
func (d *Directory) AwaitQueue(tenant command.Tenant, name string) (created <-chan struct{}, end func()) {
	creation := newBell()
	key := directoryKey{tenant, name}
	if d.findOrAwait(key, creation) != nil {
		creation.ring()
	}
	return creation, func() { d.stopAwaiting(key, creation) }
}

// findOrAwait finds a queue by name; when there is none, the bell rings when it is made. No creation falls in between.
func (d *Directory) findOrAwait(key directoryKey, creation bell) *QueueView {
	d.mu.Lock()
	defer d.mu.Unlock()
	if queue := d.byName[key]; queue != nil {
		return queue
	}
	if d.awaiting[key] == nil {
		d.awaiting[key] = map[bell]struct{}{}
	}
	d.awaiting[key][creation] = struct{}{}
	return nil
}

func (d *Directory) stopAwaiting(key directoryKey, creation bell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.awaiting[key], creation)
	if len(d.awaiting[key]) == 0 {
		delete(d.awaiting, key)
	}
}

// publish replaces what is known of a queue; called by the apply actor.
func (d *Directory) publish(queue *catalog.Queue, groups map[string]*catalog.Group) {
	copied := make(map[string]*catalog.Group, len(groups))
	for name, group := range groups {
		copied[name] = group
	}
	view := &QueueView{Queue: queue, Groups: copied}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := directoryKey{queue.Tenant, queue.Name}
	d.byName[key] = view
	d.byID[queue.ID] = view
	for creation := range d.awaiting[key] {
		creation.ring()
	}
	delete(d.awaiting, key)
}

// withdraw takes a deleted queue out.
func (d *Directory) withdraw(queue *catalog.Queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byID, queue.ID)
	key := directoryKey{queue.Tenant, queue.Name}
	if view := d.byName[key]; view != nil && view.ID == queue.ID {
		delete(d.byName, key)
	}
}

// QueueMode is the group of reading without a group; nil when nobody has read so.
func (q *QueueView) QueueMode() *catalog.Group { return q.Groups[command.QueueModeGroup] }
