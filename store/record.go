package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
)

// record is the content of a small file of one JSON object that carries its format and the checksum of everything else in it.
type record interface {
	// intact tells whether the format is the one that this build reads, and the checksum right.
	intact() bool
}

// checksum is that of the fields of a record, printed in their order with spaces between them.
func checksum(fields ...any) uint32 {
	line := fmt.Appendln(nil, fields...)
	return crc32.Checksum(line[:len(line)-1], castagnoli)
}

// writeRecord replaces the file: after a crash it holds the old or the new record.
func writeRecord(path string, r record) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return writeFileDurably(path, append(content, '\n'))
}

// readRecord returns false when there is no such file, and ErrDamaged for one that cannot be believed.
func readRecord[R record](path string) (r R, found bool, err error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("%w: read %s: %w", ErrDamaged, path, err)
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return r, false, fmt.Errorf("%w: decode %s: %w", ErrDamaged, path, err)
	}
	if !r.intact() {
		return r, false, fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, path)
	}
	return r, true, nil
}
