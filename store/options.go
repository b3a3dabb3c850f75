package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
)

// Options say how to open a store.
type Options struct {
	// Dir is the directory of the store; it is created when missing. Required.
	Dir string
	// BucketBytes is the payload after which a bucket is full. It decides which bucket an entry goes to, so it must be the
	// same on all nodes of a group: leave it at its default outside tests.
	BucketBytes int64
	// MaxUnflushed bounds the batches that are handed over and not committed yet; Commit blocks beyond.
	MaxUnflushed int
	// ReserveBytes is the free space of the volume below which every commit fails with ErrNoSpace. Negative means none.
	ReserveBytes int64
	// HousekeepingEvery paces the background work: discard timestamp, sealing, dropping.
	HousekeepingEvery time.Duration
	// Logger receives events of the store and of Badger.
	Logger zerolog.Logger
	// Faults is called at every crash point (the Fault constants); nil outside tests. It may be called from any goroutine.
	Faults func(point string)

	// failWrite lets tests of this package fail a write at a crash point.
	failWrite func(point string) error
	// synced tells tests of this package which files have been fsynced.
	synced func(path string)
}

// Crash points (cluster.md 19). Sealing a bucket takes the place of compaction, dropping one that of collection.
const (
	FaultBlockWritten   = "apply.mid_entry"
	FaultStoreCommitted = "apply.store_committed"
	FaultFilesSynced    = "durable.files_synced"
	FaultDurableWritten = "durable.store_committed"
	FaultBeforeUnlink   = "gc.before_unlink"
	FaultAfterUnlink    = "gc.after_unlink"
	FaultBeforeSeal     = "compaction.before"
	FaultAfterSeal      = "compaction.after"
	FaultExportSealed   = "snapshot.sealed"            // the picture is fixed
	FaultExportBuilt    = "snapshot.built"             // its last part has been made
	FaultStaged         = "snapshot.install_staged"    // an import is whole and on the disk
	FaultActivated      = "snapshot.install_activated" // it has taken the place of the store
)

func defaults() Options {
	return Options{
		BucketBytes:       64 << 20,
		MaxUnflushed:      8,
		ReserveBytes:      minReserveBytes,
		HousekeepingEvery: time.Second,
	}
}

func (o Options) withDefaults() Options {
	d := defaults()
	if o.BucketBytes == 0 {
		o.BucketBytes = d.BucketBytes
	}
	if o.MaxUnflushed == 0 {
		o.MaxUnflushed = d.MaxUnflushed
	}
	if o.ReserveBytes == 0 {
		o.ReserveBytes = d.ReserveBytes
	}
	if o.HousekeepingEvery == 0 {
		o.HousekeepingEvery = d.HousekeepingEvery
	}
	if o.Faults == nil {
		o.Faults = func(string) {}
	}
	if o.failWrite == nil {
		o.failWrite = func(string) error { return nil }
	}
	if o.synced == nil {
		o.synced = func(string) {}
	}
	return o
}

// maxBucketBytes keeps a bucket's value log well below the 2 GiB that Badger can map.
const maxBucketBytes = 512 << 20

func (o Options) validate() error {
	switch {
	case o.Dir == "":
		return errors.New("validate store options: Dir is empty")
	case o.BucketBytes < 1 || o.BucketBytes > maxBucketBytes:
		return fmt.Errorf("validate store options: BucketBytes %d is not within 1 to %d", o.BucketBytes, maxBucketBytes)
	case o.MaxUnflushed < 1:
		return fmt.Errorf("validate store options: MaxUnflushed is %d", o.MaxUnflushed)
	case o.HousekeepingEvery < 0:
		return fmt.Errorf("validate store options: HousekeepingEvery is %s", o.HousekeepingEvery)
	}
	return nil
}
