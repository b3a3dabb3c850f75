package actors

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"queen/actors/machine/cursor"
	"queen/raftlog/command"
)

// model is the broker's state as the text of the specification describes it: maps and lists, looked through from end to
// end. It shares with the broker the commands and the cursor machine, which has an oracle of its own, and nothing else.
type model struct {
	queues     map[modelName]*modelQueue
	byID       map[uint64]*modelQueue
	partitions map[uint64]*modelPartition
	letters    []*modelLetter
	traces     []modelTrace // oldest first
	kv         modelRows
	timers     modelTimers
	off        command.Switch // what the operator has turned off
	outcomes   modelOutcomes
	holds      cursor.Holds
	lastStamp  uint64

	membership modelMembership

	lastQueue, lastPartition, lastGroup uint64

	// Of the command in execution.
	settings command.Settings
	seed     [16]byte
	index    uint64
	term     uint64
	now      uint64
	minted   uint64
}

type modelName struct {
	tenant command.Tenant
	name   string
}

type modelQueue struct {
	id      uint64
	uuid    uuid.UUID
	tenant  command.Tenant
	name    string
	created uint64
	options command.Options
	groups  map[string]*modelGroup
	parts   map[string]*modelPartition
}

type modelGroup struct {
	id           uint64
	name         string
	subscription command.Subscription
	conflation   bool
	created      uint64
	rows         map[uint64]*cursor.State
	positions    map[uint64]string
}

func (g *modelGroup) registered() bool { return g.subscription.Mode != command.SubscriptionNone }

func newModel() *model {
	return &model{
		queues: map[modelName]*modelQueue{}, byID: map[uint64]*modelQueue{}, partitions: map[uint64]*modelPartition{},
		kv:         modelRows{rows: map[modelPlace]modelRow{}},
		outcomes:   modelOutcomes{below: map[uint64]uint64{}},
		membership: modelMembership{format: command.FormatVersion, rows: map[uint64]command.Member{}},
	}
}

// notModelled is the result of commands that have no effect on what the model knows.
type notModelled struct{}

// entry executes the commands of an entry.
func (m *model) entry(e *command.Entry, index, term uint64) []command.Result {
	results := make([]command.Result, len(e.Items))
	m.settings, m.seed, m.index, m.term = e.Header.Settings, e.Header.Seed, index, term
	m.outcomes.begin(index, &e.Header)
	for i := range e.Items {
		m.now, m.minted = e.Header.StampMicros+uint64(i), 0
		results[i] = m.outcomes.once(&e.Items[i], m.command)
	}
	m.outcomes.end()
	m.lastStamp = max(m.lastStamp, m.now)
	return results
}

func (m *model) command(c command.Command) command.Result {
	switch c := c.(type) {
	case command.TermStart:
		m.holds = m.holds.Begin(cursor.TermHold{Term: m.term, HoldMicros: uint64(c.HoldMs) * 1000, PriorMicros: m.lastStamp})
		return command.Done{}
	case command.Tick:
		return command.Done{}
	case command.Push:
		if refusal := m.refuseClear(c.Tenant, c.Groups); refusal != nil {
			return refusal
		}
		result := &command.PushResult{}
		for i := range c.Groups {
			result.Groups = append(result.Groups, m.push(c.Tenant, &c.Groups[i]))
		}
		return result
	case command.Ack:
		result := &command.AckResult{}
		for i := range c.Parts {
			result.Parts = append(result.Parts, command.AckPartResult{Items: m.ack(c.Tenant, c.Group, &c.Parts[i])})
		}
		return result
	case command.Extend:
		return m.extend(&c)
	case command.Claim:
		return m.claim(&c)
	case command.HandBack:
		return m.handBack(&c)
	case command.Register:
		return m.register(&c)
	case command.Configure:
		return m.configure(&c)
	case command.DeleteQueue:
		return m.deleteQueue(&c)
	case command.DeleteGroup:
		return m.deleteGroup(&c)
	case command.Seek:
		return m.seek(&c)
	case command.ChangeSubscription:
		return m.changeSubscription(&c)
	case command.Transaction:
		return m.transaction(&c)
	case command.DeadLetterDelete:
		return m.deleteLetters(&c)
	case command.DeadLetterReplay:
		return m.replay(&c)
	case command.Retain:
		return m.retain(&c)
	case command.Trace:
		return m.trace(&c)
	case command.TraceSweep:
		return m.sweepTraces(&c)
	case command.KV:
		return m.runKV(&c)
	case command.KVSweep:
		return m.sweepKV(&c)
	case command.Lock:
		return m.runLock(&c)
	case command.Timers:
		return m.callTimers(&c)
	case command.TimerFire:
		return m.fireTimers(&c)
	case command.Switches:
		return m.changeSwitches(&c)
	case command.Membership:
		return m.membership.change(&c, m.index, m.now)
	case command.Sweep, command.MoveChunks:
		return notModelled{}
	}
	panic("the model does not know this command")
}

// mint makes the id that every node is to make: a version 7 UUID of the stamp and a hash over seed, kind, number and stamp.
func (m *model) mint(kind byte, number uint64) (id uuid.UUID) {
	material := append(append([]byte(nil), m.seed[:]...), kind)
	material = binary.BigEndian.AppendUint64(material, number)
	material = binary.BigEndian.AppendUint64(material, m.now)
	id = xxh3.Hash128(material).Bytes()
	var millis [8]byte
	binary.BigEndian.PutUint64(millis[:], m.now/1000)
	copy(id[:6], millis[2:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

func (m *model) queue(tenant command.Tenant, name string) *modelQueue {
	return m.queues[modelName{tenant, name}]
}

// tenantQueues lists the queues of a tenant in the order of their creation.
func (m *model) tenantQueues(tenant command.Tenant) (queues []*modelQueue) {
	for _, queue := range m.byID {
		if queue.tenant == tenant {
			queues = append(queues, queue)
		}
	}
	slices.SortFunc(queues, func(a, b *modelQueue) int { return cmp.Compare(a.id, b.id) })
	return queues
}

func (m *model) makeQueue(tenant command.Tenant, name string, options command.Options) *modelQueue {
	m.lastQueue++
	queue := &modelQueue{
		id: m.lastQueue, uuid: m.mint('q', m.lastQueue), tenant: tenant, name: name, created: m.now, options: options,
		groups: map[string]*modelGroup{}, parts: map[string]*modelPartition{},
	}
	m.queues[modelName{tenant, name}] = queue
	m.byID[queue.id] = queue
	return queue
}

func (m *model) ensureQueue(tenant command.Tenant, name string) *modelQueue {
	if queue := m.queue(tenant, name); queue != nil {
		return queue
	}
	return m.makeQueue(tenant, name, command.ImplicitDefaults(name))
}

func (m *model) ensurePartition(queue *modelQueue, name string) *modelPartition {
	if p := queue.parts[name]; p != nil {
		return p
	}
	m.lastPartition++
	p := &modelPartition{
		id: m.lastPartition, queue: queue, uuid: m.mint('p', m.lastPartition), name: name, created: m.now,
		places: map[string][]uint64{},
	}
	queue.parts[name] = p
	m.partitions[p.id] = p
	return p
}

func (m *model) ensureGroup(queue *modelQueue, name string) *modelGroup {
	if group := queue.groups[name]; group != nil {
		return group
	}
	m.lastGroup++
	group := &modelGroup{
		id: m.lastGroup, name: name, created: m.now, rows: map[uint64]*cursor.State{}, positions: map[uint64]string{},
	}
	queue.groups[name] = group
	return group
}

func (m *model) registerGroup(queue *modelQueue, name string, s command.Subscription, conflation bool) *modelGroup {
	group := m.ensureGroup(queue, name)
	if !group.registered() {
		if s.InstantMicros == 0 {
			s.InstantMicros = m.now
		}
		group.subscription, group.conflation = s, conflation
	}
	return group
}

func (m *model) register(c *command.Register) command.Result {
	queue := m.queue(c.Tenant, c.Queue)
	if queue == nil && !c.CreateQueue {
		return &command.RegisterResult{}
	}
	queue = m.ensureQueue(c.Tenant, c.Queue)
	var group *modelGroup
	if c.Group == command.QueueModeGroup {
		group = m.ensureGroup(queue, c.Group)
	} else {
		group = m.registerGroup(queue, c.Group, c.Subscription, c.Conflation)
	}
	return &command.RegisterResult{
		QueueID: queue.id, GroupID: group.id, Mode: group.subscription.Mode, Conflation: group.conflation,
	}
}

func (m *model) configure(c *command.Configure) command.Result {
	queue := m.queue(c.Tenant, c.Queue)
	if queue == nil {
		queue = m.makeQueue(c.Tenant, c.Queue, command.ConfigureDefaults())
	}
	queue.options = queue.options.Apply(c.Replace, c.Changes)
	return &command.ConfigureResult{QueueID: queue.id, QueueUUID: queue.uuid, Options: queue.options}
}

func (m *model) deleteQueue(c *command.DeleteQueue) command.Result {
	queue := m.queue(c.Tenant, c.Queue)
	if queue == nil {
		return &command.DeleteQueueResult{}
	}
	delete(m.queues, modelName{c.Tenant, c.Queue})
	delete(m.byID, queue.id)
	for _, p := range queue.parts {
		delete(m.partitions, p.id)
	}
	m.letters = slices.DeleteFunc(m.letters, func(l *modelLetter) bool { return l.queue == queue.id })
	return &command.DeleteQueueResult{Existed: true}
}

func (m *model) deleteGroup(c *command.DeleteGroup) command.Result {
	result := &command.DeleteGroupResult{}
	for _, queue := range m.tenantQueues(c.Tenant) {
		group := queue.groups[c.Group]
		if group == nil || !c.AllQueues && queue.name != c.Queue || queue.id <= c.After {
			continue
		}
		delete(queue.groups, c.Group)
		if group.registered() && !c.DeleteMetadata {
			next := m.ensureGroup(queue, c.Group)
			next.subscription, next.conflation, next.created = group.subscription, group.conflation, group.created
		}
		result.Last = queue.id
		result.Queues = append(result.Queues, queue.name)
		result.MetadataDeleted = result.MetadataDeleted || c.DeleteMetadata && group.registered()
	}
	return result
}

func (m *model) changeSubscription(c *command.ChangeSubscription) command.Result {
	result := &command.ChangeSubscriptionResult{}
	for _, queue := range m.tenantQueues(c.Tenant) {
		group := queue.groups[c.Group]
		if group == nil || !group.registered() || queue.id <= c.After {
			continue
		}
		group.subscription.InstantMicros = uint64(max(c.TimestampMicros, 1))
		if group.subscription.Mode == command.SubscriptionAll {
			group.subscription.Mode = command.SubscriptionTimestamp
		}
		result.Updated++
		result.Last = queue.id
	}
	return result
}
