package walkthrough

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// nodeCount is the number of nodes; they are called 1 to nodeCount.
const nodeCount = 3

// commandTimeout bounds one command of a fleet: a stop may take 60 s, and all nodes may have to be waited for.
const commandTimeout = 4 * time.Minute

// fleet keeps three nodes, with the commands that a person would type. Its methods are called from one goroutine at a time,
// except URL.
type fleet interface {
	// Up starts the nodes that do not run, and returns when all are healthy.
	Up() error
	// Start starts one node and returns when it is healthy; Stop stops it in order and waits for it.
	Start(node int) error
	Stop(node int) error
	// Roll replaces one node by the next release and returns when it is healthy.
	Roll(node int) error
	// Log returns what a node has logged so far.
	Log(node int) (string, error)
	// URL is the base address of a node's HTTP port.
	URL(node int) string
	// Remove removes nodes and data, and names what is left.
	Remove() (left []string, err error)
}

// run executes a command and returns what it printed; a failure carries the output.
func run(environ []string, name string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Env = append(os.Environ(), environ...)
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(arguments, " "), err, output)
	}
	return string(output), nil
}

// guard runs a command when this process ends, however it ends: the command waits for the end of a pipe that only this
// process holds open.
type guard struct {
	command *exec.Cmd
	release func() error
}

func newGuard(environ []string, name string, arguments ...string) (*guard, error) {
	command := exec.Command("bash", append([]string{"-c", `cat >/dev/null; exec "$0" "$@"`, name}, arguments...)...)
	command.Env = append(os.Environ(), environ...)
	// Ctrl-C in a terminal ends the test, not its guard.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the pipe of the guard: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return &guard{command: command, release: pipe.Close}, nil
}

// end lets the guard run its command and waits for it.
func (g *guard) end() error { return errors.Join(g.release(), g.command.Wait()) }
