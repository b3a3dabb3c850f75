package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

const (
	// logLineMaxBytes is longer than any line of a log.
	logLineMaxBytes = 1 << 20
	// logTailBytes is how much of each log an error quotes.
	logTailBytes = 3 << 10
	// logFindings is how many lines of one log are reported.
	logFindings = 5
)

// crashMarks begin the lines in which the Go runtime says farewell.
var crashMarks = []string{"panic: ", "fatal error: ", "SIGSEGV", "unexpected fault address"}

// defects are phrases that no log may hold, whatever their level: the broker recovers from these, and they are bugs.
var defects = []string{"actor restarted", "BUG:"}

// CheckLogs reads all that the nodes have logged and reports what nobody expects: crashes, signs of a defect, and lines of the level
// ERROR that hold none of the expected phrases.
func (c *Cluster) CheckLogs(expected ...string) error {
	var all []error
	for _, node := range c.nodes {
		content, err := os.ReadFile(node.broker.LogPath())
		if errors.Is(err, os.ErrNotExist) {
			continue // it was never started
		}
		if err != nil {
			return fmt.Errorf("read log of node %d: %w", node.ID, err)
		}
		found, err := unexpected(content, expected)
		if err != nil {
			return fmt.Errorf("read log of node %d: %w", node.ID, err)
		}
		for i, line := range found {
			if i == logFindings {
				all = append(all, fmt.Errorf("node %d logged %d more", node.ID, len(found)-logFindings))
				break
			}
			all = append(all, fmt.Errorf("node %d logged: %.600s", node.ID, line))
		}
	}
	return errors.Join(all...)
}

// unexpected picks the lines out of a log.
func unexpected(content []byte, expected []string) ([]string, error) {
	contains := func(line string, phrases []string) bool {
		return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(line, phrase) })
	}
	var found []string
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, logLineMaxBytes)
	for lines.Scan() {
		line := lines.Text()
		crash := slices.ContainsFunc(crashMarks, func(mark string) bool { return strings.HasPrefix(line, mark) })
		if crash || contains(line, defects) || levelOf(line) == "ERROR" && !contains(line, expected) {
			found = append(found, line)
		}
	}
	return found, lines.Err()
}

// levelOf reads the second word of a line of text (operations.md 3.6).
func levelOf(line string) string {
	_, rest, _ := strings.Cut(line, " ")
	level, _, _ := strings.Cut(rest, " ")
	return level
}

// Logged counts the lines of a node that hold all of the phrases, over all of its starts.
func (n *Node) Logged(phrases ...string) (int, error) {
	content, err := os.ReadFile(n.broker.LogPath())
	if err != nil {
		return 0, fmt.Errorf("read log of node %d: %w", n.ID, err)
	}
	count := 0
	for line := range bytes.Lines(content) {
		if !slices.ContainsFunc(phrases, func(phrase string) bool { return !bytes.Contains(line, []byte(phrase)) }) {
			count++
		}
	}
	return count, nil
}

// tail is the end of a log without the settings that each start lists.
func tail(content []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(content) {
		if !bytes.Contains(line, []byte("INFO queen: config: ")) {
			kept = append(kept, line...)
		}
	}
	return kept[max(0, len(kept)-logTailBytes):]
}

// LogTails quotes the end of every log, as an error for a failed start.
func (c *Cluster) LogTails() error {
	var all []error
	for _, node := range c.nodes {
		content, err := os.ReadFile(node.broker.LogPath())
		if err != nil {
			continue // it was never started
		}
		all = append(all, fmt.Errorf("node %d:\n%s", node.ID, tail(content)))
	}
	return errors.Join(all...)
}
