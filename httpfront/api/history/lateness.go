package history

import "time"

const (
	// latenessTimer is the timer whose lateness is measured (operations 3.4), latenessWindow how long a mean is taken over.
	latenessTimer  = 10 * time.Millisecond
	latenessWindow = 10 * time.Second
)

// measureLateness tells how long a goroutine that is due waits for a processor, on average.
func (r *Recorder) measureLateness() {
	defer r.group.Done()
	var sum time.Duration
	var count int
	window := time.Now()
	timer := time.NewTimer(latenessTimer)
	defer timer.Stop()
	due := time.Now().Add(latenessTimer)
	for {
		select {
		case <-r.stop:
			return
		case <-timer.C:
		}
		now := time.Now()
		sum += max(now.Sub(due), 0)
		count++
		if now.Sub(window) >= latenessWindow {
			r.lateMicros.Store(uint64(sum.Microseconds()) / uint64(count))
			sum, count, window = 0, 0, now
		}
		due = time.Now().Add(latenessTimer)
		timer.Reset(latenessTimer)
	}
}

// LatenessMs is the mean lateness of a 10 ms timer over the last whole window of 10 s, in milliseconds.
func (r *Recorder) LatenessMs() float64 { return float64(r.lateMicros.Load()) / 1000 }
