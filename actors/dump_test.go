package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/lease"
	"queen/actors/machine/membership"
	"queen/actors/machine/partition"
	"queen/actors/machine/trace"
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// A dump is the logical state as text, one line a thing, sorted: what a client could ever learn, and nothing of how it is
// stored. Queues and groups that wait to be swept are not in it.
type dump []string

func (d *dump) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

func (d dump) text() string {
	slices.Sort(d)
	return strings.Join(d, "\n")
}

func (d *dump) queue(id uint64, uuid uuid.UUID, tenant command.Tenant, name string, created uint64, options command.Options) {
	d.add("queue %d %s %s %q %d %+v", id, uuid, tenant, name, created, options)
}

func (d *dump) group(queue, id uint64, name string, s command.Subscription, conflation bool, created uint64) {
	d.add("group %d/%d %q %+v conflation=%t created=%d", queue, id, name, s, conflation, created)
}

func (d *dump) partition(id, queue uint64, uuid uuid.UUID, name string, created, start, tail, last uint64) {
	d.add("partition %d of %d %s %q created=%d log=[%d,%d) stamp=%d", id, queue, uuid, name, created, start, tail, last)
}

func (d *dump) message(partition, offset, stamp uint64, m *command.Message) {
	d.add("message %d:%d %d %s txid=%q trace=%s sub=%q payload=%d:%x", partition, offset, stamp, m.ID, m.Txid, m.TraceID,
		m.ProducerSub, len(m.Payload), xxh3.Hash(m.Payload))
}

// row spells the state of messaging 17.1; the bytes hold the rest, the memory of the repeat rule above all.
func (d *dump) row(queue, group, partition uint64, row *cursor.State) {
	var spill []byte
	if row.Spilled() {
		spill = row.SpillTo(nil)
	}
	d.add("cursor %d/%d/%d at=%d lease=%+v failures=%d attempt=%d@%d notBefore=%d ceiling=%d released=%s bytes=%x spill=%x",
		queue, group, partition, row.Cursor, row.Lease, row.Failures, row.Attempt, row.AttemptStart, row.NotBeforeMicros,
		row.Ceiling, row.Released.Lease, row.AppendTo(nil), spill)
}

func (d *dump) position(queue, group, partition uint64, metadata string) {
	d.add("position %d/%d/%d %q", queue, group, partition, metadata)
}

func (d *dump) letter(id uuid.UUID, queue, partition uint64, partitionUUID uuid.UUID, name, group string, offset uint64, txid, reason string, hasReason bool, retries uint32, failed, created uint64, m *command.Message) {
	d.add("letter %s queue=%d partition=%d/%s/%q group=%q offset=%d txid=%q reason=%q/%t retries=%d failed=%d created=%d %s %d:%x",
		id, queue, partition, partitionUUID, name, group, offset, txid, reason, hasReason, retries, failed, created, m.ID,
		len(m.Payload), xxh3.Hash(m.Payload))
}

func (d *dump) trace(tenant command.Tenant, id uuid.UUID, stamp uint64, record *trace.Record) {
	d.add("trace %s %s at=%d %+q", tenant, id, stamp, fmt.Sprintf("%+v", *record))
}

// dump lists what the model knows.
func (m *model) dump() string {
	var d dump
	for _, queue := range m.byID {
		d.queue(queue.id, queue.uuid, queue.tenant, queue.name, queue.created, queue.options)
		for _, group := range queue.groups {
			d.group(queue.id, group.id, group.name, group.subscription, group.conflation, group.created)
			for p, row := range group.rows {
				d.row(queue.id, group.id, p, row)
			}
			for p, metadata := range group.positions {
				d.position(queue.id, group.id, p, metadata)
			}
		}
		for _, p := range queue.parts {
			d.partition(p.id, queue.id, p.uuid, p.name, p.created, p.start, p.tail(), p.last)
			for offset := p.start; offset < p.tail(); offset++ {
				d.message(p.id, offset, p.log[offset].stamp, &p.log[offset].Message)
			}
		}
	}
	for _, l := range m.letters {
		d.letter(l.id, l.queue, l.partition, l.partitionUUID, l.partitionName, l.group, l.offset, l.message.txid, l.reason,
			l.hasReason, l.retries, l.failed, l.message.stamp, &l.message.Message)
	}
	for i := range m.traces {
		t := &m.traces[i]
		d.trace(t.Tenant, t.id, t.stamp, &trace.Record{
			Partition: t.Partition, Txid: t.Txid, Queue: t.queue, PartitionName: t.partition, Placed: t.placed, Group: t.Group,
			EventType: t.EventType, Worker: t.Worker, Names: t.names, Data: t.Data,
		})
	}
	m.dumpRows(&d)
	d.timers(&m.timers)
	d.switches(m.off)
	d.membership(m.membership.state())
	return d.text()
}

// dumper reads the same out of a store, and checks on the way that rows which point at each other agree.
type dumper struct {
	t    testing.TB
	view *store.View
	dump dump
	// leased are the rows that name a lease, alive the groups that exist.
	leased map[string]bool
	alive  []uint64
}

func leaseKey(lease uuid.UUID, queue uint64, m lease.Member) string {
	return fmt.Sprint(lease, queue, m)
}

// tables checks that the lease tables list what the rows name, and nothing else. Groups that wait to be swept are not
// looked at.
func (d *dumper) tables() {
	d.t.Helper()
	listed := 0
	for _, r := range d.rows([]byte{layout.FamilyLease}) {
		members, err := lease.Decode(r.value)
		d.check(err)
		for _, m := range members {
			if !slices.Contains(d.alive, m.Group) {
				continue
			}
			listed++
			id, queue := uuid.UUID(r.key[1:17]), layout.LastNumber(r.key)
			if !d.leased[leaseKey(id, queue, m)] {
				d.t.Fatalf("lease %s of queue %d lists %+v, whose row does not name it", id, queue, m)
			}
		}
	}
	if listed != len(d.leased) {
		d.t.Fatalf("%d rows name a lease, %d are listed", len(d.leased), listed)
	}
}

func (m *machine) dump(addresses ...traceAddress) string {
	m.t.Helper()
	view := m.store.View()
	defer view.Close()
	d := dumper{t: m.t, view: view, leased: map[string]bool{}}
	for _, value := range d.rows([]byte{layout.FamilyQueue}) {
		queue, err := catalog.DecodeQueue(value.value)
		d.check(err)
		d.dump.queue(queue.ID, queue.UUID, queue.Tenant, queue.Name, queue.CreatedMicros, queue.Options)
		d.groups(queue.ID)
		d.partitions(queue.ID)
		d.letters(queue.ID)
	}
	d.tables()
	d.traces(addresses)
	d.keyValues()
	d.timers()
	d.switches()
	state, err := membership.Load(view)
	d.check(err)
	d.dump.membership(state)
	return d.dump.text()
}

type dumpedRow struct{ key, value []byte }

func (d *dumper) rows(prefix []byte) (rows []dumpedRow) {
	d.t.Helper()
	d.check(d.view.Scan(prefix, nil, func(key, value []byte) bool {
		rows = append(rows, dumpedRow{key, value})
		return true
	}))
	return rows
}

func (d *dumper) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *dumper) get(key []byte) []byte {
	d.t.Helper()
	value, err := d.view.Get(key)
	d.check(err)
	return value
}

// traceAddress is where traces are found.
type traceAddress struct {
	tenant          command.Tenant
	partition, txid string
}

// addresses lists where the model has traces.
func (m *model) addresses() (list []traceAddress) {
	known := map[traceAddress]bool{}
	for i := range m.traces {
		at := traceAddress{m.traces[i].Tenant, m.traces[i].Partition, m.traces[i].Txid}
		if !known[at] {
			known[at] = true
			list = append(list, at)
		}
	}
	return list
}

// traces reads the traces of the given addresses; there must be no others.
func (d *dumper) traces(addresses []traceAddress) {
	d.t.Helper()
	reads := trace.Reads{Reader: d.view, Check: func() error { return nil }}
	found := uint64(0)
	for _, at := range addresses {
		d.check(reads.At(at.tenant, at.partition, at.txid, func(t *trace.Stored) (bool, error) {
			found++
			d.dump.trace(t.Tenant, t.ID, t.StampMicros, &t.Record)
			return true, nil
		}))
	}
	if total, err := trace.Total(d.view); err != nil || total != found {
		d.t.Fatalf("%d of %d traces are found by their address: %v", found, total, err)
	}
}

func (d *dumper) groups(queue uint64) {
	d.t.Helper()
	for _, r := range d.rows(layout.GroupsOf(queue)) {
		group, err := catalog.DecodeGroup(r.value)
		d.check(err)
		d.dump.group(queue, group.ID, group.Name, group.Subscription, group.Conflation, group.CreatedMicros)
		d.alive = append(d.alive, group.ID)
		for _, r := range d.rows(layout.CursorsOf(queue, group.ID)) {
			row, err := cursor.Decode(r.value)
			d.check(err)
			id := layout.LastNumber(r.key)
			if row.NeedsSpill(row.Released.Lease) {
				d.check(row.AttachSpill(d.get(layout.Released(queue, group.ID, id))))
			}
			d.dump.row(queue, group.ID, id, &row)
			if row.Lease.ID != uuid.Nil {
				d.leased[leaseKey(row.Lease.ID, queue, lease.Member{Group: group.ID, Partition: id})] = true
			}
		}
		for _, r := range d.rows(layout.PositionsOf(queue, group.ID)) {
			d.dump.position(queue, group.ID, layout.LastNumber(r.key), string(r.value))
		}
	}
}

func (d *dumper) partitions(queue uint64) {
	d.t.Helper()
	names := d.rows(layout.PartitionNamesOf(queue))
	heads := d.rows(layout.HeadsOf(queue))
	if len(names) != len(heads) {
		d.t.Fatalf("queue %d has %d partition names and %d heads", queue, len(names), len(heads))
	}
	for _, r := range heads {
		id := layout.LastNumber(r.key)
		head, err := partition.DecodeHead(r.value)
		d.check(err)
		p, err := catalog.DecodePartition(id, d.get(layout.Partition(id)))
		d.check(err)
		named, err := catalog.DecodePartitionName(queue, p.Name, d.get(layout.PartitionName(queue, p.Name)))
		d.check(err)
		if *named != *p {
			d.t.Fatalf("the name row holds %+v in place of %+v", named, p)
		}
		if to := d.get(layout.PartitionUUID(p.UUID)); len(to) != 8 || layout.LastNumber(to) != id {
			d.t.Fatalf("the UUID row of partition %d points to %x", id, to)
		}
		d.dump.partition(id, queue, p.UUID, p.Name, p.CreatedMicros, head.LogStart, head.Tail, head.LastStampMicros)
		d.check(partition.ReadMessages(d.view,
			partition.MessageRange{Queue: queue, Partition: id, First: head.LogStart, End: head.Tail},
			func(offset, stamp uint64, m *command.Message) (bool, error) {
				d.dump.message(id, offset, stamp, m)
				return true, nil
			}))
	}
}

func (d *dumper) letters(queue uint64) {
	d.t.Helper()
	for _, r := range d.rows(layout.DeadLettersOf(queue)) {
		row, err := deadletter.DecodeRow(r.value)
		d.check(err)
		d.check(row.Stored(d.view, func(stored []byte) error {
			message, err := deadletter.DecodeMessage(stored)
			if err != nil {
				return err
			}
			d.dump.letter(row.ID, queue, row.PartitionID, row.PartitionUUID, row.Partition, row.Group, row.Offset,
				string(row.Txid), row.Error, row.HasError, row.RetryCount, row.FailedMicros, row.CreatedMicros, &message)
			return nil
		}))
	}
}

// difference shows the first lines in which two dumps differ.
func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	var out []string
	for len(out) < 12 && (len(a) > 0 || len(b) > 0) {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			out, a = append(out, "got only:  "+a[0]), a[1:]
		case len(a) == 0 || b[0] < a[0]:
			out, b = append(out, "want only: "+b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return strings.Join(out, "\n")
}
