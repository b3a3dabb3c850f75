package catalog

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
	"queen/store/layout"
)

var (
	names   = []string{"orders", "billing.invoice", ""}
	tenants = []command.Tenant{command.DefaultTenant, {9}}
	groups  = []string{command.QueueModeGroup, "workers", "audit"}
)

func mustLoad(t testing.TB, rows *rowtest.Memory) *Machine {
	t.Helper()
	m, err := Load(rows)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mirror is what a catalog should know, by the names of things.
type mirror struct {
	queues     map[queueKey]Queue
	groups     map[string]Group // by queue id and name
	partitions map[partitionKey]Partition
	last       lastIDs
}

func groupKey(queue uint64, name string) string { return fmt.Sprint(queue, "/", name) }

// TestCatalogAgreesWithMirror runs random changes against plain maps. The catalog is loaded anew now and then: what is in
// the rows is all that it knows.
func TestCatalogAgreesWithMirror(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rowtest.NewMemory()
		m, err := Load(rows)
		if err != nil {
			t.Fatal(err)
		}
		x := &mirror{queues: map[queueKey]Queue{}, groups: map[string]Group{}, partitions: map[partitionKey]Partition{}}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			rows.NextEntry()
			at := Moment{StampMicros: 1_000_000 + uint64(i), Seed: [16]byte{byte(i)}}
			x.step(t, m, rows, at)
			if rapid.IntRange(0, 4).Draw(t, "reload") == 0 {
				if m, err = Load(rows); err != nil {
					t.Fatal(err)
				}
			}
			x.check(t, m, rows)
		}
	})
}

func (x *mirror) step(t *rapid.T, m *Machine, rows *rowtest.Memory, at Moment) {
	tenant := rapid.SampledFrom(tenants).Draw(t, "tenant")
	name := rapid.SampledFrom(names).Draw(t, "queue")
	group := rapid.SampledFrom(groups).Draw(t, "group")
	partition := rapid.SampledFrom([]string{"Default", "a", ""}).Draw(t, "partition")
	flag := rapid.Bool().Draw(t, "flag")
	key := queueKey{tenant, name}
	queue, exists := x.queues[key]
	switch rapid.IntRange(0, 8).Draw(t, "step") {
	case 0:
		got, created := m.EnsureQueue(rows, at, tenant, name)
		if created == exists {
			t.Fatalf("created=%t although exists=%t", created, exists)
		}
		if !exists {
			x.made(got, at, tenant, name, command.ImplicitDefaults(name))
		}
	case 1:
		change := command.OptionChange{Key: command.OptionRetryLimit, Number: int32(at.StampMicros % 7)}
		c := &command.Configure{Tenant: tenant, Queue: name, Replace: flag, Changes: []command.OptionChange{change}}
		got, created := m.Configure(rows, at, c)
		if created == exists {
			t.Fatalf("created=%t although exists=%t", created, exists)
		}
		if !exists {
			x.made(got, at, tenant, name, command.ConfigureDefaults().Apply(flag, c.Changes))
		} else {
			queue.Options = queue.Options.Apply(flag, c.Changes)
			x.queues[key] = queue
		}
	case 2:
		got := m.DeleteQueue(rows, tenant, name)
		if (got != nil) != exists {
			t.Fatalf("deleted %+v although exists=%t", got, exists)
		}
		x.deleted(key)
	}
	if !exists {
		return
	}
	live := m.QueueByID(queue.ID)
	if live == nil {
		return // just deleted
	}
	known, registered := x.groups[groupKey(queue.ID, group)]
	switch rapid.IntRange(0, 6).Draw(t, "step in queue") {
	case 0:
		x.keepGroup(t, m.EnsureGroup(rows, at, live, group), known, at, queue.ID, group, command.Subscription{}, false)
	case 1:
		s := command.Subscription{Mode: command.SubscriptionNew, InstantMicros: uint64(7 * at.StampMicros % 3)}
		got := m.Register(rows, at, live, group, s, flag)
		if s.InstantMicros == 0 {
			s.InstantMicros = at.StampMicros
		}
		if known.Subscription.Mode != command.SubscriptionNone {
			s, flag = known.Subscription, known.Conflation
		}
		x.keepGroup(t, got, known, at, queue.ID, group, s, flag)
	case 2:
		if !registered {
			return
		}
		m.DeleteGroup(rows, at, m.Group(queue.ID, group), flag)
		delete(x.groups, groupKey(queue.ID, group))
		if known.Registered() && !flag {
			x.last.group++
			known.ID = x.last.group
			x.groups[groupKey(queue.ID, group)] = known
		}
	case 3:
		if known.Registered() {
			m.ChangeSubscription(rows, m.Group(queue.ID, group), 77)
			known.Subscription.InstantMicros = 77
			if known.Subscription.Mode == command.SubscriptionAll {
				known.Subscription.Mode = command.SubscriptionTimestamp
			}
			x.groups[groupKey(queue.ID, group)] = known
		}
	case 4, 5:
		got, created, err := m.EnsurePartition(rows, rows, at, live, partition)
		old, knew := x.partitions[partitionKey{queue.ID, partition}]
		if err != nil || created == knew {
			t.Fatalf("created=%t although known=%t, %v", created, knew, err)
		}
		if !knew {
			x.last.partition++
			old = Partition{ID: x.last.partition, QueueID: queue.ID, UUID: got.UUID, Name: partition, CreatedMicros: at.StampMicros}
			x.partitions[partitionKey{queue.ID, partition}] = old
		}
		if *got != old {
			t.Fatalf("partition is %+v, want %+v", got, old)
		}
	case 6:
		if old, knew := x.partitions[partitionKey{queue.ID, partition}]; knew {
			m.ForgetPartition(rows, &old)
			delete(x.partitions, partitionKey{queue.ID, partition})
		}
	}
}

func (x *mirror) made(got *Queue, at Moment, tenant command.Tenant, name string, options command.Options) {
	x.last.queue++
	x.queues[queueKey{tenant, name}] = Queue{
		ID: x.last.queue, UUID: got.UUID, Tenant: tenant, Name: name, CreatedMicros: at.StampMicros, Options: options,
	}
}

func (x *mirror) deleted(key queueKey) {
	queue := x.queues[key]
	delete(x.queues, key)
	maps.DeleteFunc(x.groups, func(_ string, g Group) bool { return g.QueueID == queue.ID })
	maps.DeleteFunc(x.partitions, func(_ partitionKey, p Partition) bool { return p.QueueID == queue.ID })
}

func (x *mirror) keepGroup(t *rapid.T, got *Group, known Group, at Moment, queue uint64, name string, s command.Subscription, conflation bool) {
	if known.ID == 0 {
		x.last.group++
		known = Group{ID: x.last.group, QueueID: queue, Name: name, CreatedMicros: at.StampMicros}
	}
	if s.Mode != command.SubscriptionNone {
		known.Subscription, known.Conflation = s, conflation
	}
	x.groups[groupKey(queue, name)] = known
	if *got != known {
		t.Fatalf("group is %+v, want %+v", got, known)
	}
}

func (x *mirror) check(t *rapid.T, m *Machine, rows *rowtest.Memory) {
	if m.lastIDs != x.last {
		t.Fatalf("last ids are %+v, want %+v", m.lastIDs, x.last)
	}
	if len(m.Queues()) != len(x.queues) {
		t.Fatalf("%d queues, want %d", len(m.Queues()), len(x.queues))
	}
	for key, want := range x.queues {
		got := m.Queue(key.tenant, key.name)
		if got == nil || !reflect.DeepEqual(*got, want) || m.QueueByID(want.ID) != got {
			t.Fatalf("queue is %+v, want %+v", got, want)
		}
		count := 0
		for _, name := range groups {
			want, known := x.groups[groupKey(got.ID, name)]
			group := m.Group(got.ID, name)
			if (group != nil) != known || known && *group != want {
				t.Fatalf("group is %+v, want %+v", group, want)
			}
			if known {
				count++
				if m.GroupByID(got.ID, want.ID) != group {
					t.Fatalf("group %d is not found by its id", want.ID)
				}
			}
		}
		if list := m.GroupsOf(got.ID); len(list) != count || !slices.IsSortedFunc(list, func(a, b *Group) int { return int(a.ID) - int(b.ID) }) {
			t.Fatalf("groups are %v", list)
		}
	}
	for _, tenant := range tenants {
		list := m.QueuesOf(tenant)
		if !slices.IsSortedFunc(list, func(a, b *Queue) int { return int(a.ID) - int(b.ID) }) {
			t.Fatalf("queues are %v", list)
		}
	}
	for id := uint64(1); id <= x.last.partition+1; id++ {
		got, err := m.PartitionByID(rows, id)
		if err != nil {
			t.Fatal(err)
		}
		var want *Partition
		for _, p := range x.partitions {
			if p.ID == id {
				want = &p
			}
		}
		if (got != nil) != (want != nil) || want != nil && *got != *want {
			t.Fatalf("partition %d is %+v, want %+v", id, got, want)
		}
		if want == nil {
			continue
		}
		if named, err := m.Partition(rows, want.QueueID, want.Name); err != nil || *named != *want {
			t.Fatalf("partition by name is %+v, %v", named, err)
		}
		if pointer := rows.Row(layout.PartitionUUID(want.UUID)); len(pointer) != 8 || layout.LastNumber(pointer) != id {
			t.Fatalf("the UUID of partition %d points to %x", id, pointer)
		}
	}
}

// TestIdsAreNeverReused deletes and makes again: a new thing has new ids of every kind (messaging 2.12, 9.11).
func TestIdsAreNeverReused(t *testing.T) {
	rows := rowtest.NewMemory()
	m := mustLoad(t, rows)
	at := Moment{StampMicros: 5}
	seen := map[any]bool{}
	for range 3 {
		queue, _ := m.EnsureQueue(rows, at, command.DefaultTenant, "q")
		partition, _, err := m.EnsurePartition(rows, rows, at, queue, "p")
		if err != nil {
			t.Fatal(err)
		}
		group := m.EnsureGroup(rows, at, queue, "g")
		for _, id := range []any{
			queue.UUID, partition.UUID, fmt.Sprint("queue", queue.ID), fmt.Sprint("partition", partition.ID), fmt.Sprint("group", group.ID),
		} {
			if seen[id] {
				t.Errorf("%v was given out twice", id)
			}
			seen[id] = true
		}
		m.DeleteQueue(rows, command.DefaultTenant, "q")
		m = mustLoad(t, rows)
	}
}

// TestValuesAreImmutable: who has read a queue or a group keeps what he has read.
func TestValuesAreImmutable(t *testing.T) {
	rows := rowtest.NewMemory()
	m := mustLoad(t, rows)
	queue, _ := m.EnsureQueue(rows, Moment{StampMicros: 1}, command.DefaultTenant, "q")
	group := m.EnsureGroup(rows, Moment{StampMicros: 2}, queue, "g")
	queueBefore, groupBefore := *queue, *group
	m.Configure(rows, Moment{StampMicros: 3}, &command.Configure{
		Tenant: command.DefaultTenant, Queue: "q", Changes: []command.OptionChange{{Key: command.OptionLeaseTime, Number: 9}},
	})
	m.Register(rows, Moment{StampMicros: 4}, queue, "g", command.Subscription{Mode: command.SubscriptionAll}, true)
	m.ChangeSubscription(rows, m.Group(queue.ID, "g"), 5)
	m.DeleteGroup(rows, Moment{StampMicros: 6}, m.Group(queue.ID, "g"), false)
	if *queue != queueBefore || *group != groupBefore {
		t.Errorf("what was read has become %+v and %+v", queue, group)
	}
}

// TestMintedIdsAreUUIDv7 checks version, variant and time, and that kind, number, stamp and seed tell ids apart.
func TestMintedIdsAreUUIDv7(t *testing.T) {
	at := Moment{StampMicros: 1_790_000_000_123_456, Seed: [16]byte{1, 2, 3}}
	id := mintUUID(at, 'p', 1)
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		t.Errorf("%s has version %d and variant %s", id, id.Version(), id.Variant())
	}
	if seconds, nanos := id.Time().UnixTime(); seconds != 1_790_000_000 || nanos/1_000_000 != 123 {
		t.Errorf("%s is of %d.%09d", id, seconds, nanos)
	}
	others := []uuid.UUID{
		mintUUID(at, 'q', 1), mintUUID(at, 'p', 2), MintUUID(at, 1),
		mintUUID(Moment{StampMicros: at.StampMicros + 1, Seed: at.Seed}, 'p', 1), mintUUID(Moment{StampMicros: at.StampMicros}, 'p', 1),
	}
	for i, other := range others {
		if other == id || slices.Contains(others[i+1:], other) {
			t.Errorf("id %d is given out twice: %s", i, other)
		}
	}
	if again := mintUUID(at, 'p', 1); again != id {
		t.Errorf("the same id is minted as %s and %s", id, again)
	}
}
