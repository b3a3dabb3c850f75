package walkthrough

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// composeFile is the file under test.
const composeFile = "../../deploy/compose/three-node/compose.yaml"

// compose is a fleet of three containers, kept by Compose v2. The ports are those of the file, so only one can run at a time.
type compose struct {
	command []string // docker compose, with the options that every call needs
	env     string   // the path of .env
	image   string
	version string // the tag of the first release
	next    string // the tag of the next release
	guard   *guard
}

// composeOptions says what to run.
type composeOptions struct {
	Command string // such as "docker compose"
	Image   string
	Version string // a tag of Image that is here
	Next    string // another
	Parent  string // an existing directory, for .env
}

func newCompose(options composeOptions) (*compose, error) {
	file, err := filepath.Abs(composeFile)
	if err != nil {
		return nil, fmt.Errorf("find compose.yaml: %w", err)
	}
	c := &compose{env: filepath.Join(options.Parent, ".env"), image: options.Image, version: options.Version, next: options.Next}
	// A project of its own: a trial cluster that runs here keeps its containers and volumes.
	c.command = append(strings.Fields(options.Command), "--env-file", c.env, "-f", file, "-p", "queen-walkthrough")
	token := make([]byte, 32)
	if _, err := rand.Read(token); err != nil {
		return nil, fmt.Errorf("make a token: %w", err)
	}
	content := fmt.Sprintf("QUEEN_RAFT_TOKEN=%s\nQUEEN_IMAGE=%s\nQUEEN_VERSION=%s\n", hex.EncodeToString(token), c.image, c.version)
	if err := os.WriteFile(c.env, []byte(content), 0o600); err != nil {
		return nil, fmt.Errorf("write .env: %w", err)
	}
	down := append(c.command[1:len(c.command):len(c.command)], "down", "-v")
	if c.guard, err = newGuard(nil, c.command[0], down...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *compose) call(arguments ...string) (string, error) {
	return run(nil, c.command[0], append(c.command[1:len(c.command):len(c.command)], arguments...)...)
}

func service(node int) string { return "queen-" + strconv.Itoa(node) }

// Up implements fleet.
func (c *compose) Up() error {
	_, err := c.call("up", "-d", "--wait", "--no-build")
	return err
}

// Start implements fleet.
func (c *compose) Start(node int) error {
	_, err := c.call("up", "-d", "--wait", "--no-build", service(node))
	return err
}

// Stop implements fleet.
func (c *compose) Stop(node int) error {
	_, err := c.call("stop", service(node))
	return err
}

// Roll implements fleet: another QUEEN_VERSION in .env, then the loop of operations 2.1.
func (c *compose) Roll(node int) error {
	content, err := os.ReadFile(c.env)
	if err != nil {
		return fmt.Errorf("read .env: %w", err)
	}
	if line := "QUEEN_VERSION=" + c.next + "\n"; !strings.HasSuffix(string(content), line) {
		// The last line of a name wins.
		if err := os.WriteFile(c.env, append(content, line...), 0o600); err != nil {
			return fmt.Errorf("write .env: %w", err)
		}
	}
	return c.Start(node)
}

// Log implements fleet.
func (c *compose) Log(node int) (string, error) { return c.call("logs", "--no-color", service(node)) }

// URL implements fleet.
func (c *compose) URL(node int) string { return fmt.Sprintf("http://127.0.0.1:%d6632", node) }

// Remove implements fleet.
func (c *compose) Remove() ([]string, error) {
	if _, err := c.call("down", "-v"); err != nil {
		return nil, err
	}
	var left []string
	for _, kind := range [][]string{{"ps", "-a"}, {"volume", "ls"}, {"network", "ls"}} {
		output, err := run(nil, "docker", append(kind, "-q", "--filter", "label=com.docker.compose.project=queen-walkthrough")...)
		if err != nil {
			return nil, err
		}
		if output = strings.TrimSpace(output); output != "" {
			left = append(left, kind[0]+" "+output)
		}
	}
	return left, nil
}

// close removes whatever is left and waits for the guard.
func (c *compose) close() error { return c.guard.end() }
