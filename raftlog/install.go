package raftlog

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// stateMeta is what travels with a state: the membership that held there.
type stateMeta struct {
	MembershipIndex uint64        `json:"membershipIndex"`
	Servers         []raft.Server `json:"servers"`
}

// Installed makes the log directory fit a state that came from another node (cluster 12): the log begins behind it. What was in the
// log goes, also what lies beyond the state: it was never committed, or the state holds it (cluster 20, note 4). Term and vote
// stay. The log must be closed. It may be repeated after a crash at any point.
func Installed(dir string, index, term uint64, meta []byte) error {
	var members stateMeta
	if err := json.Unmarshal(meta, &members); err != nil {
		return fmt.Errorf("decode membership of installed state: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create log directory: %w", err)
	}
	snapshots, err := openSnapshotStore(dir)
	if err != nil {
		return err
	}
	log, err := openMeta(dir)
	if err != nil {
		return err
	}
	err = snapshots.put(snapshotRecord{
		Index: index, Term: term, MembershipIndex: members.MembershipIndex, Servers: members.Servers})
	if err != nil {
		return err
	}
	files := log.files()
	if err := log.empty(term); err != nil {
		return fmt.Errorf("empty the list of log files: %w", err)
	}
	for i := range files {
		path := filepath.Join(dir, files[i].name())
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove log file: %w", err)
		}
	}
	return syncDir(dir)
}

// empty forgets all log files. The term becomes at least that of the state that takes their place.
func (m *metaStore) empty(term uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := metaRecord{NextFile: m.record.NextFile, Stable: map[string][]byte{}}
	for key, value := range m.record.Stable {
		next.Stable[key] = value
	}
	if current := next.Stable[string(keyCurrentTerm)]; len(current) != 8 || binary.BigEndian.Uint64(current) < term {
		next.Stable[string(keyCurrentTerm)] = binary.BigEndian.AppendUint64(nil, term)
	}
	return m.replace(next)
}
