package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/raft"
)

// snapshotFile records the newest durable point that the library may start from.
const snapshotFile = "snapshot"

// errNoTransfer is the library's answer when it wants to make a snapshot.
var errNoTransfer = errors.New("a snapshot is a record of an index: it carries no state")

// snapshotRecord says that the store is durable up to an index, and which membership held there.
type snapshotRecord struct {
	Index           uint64        `json:"index"`
	Term            uint64        `json:"term"`
	MembershipIndex uint64        `json:"membershipIndex"`
	Servers         []raft.Server `json:"servers"`
}

// snapshotStore implements raft.SnapshotStore with at most one snapshot, which is a record and no bytes: the state is in
// the store already, and durable.
type snapshotStore struct {
	path string

	mu     sync.Mutex
	record snapshotRecord
}

func openSnapshotStore(dir string) (*snapshotStore, error) {
	s := &snapshotStore{path: filepath.Join(dir, snapshotFile)}
	if err := readRecord(s.path, &s.record); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return s, nil
}

// current returns the newest record; its index is 0 when there is none.
func (s *snapshotStore) current() snapshotRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

// put replaces the record, durably.
func (s *snapshotStore) put(record snapshotRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := writeRecord(s.path, &record); err != nil {
		return fmt.Errorf("record durable index: %w", err)
	}
	s.record = record
	return nil
}

// List implements raft.SnapshotStore.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	record := s.current()
	if record.Index == 0 {
		return nil, nil
	}
	return []*raft.SnapshotMeta{{
		Version:            raft.SnapshotVersionMax,
		ID:                 fmt.Sprintf("%d-%d", record.Term, record.Index),
		Index:              record.Index,
		Term:               record.Term,
		Configuration:      raft.Configuration{Servers: record.Servers},
		ConfigurationIndex: record.MembershipIndex,
	}}, nil
}

// Create implements raft.SnapshotStore.
func (s *snapshotStore) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport,
) (raft.SnapshotSink, error) {
	return nil, errNoTransfer
}

// Open implements raft.SnapshotStore. What the library sends is the record: the node that gets it asks for the state itself.
func (s *snapshotStore) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	list, _ := s.List() // never fails
	if len(list) == 0 {
		return nil, nil, errors.New("there is no snapshot")
	}
	return list[0], io.NopCloser(bytes.NewReader(nil)), nil
}
