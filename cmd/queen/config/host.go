package config

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The two places of the data directory when QUEEN_RAFT_DIR is not set (cluster 1.3).
const (
	PackagedDirectory = "/var/lib/queen/raft"
	LocalDirectory    = "./queen-data"
)

// Host holds the facts about the machine on which defaults depend. ThisHost reads them; tests make their own.
type Host struct {
	// Hostname is the variable HOSTNAME; empty when it is not set.
	Hostname string
	// RandomID stands in the server id of a node without HOSTNAME: 8 hex characters.
	RandomID string
	// Writable tells whether a directory exists and this process may create files in it.
	Writable func(directory string) bool
}

// ThisHost reads the facts of the machine the process runs on. It writes nothing.
func ThisHost() (Host, error) {
	var random [4]byte
	if _, err := rand.Read(random[:]); err != nil {
		return Host{}, fmt.Errorf("draw server id: %w", err)
	}
	return Host{Hostname: os.Getenv("HOSTNAME"), RandomID: hex.EncodeToString(random[:]), Writable: writableDirectory}, nil
}

// writableDirectory asks the kernel instead of creating a file: the question must leave nothing behind, and `config check`
// runs beside a serving node.
func writableDirectory(directory string) bool {
	info, err := os.Stat(directory)
	if err != nil || !info.IsDir() {
		return false
	}
	return unix.Faccessat(unix.AT_FDCWD, directory, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}

func (h Host) serverID() string {
	if h.Hostname != "" {
		return h.Hostname
	}
	return "queen-" + h.RandomID
}

func (h Host) directory() string {
	if h.Writable != nil && h.Writable(PackagedDirectory) {
		return PackagedDirectory
	}
	return LocalDirectory
}

const (
	allowedName = "1 to 128 bytes"
	// maxNameBytes bounds the names that appear in metric labels.
	maxNameBytes = 128
)

func isName(text string) bool { return text != "" && len(text) <= maxNameBytes }

// isListen accepts host:port; an empty host means every interface.
func isListen(address string) bool {
	if len(address) > 0 && address[0] == ':' {
		address = "0.0.0.0" + address
	}
	return isHostPort(address)
}
