package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// frame is the rows of one interval, encoded: memory holds them as the file does.
type frame struct {
	Span
	rows int
	data []byte
}

func frameOf(span Span, rows [][]byte) frame {
	f := frame{Span: span, rows: len(rows)}
	for _, row := range rows {
		f.data = append(f.data, row...)
	}
	return f
}

// A file is magic and then, per frame: length and CRC-32C of the payload, 4 bytes each, and the payload: start in Unix
// milliseconds, length in milliseconds, number of rows (varints), rows.
const (
	magic           = "QHIST\x00\x00\x01"
	frameHeadBytes  = 8
	maxPayloadBytes = 1 << 28
	// maxFileBytes is the largest file that is read at the start.
	maxFileBytes = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (f *frame) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, frameHeadBytes)...)
	dst = binary.AppendUvarint(dst, uint64(f.StartMs))
	dst = binary.AppendUvarint(dst, uint64(f.EndMs-f.StartMs))
	dst = binary.AppendUvarint(dst, uint64(f.rows))
	dst = append(dst, f.data...)
	payload := dst[at+frameHeadBytes:]
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(payload, castagnoli))
	return dst
}

// errTorn is returned for bytes that are not a whole frame.
var errTorn = errors.New("history file holds something that is no frame")

// nextFrame reads the first frame of some bytes and returns what follows it.
func nextFrame(data []byte) (f frame, rest []byte, err error) {
	if len(data) < frameHeadBytes {
		return f, nil, errTorn
	}
	size, sum := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
	data = data[frameHeadBytes:]
	if size > maxPayloadBytes || int(size) > len(data) || crc32.Checksum(data[:size], castagnoli) != sum {
		return f, nil, errTorn
	}
	d := decoder{data: data[:size]}
	start, length, rows := d.number(), d.number(), d.number()
	if d.failed || start > 1<<62 || length > 1<<62 || rows > uint64(len(d.data)) {
		return f, nil, errTorn
	}
	f.StartMs, f.EndMs, f.rows = int64(start), int64(start+length), int(rows)
	f.data = slices.Clone(d.data)
	return f, data[size:], nil
}

// journal keeps frames in memory, bounded by age and rows, and in a file. append, open and close belong to one goroutine;
// between may be called by any.
type journal struct {
	name    string
	keep    time.Duration
	maxRows int
	log     zerolog.Logger

	mu     sync.RWMutex
	frames []frame
	rows   int
	bytes  int64 // of the frames, as the file holds them

	path      string
	file      *os.File
	fileBytes int64
	failing   bool
}

// open reads the file at a path and goes on with it.
func (j *journal) open(path string) {
	j.path = path
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		j.report(fmt.Errorf("create history directory: %w", err))
		return
	}
	frames, err := readFrames(path)
	for i := range frames {
		j.admit(frames[i])
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err != nil:
		j.log.Warn().Str("target", "history").Str("file", j.name).Int("rows", j.rows).Err(err).
			Msg("history: a file could not be read to its end; what follows is lost")
	default:
		if j.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o640); err == nil {
			j.fileBytes = int64(len(magic)) + j.bytes
			return
		}
	}
	j.report(j.rewrite())
}

// readFrames returns the frames of a file up to the first that cannot be read.
func readFrames(path string) ([]frame, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look up history file: %w", err)
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("read history file of %d bytes: more than %d", info.Size(), maxFileBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read history file: %w", err)
	}
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return nil, fmt.Errorf("read history file: %w", errTorn)
	}
	data = data[len(magic):]
	var frames []frame
	for len(data) > 0 {
		f, rest, err := nextFrame(data)
		if err != nil {
			return frames, fmt.Errorf("read frame %d of history file: %w", len(frames), err)
		}
		frames, data = append(frames, f), rest
	}
	return frames, nil
}

func (j *journal) admit(f frame) {
	j.frames = append(j.frames, f)
	j.rows += f.rows
	j.bytes += f.fileBytes()
}

func (f *frame) fileBytes() int64 {
	var number [binary.MaxVarintLen64]byte
	size := frameHeadBytes + len(f.data)
	for _, n := range []uint64{uint64(f.StartMs), uint64(f.EndMs - f.StartMs), uint64(f.rows)} {
		size += binary.PutUvarint(number[:], n)
	}
	return int64(size)
}

// append adds a frame, to memory in any case, and drops what is too old or too much.
func (j *journal) append(now time.Time, f frame) {
	j.mu.Lock()
	j.admit(f)
	j.mu.Unlock()
	j.evict(now)
	if j.path != "" {
		j.report(j.write(&f))
	}
}

// evict drops the oldest frames beyond the bounds.
func (j *journal) evict(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	oldest := now.Add(-j.keep).UnixMilli()
	gone := 0
	for gone < len(j.frames) && (j.rows > j.maxRows || j.frames[gone].EndMs < oldest) {
		j.rows -= j.frames[gone].rows
		j.bytes -= j.frames[gone].fileBytes()
		gone++
	}
	j.frames = slices.Delete(j.frames, 0, gone)
}

// slackBytes is how much of a file may be dropped frames before it is written anew, besides as much as it holds live ones.
const slackBytes = 1 << 20

func (j *journal) write(f *frame) error {
	if j.file == nil || j.fileBytes > 2*j.bytes+slackBytes {
		return j.rewrite() // with this frame: it is in memory already
	}
	encoded := f.append(nil)
	if _, err := j.file.Write(encoded); err != nil {
		// Part of the frame may be in the file: the next one writes the file anew.
		return errors.Join(fmt.Errorf("append to history file: %w", err), j.drop())
	}
	j.fileBytes += int64(len(encoded))
	return nil
}

// rewrite writes the file anew with the frames in memory, beside the old one, and puts it in its place.
func (j *journal) rewrite() error {
	if err := j.drop(); err != nil {
		return err
	}
	temporary := j.path + ".new"
	file, err := os.Create(temporary)
	if err != nil {
		return fmt.Errorf("create history file: %w", err)
	}
	size, err := j.fill(file)
	if err == nil {
		err = os.Rename(temporary, j.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write history file: %w", err), file.Close(), os.Remove(temporary))
	}
	j.file, j.fileBytes = file, size
	return nil
}

func (j *journal) fill(file *os.File) (size int64, err error) {
	write := func(data []byte) {
		if err == nil {
			_, err = file.Write(data)
			size += int64(len(data))
		}
	}
	write([]byte(magic))
	var buffer []byte
	for i := range j.frames { // read without the lock by the one goroutine that changes them
		buffer = j.frames[i].append(buffer[:0])
		write(buffer)
	}
	if err == nil {
		err = file.Sync()
	}
	return size, err
}

func (j *journal) drop() error {
	file := j.file
	j.file = nil
	if file == nil {
		return nil
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("close history file: %w", err)
	}
	return nil
}

func (j *journal) close() { j.report(j.drop()) }

// report warns when writing begins to fail, and once more when it works again.
func (j *journal) report(err error) {
	switch {
	case err != nil && !j.failing:
		j.log.Warn().Str("target", "history").Str("file", j.name).Err(err).
			Msg("history: rows are kept in memory only, the file cannot be written")
	case err == nil && j.failing:
		j.log.Info().Str("target", "history").Str("file", j.name).Msg("history: the file is written again")
	}
	j.failing = err != nil
}

// between returns the frames that begin in a span. Their bytes are shared and never change.
func (j *journal) between(fromMs, toMs int64) []frame {
	j.mu.RLock()
	defer j.mu.RUnlock()
	var found []frame
	for i := range j.frames {
		if f := &j.frames[i]; f.StartMs >= fromMs && f.StartMs < toMs {
			found = append(found, *f)
		}
	}
	return found
}
