package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// runOnce opens a node, has the numbers from..to applied one entry each, and closes it.
func runOnce(t *testing.T, o Options, machine *recorder, from, to uint64) {
	t.Helper()
	n, err := Open(o, machine)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i <= to; i++ {
		mustPropose(t, n, extend(i))
		wantNumbers(t, machine, i)
	}
	closeNode(t, n)
}

func logFilesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(files) == 0 {
		t.Fatalf("log files: %v %v", files, err)
	}
	return files
}

func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := file.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := file.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantDamage opens the directory and wants ErrDamaged with a text that has all the words.
func wantDamage(t *testing.T, o Options, machine StateMachine, words ...string) {
	t.Helper()
	n, err := Open(o, machine)
	if err == nil {
		closeNode(t, n)
		t.Fatal("the directory is accepted")
	}
	if !errors.Is(err, ErrDamaged) {
		t.Fatalf("err = %v, want ErrDamaged", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Fatalf("err = %v, want it to name %q", err, word)
		}
	}
}

func TestEveryFlippedByteOfTheLogIsFoundAtBoot(t *testing.T) {
	o := testOptions(t)
	o.fileBytes = 4096
	machine := &recorder{}
	runOnce(t, o, machine, 1, 60)
	files := logFilesIn(t, o.Dir)
	if len(files) < 3 {
		t.Fatalf("%d files, want several", len(files))
	}
	meta, err := openMeta(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files[:2] {
		original, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for offset := int64(0); offset < int64(len(original)); offset += 3 {
			if allZero(original[offset:]) {
				break // never written
			}
			flip(t, path, offset)
			_, err = verifyLog(o.Dir, meta.files())
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Fatalf("byte %d of %s: err = %v", offset, filepath.Base(path), err)
			}
			flip(t, path, offset)
		}
	}
}

func TestFlippedByteInTheOpenFileNamesFileAndIndex(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	runOnce(t, o, machine, 1, 30)
	path := logFilesIn(t, o.Dir)[0]
	flip(t, path, 400)
	wantDamage(t, o, machine, filepath.Base(path), "log entry")
}

func TestTornEndOfTheLogIsCut(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	runOnce(t, o, machine, 1, 10)
	held, _ := machine.AppliedIndex()
	path := logFilesIn(t, o.Dir)[0]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(data)
	for end > 0 && data[end-1] == 0 {
		end--
	}
	// An append of which only a part reached the disk: a frame without its commit frame.
	end = (end + 7) / 8 * 8
	torn := append([]byte{frameEntry, 0, 0, 0, 64, 0, 0, 0}, strings.Repeat("torn ", 10)...)
	copy(data[end:], torn)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	n := openNode(t, o, machine)
	if status := n.Status(); status.LastIndex != held {
		t.Fatalf("the log ends at %d, want %d", status.LastIndex, held)
	}
	mustPropose(t, n, extend(11))
	wantNumbers(t, machine, 11)
}

func TestLogThatEndsBelowTheStoreIsRefused(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	runOnce(t, o, machine, 1, 10)
	held, term := machine.AppliedIndex()
	wantDamage(t, o, &recorder{index: held + 5, term: term}, ".wal", fmt.Sprint(held), fmt.Sprint(held+5))
	wantDamage(t, o, &recorder{index: held, term: term + 1}, fmt.Sprintf("entry %d", held))
}

func TestMissingFilesAreNamed(t *testing.T) {
	o := testOptions(t)
	o.fileBytes = 4096
	machine := &recorder{}
	runOnce(t, o, machine, 1, 60)
	files := logFilesIn(t, o.Dir)
	for _, name := range []string{filepath.Base(files[0]), filepath.Base(files[1]), metaFile} {
		copied := o
		copied.Dir = killCopy(t, o.Dir)
		if err := os.Remove(filepath.Join(copied.Dir, name)); err != nil {
			t.Fatal(err)
		}
		wantDamage(t, copied, machine, name)
	}
	copied := o
	copied.Dir = t.TempDir()
	wantDamage(t, copied, machine, metaFile)
}

func TestUnreadableRecordsAreNamed(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	runOnce(t, o, machine, 1, 5)
	for _, name := range []string{metaFile, snapshotFile} {
		copied := o
		copied.Dir = killCopy(t, o.Dir)
		flip(t, filepath.Join(copied.Dir, name), 12)
		wantDamage(t, copied, machine, name)
	}
}

func TestCrashBetweenSealAndRotationKeepsTheLogWritable(t *testing.T) {
	o := testOptions(t)
	o.fileBytes = 4096
	machine := &recorder{}
	runOnce(t, o, machine, 1, 60)
	// As if the process had died before the list of files said that the last but one is full.
	meta, err := openMeta(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	files := meta.files()
	last := files[len(files)-1]
	if err := os.Remove(filepath.Join(o.Dir, last.name())); err != nil {
		t.Fatal(err)
	}
	record := meta.record
	record.NextFile = last.ID
	record.Files = files[:len(files)-1]
	open := &record.Files[len(record.Files)-1]
	end := open.MaxIndex
	open.MaxIndex, open.IndexStart, open.Sealed = 0, 0, time.Time{}
	if err := meta.replace(record); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(o.Dir, snapshotFile)); err != nil {
		t.Fatal(err)
	}
	behind := &recorder{}
	n := openNode(t, o, behind)
	if got := n.Status().LastIndex; got < end {
		t.Fatalf("the log ends at %d, want %d", got, end)
	}
	waitLeader(t, n)
	for i := uint64(1000); i < 1100; i++ {
		mustPropose(t, n, extend(i))
	}
	eventually(t, "applying", func() bool {
		numbers := behind.numbers()
		return len(numbers) > 100 && numbers[len(numbers)-1] == 1099
	})
}

// Whatever the bytes of a log file are, verifying it ends with an answer.
func FuzzVerifyLogFile(f *testing.F) {
	head := make([]byte, fileHead)
	binary.LittleEndian.PutUint64(head, fileMagic)
	binary.LittleEndian.PutUint64(head[headBaseIndex:], 1)
	binary.LittleEndian.PutUint64(head[headCodec:], recordCodecID)
	var record bytes.Buffer
	if err := (recordCodec{}).Encode(&raft.Log{Index: 1, Term: 1, Type: raft.LogNoop}, &record); err != nil {
		f.Fatal(err)
	}
	frame := binary.LittleEndian.AppendUint32([]byte{frameEntry, 0, 0, 0}, uint32(record.Len()))
	file := append(append(head, frame...), record.Bytes()...)
	for len(file)%frameAlign != 0 {
		file = append(file, 0)
	}
	commit := binary.LittleEndian.AppendUint32([]byte{frameCommit, 0, 0, 0}, crc32.Checksum(file, castagnoli))
	f.Add(append(file, commit...), false)
	f.Add(file, true)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		info := fileRecord{BaseIndex: 1, MinIndex: 1, SizeLimit: 4096}
		if sealed {
			info.MaxIndex, info.Sealed = 1, time.Unix(1, 0)
		}
		if err := os.WriteFile(filepath.Join(dir, info.name()), data, 0o644); err != nil {
			t.Fatal(err)
		}
		report, err := verifyLog(dir, []fileRecord{info})
		switch {
		case err != nil && !errors.Is(err, ErrDamaged):
			t.Fatalf("undeclared error %v", err)
		case err == nil && report.tornBytes > 0:
			// What was cut once is whole.
			again, err := verifyLog(dir, []fileRecord{info})
			if err != nil || again.tornBytes > 0 || again.end != report.end {
				t.Fatalf("after the cut: %+v %v", again, err)
			}
		}
	})
}
