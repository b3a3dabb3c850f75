package actors

import (
	"time"

	"queen/actors/machine/trace"
	"queen/raftlog/command"
)

const (
	// traceSweepInterval is how long a trace may stay beyond its time on a leader that has nothing else to remove.
	traceSweepInterval = time.Second
	// traceSweepKeys is how many rows one sweep writes.
	traceSweepKeys = 2000
)

// runTraceSweep removes traces older than Config.TraceRetention in steps, while this node leads.
func (b *Broker) runTraceSweep() {
	if b.config.TraceRetention <= 0 {
		return
	}
	b.every(traceSweepInterval, func() {
		for b.log.Leads() && b.stopped.Err() == nil && b.sweepTraces() {
		}
	})
}

// sweepTraces proposes one step when the oldest trace is due; false ends the turn.
func (b *Broker) sweepTraces() bool {
	now, kept := b.log.Now(), uint64(b.config.TraceRetention.Microseconds())
	oldest, err := b.oldestTrace()
	if err != nil {
		b.logger.Error().Str("target", "actors").Err(err).Msg("oldest trace could not be read")
		return false
	}
	if oldest == 0 || oldest+kept >= now {
		return false
	}
	result, err := b.Execute(Until(time.Now().Add(backgroundDeadline)), &command.TraceSweep{
		BeforeMicros: now - kept, MaxKeys: traceSweepKeys,
	})
	if err != nil {
		return false
	}
	// A step that found no room in its entry is tried again with the next turn.
	return result.(*command.TraceSweepResult).Removed > 0
}

func (b *Broker) oldestTrace() (stampMicros uint64, err error) {
	view := b.store.View()
	defer view.Close()
	return trace.OldestStampMicros(view)
}

// Traces is the number of traces that are stored, as applied here.
func (b *Broker) Traces() (uint64, error) {
	view := b.store.View()
	defer view.Close()
	return trace.Total(view)
}
