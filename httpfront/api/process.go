package api

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"queen/httpfront/api/history"
)

// residentBytes is the resident size of this process; 0 when the system does not tell.
func residentBytes() uint64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// liveHeapBytes is what the objects on the heap take.
func liveHeapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// processUsage turns totals into rates between two looks.
type processUsage struct {
	mu       sync.Mutex
	at       time.Time
	cpu      time.Duration
	requests uint64
}

func newProcessUsage(now time.Time) *processUsage { return &processUsage{at: now, cpu: cpuTime()} }

func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// since returns the use of one processor in percent and the requests per second since the last call.
func (u *processUsage) since(now time.Time, requests uint64) (cpuPercent, requestsPerSecond float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	cpu := cpuTime()
	if passed := now.Sub(u.at).Seconds(); passed > 0 {
		cpuPercent = 100 * (cpu - u.cpu).Seconds() / passed
		requestsPerSecond = float64(requests-u.requests) / passed
	}
	u.at, u.cpu, u.requests = now, cpu, requests
	return cpuPercent, requestsPerSecond
}

// describeNode is the row of the node in the history.
func (a *API) describeNode() history.NodeRow {
	var row history.NodeRow
	health := a.node.Health()
	row[history.CPUPercent], row[history.RequestsPerSecond] = a.usage.since(time.Now(), a.stats.Requests.Load())
	row[history.ResidentBytes] = float64(residentBytes())
	row[history.MallocBytes] = float64(liveHeapBytes())
	row[history.LatenessMs] = a.history.LatenessMs()
	row[history.ParkedPolls] = float64(a.broker().Parked())
	row[history.DiskPercent] = health.DiskPercent
	row[history.LogBytes] = float64(health.Status.LogBytes)
	row[history.CommitAgeMs] = float64(max(health.Status.LastCommitMs, 0))
	row[history.WaitingCommands] = float64(health.Status.WaitingCommands)
	return row
}
