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
	"queen/actors/machine/partition"
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
	return d.text()
}

// dumper reads the same out of a store, and checks on the way that rows which point at each other agree.
type dumper struct {
	t    testing.TB
	view *store.View
	dump dump
}

func (m *machine) dump() string {
	m.t.Helper()
	view := m.store.View()
	defer view.Close()
	d := dumper{t: m.t, view: view}
	for _, value := range d.rows([]byte{layout.FamilyQueue}) {
		queue, err := catalog.DecodeQueue(value.value)
		d.check(err)
		d.dump.queue(queue.ID, queue.UUID, queue.Tenant, queue.Name, queue.CreatedMicros, queue.Options)
		d.groups(queue.ID)
		d.partitions(queue.ID)
		d.letters(queue.ID)
	}
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

func (d *dumper) groups(queue uint64) {
	d.t.Helper()
	for _, r := range d.rows(layout.GroupsOf(queue)) {
		group, err := catalog.DecodeGroup(r.value)
		d.check(err)
		d.dump.group(queue, group.ID, group.Name, group.Subscription, group.Conflation, group.CreatedMicros)
		for _, r := range d.rows(layout.CursorsOf(queue, group.ID)) {
			row, err := cursor.Decode(r.value)
			d.check(err)
			id := layout.LastNumber(r.key)
			if row.NeedsSpill(row.Released.Lease) {
				d.check(row.AttachSpill(d.get(layout.Released(queue, group.ID, id))))
			}
			d.dump.row(queue, group.ID, id, &row)
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
		for _, pointer := range [][]byte{layout.PartitionName(queue, p.Name), layout.PartitionUUID(p.UUID)} {
			if to := d.get(pointer); len(to) != 8 || layout.LastNumber(to) != id {
				d.t.Fatalf("row %x points to %x in place of partition %d", pointer, to, id)
			}
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
