package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// openEngine opens a database after looking at its files: Badger answers damage with a panic, with the end of the
// process, or by leaving the table out. checkLogs, if any, gets the highest version that stands in tables.
func openEngine(options badger.Options, checkLogs func(tables uint64) error) (*badger.DB, error) {
	tables, err := verifyTables(options)
	if err != nil {
		return nil, err
	}
	if checkLogs != nil {
		if err := checkLogs(tables); err != nil {
			return nil, err
		}
	}
	if err := clearEmptyLogs(options.Dir); err != nil {
		return nil, err
	}
	db, err := badger.OpenManaged(options)
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", ErrDamaged, options.Dir, err)
	}
	return db, nil
}

// clearEmptyLogs removes logs of no length. Badger leaves them when it dies between truncating and unlinking a flushed
// log, or between creating and sizing a new one, and then refuses to open. What an empty log should have held is missed
// by the checks of Open, if it should have held anything.
func clearEmptyLogs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".mem") && !strings.HasSuffix(name, ".vlog") {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return fmt.Errorf("look at %s: %w", filepath.Join(dir, name), err)
		}
		if info.Size() > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove empty log: %w", err)
		}
	}
	return nil
}

// verifyTables checks every table that the manifest names and returns the highest version in them.
func verifyTables(options badger.Options) (newest uint64, err error) {
	path := filepath.Join(options.Dir, badger.ManifestFilename)
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, refuseTablesWithoutManifest(options.Dir, path)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: open %s: %w", ErrDamaged, path, err)
	}
	defer file.Close()
	manifest, _, err := badger.ReplayManifestFile(file, options.ExternalMagicVersion, options)
	if err != nil {
		return 0, fmt.Errorf("%w: read %s: %w", ErrDamaged, path, err)
	}
	for id := range manifest.Tables {
		version, err := verifyTable(table.NewFilename(id, options.Dir))
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}

// refuseTablesWithoutManifest keeps Badger from starting anew, and removing all tables, when only the manifest is gone.
func refuseTablesWithoutManifest(dir, manifest string) error {
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	if len(tables) > 0 {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, manifest)
	}
	return nil
}

// verifyTable reads a whole table, checks its index and all its blocks, and returns the highest version in it. The
// layout is that of Badger's format 8: blocks, index, index length, checksum of the index, checksum length.
func verifyTable(path string) (newest uint64, err error) {
	data, err := mapFile(path)
	if err != nil {
		return 0, err
	}
	if len(data) == 0 {
		return 0, fmt.Errorf("verify table %s: it is empty", path)
	}
	defer func() { _ = unix.Munmap(data) }()
	newest, err = verifyTableBytes(data)
	if err != nil {
		return 0, fmt.Errorf("verify table %s: %w", path, err)
	}
	return newest, nil
}

func verifyTableBytes(data []byte) (newest uint64, err error) {
	defer func() {
		// The index is a flatbuffer; its accessors panic on offsets that lead outside. The checksum before makes that
		// nearly impossible.
		if cause := recover(); cause != nil {
			err = fmt.Errorf("index cannot be read: %v", cause)
		}
	}()
	rest, sum, err := cutChecksum(data)
	if err != nil {
		return 0, fmt.Errorf("index checksum: %w", err)
	}
	rest, index, err := cutSized(rest)
	if err != nil {
		return 0, fmt.Errorf("index: %w", err)
	}
	if err := y.VerifyChecksum(index, sum); err != nil {
		return 0, fmt.Errorf("index: %w", err)
	}
	offsets := fb.GetRootAsTableIndex(index, 0)
	var at fb.BlockOffset
	for i := range offsets.OffsetsLength() {
		if !offsets.Offsets(&at, i) {
			return 0, fmt.Errorf("block %d is not in the index", i)
		}
		end := uint64(at.Offset()) + uint64(at.Len())
		if end > uint64(len(rest)) {
			return 0, fmt.Errorf("block %d ends at %d of %d bytes", i, end, len(rest))
		}
		block, sum, err := cutChecksum(rest[at.Offset():end])
		if err != nil {
			return 0, fmt.Errorf("block %d: %w", i, err)
		}
		if err := y.VerifyChecksum(block, sum); err != nil {
			return 0, fmt.Errorf("block %d: %w", i, err)
		}
	}
	return offsets.MaxVersion(), nil
}

// cutSized takes a field off the end of data whose length stands behind it in four bytes.
func cutSized(data []byte) (rest, field []byte, err error) {
	at := len(data) - 4
	if at < 0 {
		return nil, nil, fmt.Errorf("cut off after %d bytes", len(data))
	}
	size := uint64(binary.BigEndian.Uint32(data[at:]))
	if size > uint64(at) {
		return nil, nil, fmt.Errorf("length %d exceeds the %d bytes before it", size, at)
	}
	return data[:at-int(size)], data[at-int(size) : at], nil
}

func cutChecksum(data []byte) (rest []byte, sum *pb.Checksum, err error) {
	rest, field, err := cutSized(data)
	if err != nil {
		return nil, nil, err
	}
	sum = new(pb.Checksum)
	if err := proto.Unmarshal(field, sum); err != nil {
		return nil, nil, fmt.Errorf("decode checksum: %w", err)
	}
	if sum.Algo != pb.Checksum_CRC32C && sum.Algo != pb.Checksum_XXHash64 {
		return nil, nil, fmt.Errorf("unknown checksum %d", sum.Algo)
	}
	return rest, sum, nil
}
