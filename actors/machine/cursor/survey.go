package cursor

import (
	"math"

	"queen/raftlog/command"
)

// survey is what a call says about the messages in range, before anything changes.
type survey struct {
	// base is the cursor that the call is judged from: the log start when retention has overtaken the cursor.
	base uint64
	// signal is the strongest status at signalAt, the lowest offset that carries a signal: L of messaging 6.5.
	hasSignal bool
	signal    command.AckStatus
	signalAt  uint64
	// completed is the highest completed offset, of those below signalAt when there is a signal.
	hasCompleted bool
	completed    uint64
	// noops counts the completed items below base.
	noops int
}

// survey places every item and writes the verdicts that do not depend on the effects.
func (s *State) survey(live bool, call *AckCall, verdicts []command.AckVerdict) survey {
	view := survey{base: max(s.Cursor, call.LogStart)}
	last := s.lastInRange(live)
	for i := range call.Items {
		item := &call.Items[i]
		where, reason := item.place(view.base, last)
		switch {
		case reason != command.AckOK:
			verdicts[i].Error = reason
		case where == Below:
			verdicts[i].Noop = true
			view.noops++
		case item.Status != command.AckCompleted:
			view.addSignal(item.Status, item.Offset)
		case !view.hasCompleted || item.Offset > view.completed:
			view.hasCompleted, view.completed = true, item.Offset
		}
	}
	if view.hasSignal && view.hasCompleted && view.completed >= view.signalAt {
		view.findCompletedBelow(call, verdicts)
	}
	return view
}

func (v *survey) addSignal(status command.AckStatus, offset uint64) {
	switch {
	case !v.hasSignal || offset < v.signalAt:
		v.hasSignal, v.signal, v.signalAt = true, status, offset
	case offset == v.signalAt:
		// The statuses are numbered in the order of their precedence.
		v.signal = max(v.signal, status)
	}
}

// findCompletedBelow looks the completed items through again, now that the lowest signal is known.
func (v *survey) findCompletedBelow(call *AckCall, verdicts []command.AckVerdict) {
	v.hasCompleted, v.completed = false, 0
	for i := range call.Items {
		item := &call.Items[i]
		if verdicts[i].Error != command.AckOK || verdicts[i].Noop || item.Status != command.AckCompleted {
			continue
		}
		if item.Offset < v.signalAt && (!v.hasCompleted || item.Offset > v.completed) {
			v.hasCompleted, v.completed = true, item.Offset
		}
	}
}

// lastInRange returns the last offset that an item may have.
func (s *State) lastInRange(live bool) uint64 {
	if live {
		return s.Lease.End
	}
	return math.MaxUint64
}

// place tells whether an item stands in the range from base to last or below it, and why it fails when it does
// (messaging 6.6). Offsets outside the range are never taken at their word: a call may follow, in one entry, another one
// that has moved the cursor.
func (item *AckItem) place(base, last uint64) (Resolution, command.AckError) {
	where := item.Where
	if where == InRange && item.Offset < base {
		where = Below
	}
	switch {
	case item.Status > command.AckDeadLetter:
		return where, command.AckUnresolvable
	case where == InRange && item.Offset <= last:
		return InRange, command.AckOK
	case where == Below && item.Status == command.AckCompleted:
		return Below, command.AckOK
	default:
		return where, command.AckUnresolvable
	}
}
