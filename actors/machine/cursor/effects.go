package cursor

import "queen/raftlog/command"

// commitUnleased applies a call while the group holds no lease (messaging 6.5): completed messages move the cursor,
// signals change nothing. A signal still bounds the completed ones, as it does under a lease: the client has said of that
// message that it is not done.
func (s *State) commitUnleased(view *survey, out *AckOutcome) {
	if !view.hasCompleted {
		return
	}
	s.advance(view, out)
	s.Lease = Lease{}
}

// commitLeased applies a call that carries no signal, under a lease.
func (s *State) commitLeased(view *survey, out *AckOutcome) {
	s.advance(view, out)
	if view.completed < s.Lease.End {
		s.AttemptStart, s.HasAttemptStart = s.Cursor, true
		return
	}
	s.release(out)
	s.clearAttempts()
}

// releaseRemoved ends a lease of whose batch retention has left nothing, once its holder has acked it: otherwise the
// partition would wait for the expiry although nobody works on it.
func (s *State) releaseRemoved(view *survey, out *AckOutcome) {
	s.resume(view.base)
	out.Moved = true
	s.release(out)
	s.clearAttempts()
}

// settleSignal applies a call with a signal, under a lease (messaging 6.5). All its outcomes release the lease.
func (s *State) settleSignal(now uint64, call *AckCall, policy Policy, view *survey, out *AckOutcome) {
	end, conflated := s.Lease.End, s.Lease.Conflated
	// What the message before the signal was charged with does not count once the group has advanced to the signal.
	s.advance(view, out)
	if view.hasCompleted && view.completed < end {
		s.AttemptStart, s.HasAttemptStart = s.Cursor, true
	}
	s.release(out)

	judged := s.Failures
	exhausted := view.signal == command.AckFailed && judged >= policy.RetryLimit
	// Nothing unmentioned stands below the signal.
	settledBelow := conflated || s.Cursor == view.signalAt
	spent := exhausted && settledBelow
	out.Filings = deadLetters(call, out.Verdicts, view.signalAt, spent && policy.FileDeadLetters, judged)
	switch {
	case view.signal == command.AckDeadLetter || spent:
		if spent && !policy.FileDeadLetters {
			out.Dropped, out.DroppedOffset = true, view.signalAt
		}
		s.consume(pastFiled(out.Filings, view.signalAt+1), out)
		s.clearAttempts()
	case exhausted:
		s.Ceiling, s.HasCeiling = view.signalAt, true
	case view.signal == command.AckFailed:
		s.Failures = increment(s.Failures)
		out.Charged = true
		if policy.RetryDelayMicros > 0 {
			s.NotBeforeMicros = saturatingAdd(now, policy.RetryDelayMicros)
		}
	}
}

// advance takes the cursor to the log start when it stands below it, and past the completed messages of the call.
func (s *State) advance(view *survey, out *AckOutcome) {
	if s.Cursor < view.base {
		s.resume(view.base)
		out.Moved, out.Changed = true, true
	}
	if view.hasCompleted {
		s.consume(view.completed+1, out)
	}
}

// consume moves the cursor and counts what it passes.
func (s *State) consume(offset uint64, out *AckOutcome) {
	s.TotalConsumed += offset - s.Cursor
	s.move(offset)
	out.Moved, out.Changed = true, true
}

// release drops the lease in favour of the outcome.
func (s *State) release(out *AckOutcome) {
	out.Released, out.Changed = s.Lease.ID, true
	s.Lease = Lease{}
}
