// Package lease is the pure machine of a queue's lease table: which (group, partition) pairs a lease id holds, so that an
// extend or a transaction's required lease finds them by the id alone. What a lease covers and when it ends stands in the
// cursor rows of its members; the table is their index.
package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"queen/actors/machine/recent"
	"queen/store/layout"
)

// Reader is what the table reads rows through.
type Reader interface {
	Get(key []byte) ([]byte, error)
}

// Writer takes the table's effects.
type Writer interface {
	Put(key, value []byte)
	Delete(key []byte)
}

// Member is one (group, partition) that a lease holds.
type Member struct {
	Group     uint64
	Partition uint64
}

// ErrBadRow is returned for a lease row that does not decode: the store is damaged.
var ErrBadRow = errors.New("lease row does not decode")

// remembered bounds the leases of one queue that are held in memory, about 100 bytes each; the others are read again.
const remembered = 1 << 13

// Table belongs to the lease table actor of one queue.
type Table struct {
	queue  uint64
	leases *recent.Map[uuid.UUID, []Member]
}

// NewTable returns the table of a queue; rows are read as they are needed.
func NewTable(queue uint64) *Table {
	return &Table{queue: queue, leases: recent.New[uuid.UUID, []Member](remembered)}
}

const rowVersion = 1

func encode(members []Member) []byte {
	row := make([]byte, 1, 1+16*len(members))
	row[0] = rowVersion
	for _, m := range members {
		row = binary.BigEndian.AppendUint64(row, m.Group)
		row = binary.BigEndian.AppendUint64(row, m.Partition)
	}
	return row
}

// Decode reads the value of a layout.Lease key.
func Decode(row []byte) ([]Member, error) {
	if len(row) < 1 || row[0] != rowVersion || len(row)%16 != 1 {
		return nil, fmt.Errorf("decode lease row of %d bytes: %w", len(row), ErrBadRow)
	}
	members := make([]Member, 0, len(row)/16)
	for rest := row[1:]; len(rest) > 0; rest = rest[16:] {
		members = append(members, Member{binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:])})
	}
	return members, nil
}

// Grant records a new lease. Its members are distinct.
func (t *Table) Grant(w Writer, lease uuid.UUID, members []Member) {
	t.leases.Put(lease, members)
	w.Put(layout.Lease(lease, t.queue), encode(members))
}

// Members returns what a lease holds in this queue, as far as the table knows: a member whose lease has expired stays
// until its partition is claimed again.
func (t *Table) Members(r Reader, lease uuid.UUID) ([]Member, error) {
	if members, ok := t.leases.Get(lease); ok {
		return members, nil
	}
	row, err := r.Get(layout.Lease(lease, t.queue))
	if err != nil || row == nil {
		return nil, err
	}
	members, err := Decode(row)
	if err != nil {
		return nil, err
	}
	t.leases.Put(lease, members)
	return members, nil
}

// Release takes a member out of a lease, and the lease out of the table when it was the last.
func (t *Table) Release(r Reader, w Writer, lease uuid.UUID, member Member) error {
	members, err := t.Members(r, lease)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m == member })
	switch {
	case len(rest) == len(members):
	case len(rest) == 0:
		t.leases.Delete(lease)
		w.Delete(layout.Lease(lease, t.queue))
	default:
		t.leases.Put(lease, rest)
		w.Put(layout.Lease(lease, t.queue), encode(rest))
	}
	return nil
}
