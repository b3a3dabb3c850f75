package raftlog

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func mustSpare(t *testing.T, dir string) *spare {
	t.Helper()
	s, err := newSpare(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestASpareBecomesTheNextFile(t *testing.T) {
	dir := t.TempDir()
	s := mustSpare(t, dir)
	defer s.close()
	next := filepath.Join(dir, "next")
	const size = 2*sparePieceBytes + 7
	if s.take(next, size) {
		t.Fatal("there was a spare before it was asked for")
	}
	s.prepare(size)
	s.prepare(size) // one at a time
	s.work.Wait()
	if s.take(next, size+1) || !s.take(next, size) || s.take(next, size) {
		t.Fatal("a spare is taken once, and by its size")
	}
	data, err := os.ReadFile(next)
	if err != nil || !bytes.Equal(data, make([]byte, size)) {
		t.Fatalf("%d bytes that are not zeros alone, %v", len(data), err)
	}
	s.prepare(size)
	s.work.Wait()
	if !s.take(next, size) {
		t.Fatal("there is no second spare")
	}
}

func TestAnUnfinishedSpareIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	s := mustSpare(t, dir)
	s.prepare(256 << 20) // takes five seconds
	s.close()
	if s.take(filepath.Join(dir, "next"), 256<<20) || exists(s.path) {
		t.Fatal("the spare outlived its maker")
	}
	if err := os.WriteFile(s.path, []byte("of a process that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := mustSpare(t, dir)
	defer again.close()
	if exists(again.path) {
		t.Fatal("the spare of an earlier process is still there")
	}
}

func TestASpareThatFailedIsTriedAgainWithTheNextFile(t *testing.T) {
	dir := t.TempDir()
	s := mustSpare(t, dir)
	defer s.close()
	next := filepath.Join(dir, "next")
	if err := os.Mkdir(s.path, 0o700); err != nil {
		t.Fatal(err)
	}
	const size = 1000
	s.prepare(size)
	s.work.Wait() // and what was in the way is gone
	s.prepare(size)
	s.work.Wait()
	if s.take(next, size) {
		t.Fatal("it was tried again with the same file")
	}
	s.prepare(size)
	s.work.Wait()
	if !s.take(next, size) {
		t.Fatal("it was not tried again")
	}
}

func TestASpareLeavesRoomOnTheVolume(t *testing.T) {
	dir := t.TempDir()
	var volume unix.Statfs_t
	if err := unix.Statfs(dir, &volume); err != nil {
		t.Fatal(err)
	}
	s := mustSpare(t, dir)
	defer s.close()
	s.prepare(int64(volume.Bavail) * volume.Bsize / (spareRoom - 1))
	s.work.Wait() // at once
	if !s.failed || exists(s.path) {
		t.Fatal("a spare was made on a volume that it may fill")
	}
}

func TestALogThatGrowsTakesItsSpare(t *testing.T) {
	o := testOptions(t)
	o.fileBytes = 64 << 10
	machine := &recorder{}
	n := openNode(t, o, machine)
	taken := func() bool {
		s := n.log.files.spare
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.begun
	}
	if !taken() {
		t.Fatal("a log that is empty prepares its second file")
	}
	number := uint64(0)
	grow := func(until func() bool) {
		t.Helper()
		for end := number + 1000; !until(); {
			if number++; number > end {
				t.Fatal("the log has grown by many files")
			}
			mustPropose(t, n, sized(number, 8_000))
			mustPropose(t, n, extend(number))
			wantNumbers(t, machine, number)
		}
	}
	grow(func() bool { return !taken() })
	n.log.files.spare.work.Wait()
	grow(taken)
}
