package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/dgraph-io/badger/v4"
)

// phase is what a bucket is doing.
type phase int

const (
	phaseClosed  phase = iota
	phaseOpening       // somebody opens it; wait
	phaseOpen
	phaseClosing // somebody closes it; wait
	phaseDropped // gone for good
)

// bucket is one bucket database. Everything is guarded by the lock of buckets, but the database itself.
type bucket struct {
	id     uint32
	phase  phase
	db     *badger.DB
	sealed bool // closed in good order and never written again: opened read-only
	full   bool // a later bucket is being written
	users  int
	used   uint64 // tick of the last use
}

const droppingSuffix = ".dropping"

func (s *buckets) path(id uint32) string { return bucketPath(s.dir, id) }

func bucketPath(dir string, id uint32) string { return filepath.Join(dir, fmt.Sprintf("%08d", id)) }

func parseBucketName(name string) (uint32, bool) {
	id, err := strconv.ParseUint(name, 10, 32)
	return uint32(id), err == nil && name == fmt.Sprintf("%08d", id)
}

// openEngine opens the database of a bucket; called without the lock, by the one who set phaseOpening.
func (s *buckets) openEngine(id uint32, sealed bool) (*badger.DB, error) {
	path := s.path(id)
	options := bucketOptions(path, s.opts.BucketBytes, s.opts.Logger)
	if sealed {
		options.ReadOnly = true
	} else if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("create bucket %d: %w", id, err)
	}
	db, err := openEngine(options, nil)
	if err != nil {
		return nil, fmt.Errorf("open bucket %d: %w", id, err)
	}
	return db, nil
}
