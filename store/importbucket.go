package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// tally is the accounting of a bucket as its blocks show it.
type tally struct {
	bucketRow
	entries int
}

// add checks a block and counts its chunks.
func (t *tally) add(bucket uint32, entry uint64, block []byte) error {
	_, err := checkBlock(block, bucket, entry, func(sum uint32, bytes int) {
		t.totalBytes += uint64(bytes)
		t.fold(sum, bytes)
	})
	t.entries++
	return err
}

// compare says whether the blocks hold what the state accounts for. They may hold more: a block stays without an account
// when its entry was replaced by a skip after a crash (cluster.md 13). Equal sizes with other contents are damage.
func (t *tally) compare(row bucketRow) error {
	if t.totalBytes < row.totalBytes || t.totalBytes == row.totalBytes && t.contents != row.contents {
		return fmt.Errorf("%w: %d blocks hold %d chunk bytes with sum %x, the state accounts for %d with %x",
			ErrCorrupt, t.entries, t.totalBytes, t.contents, row.totalBytes, row.contents)
	}
	return nil
}

// buildBucket makes one bucket from its files or its blocks.
func (i *importer) buildBucket(parts bucketParts) error {
	row, ok := i.rows[parts.id]
	if !ok {
		return fmt.Errorf("%w: the state does not refer to it", ErrImport)
	}
	delete(i.rows, parts.id)
	path := bucketPath(filepath.Join(i.opts.Dir, bucketsName), parts.id)
	if err := os.Mkdir(path, 0o755); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	if err := i.check(); err != nil {
		return err
	}
	if len(parts.files) > 0 {
		if !row.sealed {
			return fmt.Errorf("%w: it is open in this state, and came as files", ErrImport)
		}
		if err := i.linkFiles(path, parts, row); err != nil {
			return err
		}
	} else if err := i.writeBlocks(path, parts, row); err != nil {
		return err
	}
	if !row.sealed {
		return nil
	}
	// It was closed in good order, and no entry from here on writes to it.
	return markSealed(path, i.opts.synced)
}

// linkFiles takes the files of a sealed bucket over as they are. They are never written again, so they may have two
// names until the staging directory is cleaned.
func (i *importer) linkFiles(path string, parts bucketParts, row bucketRow) error {
	for name, part := range parts.files {
		from, to := filepath.Join(i.staging, part.Name), filepath.Join(path, name)
		if err := VerifyPart(i.staging, part); err != nil {
			return err
		}
		if err := os.Link(from, to); err != nil {
			return fmt.Errorf("take over a file: %w", err)
		}
	}
	options := bucketOptions(path, i.opts.BucketBytes, i.opts.Logger)
	options.ReadOnly = true
	db, err := openEngine(options, nil)
	if err != nil {
		return err
	}
	var blocks tally
	err = visitBlocks(db, 0, i.at.index, func(entry uint64, block []byte) (bool, error) {
		return true, blocks.add(parts.id, entry, block)
	})
	if err == nil {
		err = blocks.compare(row)
	}
	if closeErr := db.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close: %w", closeErr)
	}
	return err
}

// writeBlocks writes the blocks of a bucket that was not sealed, each at its entry, like the committer did.
func (i *importer) writeBlocks(path string, parts bucketParts, row bucketRow) error {
	db, err := openEngine(bucketOptions(path, i.opts.BucketBytes, i.opts.Logger), nil)
	if err != nil {
		return err
	}
	blocks := blockWriter{importer: i, db: db, bucket: parts.id}
	for _, part := range parts.blocks {
		if err = i.check(); err != nil {
			break
		}
		if err = i.frames(part, blocks.add); err != nil {
			break
		}
	}
	if err == nil {
		err = blocks.compare(row)
	}
	if closeErr := db.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close: %w", closeErr)
	}
	return err
}

// blockWriter writes blocks into a bucket.
type blockWriter struct {
	*importer
	tally
	db     *badger.DB
	bucket uint32
	last   uint64
}

func (w *blockWriter) add(key, block []byte) error {
	if len(key) != 8 {
		return fmt.Errorf("%w: key of %d bytes among blocks", ErrImport, len(key))
	}
	entry := binary.BigEndian.Uint64(key)
	if entry <= w.last || entry > w.at.index {
		return fmt.Errorf("%w: block of entry %d comes after that of entry %d", ErrImport, entry, w.last)
	}
	w.last = entry
	if err := w.tally.add(w.bucket, entry, block); err != nil {
		return err
	}
	txn := w.db.NewTransactionAt(entry, true)
	defer txn.Discard()
	if err := txn.Set(key, block); err != nil {
		return fmt.Errorf("add block of entry %d: %w", entry, err)
	}
	if err := txn.CommitAt(entry, nil); err != nil {
		return fmt.Errorf("write block of entry %d: %w", entry, err)
	}
	return nil
}
