package actors

import (
	"bytes"
	"encoding/binary"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/deadletter"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
	"queen/store/layout"
)

// sweeper deletes the rows of what the catalog has given up, a bounded number at a time (messaging 9.11, 10.4).
type sweeper struct {
	*apply
	// keys is how many keys the batch may have when the sweeper takes up the next row.
	keys int
	catalog.Trash
	// position is the last key that was swept. It is kept in the row of the trash, so that no sweep walks over what
	// earlier ones have deleted.
	position []byte
}

// sweepStage is a range of rows, in the order of sweeping. one deletes a row and what belongs to it; done false means that
// it has to be taken up again.
type sweepStage struct {
	prefix []byte
	one    func(key, value []byte) (done bool, err error)
}

func (a *apply) sweep(c *command.Sweep) (command.Result, error) {
	before, _, _ := a.batch.Size()
	s := &sweeper{apply: a, keys: before + int(c.MaxKeys)}
	for {
		found, err := s.next()
		if err != nil || !found {
			return &command.SweepResult{}, err
		}
		if !s.room() {
			return &command.SweepResult{More: true}, nil
		}
		if err := s.run(); err != nil {
			return nil, err
		}
	}
}

func (s *sweeper) room() bool {
	keys, _, _ := s.batch.Size()
	return keys < s.keys
}

// next takes up the first trash that is left.
func (s *sweeper) next() (found bool, err error) {
	err = s.batch.Scan([]byte{layout.FamilyTrash}, nil, func(key, value []byte) bool {
		s.QueueID, s.GroupID = binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])
		s.position, found = bytes.Clone(value), true
		return false
	})
	return found, err
}

// run sweeps the trash as far as there is room.
func (s *sweeper) run() error {
	stages := s.stages()
	first := 0
	for i := range stages {
		if len(s.position) > 0 && bytes.HasPrefix(s.position, stages[i].prefix) {
			first = i
		}
	}
	for i := range stages[first:] {
		done, err := s.stage(&stages[first+i])
		if err != nil {
			return err
		}
		if !done {
			s.batch.Put(layout.Trash(s.QueueID, s.GroupID), s.position)
			return nil
		}
	}
	s.batch.Delete(layout.Trash(s.QueueID, s.GroupID))
	if table := s.leases[s.QueueID]; table != nil && s.GroupID == 0 {
		delete(s.leases, s.QueueID)
		table.Stop()
	}
	return nil
}

func (s *sweeper) stages() []sweepStage {
	if s.GroupID != 0 {
		return []sweepStage{
			{layout.CursorsOf(s.QueueID, s.GroupID), s.cursor},
			{layout.ReleasedOf(s.QueueID, s.GroupID), s.row},
			{layout.PositionsOf(s.QueueID, s.GroupID), s.row},
		}
	}
	return []sweepStage{
		{layout.HeadsOf(s.QueueID), s.partition},
		{layout.AllCursorsOf(s.QueueID), s.cursor},
		{layout.AllReleasedOf(s.QueueID), s.row},
		{layout.AllPositionsOf(s.QueueID), s.row},
		{layout.GroupsOf(s.QueueID), s.row},
		{layout.DeadLettersOf(s.QueueID), s.letter},
	}
}

// sweepSlice is how many rows are read before the first of them is deleted.
const sweepSlice = 256

// stage sweeps a range from the position on; done tells that nothing of it is left.
func (s *sweeper) stage(stage *sweepStage) (done bool, err error) {
	type row struct{ key, value []byte }
	for s.room() {
		var rows []row
		from := stage.prefix
		if bytes.HasPrefix(s.position, stage.prefix) {
			from = append(bytes.Clone(s.position), 0)
		}
		err := s.batch.Scan(stage.prefix, from, func(key, value []byte) bool {
			rows = append(rows, row{key, value})
			return len(rows) < sweepSlice
		})
		if err != nil {
			return false, err
		}
		for i := range rows {
			if !s.room() {
				return false, nil
			}
			if done, err := stage.one(rows[i].key, rows[i].value); err != nil || !done {
				return false, err
			}
			s.position = bytes.Clone(rows[i].key)
		}
		if len(rows) < sweepSlice {
			return true, nil
		}
	}
	return false, nil
}

func (s *sweeper) row(key, _ []byte) (done bool, err error) {
	s.batch.Delete(key)
	return true, nil
}

// cursor takes the row of a lease along.
func (s *sweeper) cursor(key, value []byte) (done bool, err error) {
	row, err := cursor.Decode(value)
	if err != nil {
		return false, err
	}
	if row.Lease != (cursor.Lease{}) {
		s.batch.Delete(layout.Lease(row.Lease.ID, s.QueueID))
	}
	s.batch.Delete(key)
	return true, nil
}

func (s *sweeper) letter(_, value []byte) (done bool, err error) {
	row, err := deadletter.DecodeRow(value)
	if err != nil {
		return false, err
	}
	deadletter.Delete(s.batch, row)
	return true, nil
}

// sweepAppends is how many appends of one partition go at a time.
const sweepAppends = 1024

// partition deletes a partition with its chunks.
func (s *sweeper) partition(key, _ []byte) (done bool, err error) {
	id := layout.LastNumber(key)
	s.partitions.drop(id)
	for {
		done, err = partition.Sweep(s.batch, s.batch, partition.SweepInput{Queue: s.QueueID, Partition: id, MaxAppends: sweepAppends})
		if err != nil {
			return false, err
		}
		if done {
			return true, s.forgetPartition(s.QueueID, id)
		}
		if !s.room() {
			return false, nil
		}
	}
}

// forgetPartition deletes what is left of a partition whose log is gone.
func (a *apply) forgetPartition(queueID, id uint64) error {
	row, err := a.batch.Get(layout.Partition(id))
	if err != nil {
		return err
	}
	a.batch.Delete(layout.Head(queueID, id))
	if row == nil {
		return nil
	}
	p, err := catalog.DecodePartition(id, row)
	if err != nil {
		return err
	}
	return a.inCatalog(func(m *catalog.Machine) error {
		m.ForgetPartition(a.batch, p)
		return nil
	})
}
