package store

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/dgraph-io/badger/v4"
)

// Reader is what machines and handlers read through. All methods may be called from several goroutines at once.
type Reader interface {
	// Get returns the value of key, nil when there is none; an empty value is not nil. The bytes must not be changed and
	// are valid until the view is closed or the batch is done.
	Get(key []byte) ([]byte, error)
	// Scan visits the rows whose keys have the prefix, ascending, beginning with the first key >= from (nil: the first of
	// all), until visit returns false. Key and value are valid as those of Get.
	Scan(prefix, from []byte, visit func(key, value []byte) bool) error
	// ScanReverse visits them descending, beginning with the last key <= from (nil: the last of all).
	ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error
	// Chunk checks a chunk and passes it to visit; the bytes are valid inside visit only. visit must not read other
	// chunks. Its error is returned as it is.
	Chunk(ref ChunkRef, visit func(chunk []byte) error) error
}

// snapshot reads main at one index.
type snapshot struct {
	store *Store
	index uint64
	// txn is read-only, so several goroutines may use it. It is never discarded: in managed mode that frees nothing.
	txn *badger.Txn
}

func (s *Store) snapshotAt(index uint64) snapshot {
	return snapshot{store: s, index: index, txn: s.main.NewTransactionAt(index, false)}
}

// enter lets a read of main begin; gate.leave ends it. A store that has stopped is not read: the batch that it could not
// write is gone, and one that began behind it would take what it finds for the state in front of its entry.
func (s snapshot) enter() error {
	if err := s.store.readable(); err != nil {
		return err
	}
	if !s.store.gate.enter() {
		return s.store.stopped()
	}
	return nil
}

func (s snapshot) get(key []byte) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.store.gate.leave()
	value, err := s.lookUp(key)
	return value, s.store.noteCorruption(err)
}

func (s snapshot) lookUp(key []byte) (value []byte, err error) {
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	s.store.operations.gets.Add(1)
	item, err := s.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get row %x: %w", key, err)
	}
	stored, err := item.ValueCopy(nil)
	if err != nil {
		return nil, fmt.Errorf("get row %x: %w", key, err)
	}
	return rowValue(key, stored)
}

// recoverFault ends a section that reads mapped files: a page that cannot be read, because the file was cut or the disk
// failed, is corruption rather than the end of the process.
func recoverFault(restore bool, err *error) {
	debug.SetPanicOnFault(restore)
	switch cause := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }:
		*err = fmt.Errorf("%w: a mapped page cannot be read: %v", ErrCorrupt, cause)
	default:
		panic(cause)
	}
}

// rowIterator walks the rows of a prefix in one direction. A row is its key and its stored value.
type rowIterator struct {
	it      *badger.Iterator
	prefix  []byte
	reverse bool
}

func (s snapshot) iterate(prefix, from []byte, reverse bool) *rowIterator {
	o := badger.IteratorOptions{Reverse: reverse}
	if !reverse {
		o.Prefix = prefix // lets Badger leave out tables; in reverse it would end at the first key beyond the prefix
	}
	s.store.operations.seeks.Add(1)
	r := &rowIterator{it: s.txn.NewIterator(o), prefix: prefix, reverse: reverse}
	switch {
	case !reverse:
		if from == nil || bytes.Compare(from, prefix) < 0 {
			from = prefix
		}
		r.it.Seek(from)
	default:
		end := successor(prefix)
		if from != nil && (end == nil || bytes.Compare(from, end) < 0) {
			r.it.Seek(from)
			break
		}
		r.it.Seek(end) // nil: the last key of all
		if end != nil && r.it.Valid() && bytes.Equal(r.it.Item().Key(), end) {
			r.it.Next()
		}
	}
	return r
}

func (r *rowIterator) valid() bool { return r.it.ValidForPrefix(r.prefix) }
func (r *rowIterator) key() []byte { return r.it.Item().Key() }
func (r *rowIterator) next()       { r.it.Next() }
func (r *rowIterator) close()      { r.it.Close() }

// row returns copies, checked.
func (r *rowIterator) row() (key, value []byte, err error) {
	key = r.it.Item().KeyCopy(nil)
	stored, err := r.it.Item().ValueCopy(nil)
	if err != nil {
		return nil, nil, fmt.Errorf("read row %x: %w", key, err)
	}
	value, err = rowValue(key, stored)
	return key, value, err
}

// successor is the first key after all keys with the prefix; nil when there is no such key.
func successor(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for len(end) > 0 {
		if end[len(end)-1]++; end[len(end)-1] != 0 {
			return end
		}
		end = end[:len(end)-1]
	}
	return nil
}

// scan merges overlays, newest first, over the snapshot.
func (s snapshot) scan(q query, overlays []*overlay) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.store.gate.leave()
	return s.store.noteCorruption(s.merge(q, overlays))
}

func (s snapshot) merge(q query, overlays []*overlay) (err error) {
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	rows := s.iterate(q.prefix, q.from, q.reverse)
	defer rows.close()
	merged := mergeOverlays(q, overlays)
	for {
		over, overlaid := merged.peek()
		if !overlaid && !rows.valid() {
			return nil
		}
		order := -1 // overlay first
		if !overlaid {
			order = 1
		} else if rows.valid() {
			order = q.compare(over.key, rows.key())
		}
		if order <= 0 {
			if order == 0 {
				rows.next()
			}
			merged.next()
			if !over.deleted && !q.visit(over.key, over.value) {
				return nil
			}
			continue
		}
		key, value, err := rows.row()
		if err != nil {
			return err
		}
		rows.next()
		if !q.visit(key, value) {
			return nil
		}
	}
}

// visitStored visits the rows from a key on as they are stored, each checked, until visit returns false. Key and value
// are valid inside visit only.
func (s snapshot) visitStored(from []byte, visit func(key, stored []byte) bool) error {
	if !s.store.gate.enter() {
		return s.store.stopped()
	}
	defer s.store.gate.leave()
	return s.store.noteCorruption(s.walkStored(from, visit))
}

func (s snapshot) walkStored(from []byte, visit func(key, stored []byte) bool) (err error) {
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	rows := s.iterate(nil, from, false)
	defer rows.close()
	goOn := true
	for ; goOn && rows.valid(); rows.next() {
		key := rows.key()
		err := rows.it.Item().Value(func(stored []byte) error {
			if _, err := rowValue(key, stored); err != nil {
				return err
			}
			goOn = visit(key, stored)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read row %x: %w", key, err)
		}
	}
	return nil
}

// query is one call of Scan or ScanReverse.
type query struct {
	prefix, from []byte
	reverse      bool
	visit        func(key, value []byte) bool
}

// compare orders keys in the direction of the query.
func (q *query) compare(a, b []byte) int {
	if q.reverse {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}
