package catalog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// Queue is a queue as the catalog knows it. Values are immutable: a change makes a new one, so a handler may keep what it
// was given.
type Queue struct {
	ID            uint64          `json:"id"`
	UUID          uuid.UUID       `json:"uuid"`
	Tenant        command.Tenant  `json:"tenant"`
	Name          string          `json:"name"`
	CreatedMicros uint64          `json:"createdMicros"`
	Options       command.Options `json:"options"`
}

// Group is a consumer group on one queue. A group without a registration has SubscriptionNone: a pinned pop or a position
// write made it. Immutable like Queue.
type Group struct {
	ID            uint64               `json:"id"`
	QueueID       uint64               `json:"queueId"`
	Name          string               `json:"name"`
	Subscription  command.Subscription `json:"subscription"`
	Conflation    bool                 `json:"conflation"`
	CreatedMicros uint64               `json:"createdMicros"`
}

// Registered tells whether the group has a stored subscription on its queue (messaging 5.8).
func (g *Group) Registered() bool { return g.Subscription.Mode != command.SubscriptionNone }

// QueueMode tells whether this is the reserved group of reading without a group.
func (g *Group) QueueMode() bool { return g.Name == command.QueueModeGroup }

// Partition is the identity of a partition: what never changes while it lives.
type Partition struct {
	ID            uint64
	QueueID       uint64
	UUID          uuid.UUID
	Name          string
	CreatedMicros uint64
}

// Trash is something deleted whose rows are still in the store: a whole queue, or one group of it.
type Trash struct {
	QueueID uint64
	// GroupID is 0 for a whole queue.
	GroupID uint64
}

// ErrBadRow is returned for a catalog row that does not decode: the store is damaged.
var ErrBadRow = errors.New("catalog row does not decode")

// Queue and group rows are few and rarely written: JSON, whose struct encoding is deterministic. Partition rows may be a
// million: binary.

func encodeJSON(row any) []byte {
	encoded, err := json.Marshal(row)
	if err != nil {
		panic(fmt.Sprintf("BUG: encode catalog row: %v", err))
	}
	return encoded
}

// DecodeQueue reads the value of a layout.Queue key.
func DecodeQueue(value []byte) (*Queue, error) {
	queue := new(Queue)
	if err := json.Unmarshal(value, queue); err != nil {
		return nil, fmt.Errorf("decode queue row: %w: %w", ErrBadRow, err)
	}
	return queue, nil
}

// DecodeGroup reads the value of a layout.Group key.
func DecodeGroup(value []byte) (*Group, error) {
	group := new(Group)
	if err := json.Unmarshal(value, group); err != nil {
		return nil, fmt.Errorf("decode group row: %w: %w", ErrBadRow, err)
	}
	return group, nil
}

const partitionRowVersion = 1

// appendPartition encodes a partition row: version, queue id, creation, UUID, name.
func appendPartition(dst []byte, p *Partition) []byte {
	dst = append(dst, partitionRowVersion)
	dst = binary.BigEndian.AppendUint64(dst, p.QueueID)
	dst = binary.BigEndian.AppendUint64(dst, p.CreatedMicros)
	dst = append(dst, p.UUID[:]...)
	return append(dst, p.Name...)
}

// DecodePartition reads the value of the layout.Partition key of the given id.
func DecodePartition(id uint64, value []byte) (*Partition, error) {
	if len(value) < 33 || value[0] != partitionRowVersion {
		return nil, fmt.Errorf("decode partition row %d: %w", id, ErrBadRow)
	}
	partition := &Partition{
		ID:            id,
		QueueID:       binary.BigEndian.Uint64(value[1:]),
		CreatedMicros: binary.BigEndian.Uint64(value[9:]),
		Name:          string(value[33:]),
	}
	copy(partition.UUID[:], value[17:33])
	return partition, nil
}

const partitionNameRowBytes = 32

// appendPartitionName encodes the row of a partition's name: id, creation, UUID. It repeats the partition row so that a
// push to a partition that is not in memory finds it with one read.
func appendPartitionName(dst []byte, p *Partition) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.ID)
	dst = binary.BigEndian.AppendUint64(dst, p.CreatedMicros)
	return append(dst, p.UUID[:]...)
}

// DecodePartitionName reads the value of the layout.PartitionName key of the given queue and name.
func DecodePartitionName(queue uint64, name string, value []byte) (*Partition, error) {
	if len(value) != partitionNameRowBytes {
		return nil, fmt.Errorf("decode partition name row of %d bytes: %w", len(value), ErrBadRow)
	}
	partition := &Partition{
		ID:            binary.BigEndian.Uint64(value),
		QueueID:       queue,
		CreatedMicros: binary.BigEndian.Uint64(value[8:]),
		Name:          name,
	}
	copy(partition.UUID[:], value[16:])
	return partition, nil
}
