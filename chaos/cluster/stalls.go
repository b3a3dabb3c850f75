package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tickEvery is how often the meter asks for the processor.
	tickEvery = 2 * time.Millisecond
	// flushEvery is the pause between two flushes of the meter.
	flushEvery = 20 * time.Millisecond
	// flushBytes is what it flushes, about an entry of the log.
	flushBytes = 4 << 10
	// flushesPerCommit is how many flushes stand one behind the other in what the scenarios measure: an election or a hand-off
	// records a vote on both sides, and the first entry of a term is flushed by the leader and by a follower.
	flushesPerCommit = 4
	// usualFlush is what a flush costs on an idle disk; only what is beyond it is a stall.
	usualFlush = 5 * time.Millisecond
)

// Stalls measures how long the machine itself stands still: how late a goroutine gets the processor that asked for it, and
// how long a small flush takes on the disk of the nodes. Limits in time hold on a machine that does neither, so what was
// measured during a scenario is added to them. Stop ends the meter.
type Stalls struct {
	now     func() time.Duration
	file    *os.File
	stopped chan struct{}
	running sync.WaitGroup

	mutex   sync.Mutex
	delays  []stall
	flushes []stall
	err     error
}

// stall is one measurement that shows.
type stall struct {
	start, end time.Duration
	excess     time.Duration
}

// MeasureStalls starts the meter; its file lies in dir, its clock is that of the history.
func MeasureStalls(dir string, now func() time.Duration) (*Stalls, error) {
	file, err := os.Create(filepath.Join(dir, "stalls"))
	if err != nil {
		return nil, fmt.Errorf("create file of the stall meter: %w", err)
	}
	s := &Stalls{now: now, file: file, stopped: make(chan struct{})}
	s.running.Go(s.watchProcessor)
	s.running.Go(s.watchDisk)
	return s, nil
}

// Stop ends the meter and tells whether it could measure.
func (s *Stalls) Stop() error {
	close(s.stopped)
	s.running.Wait()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return errors.Join(s.err, s.file.Close())
}

func (s *Stalls) watchProcessor() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	last := s.now()
	for {
		select {
		case <-ticker.C:
			now := s.now()
			s.note(&s.delays, stall{last, now, now - last - tickEvery})
			last = now
		case <-s.stopped:
			return
		}
	}
}

func (s *Stalls) watchDisk() {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	block := make([]byte, flushBytes)
	for {
		select {
		case <-ticker.C:
		case <-s.stopped:
			return
		}
		start := s.now()
		_, err := s.file.WriteAt(block, 0)
		if err == nil {
			err = unix.Fdatasync(int(s.file.Fd()))
		}
		if err != nil {
			s.mutex.Lock()
			s.err = fmt.Errorf("flush the file of the stall meter: %w", err)
			s.mutex.Unlock()
			return
		}
		end := s.now()
		s.note(&s.flushes, stall{start, end, end - start - usualFlush})
	}
}

func (s *Stalls) note(in *[]stall, one stall) {
	if one.excess < time.Millisecond {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	*in = append(*in, one)
}

// Allowance is what the machine adds to a limit between two instants: the longest wait for the
// processor, and the slowest flush for each of the flushes that a commit waits for.
func (s *Stalls) Allowance(from, to time.Duration) time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return longest(s.delays, from, to) + flushesPerCommit*longest(s.flushes, from, to)
}

func longest(stalls []stall, from, to time.Duration) time.Duration {
	worst := time.Duration(0)
	for _, one := range stalls {
		if one.end >= from && one.start <= to {
			worst = max(worst, one.excess)
		}
	}
	return worst
}
