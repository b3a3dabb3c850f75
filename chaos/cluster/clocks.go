package cluster

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A process reads its clock without a system call, from code that the kernel maps into every process (the vDSO). That code lies
// in pages of the process's own as soon as they are written to, as debuggers do for a breakpoint. So the clock of one process
// can be moved: its clock_gettime is replaced by a few instructions that make the system call and add an offset to the answer for
// CLOCK_REALTIME. The offset lies behind them and can be changed at any time. The monotonic clocks stay as they are, as in a machine
// whose wall clock is set.
//
// It needs the right to write to the memory of a child, which Linux gives by default, and amd64.

// movedClock replaces clock_gettime. The clock is in edi, the place for the answer in rsi: seconds, then nanoseconds.
var movedClock = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi (CLOCK_REALTIME)
	0x75, 0x2c, // jne out
	0x48, 0x8b, 0x0d, 0x2e, 0x00, 0x00, 0x00, // mov rcx, [seconds]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0x48, 0x8b, 0x0d, 0x2c, 0x00, 0x00, 0x00, // mov rcx, [nanoseconds]
	0x48, 0x03, 0x4e, 0x08, // add rcx, [rsi+8]
	0x48, 0x81, 0xf9, 0x00, 0xca, 0x9a, 0x3b, // cmp rcx, 1000000000
	0x7c, 0x0a, // jl store
	0x48, 0x81, 0xe9, 0x00, 0xca, 0x9a, 0x3b, // sub rcx, 1000000000
	0x48, 0xff, 0x06, // inc qword [rsi]
	0x48, 0x89, 0x4e, 0x08, // store: mov [rsi+8], rcx
	0xc3, // out: ret
}

// offsetAt is where the offset begins behind the instructions.
const offsetAt = 64

const (
	// stoppedWithin bounds the wait for the threads of a process that is stopped.
	stoppedWithin = 5 * time.Second
	// vdsoFunction is what is replaced.
	vdsoFunction = "__vdso_clock_gettime"
)

// MoveClock sets how far the wall clock of a running node is off, from now on and until the process ends.
func (n *Node) MoveClock(by time.Duration) error {
	if err := moveClock(n.broker.PID(), by); err != nil {
		return fmt.Errorf("move the clock of node %d: %w", n.ID, err)
	}
	return nil
}

func moveClock(pid int, by time.Duration) (err error) {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("no clock can be moved on %s", runtime.GOARCH)
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open memory: %w", err)
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	start, end, err := vdsoOf(pid)
	if err != nil {
		return err
	}
	image := make([]byte, end-start)
	if _, err := memory.ReadAt(image, start); err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	function, err := functionIn(image)
	if err != nil {
		return err
	}
	patch := make([]byte, offsetAt, offsetAt+16)
	copy(patch, movedClock)
	seconds, rest := by/time.Second, by%time.Second
	if rest < 0 {
		seconds, rest = seconds-1, rest+time.Second
	}
	patch = binary.LittleEndian.AppendUint64(patch, uint64(int64(seconds)))
	patch = binary.LittleEndian.AppendUint64(patch, uint64(int64(rest)))
	return whileStopped(pid, start, end, func() error {
		if _, err := memory.WriteAt(patch, start+function); err != nil {
			return fmt.Errorf("write the vDSO: %w", err)
		}
		return nil
	})
}

// vdsoOf finds where the vDSO of a process is mapped.
func vdsoOf(pid int) (start, end int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read mappings: %w", err)
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil {
			return 0, 0, fmt.Errorf("read mapping %q: %w", line, err)
		}
		return start, end, nil
	}
	return 0, 0, errors.New("the process has no vDSO")
}

// functionIn finds the offset of the function in the image, and makes sure that the patch overwrites nothing else.
func functionIn(image []byte) (int64, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read symbols of the vDSO: %w", err)
	}
	at, room := int64(-1), int64(len(image))
	for _, symbol := range symbols {
		if symbol.Name == vdsoFunction {
			at = int64(symbol.Value)
		}
	}
	for _, symbol := range symbols {
		if next := int64(symbol.Value); next > at && elf.ST_TYPE(symbol.Info) == elf.STT_FUNC {
			room = min(room, next)
		}
	}
	if at < 0 || room-at < offsetAt+16 {
		return 0, fmt.Errorf("the vDSO has no room for another %s: from %d to %d", vdsoFunction, at, room)
	}
	return at, nil
}

// whileStopped does something while no thread of the process runs or stands in a range of its code. A process that was stopped before
// stays stopped.
func whileStopped(pid int, start, end int64, act func() error) error {
	for deadline := time.Now().Add(stoppedWithin); time.Now().Before(deadline); {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			return fmt.Errorf("stop process %d: %w", pid, err)
		}
		clear, err := threadsClear(pid, start, end)
		if err == nil && clear {
			err = act()
		}
		err = errors.Join(err, unix.Kill(pid, unix.SIGCONT))
		if err != nil || clear {
			return err
		}
	}
	return fmt.Errorf("process %d does not leave the vDSO within %v", pid, stoppedWithin)
}

// threadsClear tells whether all threads have stopped, outside of a range of addresses.
func threadsClear(pid int, start, end int64) (bool, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		return false, fmt.Errorf("list threads of process %d: %w", pid, err)
	}
	for _, task := range tasks {
		content, err := os.ReadFile(task)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return false, fmt.Errorf("read state of a thread: %w", err)
		}
		fields := strings.Fields(string(content))
		if len(fields) == 1 { // "running"
			return false, nil
		}
		at, err := strconv.ParseInt(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
		if err != nil {
			return false, fmt.Errorf("read state of a thread: %q: %w", content, err)
		}
		if at >= start && at < end {
			return false, nil
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(task), "status"))
		if err == nil && handlesSignal(status) {
			return false, nil // it may have been in the range before, and will return there
		}
	}
	return true, nil
}

// handlesSignal tells from its status whether a thread is in a signal handler of Go's runtime: only there it blocks the signal by which
// the runtime preempts goroutines.
func handlesSignal(status []byte) bool {
	_, rest, found := bytes.Cut(status, []byte("SigBlk:"))
	if !found {
		return false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return err == nil && mask&(1<<(unix.SIGURG-1)) != 0
}
