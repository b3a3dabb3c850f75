package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"queen/raftlog/command"
)

// The format of a log file of raft-wal v0.4.1, as far as verifying needs it: a head, then batches. A batch is entry frames,
// an index frame when the file was sealed with it, and a commit frame with the CRC-32C of the batch in front of it. The
// first batch includes the head. Frames begin at multiples of eight.
const (
	fileHead      = 32
	fileMagic     = 0x58eb6b0d
	frameHead     = 8
	frameEntry    = 1
	frameIndex    = 2
	frameCommit   = 3
	frameAlign    = 8
	indexOffset   = 4
	headBaseIndex = 8
	headFileID    = 16
	headCodec     = 24
)

// logReport is what a verified log contains.
type logReport struct {
	// begin and end are the first and the last index. An empty log goes on behind end, and begin is end+1.
	begin, end uint64
	// stampEnd is the smallest stamp that is greater than every stamp in the log.
	stampEnd uint64
	// configuration is the newest membership in the log; configurationIndex is 0 when there is none.
	configuration      raft.Configuration
	configurationIndex uint64
	// tornFile is the file of which tornBytes bytes of an append that was never acknowledged were cut.
	tornFile  string
	tornBytes int
	// sealed is the last file when it was sealed, and the crash came before the list of files said so; nil otherwise.
	sealed *fileRecord
}

// verifyLog reads every log file, checks every byte of it, and cuts a torn end. It returns ErrDamaged for anything else
// that is not what was written.
func verifyLog(dir string, files []fileRecord) (*logReport, error) {
	report := &logReport{begin: 1}
	var buffer []byte
	for i := range files {
		file := &files[i]
		if report.begin > report.end {
			report.begin, report.end = file.BaseIndex, file.BaseIndex-1
		}
		if i > 0 && file.BaseIndex != files[i-1].MaxIndex+1 {
			return nil, damaged("%s: the log has no entries between %d and %d",
				filepath.Join(dir, metaFile), files[i-1].MaxIndex, file.BaseIndex)
		}
		path := filepath.Join(dir, file.name())
		var err error
		buffer, err = readFile(path, buffer)
		if errors.Is(err, os.ErrNotExist) {
			if !file.sealed() {
				// Created when the file before it was full, and lost with its directory entry before anything in it
				// was acknowledged. If something was, the store knows a higher index, which Open compares.
				continue
			}
			return nil, damaged("%s, with the log entries %d to %d, is missing", path, file.BaseIndex, file.MaxIndex)
		}
		if err != nil {
			return nil, fmt.Errorf("verify log: %w", err)
		}
		scan := fileScan{path: path, file: file, data: buffer, report: report, next: file.BaseIndex}
		if err := scan.run(); err != nil {
			return nil, err
		}
	}
	return report, nil
}

func readFile(path string, buffer []byte) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return buffer, err
	}
	defer file.Close() //nolint:errcheck // opened for reading
	info, err := file.Stat()
	if err != nil {
		return buffer, err
	}
	if int64(cap(buffer)) < info.Size() {
		buffer = make([]byte, info.Size())
	}
	buffer = buffer[:info.Size()]
	_, err = io.ReadFull(file, buffer)
	return buffer, err
}

// fileScan walks through one log file.
type fileScan struct {
	path   string
	file   *fileRecord
	data   []byte
	report *logReport
	// next is the index of the next entry.
	next uint64
	// offsets are those of the entry frames, as the index frame must list them; indexStart is where it does.
	offsets    []uint32
	indexStart uint64
}

func (s *fileScan) run() error {
	offset := 0
	for {
		end, sealed, err := s.batch(offset)
		if err != nil {
			return s.broken(offset, err)
		}
		if end == offset {
			return s.finish(offset)
		}
		if err := s.entries(offset, end); err != nil {
			return err
		}
		if sealed {
			return s.checkSealed()
		}
		offset = end
	}
}

// batch finds the batch at the offset and verifies its checksum. It returns where the batch ends: at the offset itself
// when nothing was written there.
func (s *fileScan) batch(start int) (end int, sealed bool, err error) {
	offset := start
	if start == 0 {
		if len(s.data) < fileHead {
			return 0, false, errors.New("the file is shorter than its head")
		}
		if allZero(s.data[:min(len(s.data), fileHead+frameHead)]) {
			return 0, false, nil
		}
		if err := s.checkHead(); err != nil {
			return 0, false, err
		}
		offset = fileHead
	}
	for offset+frameHead <= len(s.data) {
		kind, length, err := readFrame(s.data[offset:])
		if err != nil {
			return 0, false, fmt.Errorf("at byte %d: %w", offset, err)
		}
		switch kind {
		case 0:
			if offset == start {
				return start, false, nil
			}
			return 0, false, fmt.Errorf("at byte %d: the batch does not end", offset)
		case frameCommit:
			stored := binary.LittleEndian.Uint32(s.data[offset+4:])
			if computed := crc32.Checksum(s.data[start:offset], castagnoli); computed != stored {
				return 0, false, fmt.Errorf("bytes %d to %d: checksum %08x, computed %08x", start, offset, stored, computed)
			}
			return offset + frameHead, sealed, nil
		case frameIndex:
			sealed = true
		}
		offset += frameHead + (length+frameAlign-1)/frameAlign*frameAlign
	}
	if offset == start {
		return start, false, nil
	}
	return 0, false, fmt.Errorf("bytes %d to %d: the batch goes beyond the file", start, offset)
}

func (s *fileScan) checkHead() error {
	head := s.data[:fileHead]
	switch {
	case binary.LittleEndian.Uint64(head) != fileMagic:
		return errors.New("the file has another format")
	case binary.LittleEndian.Uint64(head[headBaseIndex:]) != s.file.BaseIndex,
		binary.LittleEndian.Uint64(head[headFileID:]) != s.file.ID,
		binary.LittleEndian.Uint64(head[headCodec:]) != recordCodecID:
		return fmt.Errorf("the head of the file does not fit %s", metaFile)
	}
	return nil
}

// readFrame returns the kind of a frame and the length of its content; kind 0 stands for bytes that were never written.
func readFrame(frame []byte) (kind byte, length int, err error) {
	if allZero(frame[:frameHead]) {
		return 0, 0, nil
	}
	kind = frame[0]
	if kind < frameEntry || kind > frameCommit || frame[1]|frame[2]|frame[3] != 0 {
		return 0, 0, fmt.Errorf("%x is no frame", frame[:frameHead])
	}
	if kind == frameCommit {
		return kind, 0, nil
	}
	length = int(binary.LittleEndian.Uint32(frame[4:]))
	if length > len(frame)-frameHead {
		return 0, 0, fmt.Errorf("a frame of %d bytes does not fit", length)
	}
	return kind, length, nil
}

func allZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// entries reads the records of a batch whose checksum is right.
func (s *fileScan) entries(start, end int) error {
	offset := start
	if start == 0 {
		offset = fileHead
	}
	for offset < end {
		kind, length, err := readFrame(s.data[offset:])
		if err != nil {
			return damaged("%s: %w", s.path, err)
		}
		content := s.data[offset+frameHead : offset+frameHead+length]
		switch kind {
		case frameEntry:
			s.offsets = append(s.offsets, uint32(offset))
			if err := s.entry(content); err != nil {
				return damaged("%s: log entry %d: %w", s.path, s.next, err)
			}
			s.next++
		case frameIndex:
			if err := s.checkIndex(content, uint64(offset+frameHead)); err != nil {
				return err
			}
		}
		offset += frameHead + (length+frameAlign-1)/frameAlign*frameAlign
	}
	return nil
}

func (s *fileScan) checkIndex(content []byte, start uint64) error {
	s.indexStart = start
	if s.file.sealed() && start != s.file.IndexStart {
		return damaged("%s: its index is at byte %d, %s says %d", s.path, start, metaFile, s.file.IndexStart)
	}
	if len(content) != indexOffset*len(s.offsets) {
		return damaged("%s: its index has %d bytes for %d entries", s.path, len(content), len(s.offsets))
	}
	for i, offset := range s.offsets {
		if binary.LittleEndian.Uint32(content[indexOffset*i:]) != offset {
			return damaged("%s: its index is wrong about log entry %d", s.path, s.file.BaseIndex+uint64(i))
		}
	}
	return nil
}

func (s *fileScan) entry(record []byte) error {
	if s.next < s.file.MinIndex || (s.file.sealed() && s.next > s.file.MaxIndex) {
		// Cut from the log, and still in the file because files go as a whole.
		return nil
	}
	view, err := viewRecord(record)
	if err != nil {
		return err
	}
	if view.index != s.next {
		return fmt.Errorf("%w: it says that it is entry %d", errBadRecord, view.index)
	}
	r := s.report
	if r.begin > r.end {
		r.begin = s.next
	}
	r.end = s.next
	switch view.kind {
	case raft.LogCommand:
		header, count, err := command.DecodeHeader(view.data)
		if err != nil && !errors.Is(err, command.ErrUnknownFormat) {
			return err
		}
		r.stampEnd = max(r.stampEnd, header.StampMicros+uint64(count))
	case raft.LogConfiguration:
		r.configuration, r.configurationIndex = raft.DecodeConfiguration(view.data), s.next
	}
	return nil
}

// checkSealed is reached behind the batch that sealed the file.
func (s *fileScan) checkSealed() error {
	if !s.file.sealed() {
		record := *s.file
		record.MaxIndex, record.IndexStart, record.Sealed = s.next-1, s.indexStart, s.file.Created
		s.report.sealed = &record
		return nil
	}
	if s.next <= s.file.MaxIndex {
		return damaged("%s: it ends at log entry %d, %s says %d", s.path, s.next-1, metaFile, s.file.MaxIndex)
	}
	return nil
}

// finish is reached where nothing was written behind the last batch.
func (s *fileScan) finish(offset int) error {
	if s.file.sealed() {
		return damaged("%s: it ends in front of its index, behind log entry %d", s.path, s.next-1)
	}
	if allZero(s.data[offset:]) {
		return nil
	}
	return s.broken(offset, fmt.Errorf("at byte %d: there are bytes behind the last batch", offset))
}

// broken decides what a batch that cannot be read means. A crash can only tear the last append, which nobody has
// acknowledged: it is cut. When a whole batch follows, appends were acknowledged behind this point, so the damage came
// later.
func (s *fileScan) broken(start int, cause error) error {
	if s.file.sealed() {
		return damaged("%s: log entry %d or one behind it: %w", s.path, s.next, cause)
	}
	if at := s.laterBatch(start); at > 0 {
		return damaged("%s: log entry %d or one behind it: %w; a whole append follows at byte %d",
			s.path, s.next, cause, at)
	}
	end := len(s.data)
	for end > start && s.data[end-1] == 0 {
		end--
	}
	if err := cutTail(s.path, int64(start), end-start); err != nil {
		return fmt.Errorf("cut torn end of log: %w", err)
	}
	s.report.tornFile, s.report.tornBytes = s.path, end-start
	return nil
}

// laterBatch returns where a whole batch begins behind the offset; 0 when there is none.
func (s *fileScan) laterBatch(start int) int {
	for offset := start + frameAlign; offset+2*frameHead <= len(s.data); offset += frameAlign {
		if s.data[offset] != frameEntry {
			continue
		}
		if end, _, err := s.batch(offset); err == nil && end > offset {
			return offset
		}
	}
	return 0
}

// cutTail overwrites the torn bytes with zeros, as if they had never been written.
func cutTail(path string, offset int64, bytes int) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(make([]byte, bytes), offset)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}
