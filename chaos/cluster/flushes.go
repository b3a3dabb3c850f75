package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A static binary has no library in which a flush could be replaced. So the kernel is asked: a launcher installs a filter that
// reports every fsync and fdatasync of the process to the harness, hands the descriptor of the reports over, and becomes the broker.
// The harness lets each flush go on when it likes, or answers it with an error of its own. It needs no privileges.
const (
	// launcherSocket and launcherBinary tell the launcher where to hand the descriptor over and what to become. They do not begin
	// with QUEEN_, which the broker would look at.
	launcherSocket = "CHAOS_FLUSHES_SOCKET"
	launcherBinary = "CHAOS_FLUSHES_BINARY"
	// reportPollMs is how often a supervisor that gets no reports looks whether it is to end.
	reportPollMs = 100
	// auditArch64Bit and auditArchLittleEndian are flags of the architecture in a report.
	auditArch64Bit        = 0x80000000
	auditArchLittleEndian = 0x40000000
)

// Flushes decides over the flushes of one node, over all of its starts. All methods may be called from any goroutine.
type Flushes struct {
	listener *net.UnixListener
	running  sync.WaitGroup
	closed   chan struct{}

	mutex sync.Mutex
	delay time.Duration
	fails unix.Errno
	err   error
}

// Delay makes every flush that begins from now on take so much longer.
func (f *Flushes) Delay(by time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.delay = by
}

// Fail answers every flush from now on with an error and flushes nothing; 0 ends that.
func (f *Flushes) Fail(with unix.Errno) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.fails = with
}

// Close ends the supervision; the process must be gone. The error is the first that kept it from its work.
func (f *Flushes) Close() error {
	close(f.closed)
	_ = f.listener.Close()
	f.running.Wait()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err
}

// superviseFlushes listens for launchers at a path.
func superviseFlushes(socket string) (*Flushes, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for launchers: %w", err)
	}
	f := &Flushes{listener: listener, closed: make(chan struct{})}
	f.running.Go(f.accept)
	return f, nil
}

func (f *Flushes) accept() {
	for {
		launcher, err := f.listener.AcceptUnix()
		if err != nil {
			return
		}
		reports, err := receiveDescriptor(launcher)
		if err != nil {
			f.note(err)
			continue
		}
		f.running.Go(func() {
			f.note(f.supervise(reports))
			_ = unix.Close(reports)
		})
	}
}

func (f *Flushes) note(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// receiveDescriptor takes one descriptor from a launcher.
func receiveDescriptor(launcher *net.UnixConn) (int, error) {
	defer func() { _ = launcher.Close() }()
	rights := make([]byte, unix.CmsgSpace(4))
	_, length, _, _, err := launcher.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return 0, fmt.Errorf("receive descriptor: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:length])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("receive descriptor: %d messages, %w", len(messages), err)
	}
	descriptors, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(descriptors) != 1 {
		return 0, fmt.Errorf("receive descriptor: %d descriptors, %w", len(descriptors), err)
	}
	return descriptors[0], nil
}

// report is struct seccomp_notif, verdict is struct seccomp_notif_resp.
type report struct {
	id           uint64
	pid, flags   uint32
	number, arch uint32
	instruction  uint64
	arguments    [6]uint64
}

type verdict struct {
	id    uint64
	value int64
	error int32
	flags uint32
}

// supervise answers the reports of one process until it is gone.
func (f *Flushes) supervise(reports int) error {
	var answering sync.WaitGroup
	defer answering.Wait()
	for {
		select {
		case <-f.closed:
			return nil
		default:
		}
		poll := []unix.PollFd{{Fd: int32(reports), Events: unix.POLLIN}}
		ready, err := unix.Poll(poll, reportPollMs)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && ready == 0:
			continue
		case err != nil:
			return fmt.Errorf("wait for reports of flushes: %w", err)
		case poll[0].Revents&unix.POLLIN == 0:
			return nil // nobody is left who could report
		}
		var one report
		switch err := ioctl(reports, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&one)); {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINTR): // it was killed meanwhile
			continue
		case err != nil:
			return fmt.Errorf("read report of a flush: %w", err)
		}
		answering.Go(func() { f.answer(reports, one.id) })
	}
}

// answer lets a flush go on after its delay, or refuses it.
func (f *Flushes) answer(reports int, id uint64) {
	f.mutex.Lock()
	delay, fails := f.delay, f.fails
	f.mutex.Unlock()
	if !wait(delay, f.closed) {
		return
	}
	reply := verdict{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if fails != 0 {
		reply = verdict{id: id, error: -int32(fails)}
	}
	// ENOENT: the thread was killed while it waited.
	if err := ioctl(reports, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply)); err != nil && !errors.Is(err, unix.ENOENT) {
		f.note(fmt.Errorf("answer a flush: %w", err))
	}
}

func ioctl(descriptor int, request uintptr, argument unsafe.Pointer) error {
	if _, _, code := unix.Syscall(unix.SYS_IOCTL, uintptr(descriptor), request, uintptr(argument)); code != 0 {
		return code
	}
	return nil
}

// LaunchIfAsked makes the process the launcher of a broker when its environment says so, and does not return then. The
// TestMain of the package calls it first.
func LaunchIfAsked() {
	socket := os.Getenv(launcherSocket)
	if socket == "" {
		return
	}
	err := launch(socket, os.Getenv(launcherBinary))
	fmt.Fprintln(os.Stderr, "launch broker under a filter:", err)
	os.Exit(1)
}

// launch becomes the broker under the filter. It only returns with an error.
func launch(socket, binary string) error {
	runtime.LockOSThread() // the filter belongs to the thread, and the thread becomes the process
	launcher, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("reach the harness: %w", err)
	}
	reports, err := filterFlushes()
	if err != nil {
		return err
	}
	if _, _, err := launcher.WriteMsgUnix([]byte{0}, unix.UnixRights(reports), nil); err != nil {
		return fmt.Errorf("hand the descriptor over: %w", err)
	}
	unix.CloseOnExec(reports)
	environment := make([]string, 0, len(os.Environ()))
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, launcherSocket+"=") && !strings.HasPrefix(variable, launcherBinary+"=") {
			environment = append(environment, variable)
		}
	}
	return unix.Exec(binary, append([]string{binary}, os.Args[1:]...), environment)
}

// filterFlushes installs the filter on this thread and returns the descriptor of its reports.
func filterFlushes() (int, error) {
	arch, err := auditArch()
	if err != nil {
		return 0, err
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		give  = unix.BPF_RET | unix.BPF_K
		// Places in struct seccomp_data.
		atNumber, atArch = 0, 4
	)
	program := []unix.SockFilter{
		{Code: load, K: atArch},
		{Code: equal, K: arch, Jf: 3},
		{Code: load, K: atNumber},
		{Code: equal, K: unix.SYS_FSYNC, Jt: 2},
		{Code: equal, K: unix.SYS_FDATASYNC, Jt: 1},
		{Code: give, K: unix.SECCOMP_RET_ALLOW},
		{Code: give, K: unix.SECCOMP_RET_USER_NOTIF},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("give up new privileges: %w", err)
	}
	// WAIT_KILLABLE_RECV: the signals by which the Go runtime preempts threads do not begin a flush anew.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	descriptor, _, code := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})))
	runtime.KeepAlive(program)
	if code != 0 {
		return 0, fmt.Errorf("install the filter: %w", code)
	}
	return int(descriptor), nil
}

func auditArch() (uint32, error) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.EM_X86_64 | auditArch64Bit | auditArchLittleEndian, nil
	case "arm64":
		return unix.EM_AARCH64 | auditArch64Bit | auditArchLittleEndian, nil
	}
	return 0, fmt.Errorf("no flushes can be slowed down on %s", runtime.GOARCH)
}
