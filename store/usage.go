package store

import (
	"path/filepath"
)

// Usage is what metrics and the disk gate want to know.
type Usage struct {
	LiveChunks      uint64
	LiveChunkBytes  uint64
	TotalChunkBytes uint64 // of the buckets that still exist
	Buckets         int
	OldestBucket    uint32  // 0 when there is none
	OldestLiveShare float64 // live bytes of the oldest bucket by its total bytes; 1 when there is none
	OpenBuckets     int     // databases open now
	MainDiskBytes   int64   // -1 when it could not be measured
	BucketDiskBytes int64   // likewise
	MainLevelZero   int     // tables; many mean that compaction lags
	Unflushed       int     // batches handed over and not committed
	OpenViews       int
	CommittedIndex  uint64
	DurableIndex    uint64
	OldestViewIndex uint64 // equals CommittedIndex when there is none
	Corruptions     uint64 // reads that met damage since Open
}

// Usage looks at the disk, so it costs some milliseconds: not for a hot path. Any goroutine. Of a stopped store it is
// zero.
func (s *Store) Usage() Usage {
	var u Usage
	if s.readable() != nil {
		return u
	}
	s.ledger.usage(&u)
	s.horizon.usage(&u)
	u.Corruptions = s.corruptions.Load()
	s.buckets.mu.Lock()
	for _, b := range s.buckets.byID {
		if b.phase == phaseOpen {
			u.OpenBuckets++
		}
	}
	s.buckets.mu.Unlock()
	s.pipeline.Lock()
	u.Unflushed = len(s.unflushed)
	s.pipeline.Unlock()
	u.MainLevelZero = s.main.Levels()[0].NumTables
	u.MainDiskBytes = s.measured(s.mainDir())
	u.BucketDiskBytes = s.measured(filepath.Join(s.opts.Dir, bucketsName))
	return u
}

func (s *Store) measured(dir string) int64 {
	bytes, err := diskBytes(dir)
	if err != nil {
		s.opts.Logger.Warn().Err(err).Msg("store: disk use is unknown")
		return -1
	}
	return bytes
}

func (l *ledger) usage(u *Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u.OldestLiveShare = 1
	for id, row := range l.rows {
		u.Buckets++
		u.LiveChunks += row.liveChunks
		u.LiveChunkBytes += row.liveBytes
		u.TotalChunkBytes += row.totalBytes
		if u.OldestBucket == 0 || id < u.OldestBucket {
			u.OldestBucket = id
			if row.totalBytes > 0 {
				u.OldestLiveShare = float64(row.liveBytes) / float64(row.totalBytes)
			}
		}
	}
}

func (h *horizon) usage(u *Usage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u.CommittedIndex = h.committed.index
	u.DurableIndex = h.durable.Load()
	u.OldestViewIndex = h.committed.index
	for index, views := range h.held {
		u.OpenViews += views
		u.OldestViewIndex = min(u.OldestViewIndex, index)
	}
}
