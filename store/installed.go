package store

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// installedFile says, in a store that came from an export, that the layers above do not know yet. It becomes visible
// together with the store, so that they can finish after a crash what goes with the new state: their own records.
const installedFile = "installed.json"

// Installation is what Import was given, of a store that stands in its place.
type Installation struct {
	Index, Term uint64
	StateHash   string
	Meta        []byte
}

type installedRecord struct {
	Format    int    `json:"format"`
	Index     uint64 `json:"index"`
	Term      uint64 `json:"term"`
	StateHash string `json:"stateHash"`
	Meta      []byte `json:"meta"`
	Checksum  uint32 `json:"checksum"` // CRC-32C of the other fields
}

const installedFormat = 1

func (r installedRecord) sum() uint32 {
	fields := fmt.Sprintf("%d %d %d %s %s", r.Format, r.Index, r.Term, r.StateHash, hex.EncodeToString(r.Meta))
	return crc32.Checksum([]byte(fields), castagnoli)
}

func writeInstalled(dir string, imported Imported, meta []byte) error {
	record := installedRecord{Format: installedFormat, Index: imported.Index, Term: imported.Term,
		StateHash: imported.StateHash, Meta: meta}
	record.Checksum = record.sum()
	content, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode installation: %w", err)
	}
	return writeFileDurably(filepath.Join(dir, installedFile), append(content, '\n'))
}

// Installed returns the installation that has not been acknowledged by ForgetInstalled, false when there is none. The
// store in dir may be open; if it was not opened yet, call CompleteActivation first.
func Installed(dir string) (Installation, bool, error) {
	path := filepath.Join(dir, installedFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Installation{}, false, nil
	}
	if err != nil {
		return Installation{}, false, fmt.Errorf("%w: read %s: %w", ErrDamaged, path, err)
	}
	var record installedRecord
	if err := json.Unmarshal(content, &record); err != nil {
		return Installation{}, false, fmt.Errorf("%w: decode %s: %w", ErrDamaged, path, err)
	}
	if record.Format != installedFormat || record.Checksum != record.sum() {
		return Installation{}, false, fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, path)
	}
	return Installation{Index: record.Index, Term: record.Term, StateHash: record.StateHash, Meta: record.Meta}, true, nil
}

// ForgetInstalled says that the layers above have drawn level with the installed state, durably.
func ForgetInstalled(dir string) error {
	err := os.Remove(filepath.Join(dir, installedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget installation: %w", err)
	}
	return syncDir(dir)
}
