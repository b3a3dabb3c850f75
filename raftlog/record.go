package raftlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// castagnoli is a read-only table; CRC-32C is the one that processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumLine is how a record file ends: the CRC-32C of everything in front of it.
const checksumLine = "crc32c %08x\n"

// writeRecord replaces a small file as a whole: JSON and a checksum line, written to a temporary name, fsynced, renamed,
// and the directory fsynced. After a crash there is the old record or the new one.
func writeRecord(path string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	body = append(body, '\n')
	body = fmt.Appendf(body, checksumLine, crc32.Checksum(body, castagnoli))
	temporary := path + ".tmp"
	if err := writeSynced(temporary, body); err != nil {
		return fmt.Errorf("write %s: %w", temporary, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, body []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(body)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// readRecord reads what writeRecord wrote. A missing file is an error that wraps os.ErrNotExist; anything but a whole
// record with the right checksum is ErrDamaged.
func readRecord(path string, value any) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	end := bytes.LastIndexByte(bytes.TrimSuffix(body, []byte("\n")), '\n') + 1
	want := fmt.Sprintf(checksumLine, crc32.Checksum(body[:end], castagnoli))
	if string(body[end:]) != want {
		return damaged("%s: checksum differs", path)
	}
	if err := json.Unmarshal(body[:end], value); err != nil {
		return damaged("%s: %w", path, err)
	}
	return nil
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	err = file.Sync()
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
