package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// usage is what processes have used so far.
type usage struct {
	serverCPU float64 // seconds, user and system
	serverRSS int64   // bytes
	source    string  // where the server's numbers come from; empty: unknown
	ownCPU    float64 // seconds
}

// ticksPerSecond is USER_HZ, which Linux fixes at 100 for everything it shows in /proc.
const ticksPerSecond = 100

// meter reads usage: of the given processes on this machine, else from the metrics that the server exports.
type meter struct {
	pids   []int
	server *connection
}

func (m *meter) read(ctx context.Context) (usage, error) {
	var now usage
	own, err := processCPU("self")
	if err != nil {
		return now, err
	}
	now.ownCPU = own
	for _, pid := range m.pids {
		cpu, err := processCPU(strconv.Itoa(pid))
		if err != nil {
			return now, err
		}
		rss, err := processRSS(pid)
		if err != nil {
			return now, err
		}
		now.serverCPU += cpu
		now.serverRSS += rss
		now.source = "proc"
	}
	if len(m.pids) == 0 && m.server != nil && ctx.Err() == nil {
		m.fromMetrics(&now)
	}
	return now, nil
}

// processCPU returns user plus system time of a process in seconds.
func processCPU(pid string) (float64, error) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, fmt.Errorf("read cpu time of process %s: %w", pid, err)
	}
	return parseStat(stat)
}

// parseStat reads fields 14 and 15. The second field is the command's name in brackets and may hold anything.
func parseStat(stat []byte) (float64, error) {
	const userField, systemField = 11, 12 // after the name
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= systemField {
		return 0, fmt.Errorf("read cpu time: %d fields in stat", len(fields))
	}
	user, err := strconv.ParseInt(string(fields[userField]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read user time: %w", err)
	}
	system, err := strconv.ParseInt(string(fields[systemField]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read system time: %w", err)
	}
	return float64(user+system) / ticksPerSecond, nil
}

func processRSS(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
			}
			return kilobytes << 10, nil
		}
	}
	return 0, nil // a process that is ending has none
}

const metricsTimeout = 2 * time.Second

// fromMetrics fills in what the server says about itself. A server that does not answer or says nothing leaves the usage
// unknown: that is no reason to fail a run.
func (m *meter) fromMetrics(now *usage) {
	request := m.server.newRequest(fasthttp.MethodGet, "/metrics/prometheus")
	_, body, failure := m.server.call(request, nil, metricsTimeout, fasthttp.StatusOK)
	if failure != nil {
		return
	}
	if cpu, found := metric(body, "process_cpu_seconds_total"); found {
		now.serverCPU, now.source = cpu, "metrics"
	}
	for _, name := range []string{"queen_process_resident_memory_bytes", "process_resident_memory_bytes"} {
		if rss, found := metric(body, name); found {
			now.serverRSS = int64(rss)
			return
		}
	}
}

// metric finds the value of a family without labels in a Prometheus text.
func metric(body []byte, name string) (float64, bool) {
	for line := range bytes.Lines(body) {
		rest, found := bytes.CutPrefix(line, []byte(name+" "))
		if !found {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			return 0, false
		}
		value, err := strconv.ParseFloat(string(fields[0]), 64)
		return value, err == nil
	}
	return 0, false
}
