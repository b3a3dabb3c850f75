package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
)

// Ports of brokers lie below those that the kernel gives to outgoing connections (32768 and up): one of these would take the
// port of a broker while that restarts.
const (
	firstPort    = 12_000
	ports        = 20_000
	portAttempts = 100
)

// FreePort finds a port that nobody listens on and that no other process of tests has found: it stays free of them until this process
// ends, also while its broker restarts. Another program that takes it shows as a failed start, never as a wrong answer.
func FreePort() (int, error) {
	var last error
	for range portAttempts {
		port := firstPort + rand.IntN(ports)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("release port %d: %w", port, err)
		}
		if last = claim(port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}

// claims keeps what claim has opened from the collector, which would close it.
var claims sync.Map

// claim takes a name of the kernel that stands for the port, for as long as this process lives. Only Linux has such names.
func claim(port int) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	name, err := net.Listen("unix", fmt.Sprintf("@queen-test-port-%d", port))
	if err != nil {
		return fmt.Errorf("claim port %d: %w", port, err)
	}
	claims.Store(port, name)
	return nil
}
