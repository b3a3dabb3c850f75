package node

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"queen/httpfront/api"
)

// host measures the machine and this process on it, for the members page (cluster 7.3).
type host struct {
	dir     string
	started time.Time

	mu  sync.Mutex
	at  time.Time
	cpu time.Duration
	// percent is the use of one processor between the last two looks.
	percent float64
}

func newHost(dir string) *host {
	now := time.Now()
	return &host{dir: dir, started: now, at: now, cpu: cpuTime()}
}

// cpuLook is the shortest time over which the use of the processor is measured; looks in between see the last value.
const cpuLook = time.Second

func (h *host) cpuPercent(now time.Time) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if passed := now.Sub(h.at); passed >= cpuLook {
		cpu := cpuTime()
		h.percent = 100 * (cpu - h.cpu).Seconds() / passed.Seconds()
		h.at, h.cpu = now, cpu
	}
	return h.percent
}

func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// report describes the machine. What the system does not tell is 0.
func (h *host) report(now time.Time) api.HostReport {
	status, memory := kilobytes("/proc/self/status"), kilobytes("/proc/meminfo")
	report := api.HostReport{
		CPUPercent: h.cpuPercent(now), ResidentBytes: status["VmRSS"], AnonymousBytes: status["RssAnon"], MemoryBytes: memory["MemTotal"],
	}
	var volume unix.Statfs_t
	if err := unix.Statfs(h.dir, &volume); err == nil {
		block := uint64(volume.Bsize)
		report.DiskUsedBytes, report.DiskTotalBytes = (volume.Blocks-volume.Bfree)*block, volume.Blocks*block
	}
	return report
}

// kilobytes reads the lines "Name:   123 kB" of a file, in bytes.
func kilobytes(path string) map[string]uint64 {
	values := map[string]uint64{}
	file, err := os.Open(path)
	if err != nil {
		return values
	}
	defer file.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		if number, isKB := strings.CutSuffix(strings.TrimSpace(rest), " kB"); isKB {
			if value, err := strconv.ParseUint(number, 10, 64); err == nil {
				values[name] = value << 10
			}
		}
	}
	return values
}
