package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Badger replays a log up to the first record that does not match its checksum and goes on with the next log as if
// nothing was missing. That is right for what a power cut tore beyond the durable point, and loses rows without a word
// when an older part is damaged. So Open walks the logs first, changing nothing: the applied rows of all entries that
// stand in logs and not in tables form a chain, and it must reach the durable entry.

// The log format of Badger 4: a header of 20 bytes, then records of meta, user meta, key length, value length, expiry
// (the last three as uvarints), key, value and a big-endian CRC-32C of all that.
const (
	logHeaderBytes = 20
	logMarkTxn     = 1 << 6 // a record of a transaction
	logMarkFinTxn  = 1 << 7 // its last record; the value is the timestamp in decimal
	versionBytes   = 8      // at the end of every key: the complement of the timestamp
)

// logRecord aliases the log.
type logRecord struct {
	meta       byte
	key, value []byte // key without version
	version    uint64
}

// nextRecord reads the record at the front of data; false where the log ends.
func nextRecord(data []byte) (record logRecord, rest []byte, ok bool) {
	if len(data) < 2 || data[0] == 0 && data[1] == 0 {
		return logRecord{}, nil, false // zeroed beyond the last record
	}
	at := 2
	var fields [3]uint64
	for i := range fields {
		value, n := binary.Uvarint(data[at:])
		if n <= 0 {
			return logRecord{}, nil, false
		}
		fields[i] = value
		at += n
	}
	keyBytes, valueBytes := fields[0], fields[1]
	if keyBytes < versionBytes || keyBytes > 1<<16 || valueBytes > 1<<31 ||
		uint64(len(data)-at) < keyBytes+valueBytes+crc32.Size {
		return logRecord{}, nil, false
	}
	end := at + int(keyBytes+valueBytes)
	if crc32.Checksum(data[:end], castagnoli) != binary.BigEndian.Uint32(data[end:]) {
		return logRecord{}, nil, false
	}
	key := data[at : at+int(keyBytes)]
	split := len(key) - versionBytes
	return logRecord{
		meta:    data[0],
		key:     key[:split],
		version: ^binary.BigEndian.Uint64(key[split:]),
		value:   data[at+int(keyBytes) : end],
	}, data[end+crc32.Size:], true
}

// walkLog visits the applied row of every finished transaction of a log, in its order. Like Badger it stops at the
// first record that is torn or belongs to another transaction than its neighbours.
func walkLog(data []byte, visit func(appliedRow) error) error {
	if len(data) < logHeaderBytes {
		return nil
	}
	data = data[logHeaderBytes:]
	var within uint64 // version of the transaction that is open; 0 for none
	var applied []byte
	key := appliedKey()
	for {
		record, rest, ok := nextRecord(data)
		if !ok {
			return nil
		}
		data = rest
		switch {
		case record.meta&logMarkTxn != 0:
			if within != 0 && within != record.version {
				return nil
			}
			within = record.version
			if bytes.Equal(record.key, key) {
				applied = record.value
			}
		case record.meta&logMarkFinTxn != 0:
			version, err := strconv.ParseUint(string(record.value), 10, 64)
			if err != nil || version != within {
				return nil
			}
			value, err := rowValue(key, applied)
			if err != nil {
				return err
			}
			row, err := decodeAppliedRow(value)
			if err != nil {
				return err
			}
			if err := visit(row); err != nil {
				return err
			}
			within, applied = 0, nil
		default:
			return nil
		}
	}
}

// verifyLogs checks that the logs of main lead from what stands in tables to the durable entry.
func verifyLogs(dir string, tables uint64, at mark) error {
	if at.index <= tables {
		return nil
	}
	names, err := logNames(dir)
	if err != nil {
		return err
	}
	seen := make(map[uint64]struct{})
	known := func(index uint64) bool {
		_, ok := seen[index]
		return ok || index <= tables
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		data, err := mapFile(path)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		err = walkLog(data, func(row appliedRow) error {
			if row.index <= at.index && !known(row.previous) {
				return fmt.Errorf("entry %d follows entry %d, which no log before it holds", row.index, row.previous)
			}
			seen[row.index] = struct{}{}
			return nil
		})
		if len(data) > 0 {
			_ = unix.Munmap(data) // fails only for what was not mapped
		}
		if err != nil {
			return fmt.Errorf("%w: walk log %s: %w", ErrDamaged, path, err)
		}
	}
	if !known(at.index) {
		return fmt.Errorf("%w: the logs in %s do not hold entry %d, which %s promises (logs: %s)",
			ErrDamaged, dir, at.index, durableFile, strings.Join(names, ", "))
	}
	return nil
}

// logNames are the logs of memtables, oldest first.
func logNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".mem") {
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b) // numbers outgrow their five digits
		}
		return strings.Compare(a, b)
	})
	return names, nil
}

// mapFile maps a file for reading; an empty one gives nil.
func mapFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open for reading: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	if info.Size() == 0 {
		return nil, nil
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, nil
}
