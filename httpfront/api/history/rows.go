package history

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/google/uuid"
)

// Span is the time that rows cover, in Unix milliseconds.
type Span struct{ StartMs, EndMs int64 }

// QueueRow is what one queue did in one interval.
type QueueRow struct {
	Name
	Tally
	// Parked is how many pops waited for the queue when the interval ended.
	Parked uint64
}

// Gauge names one value of a NodeRow.
type Gauge int

// The values of a node. Files hold them in this order: new ones go to the end.
const (
	CPUPercent Gauge = iota
	ResidentBytes
	MallocBytes
	LatenessMs
	ParkedPolls
	RequestsPerSecond
	DiskPercent
	LogBytes
	CommitAgeMs
	WaitingCommands
	gauges
)

var gaugeNames = [gauges]string{
	"cpuPct", "rssBytes", "mallocBytes", "eventLoopLagMs", "parkedPolls", "requestsPerSecond", "diskPct", "raftLogBytes",
	"raftCommitAgeMs", "raftWaitingCommands",
}

// Gauges is how many values a NodeRow has.
const Gauges = int(gauges)

// String is the name of the value on the analytics routes.
func (g Gauge) String() string { return gaugeNames[g] }

// NodeRow describes the node at the end of one interval.
type NodeRow [gauges]float64

// errBadRow is returned for bytes that are no row.
var errBadRow = errors.New("history row does not decode")

// defaultTenant is the owner of most queues; its id is not written.
var defaultTenant = uuid.MustParse("00000000-0000-0000-0000-000000000001")

// append writes: tenant (0, or 1 and 16 bytes), name, number of counters, counters, greatest lag, parked; numbers and
// lengths are varints.
func (q *QueueRow) append(dst []byte) []byte {
	if q.Tenant == defaultTenant {
		dst = append(dst, 0)
	} else {
		dst = append(append(dst, 1), q.Tenant[:]...)
	}
	dst = append(binary.AppendUvarint(dst, uint64(len(q.Queue))), q.Queue...)
	dst = binary.AppendUvarint(dst, uint64(len(q.Counts)))
	for _, n := range q.Counts {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = binary.AppendUvarint(dst, q.LagMaxMicros)
	return binary.AppendUvarint(dst, q.Parked)
}

// decoder reads rows. names keeps one string per queue over many rows.
type decoder struct {
	data   []byte
	failed bool
	names  map[string]string
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.data)
	if size <= 0 {
		d.failed, d.data = true, nil
		return 0
	}
	d.data = d.data[size:]
	return n
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.data)) {
		d.failed, d.data = true, nil
		return nil
	}
	taken := d.data[:n]
	d.data = d.data[n:]
	return taken
}

func (d *decoder) name(raw []byte) string {
	if name, ok := d.names[string(raw)]; ok {
		return name
	}
	name := string(raw)
	d.names[name] = name
	return name
}

func (d *decoder) queueRow(row *QueueRow) error {
	*row = QueueRow{Name: Name{Tenant: defaultTenant}}
	switch d.number() {
	case 0:
	case 1:
		copy(row.Tenant[:], d.bytes(uint64(len(row.Tenant))))
	default:
		return errBadRow
	}
	row.Queue = d.name(d.bytes(d.number()))
	// A newer build may have written more counters than this one knows.
	for i := range d.number() {
		n := d.number()
		if d.failed {
			return errBadRow
		}
		if i < uint64(len(row.Counts)) {
			row.Counts[i] = n
		}
	}
	row.LagMaxMicros, row.Parked = d.number(), d.number()
	if d.failed {
		return errBadRow
	}
	return nil
}

// append writes the number of values and the values as IEEE 754 bits.
func (n *NodeRow) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(n)))
	for _, value := range n {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(value))
	}
	return dst
}

func (d *decoder) nodeRow(row *NodeRow) error {
	*row = NodeRow{}
	for i := range d.number() {
		raw := d.bytes(8)
		if d.failed {
			return errBadRow
		}
		if value := math.Float64frombits(binary.LittleEndian.Uint64(raw)); i < uint64(len(row)) && !math.IsNaN(value) && !math.IsInf(value, 0) {
			row[i] = value
		}
	}
	if d.failed {
		return errBadRow
	}
	return nil
}

// queueFrame makes a frame of rows, the busiest ones when there are more than fit.
func queueFrame(span Span, rows []QueueRow, maxRows int) frame {
	slices.SortFunc(rows, func(x, y QueueRow) int {
		return cmp.Or(cmp.Compare(y.Counts.Activity(), x.Counts.Activity()), cmp.Compare(x.Queue, y.Queue))
	})
	encoded := make([][]byte, min(len(rows), maxRows))
	for i := range encoded {
		encoded[i] = rows[i].append(nil)
	}
	return frameOf(span, encoded)
}
