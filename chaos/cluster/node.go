package cluster

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"queen/chaos/contract/harness"
)

// Node is one member, or one that may become a member. Its methods are called from one goroutine at a time, apart from Client
// and Health.
type Node struct {
	ID     uint64
	broker *harness.Broker
	client *harness.Client
	listen string // the raft address that the process listens on, behind its proxy
	paused bool
	// flushes decides over the flushes of the process; nil unless the options ask for it.
	flushes *Flushes
}

// Client returns a client of this node, which may be kept across restarts. Every request is sent once.
func (n *Node) Client() *harness.Client { return n.client }

// Launch starts the process and does not wait for it.
func (n *Node) Launch() error {
	if err := n.broker.Launch(); err != nil {
		return fmt.Errorf("launch node %d: %w", n.ID, err)
	}
	return nil
}

// LaunchWith is Launch with variables that hold for this one start.
func (n *Node) LaunchWith(env map[string]string) error {
	before := map[string]string{}
	for name, value := range env {
		before[name] = n.broker.Env(name)
		n.broker.SetEnv(name, value)
	}
	err := n.Launch()
	for name, value := range before {
		n.broker.SetEnv(name, value)
	}
	return err
}

// SetEnv changes a variable from the next start on.
func (n *Node) SetEnv(name, value string) { n.broker.SetEnv(name, value) }

// Running tells whether the process is there and not paused.
func (n *Node) Running() bool { return n.broker.Running() && !n.paused }

// Kill ends the process as a crash does.
func (n *Node) Kill() {
	n.broker.Kill()
	n.paused = false
}

// Stop ends the process in order.
func (n *Node) Stop() error {
	if err := n.broker.Stop(); err != nil {
		return fmt.Errorf("stop node %d: %w", n.ID, err)
	}
	return nil
}

// Pause stops the process where it is.
func (n *Node) Pause() error {
	n.paused = true
	return n.signal(unix.SIGSTOP)
}

// Resume lets a paused process go on.
func (n *Node) Resume() error {
	if !n.paused {
		return nil
	}
	n.paused = false
	return n.signal(unix.SIGCONT)
}

func (n *Node) signal(signal unix.Signal) error {
	if err := unix.Kill(n.broker.PID(), signal); err != nil {
		return fmt.Errorf("send signal %v to node %d: %w", signal, n.ID, err)
	}
	return nil
}

// Flushes decides over the flushes of the node; nil unless the cluster was made for it.
func (n *Node) Flushes() *Flushes { return n.flushes }

// Wipe removes the data directory of a node that does not run.
func (n *Node) Wipe() error {
	if n.broker.Running() {
		return fmt.Errorf("wipe node %d: it runs", n.ID)
	}
	if err := os.RemoveAll(n.broker.DataDir()); err != nil {
		return fmt.Errorf("wipe node %d: %w", n.ID, err)
	}
	return nil
}

// Keep copies the data directory of a node that does not run, or is paused, for PutBack.
func (n *Node) Keep() error {
	if n.Running() {
		return fmt.Errorf("copy the directory of node %d: it runs", n.ID)
	}
	if err := os.CopyFS(n.kept(), os.DirFS(n.broker.DataDir())); err != nil {
		return fmt.Errorf("copy the directory of node %d: %w", n.ID, err)
	}
	return nil
}

// PutBack puts the copy that Keep has made in the place of the data directory of a node that does not run.
func (n *Node) PutBack() error {
	if err := n.Wipe(); err != nil {
		return err
	}
	if err := os.Rename(n.kept(), n.broker.DataDir()); err != nil {
		return fmt.Errorf("put the directory of node %d back: %w", n.ID, err)
	}
	return nil
}

func (n *Node) kept() string { return n.broker.DataDir() + "-kept" }

// newNode prepares a node in a directory of its own below the given one.
func newNode(id uint64, options Options, listen string) (*Node, error) {
	dir := filepath.Join(options.Dir, fmt.Sprintf("node-%d", id))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of node %d: %w", id, err)
	}
	env := maps.Clone(options.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, options.EnvOf[id])
	node := &Node{ID: id, listen: listen}
	binary := options.Binary
	var err error
	if options.Flushes {
		socket := filepath.Join(dir, "flushes")
		if node.flushes, err = superviseFlushes(socket); err != nil {
			return nil, fmt.Errorf("prepare node %d: %w", id, err)
		}
		env[launcherSocket], env[launcherBinary] = socket, options.Binary
		if binary, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the launcher of node %d: %w", id, err)
		}
	}
	if node.broker, err = harness.Prepare(harness.Options{Binary: binary, Dir: dir, Env: env}); err != nil {
		return nil, fmt.Errorf("prepare node %d: %w", id, err)
	}
	node.client = node.broker.Client().WithoutResend()
	return node, nil
}

// Clone prepares a second process of a node, on the copy that Keep has made. It listens at an address of its own; the others are where
// they are. The caller kills it.
func (n *Node) Clone(binary string) (*Node, error) {
	port, err := harness.FreePort()
	if err != nil {
		return nil, err
	}
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	clone := &Node{ID: n.ID, listen: listen}
	dir := filepath.Dir(n.broker.DataDir()) + "-clone"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of the clone of node %d: %w", n.ID, err)
	}
	env := map[string]string{"QUEEN_RAFT_LISTEN": listen}
	for _, name := range []string{"QUEEN_RAFT_NODE_ID", "QUEEN_RAFT_PEERS", "QUEEN_RAFT_TOKEN", "QUEEN_SERVER_ID"} {
		env[name] = n.broker.Env(name)
	}
	if clone.broker, err = harness.Prepare(harness.Options{Binary: binary, Dir: dir, Env: env}); err != nil {
		return nil, fmt.Errorf("prepare the clone of node %d: %w", n.ID, err)
	}
	if err := os.Rename(n.kept(), clone.broker.DataDir()); err != nil {
		return nil, fmt.Errorf("give the clone of node %d its directory: %w", n.ID, err)
	}
	clone.client = clone.broker.Client().WithoutResend()
	return clone, nil
}
