package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// readyWithin bounds a start: a one-voter broker is ready in well under a second, a busy machine may need more.
	readyWithin = 30 * time.Second
	// stopWithin bounds an orderly stop; the broker drains for at most its own QUEEN_SHUTDOWN_DRAIN_MS.
	stopWithin = 40 * time.Second
	// readyPollEvery is the pause between two looks at /health during a start.
	readyPollEvery = 20 * time.Millisecond
	// portTries is how many free ports a start may find taken.
	portTries = 5
	// logTailBytes is how much of the log an error of a failed start quotes.
	logTailBytes = 4 << 10
)

// Build compiles the broker into dir and returns the path of the binary. It must run inside the module.
func Build(dir string) (string, error) {
	binary := filepath.Join(dir, "queen")
	output, err := exec.Command("go", "build", "-o", binary, "queen/cmd/queen").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build queen: %w\n%s", err, output)
	}
	return binary, nil
}

// productFolders hold what the broker is made of.
var productFolders = []string{"actors", "cmd", "httpfront", "raftlog", "store"}

// LookAtSources stats every source file of the broker. The tests do not import it, so that without this go test would repeat
// a result of before a change. It notes which files a test looks at; a TestMain is too early for it.
func LookAtSources() error {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	look := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, err = os.Stat(path)
		return err
	}
	for _, folder := range productFolders {
		if err := filepath.WalkDir(filepath.Join(strings.TrimSpace(string(module)), folder), look); err != nil {
			return fmt.Errorf("look at the sources: %w", err)
		}
	}
	return nil
}

// Options says how a broker is started. The zero value of each optional field means its default.
type Options struct {
	Binary string            // required: the path Build returned
	Dir    string            // required: an existing directory for data and log; kept across restarts
	Env    map[string]string // environment variables on top of PORT, QUEEN_BIND_ADDR and QUEEN_RAFT_DIR
}

// Broker is one broker process with its data directory. Its methods are called from one goroutine at a time; the
// clients it hands out may be used from any.
type Broker struct {
	options Options
	port    int
	process *process
}

// process is one run of the binary: done is closed once it has been waited for, err is then its exit status.
type process struct {
	command *exec.Cmd
	done    chan struct{}
	err     error
}

// Prepare chooses a free port for a broker and starts nothing: for a test that has to name the address first.
func Prepare(options Options) (*Broker, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	return &Broker{options: options, port: port}, nil
}

// Start runs a broker on a free port and returns once its /health answers 200. A port that somebody else has taken
// meanwhile says nothing about the broker: it gets another one.
func Start(options Options) (*Broker, error) {
	for tries := 1; ; tries++ {
		broker, err := Prepare(options)
		if err != nil {
			return nil, err
		}
		err = broker.Start()
		if err == nil {
			return broker, nil
		}
		if tries == portTries || !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			return nil, err
		}
	}
}

// URL is the base address, without a trailing slash. It stays the same across restarts.
func (b *Broker) URL() string { return "http://" + b.Address() }

// Address is host:port of the HTTP listener, for tests that speak over a bare socket.
func (b *Broker) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// LogPath is the file that receives everything the process prints, over all restarts.
func (b *Broker) LogPath() string { return filepath.Join(b.options.Dir, "queen.log") }

// Client returns a client of this broker. It may be kept across restarts.
func (b *Broker) Client() *Client { return NewClient(b.URL()) }

// DataDir is the data directory of the process (QUEEN_RAFT_DIR).
func (b *Broker) DataDir() string { return filepath.Join(b.options.Dir, "data") }

// PID is the id of the running process.
func (b *Broker) PID() int { return b.process.command.Process.Pid }

// Env is an environment variable of the next start, "" where the options and SetEnv name none.
func (b *Broker) Env(name string) string { return b.options.Env[name] }

// SetEnv changes an environment variable of the next start.
func (b *Broker) SetEnv(name, value string) {
	env := map[string]string{name: value}
	for other, kept := range b.options.Env {
		if other != name {
			env[other] = kept
		}
	}
	b.options.Env = env
}

// Running tells whether the process has been started and not been ended by Stop or Kill; it may have ended by itself.
func (b *Broker) Running() bool { return b.process != nil }

// Exited tells whether the process has ended by itself.
func (b *Broker) Exited() bool {
	if b.process == nil {
		return false
	}
	select {
	case <-b.process.done:
		return true
	default:
		return false
	}
}

// Wait waits for a process that is about to end by itself and gives its exit status; -1 stands for a signal. A process that is
// still there after the time is killed.
func (b *Broker) Wait(within time.Duration) (int, error) {
	running := b.process
	if running == nil {
		return 0, errors.New("wait for broker: it is not running")
	}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-running.done:
		b.process = nil
		return running.command.ProcessState.ExitCode(), nil
	case <-timeout.C:
		b.Kill()
		return 0, fmt.Errorf("wait for broker: it runs on after %v\n%s", within, b.logTail())
	}
}

// Launch runs the process on the directory and port of this broker and does not wait for readiness. Start is Launch
// plus the wait.
func (b *Broker) Launch() error {
	if b.process != nil {
		return errors.New("launch broker: it is running")
	}
	log, err := os.OpenFile(b.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open broker log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	command := exec.Command(b.options.Binary, "serve")
	command.Env = b.environment()
	command.Dir = b.options.Dir
	command.Stdout, command.Stderr = log, log
	// Promise 3: a panicking or killed test leaves no broker behind.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start broker: %w", err)
	}
	started := &process{command: command, done: make(chan struct{})}
	go func() { // ends with the process; Stop and Kill wait for it
		started.err = command.Wait()
		close(started.done)
	}()
	b.process = started
	return nil
}

// Start runs the process again on the directory and port of this broker and returns once it is ready. On an error
// the process is gone.
func (b *Broker) Start() error {
	if err := b.Launch(); err != nil {
		return err
	}
	if err := b.awaitReady(); err != nil {
		b.Kill()
		return fmt.Errorf("start broker: %w\n%s", err, b.logTail())
	}
	return nil
}

// Stop ends the process with SIGTERM and waits for it; an exit status other than 0 is an error. Stopping a broker
// that does not run does nothing.
func (b *Broker) Stop() error {
	running := b.process
	if running == nil {
		return nil
	}
	if err := running.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop broker: %w", err)
	}
	timeout := time.NewTimer(stopWithin)
	defer timeout.Stop()
	select {
	case <-running.done:
		b.process = nil
		return running.err
	case <-timeout.C:
		b.Kill()
		return fmt.Errorf("stop broker: it did not exit within %v\n%s", stopWithin, b.logTail())
	}
}

// Kill ends the process with SIGKILL, as a crash does, and waits for it.
func (b *Broker) Kill() {
	running := b.process
	if running == nil {
		return
	}
	_ = running.command.Process.Kill() // an error means that it has exited already
	<-running.done
	b.process = nil
}

// Restart stops the process in order and starts it again.
func (b *Broker) Restart() error {
	if err := b.Stop(); err != nil {
		return err
	}
	return b.Start()
}

// Crash kills the process and starts it again.
func (b *Broker) Crash() error {
	b.Kill()
	return b.Start()
}

func (b *Broker) environment() []string {
	environment := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + b.options.Dir,
		"TMPDIR=" + b.options.Dir,
		"QUEEN_BIND_ADDR=127.0.0.1",
		"PORT=" + strconv.Itoa(b.port),
		"QUEEN_RAFT_DIR=" + b.DataDir(),
	}
	for name, value := range b.options.Env {
		environment = append(environment, name+"="+value)
	}
	return environment
}

func (b *Broker) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	poll := time.NewTicker(readyPollEvery)
	defer poll.Stop()
	client := b.Client()
	defer client.Close()
	last := "no answer"
	for {
		reply := client.DoContext(ctx, Request{Method: http.MethodGet, Path: "/health"})
		switch {
		case reply.Status == http.StatusOK:
			return nil
		case reply.Err == nil:
			last = fmt.Sprintf("status %d %s", reply.Status, reply.Body)
		}
		select {
		case <-b.process.done:
			return fmt.Errorf("it exited before it was ready: %v", b.process.err)
		case <-ctx.Done():
			return fmt.Errorf("it was not ready within %v, last: %s", readyWithin, last)
		case <-poll.C:
		}
	}
}

func (b *Broker) logTail() string {
	content, err := os.ReadFile(b.LogPath())
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-logTailBytes):])
}
