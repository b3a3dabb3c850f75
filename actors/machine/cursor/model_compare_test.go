package cursor

import (
	"bytes"
	"fmt"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen/raftlog/command"
)

func (p *pair) compareFilings(t *rapid.T, out AckOutcome, letters []modelLetter, dropped int) {
	if len(out.Filings) != len(letters) {
		t.Fatalf("filings %+v; model %+v", out.Filings, letters)
	}
	for i, filing := range out.Filings {
		want := letters[i]
		text := ""
		if want.message != nil {
			text = *want.message
		}
		if filing.Offset != uint64(want.offset) || filing.RetryCount != uint32(want.retries) ||
			filing.HasError != (want.message != nil) || filing.Error != text {
			t.Fatalf("filing %+v; model %+v with %q", filing, want, text)
		}
	}
	if out.Dropped != (dropped >= 0) || out.Dropped && out.DroppedOffset != uint64(dropped) {
		t.Fatalf("dropped %v at %d; model %d", out.Dropped, out.DroppedOffset, dropped)
	}
}

// audit checks what holds whatever the model says.
func (p *pair) audit(t *rapid.T, before State, call AckCall, out AckOutcome, failures int) {
	start := max(before.Cursor, call.LogStart)
	if p.state.Cursor < before.Cursor {
		t.Fatalf("I5: cursor from %d to %d", before.Cursor, p.state.Cursor)
	}
	done := map[uint64]bool{}
	for i, item := range call.Items {
		if item.Where == InRange && out.Verdicts[i].Error == command.AckOK && item.Status == command.AckCompleted {
			done[item.Offset] = true
		}
	}
	asked := map[uint64]bool{}
	for i, item := range call.Items {
		if item.Status == command.AckDeadLetter && out.Verdicts[i].DeadLettered {
			asked[item.Offset] = true
		}
	}
	settledTo := start
	for offset := start; offset < p.state.Cursor; offset++ {
		if done[offset] || asked[offset] {
			settledTo = offset + 1
		}
	}
	for offset := settledTo; offset < p.state.Cursor; offset++ {
		exhausted := out.Dropped && out.DroppedOffset == offset
		for _, filing := range out.Filings {
			if filing.Offset == offset {
				exhausted = true
			}
		}
		if !exhausted && !before.Lease.Conflated {
			t.Fatalf("skipped %d: from %d to %d", offset, start, p.state.Cursor)
		}
	}
	if start > before.Cursor {
		failures = 0
	}
	for _, filing := range out.Filings {
		if len(done) == 0 && filing.RetryCount != uint32(failures) {
			t.Fatalf("filed %+v after %d charged failures", filing, failures)
		}
	}
	if out.Moved != (p.state.Cursor != before.Cursor) {
		t.Fatalf("moved = %v from %d to %d", out.Moved, before.Cursor, p.state.Cursor)
	}
	if out.Moved {
		p.charged = 0
	}
	if out.Charged {
		p.charged++
	}
}

// decoded takes a state through its rows.
func decoded(t interface{ Fatalf(string, ...any) }, s State) State {
	row := s.AppendTo(nil)
	got, err := Decode(row)
	if err != nil {
		t.Fatalf("decode %x: %v", row, err)
	}
	if got.Spilled() != s.Spilled() {
		t.Fatalf("spilled = %v after decode", got.Spilled())
	}
	if s.Spilled() {
		if !got.NeedsSpill(s.Released.Lease) {
			t.Fatalf("a decoded state does not ask for its second row")
		}
		if err := got.AttachSpill(s.SpillTo(nil)); err != nil {
			t.Fatalf("attach: %v", err)
		}
	}
	if again := got.AppendTo(nil); !bytes.Equal(again, row) || !bytes.Equal(got.SpillTo(nil), s.SpillTo(nil)) {
		t.Fatalf("row %x became %x", row, again)
	}
	return got
}

func (p *pair) compare(t *rapid.T) {
	now := uint64(p.now)
	if p.ended == nil {
		p.ended = map[uuid.UUID]bool{}
	}
	live := p.state.LeaseLive(now, p.holds)
	for _, lease := range p.leases {
		holds := p.state.HoldsLease(now, lease, p.holds)
		if holds && p.ended[lease] {
			t.Fatalf("lease %v came back to life", lease)
		}
		p.ended[lease] = !holds
	}
	s := p.state
	s.resume(uint64(p.world.logStart))
	m := &p.model
	if live != m.live(p.now) || live && (leaseName(s.Lease.ID) != m.lease.id || s.Lease.End != uint64(m.lease.end)) {
		t.Fatalf("lease %+v live %v; model %+v at %d", s.Lease, live, m.lease, p.now)
	}
	if end, _ := s.LeaseEnd(p.holds); live && end != uint64(m.lease.expiresAt) {
		t.Fatalf("lease ends at %d; model %d", end, m.lease.expiresAt)
	}
	got := fmt.Sprint(s.Cursor, s.Failures, s.Attempt, s.AttemptStart, s.HasAttemptStart, s.NotBeforeMicros, s.Ceiling, s.HasCeiling,
		s.TotalConsumed, s.Undo.Valid)
	value := func(n *int) (int, bool) {
		if n == nil {
			return 0, false
		}
		return *n, true
	}
	start, hasStart := value(m.attemptStart)
	notBefore, _ := value(m.notBefore)
	ceiling, hasCeiling := value(m.ceiling)
	want := fmt.Sprint(m.cursor, m.failures, m.attempt, start, hasStart, notBefore, ceiling, hasCeiling, m.consumed, m.delivered != nil)
	if got != want {
		t.Fatalf("state %s; model %s", got, want)
	}
	if !s.HasCeiling && s.Ceiling != 0 || s.HasCeiling && s.Ceiling <= s.Cursor {
		t.Fatalf("ceiling %d, %v at cursor %d", s.Ceiling, s.HasCeiling, s.Cursor)
	}
	if len(s.AppendTo(nil)) > 800 {
		t.Fatalf("row of %d bytes", len(s.AppendTo(nil)))
	}
}
