package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// castagnoli is a read-only table; CRC-32C is the one that processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumEnd is how a record file ends: the last field of its JSON object, the CRC-32C of everything in front of it. The
// file stays JSON that any tool reads.
const checksumEnd = ",\"checksum\":\"crc32c:%08x\"}\n"

// WriteRecord replaces a small file as a whole: value, which must be a struct with at least one field, as a JSON object
// with a checksum. After a crash there is the old file or the new one.
func WriteRecord(path string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	open, object := bytes.CutSuffix(body, []byte("}"))
	if !object || len(open) < 2 {
		panic(fmt.Sprintf("BUG: %s: a record is an object with fields, not %s", path, body))
	}
	temporary := path + ".tmp"
	if err := writeSynced(temporary, fmt.Appendf(open, checksumEnd, crc32.Checksum(open, castagnoli))); err != nil {
		return fmt.Errorf("write %s: %w", temporary, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// ReadRecord reads what WriteRecord wrote. A missing file is an error that wraps os.ErrNotExist; anything but a whole
// record with the right checksum wraps ErrDamaged.
func ReadRecord(path string, value any) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	return decodeRecord(path, body, value)
}

func decodeRecord(path string, body []byte, value any) error {
	end := len(body) - len(fmt.Sprintf(checksumEnd, 0))
	if end < 0 || string(body[end:]) != fmt.Sprintf(checksumEnd, crc32.Checksum(body[:end], castagnoli)) {
		return fmt.Errorf("%w: %s: checksum differs", ErrDamaged, path)
	}
	if err := json.Unmarshal(body, value); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return nil
}

func writeSynced(path string, body []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = file.Write(body)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
