package api

import (
	"errors"
	"fmt"

	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// fireLagBounds reach from a fraction of a tick to a backlog after a long pause.
var fireLagBounds = []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600, 86_400}

// fired counts timers that a fire has delivered, and how late.
func (m *meters) fired(stampMicros uint64, result *command.TimerFireResult) {
	if stampMicros < m.startedMicros {
		return
	}
	for _, outcome := range result.Timers {
		if outcome.Fate == command.TimerFired {
			m.timersFired.Inc()
			m.timerFireLag.Update(float64(outcome.LagMicros) / 1e6)
		}
	}
}

// firedAtOnce counts timers that were delivered in the entry that scheduled them. They are as late as their client asked for,
// which says nothing about the broker.
func (m *meters) firedAtOnce(stampMicros uint64, results []command.TimerOpResult) {
	if stampMicros < m.startedMicros {
		return
	}
	for i := range results {
		if results[i].Fired {
			m.timersFired.Inc()
		}
	}
}

// timersRejected counts a refused call by its reason. What is in doubt is no refusal.
func (m *meters) timersRejected(err error) {
	reason := ""
	if body, ok := errors.AsType[*wire.Error](err); ok {
		reason = body.Reason
	} else if refusal, ok := errors.AsType[*httpfront.Error](err); ok {
		if reason = refusal.Reason; reason == "" {
			reason = string(refusal.Code)
		}
	} else if refusal, ok := errors.AsType[*command.Refusal](err); ok {
		reason = refusal.Code
	}
	if reason != "" {
		m.set.GetOrCreateCounter(fmt.Sprintf("queen_timers_schedule_rejected_total{reason=%q}", reason)).Inc()
	}
}
