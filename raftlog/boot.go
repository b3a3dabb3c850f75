package raftlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// openStorage opens log and snapshot record, compares them with the state machine, and forms a group in an empty
// directory.
func (n *Node) openStorage() error {
	var err error
	if n.snapshots, err = openSnapshotStore(n.options.Dir); err != nil {
		return fmt.Errorf("open snapshot record: %w", err)
	}
	var report *logReport
	n.log, report, err = openLogStore(&n.options, n.self, newLibraryLogger(n.logger, n.options.Clock, "log"))
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	if report.tornBytes > 0 {
		n.logger.Info().Str("file", report.tornFile).Int("bytes", report.tornBytes).Uint64("last", report.end).
			Msg("raft: torn end of log cut")
	}
	if err := n.reconcile(report); err != nil {
		return joinClose(err, n.log)
	}
	if report.end == 0 && n.snapshots.current().Index == 0 && !n.options.Join {
		if err := n.form(); err != nil {
			return joinClose(err, n.log)
		}
	}
	return nil
}

func joinClose(err error, closer io.Closer) error {
	if closeErr := closer.Close(); closeErr != nil {
		return errors.Join(err, fmt.Errorf("close log: %w", closeErr))
	}
	return err
}

// reconcile refuses a log, a record and a state that do not stem from one history (cluster 18).
func (n *Node) reconcile(report *logReport) error {
	held, term := n.machine.AppliedIndex()
	record := n.snapshots.current()
	switch {
	case n.log.meta.fresh && (held > 0 || record.Index > 0):
		return damaged("%s, with the term and the vote, is missing, but the store holds entry %d",
			filepath.Join(n.options.Dir, metaFile), max(held, record.Index))
	case report.end == 0 && record.Index == held && held > 0:
		// The state came from another node, and nothing has followed it yet.
		n.log.noteMembership(record.MembershipIndex, raft.Configuration{Servers: record.Servers})
		return nil
	case report.end < max(held, record.Index):
		return damaged("%s: the log ends at entry %d, the store holds entry %d",
			n.log.meta.fileOf(report.end+1), report.end, max(held, record.Index))
	case report.end < n.options.NewestIndex:
		return damaged("%s: the log ends at entry %d, but the store has seen entry %d: what was written last is damaged or missing",
			n.log.meta.fileOf(report.end+1), report.end, n.options.NewestIndex)
	case report.begin > record.Index+1:
		return damaged("%s, which stands for the entries below %d, is missing or old",
			filepath.Join(n.options.Dir, snapshotFile), report.begin)
	}
	if held < record.Index {
		if report.begin > 1 {
			return damaged("the log begins at entry %d, the store holds only entry %d and those below", report.begin, held)
		}
		if err := n.forgetSnapshot(held); err != nil {
			return err
		}
	} else if report.configurationIndex == 0 {
		n.log.noteMembership(record.MembershipIndex, raft.Configuration{Servers: record.Servers})
	}
	if held == 0 {
		return nil
	}
	var entry raft.Log
	if err := n.log.GetLog(held, &entry); err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		return fmt.Errorf("read last applied entry: %w", err)
	}
	if entry.Index == held && entry.Term != term {
		return damaged("entry %d is of term %d in the log and of term %d in the store", held, entry.Term, term)
	}
	return nil
}

// forgetSnapshot makes the library replay the whole log, which begins at entry 1, because the store lacks entries that it
// had once.
func (n *Node) forgetSnapshot(held uint64) error {
	n.logger.Warn().Uint64("holds", held).Uint64("held", n.snapshots.current().Index).
		Msg("raft: the store is behind its durable index: it is rebuilt from the log")
	if err := os.Remove(n.snapshots.path); err != nil {
		return fmt.Errorf("remove snapshot record: %w", err)
	}
	if err := syncDir(n.options.Dir); err != nil {
		return err
	}
	n.snapshots.record = snapshotRecord{}
	return nil
}

// The library's names in the stable store.
var keyCurrentTerm = []byte("CurrentTerm")

// firstTerm is the term of the first entry; the first election is for the next one.
const firstTerm = 1

// form writes the first entry of a new group. It may be repeated after a crash in the middle, which the library's own
// function cannot.
func (n *Node) form() error {
	servers := []raft.Server{{Suffrage: raft.Voter, ID: n.self, Address: localAddress}}
	if len(n.options.Voters) > 0 {
		servers = servers[:0]
		for _, voter := range n.options.Voters {
			servers = append(servers, raft.Server{
				Suffrage: raft.Voter, ID: serverID(voter.ID), Address: raft.ServerAddress(voter.Address)})
		}
	}
	term, err := n.log.GetUint64(keyCurrentTerm)
	if err != nil {
		return fmt.Errorf("read term: %w", err)
	}
	if term < firstTerm {
		if err := n.log.SetUint64(keyCurrentTerm, firstTerm); err != nil {
			return fmt.Errorf("write term: %w", err)
		}
	}
	err = n.log.StoreLog(&raft.Log{
		Index: 1, Term: firstTerm, Type: raft.LogConfiguration,
		Data: raft.EncodeConfiguration(raft.Configuration{Servers: servers}),
	})
	if err != nil {
		return fmt.Errorf("write first entry: %w", err)
	}
	return nil
}
