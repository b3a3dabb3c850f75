package store

import (
	"fmt"
	"path/filepath"
)

// durableRecord is the content of durable.json: everything up to the index has been fsynced. clean says that the store
// was closed in good order after that.
type durableRecord struct {
	Format   int    `json:"format"`
	Index    uint64 `json:"index"`
	Term     uint64 `json:"term"`
	Clean    bool   `json:"clean"`
	Checksum uint32 `json:"checksum"` // CRC-32C of the other fields
}

const (
	durableFile   = "durable.json"
	durableFormat = 1
)

func (r durableRecord) sum() uint32 { return checksum(r.Format, r.Index, r.Term, r.Clean) }

func (r durableRecord) intact() bool { return r.Format == durableFormat && r.Checksum == r.sum() }

func writeDurable(dir string, at mark, clean bool) error {
	r := durableRecord{Format: durableFormat, Index: at.index, Term: at.term, Clean: clean}
	r.Checksum = r.sum()
	return writeRecord(filepath.Join(dir, durableFile), r)
}

// readDurable returns false when there is no record.
func readDurable(dir string) (durableRecord, bool, error) {
	return readRecord[durableRecord](filepath.Join(dir, durableFile))
}

// DurablePoint makes everything committed so far survive a power cut and returns the index up to which it does. Commits
// go on meanwhile. Any goroutine; calls wait for each other. A failure stops the store: what the kernel reports once
// about lost pages it does not report again.
func (s *Store) DurablePoint() (uint64, error) {
	s.durability.Lock()
	defer s.durability.Unlock()
	if err := s.readable(); err != nil {
		return 0, err
	}
	// Every write up to here has reached the files' pages, for the committer advances the horizon after its writes.
	at := s.horizon.last()
	if at.index == s.horizon.durable.Load() {
		return at.index, nil
	}
	if err := s.syncFiles(); err != nil {
		return 0, s.stop(fmt.Errorf("reach durable point %d: %w", at.index, err))
	}
	s.opts.Faults(FaultFilesSynced)
	if err := writeDurable(s.opts.Dir, at, false); err != nil {
		return 0, s.stop(fmt.Errorf("reach durable point %d: %w", at.index, err))
	}
	s.opts.Faults(FaultDurableWritten)
	s.horizon.durable.Store(at.index)
	s.buckets.nudge()
	return at.index, nil
}

// syncFiles brings all files to the disk: buckets first, so that main never refers to bytes that are not there.
func (s *Store) syncFiles() error {
	if err := s.opts.failWrite(FaultFilesSynced); err != nil {
		return err
	}
	dirty := s.buckets.takeDirty()
	for _, id := range dirty {
		if err := syncEngine(s.buckets.path(id), nil, s.opts.synced); err != nil {
			s.buckets.putDirty(dirty)
			return err
		}
	}
	if len(dirty) > 0 {
		if err := syncDir(s.buckets.dir); err != nil {
			s.buckets.putDirty(dirty)
			return err
		}
	}
	return syncEngine(s.mainDir(), s.syncedTables, s.opts.synced)
}
