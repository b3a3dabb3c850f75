package store

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"queen/store/layout"
)

// Export is the state after one entry, read part by part while commits go on. Nothing is copied ahead: a part of main or
// of an open bucket is made in memory when its turn comes (4 MiB, one block more at most), a part of a sealed bucket is
// its file. Main comes first, so that its old versions are held back no longer than it takes to read them; the buckets
// that the state refers to are pinned until Close. One goroutine at a time.
type Export struct {
	store *Store
	at    mark
	bytes int64

	view    *View  // until main has been read
	from    []byte // the key at which the next part of main begins
	read    bool   // main has no row left
	hash    *stateHash
	pins    []uint32
	buckets []exportedBucket // still to be read, by rising number

	manifest Manifest
	current  *exportPart
	buffer   []byte // of the parts made in memory
	last     bool   // the current part is the manifest
	closed   bool
}

// exportedBucket is a bucket that the state refers to.
type exportedBucket struct {
	id     uint32
	full   bool // as of the state: no entry behind it writes to the bucket
	begun  bool
	files  []string // of a sealed bucket, still to be read; nil when its blocks are read
	entry  uint64   // where the next part of blocks begins
	number int      // of the last part of blocks
}

// Export fixes the state after the last committed entry. It takes as long as reading the rows of all buckets, some
// milliseconds, and holds up nobody. Close it before the store. Any goroutine.
func (s *Store) Export() (*Export, error) {
	if err := s.readable(); err != nil {
		return nil, err
	}
	view := s.View()
	e := &Export{store: s, view: view, hash: newStateHash(), bytes: max(0, s.measured(s.mainDir()))}
	if err := e.begin(); err != nil {
		view.Close()
		return nil, fmt.Errorf("export the state at %d: %w", view.Index(), err)
	}
	s.opts.Faults(FaultExportSealed)
	return e, nil
}

func (e *Export) begin() error {
	value, err := e.view.Get(appliedKey())
	if err != nil {
		return err
	}
	if value == nil {
		return errors.New("nothing has been applied yet")
	}
	applied, err := decodeAppliedRow(value)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	e.at = mark{applied.index, applied.term}
	e.manifest = Manifest{Format: manifestFormat, Index: applied.index, Term: applied.term, Parts: []Part{}}
	var decodeErr error
	err = e.view.Scan([]byte{layout.FamilyBucket}, nil, func(key, value []byte) bool {
		var row bucketRow
		if row, decodeErr = decodeBucketRow(value); decodeErr != nil {
			return false
		}
		id := uint32(layout.LastNumber(key))
		e.buckets = append(e.buckets, exportedBucket{id: id, full: row.sealed})
		e.pins = append(e.pins, id)
		e.bytes += int64(row.totalBytes)
		return true
	})
	if err != nil {
		return err
	}
	if decodeErr != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, decodeErr)
	}
	e.store.buckets.pin(e.pins)
	return nil
}

// Index and Term are those of the entry after which the state is exported.
func (e *Export) Index() uint64 { return e.at.index }

// Term is the term of that entry.
func (e *Export) Term() uint64 { return e.at.term }

// Bytes is about how much all parts will hold.
func (e *Export) Bytes() int64 { return e.bytes }

// Next moves on to the next part and returns its name and length; io.EOF behind the last, which is the manifest.
func (e *Export) Next() (name string, size int64, err error) {
	if e.closed {
		return "", 0, fmt.Errorf("export the state at %d: %w", e.at.index, ErrClosed)
	}
	if err := e.store.readable(); err != nil {
		return "", 0, err
	}
	if err := e.finish(); err != nil {
		return "", 0, fmt.Errorf("export the state at %d: %w", e.at.index, err)
	}
	if e.last {
		return "", 0, io.EOF
	}
	part, err := e.next()
	if err != nil {
		return "", 0, fmt.Errorf("export the state at %d: %w", e.at.index, e.store.noteCorruption(err))
	}
	e.current = part
	return part.name, part.size, nil
}

// finish enters the current part into the manifest and gives it up.
func (e *Export) finish() error {
	if e.current == nil {
		return nil
	}
	sum, err := e.current.sum()
	err = errors.Join(err, e.current.close())
	if err == nil && !e.last {
		e.manifest.Parts = append(e.manifest.Parts,
			Part{Name: e.current.name, Bytes: e.current.size, SHA256: hex.EncodeToString(sum[:])})
	}
	e.current = nil
	return err
}

func (e *Export) next() (*exportPart, error) {
	if len(e.manifest.Parts) >= MaxExportParts {
		return nil, fmt.Errorf("more than %d parts", MaxExportParts)
	}
	if e.view != nil {
		part, err := e.nextOfMain()
		if part != nil || err != nil {
			return part, err
		}
		// All of main has been read: from here on its old versions may go.
		sum := e.hash.sum()
		e.manifest.StateHash, e.manifest.Rows = hex.EncodeToString(sum[:]), e.hash.rows
		e.view.Close()
		e.view = nil
	}
	for len(e.buckets) > 0 {
		part, err := e.nextOfBucket(&e.buckets[0])
		if part != nil || err != nil {
			return part, err
		}
		e.buckets = e.buckets[1:]
	}
	content, err := json.Marshal(&e.manifest)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	e.last = true
	e.store.opts.Faults(FaultExportBuilt)
	return newExportPart(ManifestName, content), nil
}

// nextOfMain makes the next part of main; nil when all of it has been read.
func (e *Export) nextOfMain() (*exportPart, error) {
	if e.read {
		return nil, nil
	}
	data := e.buffer[:0]
	var next []byte
	err := e.view.at.visitStored(e.from, func(key, stored []byte) bool {
		if len(data) >= framePartBytes {
			next = slices.Clone(key)
			return false
		}
		data = appendFrame(data, key, stored)
		e.hash.add(key, stored[:len(stored)-rowSumBytes])
		return true
	})
	if err != nil {
		return nil, err
	}
	e.keep(data)
	e.from, e.read = next, next == nil
	return newExportPart(fmt.Sprintf(mainPartName, len(e.manifest.Parts)+1), data), nil
}

// keep makes a buffer that grew the one of the next part, unless it grew for a rare block.
func (e *Export) keep(data []byte) {
	if cap(data) <= 2*framePartBytes {
		e.buffer = data[:0]
	}
}

// nextOfBucket makes the next part of a bucket; nil when all of it has been read.
func (e *Export) nextOfBucket(b *exportedBucket) (*exportPart, error) {
	if !b.begun {
		b.begun = true
		// A bucket that was open in this state may have been sealed since: its files hold blocks of later entries, and the
		// receiver has to write to it.
		if b.full && e.store.buckets.isSealed(b.id) {
			files, err := bucketFiles(e.store.buckets.path(b.id))
			if err != nil {
				return nil, err
			}
			b.files = files
		}
	}
	if b.files != nil {
		if len(b.files) == 0 {
			return nil, nil
		}
		name := b.files[0]
		b.files = b.files[1:]
		return openExportPart(fmt.Sprintf(filePartName, b.id, name), filepath.Join(e.store.buckets.path(b.id), name))
	}
	if b.entry > e.at.index {
		return nil, nil
	}
	return e.nextBlocks(b)
}

// nextBlocks makes the next part of a bucket that is not sealed.
func (e *Export) nextBlocks(b *exportedBucket) (*exportPart, error) {
	data := e.buffer[:0]
	next := e.at.index + 1
	err := e.store.buckets.visitBlocks(b.id, b.entry, e.at.index, func(entry uint64, block []byte) (bool, error) {
		if len(data) >= framePartBytes {
			next = entry
			return false, nil
		}
		if _, err := checkBlock(block, b.id, entry, func(uint32, int) {}); err != nil {
			return false, err
		}
		data = appendFrame(data, blockKey(entry), block)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	e.keep(data)
	if len(data) == 0 {
		return nil, fmt.Errorf("%w: bucket %d holds no block", ErrCorrupt, b.id)
	}
	b.entry, b.number = next, b.number+1
	return newExportPart(fmt.Sprintf(blocksPartName, b.id, b.number), data), nil
}

// bucketFiles are the files of a sealed bucket that travel.
func bucketFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list bucket: %w", err)
	}
	names := []string{}
	for _, entry := range entries {
		if bucketFilePattern.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// ReadAt reads from the current part.
func (e *Export) ReadAt(to []byte, offset int64) (int, error) {
	if e.current == nil {
		return 0, fmt.Errorf("read export of the state at %d: %w", e.at.index, ErrClosed)
	}
	return e.current.readAt(to, offset)
}

// Sum is the SHA-256 of the current part. It costs nothing more when the part has been read from its beginning to its
// end.
func (e *Export) Sum() ([32]byte, error) {
	if e.current == nil {
		return [32]byte{}, fmt.Errorf("read export of the state at %d: %w", e.at.index, ErrClosed)
	}
	return e.current.sum()
}

// Close lets go what the export held back. It may be called more than once.
func (e *Export) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	var err error
	if e.current != nil {
		err = e.current.close()
		e.current = nil
	}
	if e.view != nil {
		e.view.Close()
	}
	e.store.buckets.unpin(e.pins)
	e.buffer = nil
	return err
}
