package cluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// flusher flushes a file once and prints how long that took, and its error.
const flusherMark = "CHAOS_TEST_FLUSHER"

func flushIfAsked() {
	path := os.Getenv(flusherMark)
	if path == "" {
		return
	}
	file, err := os.Create(path)
	if err != nil {
		os.Exit(3)
	}
	start := time.Now()
	err = unix.Fdatasync(int(file.Fd()))
	_, _ = os.Stdout.WriteString(strconv.FormatInt(time.Since(start).Milliseconds(), 10))
	if errors.Is(err, unix.ENOSPC) {
		_, _ = os.Stdout.WriteString(" no space")
	}
	os.Exit(0)
}

// TestFlushesAreUnderControl: a process that was launched so waits for its flushes, or gets another answer, from one start to the next.
func TestFlushesAreUnderControl(t *testing.T) {
	dir := directory(t)
	flushes, err := superviseFlushes(filepath.Join(dir, "flushes"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := flushes.Close(); err != nil {
			t.Error(err)
		}
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func() (int64, string) {
		command := exec.Command(self)
		command.Env = append(os.Environ(), launcherSocket+"="+filepath.Join(dir, "flushes"), launcherBinary+"="+self, flusherMark+"="+filepath.Join(dir, "file"))
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		took, rest, _ := strings.Cut(string(output), " ")
		ms, err := strconv.ParseInt(took, 10, 64)
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return ms, rest
	}
	if _, rest := run(); rest != "" {
		t.Errorf("a flush that nobody stops: %q", rest)
	}
	flushes.Delay(300 * time.Millisecond)
	if took, rest := run(); took < 300 || rest != "" {
		t.Errorf("a slow flush took %d ms %q", took, rest)
	}
	flushes.Delay(0)
	flushes.Fail(unix.ENOSPC)
	if _, rest := run(); rest != "no space" {
		t.Errorf("a flush on a full disk: %q", rest)
	}
}
