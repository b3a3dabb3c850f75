package store

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"queen/store/layout"
)

// The parts of a store's directory.
const (
	mainName    = "main"
	bucketsName = "buckets"
)

// Open opens or creates a store. Errors that wrap ErrDamaged name the file; nothing is repaired that could lose data.
func Open(options Options) (*Store, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	s, err := open(options)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", options.Dir, err)
	}
	return s, nil
}

func open(options Options) (*Store, error) {
	if err := complete(options); err != nil {
		return nil, err
	}
	record, err := prepareDir(options.Dir)
	if err != nil {
		return nil, err
	}
	// Badger flushes what is in its logs as soon as it is open, through memory maps.
	if err := checkFree(options.Dir, options.ReserveBytes); err != nil {
		return nil, err
	}
	at := mark{index: record.Index, term: record.Term}
	mainDir := filepath.Join(options.Dir, mainName)
	main, err := openEngine(mainOptions(mainDir, options.Logger), func(tables uint64) error {
		return verifyLogs(mainDir, tables, at)
	})
	if err != nil {
		return nil, err
	}
	main.SetDiscardTs(at.index) // it is 0 after every open, and then no compaction reclaims anything
	s := &Store{
		opts:          options,
		main:          main,
		horizon:       newHorizon(at),
		lastBegun:     at,
		queue:         make(chan *Batch, options.MaxUnflushed),
		slots:         make(chan struct{}, options.MaxUnflushed),
		syncedTables:  make(map[string]struct{}),
		gate:          newGate(),
		quit:          make(chan struct{}),
		committerDone: make(chan struct{}),
		keeperDone:    make(chan struct{}),
	}
	if err := s.recover(at); err != nil {
		return nil, errors.Join(err, main.Close())
	}
	if record.Clean {
		// From here on the stop is not orderly until Close says so.
		if err := writeDurable(options.Dir, at, false); err != nil {
			return nil, errors.Join(err, main.Close())
		}
	}
	s.buckets.work.Add(1)
	go s.buckets.openAhead()
	go s.keep()
	go s.commitLoop()
	return s, nil
}

// prepareDir creates the directories and reads the durable record. In a new directory the record is written before
// anything else, so that a directory without one is either new or damaged.
func prepareDir(dir string) (durableRecord, error) {
	main, buckets := filepath.Join(dir, mainName), filepath.Join(dir, bucketsName)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return durableRecord{}, fmt.Errorf("create directory: %w", err)
	}
	record, found, err := readDurable(dir)
	if err != nil {
		return durableRecord{}, err
	}
	if !found {
		entries, err := os.ReadDir(main)
		if err == nil && len(entries) > 0 {
			return durableRecord{}, fmt.Errorf("%w: %s is missing", ErrDamaged, filepath.Join(dir, durableFile))
		}
		if err := writeDurable(dir, mark{}, false); err != nil {
			return durableRecord{}, err
		}
	}
	if record.Index > 0 {
		if _, err := os.Stat(filepath.Join(main, badger.ManifestFilename)); err != nil {
			return durableRecord{}, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	for _, path := range []string{main, buckets} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return durableRecord{}, fmt.Errorf("create directory: %w", err)
		}
	}
	return record, syncDir(dir)
}

// recover reads the state at the durable point and makes the buckets on disk agree with it.
func (s *Store) recover(at mark) error {
	applied, err := s.recoverApplied(at)
	if err != nil {
		return err
	}
	newest, err := s.appliedAt(math.MaxUint64)
	if err != nil {
		return err
	}
	s.newest = max(newest.index, at.index)
	s.ledger = &ledger{open: applied.bucket, rows: make(map[uint32]bucketRow), limit: uint64(s.opts.BucketBytes)}
	var decodeErr error
	err = s.snapshotAt(at.index).scan(query{prefix: []byte{layout.FamilyBucket}, visit: func(key, value []byte) bool {
		row, err := decodeBucketRow(value)
		if err != nil {
			decodeErr = fmt.Errorf("%w: %w", ErrCorrupt, err)
			return false
		}
		s.ledger.rows[uint32(layout.LastNumber(key))] = row
		return true
	}}, nil)
	if err = errors.Join(err, decodeErr); err != nil {
		return fmt.Errorf("read bucket rows: %w", err)
	}
	return s.recoverBuckets()
}

// recoverApplied reads the applied row of the durable entry.
func (s *Store) recoverApplied(at mark) (appliedRow, error) {
	if at.index == 0 {
		return appliedRow{bucket: firstBucket}, nil
	}
	row, err := s.appliedAt(at.index)
	if err != nil {
		return appliedRow{}, err
	}
	if row.index != at.index || row.term != at.term {
		return appliedRow{}, fmt.Errorf("%w: main in %s holds entry %d of term %d, %s promises entry %d of term %d",
			ErrDamaged, s.mainDir(), row.index, row.term, durableFile, at.index, at.term)
	}
	return row, nil
}

// appliedAt is the newest applied row at or below an index, the zero row when there is none.
func (s *Store) appliedAt(index uint64) (appliedRow, error) {
	value, err := s.snapshotAt(index).get(appliedKey())
	if err != nil {
		return appliedRow{}, fmt.Errorf("read applied row: %w", err)
	}
	if value == nil {
		return appliedRow{}, nil
	}
	row, err := decodeAppliedRow(value)
	if err != nil {
		return appliedRow{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return row, nil
}

// recoverBuckets drops what the state does not refer to: dead buckets whose removal a crash interrupted, and buckets of
// entries that the replay will write again. Every bucket that it refers to must be there.
func (s *Store) recoverBuckets() error {
	b := &buckets{
		dir:     filepath.Join(s.opts.Dir, bucketsName),
		opts:    s.opts,
		horizon: s.horizon,
		byID:    make(map[uint32]*bucket),
		dirty:   make(map[uint32]struct{}),
		pinned:  make(map[uint32]int),
		current: s.ledger.open,
		ahead:   make(chan uint32, 1),
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
	}
	b.changed = sync.Cond{L: &b.mu}
	s.buckets = b
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return fmt.Errorf("list buckets: %w", err)
	}
	for _, entry := range entries {
		id, ok := parseBucketName(entry.Name())
		if _, live := s.ledger.rows[id]; ok && live {
			continue
		}
		if !ok && !strings.HasSuffix(entry.Name(), droppingSuffix) {
			return fmt.Errorf("%w: %s is not a bucket", ErrDamaged, filepath.Join(b.dir, entry.Name()))
		}
		if err := os.RemoveAll(filepath.Join(b.dir, entry.Name())); err != nil {
			return fmt.Errorf("remove dead bucket: %w", err)
		}
	}
	for id, row := range s.ledger.rows {
		if err := b.adopt(id, row, id == s.ledger.open); err != nil {
			return err
		}
	}
	return syncDir(b.dir)
}

// adopt takes in a bucket that the state refers to.
func (s *buckets) adopt(id uint32, row bucketRow, open bool) error {
	path := s.path(id)
	if _, err := os.Stat(filepath.Join(path, badger.ManifestFilename)); err != nil {
		return fmt.Errorf("%w: bucket %d: %w", ErrDamaged, id, err)
	}
	size, err := logicalBytes(path)
	if err != nil {
		return err
	}
	if size < int64(row.totalBytes) {
		return fmt.Errorf("%w: files in %s hold %d bytes, %d were written", ErrDamaged, path, size, row.totalBytes)
	}
	b := s.ensure(id)
	b.full = !open
	mark := filepath.Join(path, sealedMark)
	_, err = os.Stat(mark)
	b.sealed = err == nil
	if b.sealed && open {
		// Sealed by entries beyond the durable point; the replay writes to it again.
		if err := os.Remove(mark); err != nil {
			return fmt.Errorf("unseal bucket %d: %w", id, err)
		}
		b.sealed = false
		return syncDir(path)
	}
	return nil
}

// logicalBytes is the sum of the lengths of a bucket's files.
func logicalBytes(dir string) (int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("list bucket: %w", err)
	}
	var total int64
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return 0, fmt.Errorf("look at bucket: %w", err)
		}
		total += info.Size()
	}
	return total, nil
}
