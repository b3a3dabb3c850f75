package store

import (
	"fmt"
	"slices"
	"sync"

	"queen/store/layout"
)

// ledger is the accounting of buckets as of the last batch that was handed over. The apply goroutine changes it, Usage
// reads it.
type ledger struct {
	mu    sync.Mutex
	open  uint32
	rows  map[uint32]bucketRow
	limit uint64 // bytes after which a bucket is full
}

// firstBucket is the id of the bucket that an empty store opens.
const firstBucket = 1

// next is the bucket that an entry which starts now goes to. It depends on replicated bytes only.
func (l *ledger) next() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows[l.open].totalBytes >= l.limit {
		return l.open + 1
	}
	return l.open
}

// post books the chunks of a batch and returns the changed rows, by rising bucket id. Rows of buckets that are sealed
// and hold no live chunk are gone: their ids are in dropped.
func (l *ledger) post(b *Batch) (rows []ledgerChange, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := make(map[uint32]bucketRow)
	load := func(id uint32) bucketRow {
		if row, ok := changed[id]; ok {
			return row
		}
		return l.rows[id]
	}
	open := l.open
	if b.setChunks > 0 {
		if b.bucket != open {
			full := load(open)
			full.sealed = true
			changed[open] = full
			open = b.bucket
		}
		row := load(open)
		for i := range b.chunks {
			if slot := &b.chunks[i]; slot.set {
				row.totalBytes += uint64(len(slot.data))
				row.liveBytes += uint64(len(slot.data))
				row.liveChunks++
				row.fold(slot.sum, len(slot.data))
			}
		}
		changed[open] = row
	}
	for _, ref := range b.releases {
		row := load(ref.Bucket)
		if row.liveChunks == 0 || row.liveBytes < uint64(ref.Bytes) {
			return nil, fmt.Errorf("%w: release %s: bucket has %d live chunks of %d bytes",
				ErrMisuse, ref, row.liveChunks, row.liveBytes)
		}
		row.liveChunks--
		row.liveBytes -= uint64(ref.Bytes)
		changed[ref.Bucket] = row
	}
	if len(changed) > MaxBatchBuckets {
		return nil, fmt.Errorf("%w: it touches %d buckets, at most %d are allowed", ErrTooBig, len(changed), MaxBatchBuckets)
	}
	l.open = open
	for id, row := range changed {
		gone := row.sealed && row.liveChunks == 0
		if gone {
			delete(l.rows, id)
		} else {
			l.rows[id] = row
		}
		rows = append(rows, ledgerChange{id: id, row: row, gone: gone})
	}
	slices.SortFunc(rows, func(a, b ledgerChange) int { return int(int64(a.id) - int64(b.id)) })
	return rows, nil
}

type ledgerChange struct {
	id   uint32
	row  bucketRow
	gone bool
}

func (c ledgerChange) key() []byte { return layout.Bucket(c.id) }

func (l *ledger) openBucket() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}
