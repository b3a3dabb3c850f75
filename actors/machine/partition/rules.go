package partition

// Retention holds the rules of messaging 15 for one partition. Zero ages do not apply. The caller fills it from the options
// of the queue and the cursors of its groups.
type Retention struct {
	// EvictMicros is maxWaitTimeSeconds: older appends go always.
	EvictMicros uint64
	// AgeMicros is rule 1: older appends go, consumed or not.
	AgeMicros uint64
	// CompletedMicros is rule 2: appends go that are older and stand wholly below CommittedBelow, the lowest cursor of the
	// partition; 0 when it has no cursor.
	CompletedMicros uint64
	CommittedBelow  uint64
	// Held keeps rules 1 and 2 from what does not stand wholly below HoldCommittedBelow, the cursor of the sink (0 when it
	// has none), until it is older than HoldMicros.
	Held               bool
	HoldCommittedBelow uint64
	HoldMicros         uint64
}

// olderThan tells whether a stamp is older than an age; an age of 0 never applies.
func olderThan(stampMicros, nowMicros, ageMicros uint64) bool {
	return ageMicros > 0 && stampMicros+ageMicros < nowMicros
}

// due tells whether an append that ends at end may be removed. Along the log it is true up to some append and false from
// there on.
func (r *Retention) due(end, stampMicros, nowMicros uint64) bool {
	if olderThan(stampMicros, nowMicros, r.EvictMicros) {
		return true
	}
	if r.Held && end > r.HoldCommittedBelow && !olderThan(stampMicros, nowMicros, r.HoldMicros) {
		return false
	}
	return olderThan(stampMicros, nowMicros, r.AgeMicros) ||
		(end <= r.CommittedBelow && olderThan(stampMicros, nowMicros, r.CompletedMicros))
}

// dueAt is when an append becomes due under the rules as they stand; 0 when it does not.
func (r *Retention) dueAt(end, stampMicros uint64) uint64 {
	held := uint64(0)
	blocked := false
	if r.Held && end > r.HoldCommittedBelow {
		held, blocked = stampMicros+r.HoldMicros+1, r.HoldMicros == 0
	}
	next := uint64(0)
	consider := func(ageMicros, notBefore uint64) {
		if at := max(stampMicros+ageMicros+1, notBefore); ageMicros > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	consider(r.EvictMicros, 0)
	if !blocked {
		consider(r.AgeMicros, held)
		if end <= r.CommittedBelow {
			consider(r.CompletedMicros, held)
		}
	}
	return next
}

// agedBelow returns the offset below which everything is due under rule 1 or maxWaitTimeSeconds. It reads nothing while
// the oldest append is young enough.
func (r *Retention) agedBelow(l *log, nowMicros uint64) (uint64, error) {
	start := l.head.LogStart
	rule1 := *r
	rule1.CompletedMicros = 0
	if l.head.Segments == 0 || !rule1.due(start+uint64(l.head.OldestCount), l.head.OldestStampMicros, nowMicros) {
		return start, nil
	}
	evicted, err := l.olderBelow(nowMicros, r.EvictMicros)
	if err != nil {
		return 0, err
	}
	aged, err := l.olderBelow(nowMicros, r.AgeMicros)
	if err != nil || !r.Held || aged <= evicted {
		return max(evicted, aged), err
	}
	released, err := l.olderBelow(nowMicros, r.HoldMicros)
	if err != nil {
		return 0, err
	}
	committed, err := l.wholeBelow(r.HoldCommittedBelow)
	if err != nil {
		return 0, err
	}
	return max(evicted, min(aged, max(released, committed))), nil
}

// olderBelow returns the offset below which every append is older than an age; the log start when no age applies.
func (l *log) olderBelow(nowMicros, ageMicros uint64) (uint64, error) {
	if ageMicros == 0 || ageMicros > nowMicros {
		return l.head.LogStart, nil
	}
	a, found, err := l.firstAppendAt(nowMicros - ageMicros)
	if err != nil {
		return 0, err
	}
	if !found {
		return l.head.Tail, nil
	}
	return max(a.Base, l.head.LogStart), nil
}

// wholeBelow returns the end of the last append that stands wholly below an offset.
func (l *log) wholeBelow(offset uint64) (uint64, error) {
	if offset <= l.head.LogStart || offset >= l.head.Tail {
		return min(max(offset, l.head.LogStart), l.head.Tail), nil
	}
	a, err := l.appendAt(offset)
	return a.Base, err
}

// MayRetain tells, from the head alone, whether a retention step may find something to do: the caller passes rules as
// loose as the options allow, the step itself judges exactly.
func (h *Head) MayRetain(nowMicros, hashWindowMicros uint64, rules Retention) bool {
	if h.hashes.rows > 0 && h.hashes.dueStamp+hashWindowMicros < nowMicros {
		return true
	}
	return h.Segments > 0 && rules.due(h.LogStart+uint64(h.OldestCount), h.OldestStampMicros, nowMicros)
}
