package cursor

import (
	"github.com/google/uuid"

	"queen/raftlog/command"
)

// Resolution tells how the transaction id of an ack item was found (messaging 6.4.4).
type Resolution uint8

// The resolutions.
const (
	// Unknown: not found where State.Lookup says to look.
	Unknown Resolution = 0
	// InRange: found at AckItem.Offset, inside the range of the lookup.
	InRange Resolution = 1
	// Below: found only below the range, so already committed (messaging 6.7).
	Below Resolution = 2
)

// AckItem is one message of an ack with what its transaction id resolved to.
type AckItem struct {
	// Txid is the hash of the transaction id under which the partition knows it.
	Txid   [16]byte
	Status command.AckStatus
	Where  Resolution
	// Offset is the lowest offset in range that carries the txid; used with InRange only.
	Offset uint64
	// Error is the reason kept on a dead letter; HasError tells an empty reason from none.
	Error    string
	HasError bool
}

// AckCall holds the items of one ack call for one (partition, group, lease): one atomic step (messaging 6.4.1).
type AckCall struct {
	// Lease is the lease that the items name; uuid.Nil when they name none.
	Lease uuid.UUID
	// LogStart is the lowest retained offset of the partition.
	LogStart uint64
	Holds    Holds
	Items    []AckItem
}

// Policy holds the options of the queue that an ack depends on (messaging 9.2).
type Policy struct {
	// RetryLimit is the number of charged failures that a message may have before the next one exhausts its budget.
	RetryLimit uint32
	// RetryDelayMicros is the explicitly set retryDelay; 0 when it is not set or 0 (messaging 9.3).
	RetryDelayMicros uint64
	// FileDeadLetters is deadLetterQueue or dlqAfterMaxRetries; false drops exhausted messages.
	FileDeadLetters bool
}

// AckOutcome is what an ack did. Its slices belong to the caller.
type AckOutcome struct {
	// Verdicts answers the items, in order.
	Verdicts []command.AckVerdict
	// Filings are the dead letters to file, by rising offset, one for each message.
	Filings []Filing
	// Changed tells that the row must be stored.
	Changed bool
	// Moved tells that the cursor moved.
	Moved bool
	// Released is the lease that the call released, which is another worker's when the call named none; uuid.Nil when
	// none was released.
	Released uuid.UUID
	// Dropped tells that the message at DroppedOffset was dropped: its budget was exhausted and the queue files nothing.
	Dropped       bool
	DroppedOffset uint64
	// Charged tells that a failure was charged.
	Charged bool
}

// Lookup says where the transaction ids of an ack call are to be looked up (messaging 6.4.4).
type Lookup struct {
	// Needed is false when no resolution could change the verdicts: they name a lease that is not live and that no ack
	// released last.
	Needed bool
	// Low is the first and End the first offset above the range. The range may be empty; txids are also to be looked for
	// below Low, to tell Below from Unknown.
	Low uint64
	End uint64
	// Leased tells that the range is the live batch: its messages resolve however old they are. Otherwise they resolve
	// within the hash window.
	Leased bool
}

// Lookup returns where to resolve the items of a call that names a lease (uuid.Nil for none), in a partition that retains
// the offsets from logStart to tail (exclusive). The answer holds until the state changes.
func (s *State) Lookup(now uint64, lease uuid.UUID, logStart, tail uint64, holds Holds) Lookup {
	low := max(s.Cursor, logStart)
	live := s.LeaseLive(now, holds)
	switch {
	case lease != uuid.Nil && !(live && s.Lease.ID == lease):
		return Lookup{Needed: s.Released.Lease == lease, Low: low, End: low}
	case live:
		return Lookup{Needed: true, Low: low, End: max(low, saturatingAdd(s.Lease.End, 1)), Leased: true}
	default:
		return Lookup{Needed: true, Low: low, End: max(low, tail)}
	}
}

// Ack settles the items of a call (messaging 6.4 to 6.7). The items were resolved against this very state.
func (s *State) Ack(now uint64, call AckCall, policy Policy) AckOutcome {
	out := AckOutcome{Verdicts: make([]command.AckVerdict, len(call.Items))}
	live := s.LeaseLive(now, call.Holds)
	if call.Lease != uuid.Nil && !(live && s.Lease.ID == call.Lease) {
		s.Released.answer(&call, out.Verdicts)
		return out
	}
	view := s.survey(live, &call, out.Verdicts)
	switch {
	case !live:
		s.commitUnleased(&view, &out)
	case view.hasSignal:
		s.settleSignal(now, &call, policy, &view, &out)
	case view.hasCompleted:
		s.commitLeased(&view, &out)
	case view.noops > 0 && call.Lease != uuid.Nil && view.base > s.Lease.End:
		s.releaseRemoved(&view, &out)
	}
	if out.Released != uuid.Nil {
		markReleased(&call, &out)
		s.Released = remember(out.Released, &call, out.Verdicts, s.Cursor)
	}
	return out
}

// Check judges a call of a transaction without changing anything: there the first failed item refuses the whole call, and
// a lease that is not live is never a repeat (messaging 8.2, 8.4). It returns command.AckOK when Ack would fail no item;
// otherwise the item that fails and why. With several calls for one state, check and apply them in turn on a copy.
func (s *State) Check(now uint64, call AckCall) (item int, reason command.AckError) {
	live := s.LeaseLive(now, call.Holds)
	if call.Lease != uuid.Nil && !(live && s.Lease.ID == call.Lease) {
		return 0, command.AckBadLease
	}
	last := s.lastInRange(live)
	base := max(s.Cursor, call.LogStart)
	for i := range call.Items {
		if _, reason := call.Items[i].place(base, last); reason != command.AckOK {
			return i, reason
		}
	}
	return 0, command.AckOK
}

// markReleased tells on every item that succeeded, except on no-ops, that the call released the lease (messaging 6.5).
func markReleased(call *AckCall, out *AckOutcome) {
	for i := range out.Verdicts {
		verdict := &out.Verdicts[i]
		if verdict.Error != command.AckOK || verdict.Noop {
			continue
		}
		verdict.LeaseReleased = true
		verdict.DeadLettered = filed(out.Filings, call.Items[i].Offset)
	}
}
