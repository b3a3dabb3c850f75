package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/ristretto/v2/z"
)

const (
	// importTableBytes is the size of the tables that an import writes. Badger builds them in memory, up to 16 at a time when
	// the disk is the slower part.
	importTableBytes = 8 << 20
	// importWriteBytes is how much goes to Badger in one call.
	importWriteBytes = 1 << 20
)

// importOptions are those of main, but for the size of tables: Badger multiplies it by 2 for each level below the second.
func importOptions(dir string, opts Options) badger.Options {
	o := mainOptions(dir, opts.Logger)
	o.BaseTableSize = importTableBytes >> (o.MaxLevels - 2)
	o.TableSizeMultiplier = 2
	o.NumCompactors = 0 // everything lands sorted on the lowest level
	return o
}

// buildMain writes the rows of the parts into tables, all at the version of the export: nobody reads below.
func (i *importer) buildMain(parts []Part) error {
	db, err := openEngine(importOptions(filepath.Join(i.opts.Dir, mainName), i.opts), nil)
	if err != nil {
		return err
	}
	err = i.writeRows(db, parts)
	if closeErr := db.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close main: %w", closeErr)
	}
	return err
}

func (i *importer) writeRows(db *badger.DB, parts []Part) (err error) {
	writer := db.NewStreamWriter()
	if err := writer.Prepare(); err != nil {
		writer.Cancel()
		return fmt.Errorf("prepare main: %w", err)
	}
	rows := rowWriter{importer: i, writer: writer, buffer: z.NewBuffer(2*importWriteBytes, "import")}
	for _, part := range parts {
		if err = i.check(); err != nil {
			break
		}
		if err = i.frames(part, rows.add); err != nil {
			break
		}
	}
	if err == nil {
		err = rows.flush()
	}
	err = errors.Join(err, rows.buffer.Release())
	if err != nil {
		writer.Cancel()
		return err
	}
	if err := writer.Flush(); err != nil {
		return fmt.Errorf("write tables of main: %w", err)
	}
	return nil
}

// rowWriter hands rows to Badger.
type rowWriter struct {
	*importer
	writer *badger.StreamWriter
	buffer *z.Buffer
	last   []byte
}

func (w *rowWriter) add(key, stored []byte) error {
	// Badger ends the process when keys do not rise.
	if bytes.Compare(key, w.last) <= 0 || len(key) > MaxKeyBytes {
		return fmt.Errorf("%w: key %x comes after key %x", ErrImport, key, w.last)
	}
	if len(stored) > MaxValueBytes+rowSumBytes {
		return fmt.Errorf("%w: row %x has %d bytes", ErrImport, key, len(stored))
	}
	value, err := rowValue(key, stored)
	if err != nil {
		return err
	}
	w.hash.add(key, value)
	if err := w.note(key, value); err != nil {
		return err
	}
	w.last = append(w.last[:0], key...)
	badger.KVToBuffer(&pb.KV{Key: key, Value: stored, Version: w.at.index, StreamId: 1}, w.buffer)
	if w.buffer.LenNoPadding() < importWriteBytes {
		return nil
	}
	return w.flush()
}

func (w *rowWriter) flush() error {
	if w.buffer.LenNoPadding() == 0 {
		return nil
	}
	if err := w.writer.Write(w.buffer); err != nil {
		return fmt.Errorf("write rows of main: %w", err)
	}
	w.buffer.Reset()
	return nil
}
