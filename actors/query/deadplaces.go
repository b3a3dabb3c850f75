package query

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"

	"queen/actors/machine/catalog"
	"queen/actors/machine/deadletter"
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// DeadPlaces tells which messages of a partition have dead letters. While it is asked for ranges that move downwards, it
// reads the store only for those that have some.
type DeadPlaces struct {
	view      store.Reader
	partition uint64
	// known is set once something was read: then the next dead letter below the offset low is at next, or there is none.
	known, none bool
	low, next   uint64
}

// DeadPlaces begins a walk over the dead letters of a partition.
func (r *Reads) DeadPlaces(partition uint64) DeadPlaces {
	return DeadPlaces{view: r.view, partition: partition}
}

// Dead tells of a message with a dead letter whether queue mode is among the groups that gave it up.
type Dead struct{ QueueMode bool }

// placeBytes are offset and group hash behind the prefix of the key.
const placeBytes = 16

var queueModeHash = xxh3.HashString(command.QueueModeGroup)

// In returns the dead letters of the messages [first, end), by offset; nil when there are none.
func (d *DeadPlaces) In(first, end uint64) (map[uint64]Dead, error) {
	if first >= end || d.known && end <= d.low && (d.none || d.next < first) {
		return nil, nil
	}
	var found map[uint64]Dead
	var failure error
	prefix := layout.DeadLetterPlacesOf(d.partition)
	d.known, d.none, d.low = true, true, first
	err := d.view.ScanReverse(prefix, layout.DeadLetterPlace(d.partition, end-1, math.MaxUint64), func(key, _ []byte) bool {
		rest := key[len(prefix):]
		if len(rest) != placeBytes {
			failure = fmt.Errorf("read dead letter place of %d bytes: %w", len(key), deadletter.ErrBadRow)
			return false
		}
		offset := binary.BigEndian.Uint64(rest)
		if offset < first {
			d.none, d.next = false, offset
			return false
		}
		if found == nil {
			found = map[uint64]Dead{}
		}
		found[offset] = Dead{QueueMode: found[offset].QueueMode || binary.BigEndian.Uint64(rest[8:]) == queueModeHash}
		return true
	})
	if failure != nil {
		return nil, failure
	}
	return found, err
}

// HasCursor tells whether a group has a cursor in any partition of its queue.
func (r *Reads) HasCursor(group *catalog.Group) (has bool, err error) {
	err = r.view.Scan(layout.CursorsOf(group.QueueID, group.ID), nil, func(_, _ []byte) bool {
		has = true
		return false
	})
	return has, err
}
