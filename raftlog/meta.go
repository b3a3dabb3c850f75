package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// metaFile holds the list of log files and the library's term and vote. The log store's own place for them, a bolt
// database, has no checksum over what matters and deletes every log file when it is missing itself.
const metaFile = "log.meta"

// metaRecord is the content of metaFile.
type metaRecord struct {
	NextFile uint64            `json:"nextFile"`
	Files    []fileRecord      `json:"files"`
	Stable   map[string][]byte `json:"stable"`
}

// fileRecord describes one log file; MaxIndex, IndexStart and Sealed are set once it is sealed.
type fileRecord struct {
	ID         uint64    `json:"id"`
	BaseIndex  uint64    `json:"baseIndex"`
	MinIndex   uint64    `json:"minIndex"`
	MaxIndex   uint64    `json:"maxIndex"`
	IndexStart uint64    `json:"indexStart"`
	Created    time.Time `json:"created"`
	Sealed     time.Time `json:"sealed"`
	SizeLimit  uint32    `json:"sizeLimit"`
}

func (f *fileRecord) info() types.SegmentInfo {
	return types.SegmentInfo{
		ID: f.ID, BaseIndex: f.BaseIndex, MinIndex: f.MinIndex, MaxIndex: f.MaxIndex, Codec: recordCodecID,
		IndexStart: f.IndexStart, CreateTime: f.Created, SealTime: f.Sealed, SizeLimit: f.SizeLimit,
	}
}

func (f *fileRecord) name() string { return segment.FileName(f.info()) }

func (f *fileRecord) sealed() bool { return !f.Sealed.IsZero() }

// metaStore implements types.MetaStore. Set and get may come from several goroutines.
type metaStore struct {
	path string
	// fresh says that there was no file when the store was opened.
	fresh bool

	mu     sync.Mutex
	record metaRecord
}

// openMeta reads metaFile, or starts with an empty one in a directory without log files.
func openMeta(dir string) (*metaStore, error) {
	m := &metaStore{path: filepath.Join(dir, metaFile)}
	err := readRecord(m.path, &m.record)
	if errors.Is(err, os.ErrNotExist) {
		logs, globErr := filepath.Glob(filepath.Join(dir, "*.wal"))
		if globErr != nil {
			return nil, fmt.Errorf("list %s: %w", dir, globErr)
		}
		if len(logs) > 0 {
			return nil, damaged("%s, with the term, the vote and the list of log files, is missing, but %s exists",
				m.path, logs[0])
		}
		m.fresh, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	if m.record.Stable == nil {
		m.record.Stable = map[string][]byte{}
	}
	return m, nil
}

// files returns the log files, in the order of their indexes.
func (m *metaStore) files() []fileRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]fileRecord(nil), m.record.Files...)
}

// fileOf names the log file that holds, or would hold, the index.
func (m *metaStore) fileOf(index uint64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := ""
	for i := range m.record.Files {
		if file := &m.record.Files[i]; name == "" || file.BaseIndex <= index {
			name = file.name()
		}
	}
	return filepath.Join(filepath.Dir(m.path), name)
}

// completeRotation writes down that the last file is sealed and names the next one. The log store does both after the
// append that sealed the file, and after a crash in between it refuses every append.
func (m *metaStore) completeRotation(sealed fileRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := metaRecord{NextFile: m.record.NextFile + 1, Stable: m.record.Stable}
	next.Files = append(next.Files, m.record.Files...)
	next.Files[len(next.Files)-1] = sealed
	next.Files = append(next.Files, fileRecord{
		ID: m.record.NextFile, BaseIndex: sealed.MaxIndex + 1, MinIndex: sealed.MaxIndex + 1,
		Created: sealed.Sealed, SizeLimit: sealed.SizeLimit,
	})
	return m.replace(next)
}

// Load implements types.MetaStore.
func (m *metaStore) Load(string) (types.PersistentState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := types.PersistentState{NextSegmentID: m.record.NextFile}
	for i := range m.record.Files {
		state.Segments = append(state.Segments, m.record.Files[i].info())
	}
	return state, nil
}

// CommitState implements types.MetaStore.
func (m *metaStore) CommitState(state types.PersistentState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := metaRecord{NextFile: state.NextSegmentID, Stable: m.record.Stable}
	for _, s := range state.Segments {
		next.Files = append(next.Files, fileRecord{
			ID: s.ID, BaseIndex: s.BaseIndex, MinIndex: s.MinIndex, MaxIndex: s.MaxIndex,
			IndexStart: s.IndexStart, Created: s.CreateTime, Sealed: s.SealTime, SizeLimit: s.SizeLimit,
		})
	}
	return m.replace(next)
}

// GetStable implements types.MetaStore.
func (m *metaStore) GetStable(key []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.record.Stable[string(key)]), nil
}

// SetStable implements types.MetaStore.
func (m *metaStore) SetStable(key, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := metaRecord{NextFile: m.record.NextFile, Files: m.record.Files, Stable: maps.Clone(m.record.Stable)}
	next.Stable[string(key)] = bytes.Clone(value)
	return m.replace(next)
}

func (m *metaStore) replace(next metaRecord) error {
	if err := writeRecord(m.path, &next); err != nil {
		return err
	}
	m.record = next
	return nil
}

// Close implements types.MetaStore.
func (m *metaStore) Close() error { return nil }
