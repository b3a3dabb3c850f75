package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"

	"queen/raftlog/command"
)

// logStore is raft-wal with what it lacks: checked records, a checked list of files, and an end after the first failed
// append. It is the library's log store and stable store. Appends and cuts at the end come from the library's main
// goroutine, cuts at the front from the durable keeper, reads from anywhere.
type logStore struct {
	*wal.WAL
	dir   string
	meta  *metaStore
	files *logFiles
	self  raft.ServerID
	// failed is told about the first failed append.
	failed func(error)
	// appended is told the term, the number and the end of the stamps of every entry, once the log has it.
	appended func(term, number, stampEnd uint64)

	// stampEnd is the smallest stamp that is greater than every stamp in the log.
	stampEnd atomic.Uint64
	// cache has recent entries while there may be followers that ask for them.
	cache logCache
	// noted are the newest memberships in the log.
	noted membershipLog
	// soleVoter says that the newest membership in the log has this node as its only voter. It is set before the library
	// itself learns of that membership, and false when in doubt.
	soleVoter atomic.Bool
}

// openLogStore verifies the log in dir and opens it.
func openLogStore(o *Options, self raft.ServerID, logger hclog.Logger) (*logStore, *logReport, error) {
	meta, err := openMeta(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	report, err := verifyLog(o.Dir, meta.files())
	if err != nil {
		return nil, nil, err
	}
	if report.sealed != nil {
		if err := meta.completeRotation(*report.sealed); err != nil {
			return nil, nil, fmt.Errorf("complete rotation of log: %w", err)
		}
	}
	spare, err := newSpare(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	files := &logFiles{faults: o.fault, flushed: o.observer().LogFlushed, spare: spare}
	store := &logStore{cache: logCache{maxBytes: o.LogCacheBytes}, dir: o.Dir, meta: meta, files: files, self: self, failed: func(error) {}, appended: func(_, _, _ uint64) {}}
	store.WAL, err = wal.Open(o.Dir,
		wal.WithCodec(recordCodec{}),
		wal.WithMetaStore(meta),
		wal.WithSegmentFiler(logFiler{segment.NewFiler(o.Dir, files)}),
		wal.WithSegmentSize(o.fileBytes),
		wal.WithLogger(logger))
	if err != nil {
		spare.close()
		return nil, nil, fmt.Errorf("open log in %s: %w", o.Dir, err)
	}
	store.stampEnd.Store(report.stampEnd)
	if report.configurationIndex > 0 {
		store.noteMembership(report.configurationIndex, report.configuration)
	}
	return store, report, nil
}

// Close closes the log. Nothing is appended any more.
func (s *logStore) Close() error {
	s.files.spare.close()
	return s.WAL.Close()
}

func (s *logStore) noteMembership(index uint64, configuration raft.Configuration) {
	s.noted.add(membership{index, configuration})
	voters, own := 0, false
	for _, server := range configuration.Servers {
		if server.Suffrage == raft.Voter {
			voters++
			own = own || server.ID == s.self
		}
	}
	s.soleVoter.Store(voters == 1 && own)
}

// GetLog implements raft.LogStore.
func (s *logStore) GetLog(index uint64, log *raft.Log) error {
	if s.cache.get(index, log) {
		return nil
	}
	err := s.WAL.GetLog(index, log)
	if err == nil && log.Index != index {
		err = fmt.Errorf("%w: it says that it is entry %d", errBadRecord, log.Index)
	}
	if err == nil || errors.Is(err, raft.ErrLogNotFound) || errors.Is(err, wal.ErrClosed) {
		return err
	}
	return damaged("%s: log entry %d: %w", s.meta.fileOf(index), index, err)
}

// StoreLog implements raft.LogStore.
func (s *logStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	if err := s.store(logs); err != nil {
		s.failed(err)
		return err
	}
	for _, log := range logs {
		switch log.Type {
		case raft.LogCommand:
			if header, count, err := command.DecodeHeader(log.Data); err == nil {
				end := header.StampMicros + uint64(count)
				s.raiseStamp(end)
				term, number := readExtensions(log.Extensions)
				s.appended(term, number, end)
			}
		case raft.LogConfiguration:
			s.noteMembership(log.Index, raft.DecodeConfiguration(log.Data))
		}
	}
	if !s.soleVoter.Load() {
		s.cache.put(logs)
	}
	return nil
}

// store appends, unless an append has failed before. A failure of the file, when there is one, says more than what the
// log store made of it.
func (s *logStore) store(logs []*raft.Log) error {
	if err := s.files.err(); err != nil {
		return err
	}
	if err := s.WAL.StoreLogs(logs); err != nil {
		// The first failure is kept; this one only when there was none.
		_ = s.files.fail("append to log in", s.dir, err)
		return s.files.err()
	}
	return nil
}

// raiseStamp is called by one goroutine at a time.
func (s *logStore) raiseStamp(end uint64) {
	if end > s.stampEnd.Load() {
		s.stampEnd.Store(end)
	}
}

// DeleteRange implements raft.LogStore.
func (s *logStore) DeleteRange(from, to uint64) error {
	last, err := s.LastIndex()
	if err != nil {
		return fmt.Errorf("read last index: %w", err)
	}
	if to >= last {
		// The end of the log goes, and perhaps a membership with it.
		s.soleVoter.Store(false)
		s.noted.cut(from)
		s.cache.drop()
	}
	if err := s.WAL.DeleteRange(from, to); err != nil {
		return fmt.Errorf("cut log from %d to %d: %w", from, to, err)
	}
	return nil
}

// cutTarget returns up to which index the log may be cut: the end of the last of the oldest files of which every entry is
// at or below cuttable, and that lie more than keep entries behind it or by which the log is larger than maxBytes. Files go
// as a whole; cutting inside one would free nothing. 0 is nothing to cut.
func (s *logStore) cutTarget(durable, cuttable, keep uint64, maxBytes int64) uint64 {
	files := s.meta.files()
	var bytes int64
	for i := range files {
		bytes += int64(files[i].IndexStart)
	}
	target := uint64(0)
	for i := range files {
		file := &files[i]
		if !file.sealed() || file.MaxIndex > cuttable || (file.MaxIndex+keep > durable && bytes <= maxBytes) {
			break
		}
		bytes -= int64(file.IndexStart)
		target = file.MaxIndex
	}
	return target
}

// cut removes the entries up to the target.
func (s *logStore) cut(target uint64) error {
	first, err := s.FirstIndex()
	if err != nil {
		return fmt.Errorf("read first index: %w", err)
	}
	return s.DeleteRange(first, target)
}

// size returns the bytes that the log takes on disk, and the number of its files.
func (s *logStore) size() (bytes int64, files int) {
	for _, file := range s.meta.files() {
		if info, err := os.Stat(filepath.Join(s.dir, file.name())); err == nil {
			bytes += info.Size()
			files++
		}
	}
	return bytes, files
}
