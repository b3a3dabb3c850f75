package soak

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Sample is the state of the broker at one instant.
type Sample struct {
	At            time.Duration
	LiveBytes     int64 // retainedBytes of all queues
	BucketBytes   int64 // on disk, message chunks
	MainBytes     int64 // on disk, everything small
	RaftBytes     int64 // on disk, the log
	ResidentBytes int64 // mapped files included, which the kernel takes back when it needs to
	AnonBytes     int64 // resident memory that is the process's own
	Pushed        int64 // messages
	Consumed      int64
	PushP50       time.Duration // since the sample before
	PushP99       time.Duration
}

// String is one line of the record.
func (s Sample) String() string {
	return fmt.Sprintf("%6s: live %4d MiB, disk %4d MiB (buckets %d, main %d, log %d), RSS %4d MiB (own %d), pushed %d, consumed %d, push p50 %v p99 %v",
		s.At.Round(time.Second), s.LiveBytes>>20, s.disk()>>20, s.BucketBytes>>20, s.MainBytes>>20, s.RaftBytes>>20,
		s.ResidentBytes>>20, s.AnonBytes>>20, s.Pushed, s.Consumed, s.PushP50.Round(time.Millisecond/10), s.PushP99.Round(time.Millisecond/10))
}

// disk is what all files hold.
func (s Sample) disk() int64 { return s.BucketBytes + s.MainBytes + s.RaftBytes }

// latencies are those since the last look. One window of a soak holds some thousand at most.
type latencies struct {
	mutex sync.Mutex
	all   []time.Duration
}

func (l *latencies) add(latency time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.all = append(l.all, latency)
}

// take returns the percentiles and starts a new window.
func (l *latencies) take() (p50, p99 time.Duration) {
	l.mutex.Lock()
	window := l.all
	l.all = nil
	l.mutex.Unlock()
	if len(window) == 0 {
		return 0, 0
	}
	slices.Sort(window)
	return window[len(window)/2], window[len(window)*99/100]
}

// diskBytes is what the files below a directory occupy. Files may go while it counts.
func diskBytes(dir string) (int64, error) {
	total := int64(0)
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if stat, is := info.Sys().(*syscall.Stat_t); is {
			total += stat.Blocks * 512 // the unit of st_blocks
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", dir, err)
	}
	return total, nil
}

// memory reads the resident memory of a process: all of it, and what is its own.
func memory(pid int) (resident, anonymous int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(status)) {
		for _, row := range []struct {
			name  string
			bytes *int64
		}{{"VmRSS:", &resident}, {"RssAnon:", &anonymous}} {
			value, found := strings.CutPrefix(line, row.name)
			if !found {
				continue
			}
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("read memory of process %d: %w", pid, err)
			}
			*row.bytes = kilobytes << 10
		}
	}
	if resident == 0 || anonymous == 0 {
		return 0, 0, fmt.Errorf("read memory of process %d: it is not there", pid)
	}
	return resident, anonymous, nil
}

// sample measures everything.
func (s *soak) sample() (Sample, error) {
	now := Sample{At: time.Since(s.started), Consumed: s.consumed.Load()}
	now.PushP50, now.PushP99 = s.latency.take()
	for _, l := range append(append([]*lane(nil), s.churning...), s.aging...) {
		now.Pushed += l.pushed.Load()
	}
	var err error
	if now.LiveBytes, err = s.liveBytes(); err != nil {
		return now, err
	}
	for _, area := range []struct {
		dir   string
		bytes *int64
	}{{"store/buckets", &now.BucketBytes}, {"store/main", &now.MainBytes}, {"raft", &now.RaftBytes}} {
		if *area.bytes, err = diskBytes(filepath.Join(s.options.Data, area.dir)); err != nil {
			return now, err
		}
	}
	now.ResidentBytes, now.AnonBytes, err = memory(s.broker.PID())
	return now, err
}

func (s *soak) liveBytes() (int64, error) {
	var reply struct {
		Queues []struct {
			RetainedBytes int64 `json:"retainedBytes"`
		} `json:"queues"`
	}
	response := s.client.Get("/api/v1/resources/queues")
	if response.Err != nil || response.Status != 200 {
		return 0, fmt.Errorf("list queues: %v", response)
	}
	if err := response.Decode(&reply); err != nil {
		return 0, err
	}
	live := int64(0)
	for _, queue := range reply.Queues {
		live += queue.RetainedBytes
	}
	return live, nil
}
