package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// frozenWithin bounds the wait for threads that are inside a system call, such as a flush.
	frozenWithin = 10 * time.Second
	// frozenPollEvery is the pause between two looks at the threads.
	frozenPollEvery = time.Millisecond
)

// freeze stops a process and returns once every thread of it has stopped: a thread inside a system call stops when the
// call is over.
func freeze(pid int) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	for deadline := time.Now().Add(frozenWithin); time.Now().Before(deadline); {
		running, err := runningThreads(pid)
		if err != nil {
			return err
		}
		if running == 0 {
			return nil
		}
		<-time.After(frozenPollEvery)
	}
	return fmt.Errorf("process %d did not stop within %v", pid, frozenWithin)
}

// runningThreads counts the threads that have not stopped.
func runningThreads(pid int) (int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("list threads of process %d: %w", pid, err)
	}
	running := 0
	for _, task := range tasks {
		stat, err := os.ReadFile(task)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return 0, fmt.Errorf("read state of thread: %w", err)
		}
		// The state follows the name, which stands in parentheses and may hold anything.
		if i := bytes.LastIndexByte(stat, ')'); i < 0 || i+2 >= len(stat) || stat[i+2] != 'T' {
			running++
		}
	}
	return running, nil
}
