package walkthrough

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// localCluster is the script under test.
const localCluster = "../../deploy/local/cluster"

// processes is a fleet of three processes, kept by deploy/local/cluster.
type processes struct {
	script    string // its absolute path
	binary    string
	next      string // the binary of the next release
	directory string
	http      [nodeCount]int
	environ   []string // of every command, on top of this process' own
	guard     *guard
}

// processOptions says what to run.
type processOptions struct {
	Binary  string   // required
	Next    string   // the next release; required for Roll
	Parent  string   // required: an existing directory
	Environ []string // more variables of the script and the nodes
}

func newProcesses(options processOptions) (*processes, error) {
	script, err := filepath.Abs(localCluster)
	if err != nil {
		return nil, fmt.Errorf("find the script: %w", err)
	}
	ports, err := freePorts(2 * nodeCount)
	if err != nil {
		return nil, err
	}
	p := &processes{script: script, binary: options.Binary, next: options.Next, directory: filepath.Join(options.Parent, "cluster")}
	copy(p.http[:], ports)
	p.environ = append([]string{
		"CLUSTER_DIR=" + p.directory,
		"CLUSTER_HTTP_PORTS=" + words(ports[:nodeCount]),
		"CLUSTER_RAFT_PORTS=" + words(ports[nodeCount:]),
		"CLUSTER_HEALTHY_WITHIN_S=120", // the walkthrough measures by itself
	}, options.Environ...)
	if p.guard, err = newGuard(p.with(p.binary), script, "wipe"); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *processes) with(binary string) []string {
	return append([]string{"CLUSTER_BINARY=" + binary}, p.environ...)
}

// call runs one command of the script.
func (p *processes) call(arguments ...string) (string, error) {
	return run(p.with(p.binary), p.script, arguments...)
}

// Up implements fleet.
func (p *processes) Up() error {
	_, err := p.call("start")
	return err
}

// Start implements fleet.
func (p *processes) Start(node int) error {
	_, err := p.call("restart", strconv.Itoa(node))
	return err
}

// Stop implements fleet.
func (p *processes) Stop(node int) error {
	_, err := p.call("stop", strconv.Itoa(node))
	return err
}

// Roll implements fleet.
func (p *processes) Roll(node int) error {
	_, err := run(p.with(p.next), p.script, "restart", strconv.Itoa(node))
	return err
}

// Log implements fleet.
func (p *processes) Log(node int) (string, error) {
	content, err := os.ReadFile(filepath.Join(p.home(node), "queen.log"))
	if err != nil {
		return "", fmt.Errorf("read log: %w", err)
	}
	return string(content), nil
}

func (p *processes) home(node int) string {
	return filepath.Join(p.directory, "node-"+strconv.Itoa(node))
}

// URL implements fleet.
func (p *processes) URL(node int) string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(p.http[node-1]))
}

// Remove implements fleet.
func (p *processes) Remove() ([]string, error) {
	if _, err := p.call("wipe"); err != nil {
		return nil, err
	}
	var left []string
	if _, err := os.Stat(p.directory); !os.IsNotExist(err) {
		left = append(left, p.directory)
	}
	for node := 1; node <= nodeCount; node++ {
		address := strings.TrimPrefix(p.URL(node), "http://")
		if connection, err := net.Dial("tcp", address); err == nil {
			left = append(left, "a listener on "+address)
			_ = connection.Close() // it was opened to see whether it opens
		}
	}
	return left, nil
}

// close removes whatever is left and waits for the guard.
func (p *processes) close() error { return p.guard.end() }

func words(numbers []int) string {
	parts := make([]string, len(numbers))
	for i, number := range numbers {
		parts[i] = strconv.Itoa(number)
	}
	return strings.Join(parts, " ")
}

// freePorts finds ports that nobody listens on, below those that the kernel gives to outgoing connections. Nothing holds them
// until the nodes listen: a collision shows as a failed start.
func freePorts(count int) ([]int, error) {
	const first, span, tries = 12_000, 20_000, 100
	var ports []int
	for range tries {
		port := first + rand.IntN(span)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		// Released at the end, so that no port is found twice.
		defer func() { _ = listener.Close() }()
		if ports = append(ports, port); len(ports) == count {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("find %d free ports: %d found", count, len(ports))
}
