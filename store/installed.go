package store

import (
	"encoding/hex"
	"errors"
	"fmt"
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
	return checksum(r.Format, r.Index, r.Term, r.StateHash, hex.EncodeToString(r.Meta))
}

func (r installedRecord) intact() bool { return r.Format == installedFormat && r.Checksum == r.sum() }

func writeInstalled(dir string, imported Imported, meta []byte) error {
	r := installedRecord{Format: installedFormat, Index: imported.Index, Term: imported.Term, StateHash: imported.StateHash, Meta: meta}
	r.Checksum = r.sum()
	return writeRecord(filepath.Join(dir, installedFile), r)
}

// Installed returns the installation that has not been acknowledged by ForgetInstalled, false when there is none. The
// store in dir may be open; if it was not opened yet, call CompleteActivation first.
func Installed(dir string) (Installation, bool, error) {
	r, found, err := readRecord[installedRecord](filepath.Join(dir, installedFile))
	if err != nil || !found {
		return Installation{}, false, err
	}
	return Installation{Index: r.Index, Term: r.Term, StateHash: r.StateHash, Meta: r.Meta}, true, nil
}

// ForgetInstalled says that the layers above have drawn level with the installed state, durably.
func ForgetInstalled(dir string) error {
	err := os.Remove(filepath.Join(dir, installedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget installation: %w", err)
	}
	return syncDir(dir)
}
