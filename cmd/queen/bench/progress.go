package bench

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// startProgress prints one line a second until the returned function is called, which may be called more than once.
func (r *run) startProgress(out io.Writer) func() {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		last := r.tally.read(r.clock.nowUs())
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				now := r.tally.read(r.clock.nowUs())
				fmt.Fprintln(out, r.progressLine(last, now))
				last = now
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}

func (r *run) progressLine(last, now counts) string {
	seconds := float64(now.atUs-last.atUs) / 1e6
	line := fmt.Sprintf("%4.0fs", float64(now.atUs)/1e6)
	part := func(name string, before, after int64) {
		if after > 0 {
			line += fmt.Sprintf("  %s %d (%.0f/s)", name, after, float64(after-before)/seconds)
		}
	}
	part("pushed", last.pushed, now.pushed)
	part("popped", last.popped, now.popped)
	part("acked", last.acked, now.acked)
	if push := r.pushLatency.percentiles(); push.Count > 0 {
		line += fmt.Sprintf("  push p50 %.2f p99 %.2f ms", push.P50Ms, push.P99Ms)
	}
	if !r.measures(now.atUs) {
		line += "  (not measured)"
	}
	return line + fmt.Sprintf("  errors %d", r.tally.failureCount())
}
