package cursor

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen/raftlog/command"
)

// TestStateFollowsTheReferenceModel runs random commands through the package and through the model, and compares verdicts,
// dead letters and state after each. A ledger besides checks what must hold whatever the two agree on (I4, I5, no skipped
// message, the retry count of a dead letter). rapid prints the seed of a failure; -rapid.checks makes a longer campaign.
func TestStateFollowsTheReferenceModel(t *testing.T) {
	for limit := range 4 {
		for _, conflating := range []bool{false, true} {
			t.Run(fmt.Sprintf("limit %d conflating %v", limit, conflating), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					p := &pair{now: 1000, term: 1, policy: modelPolicy{limit: limit, files: true}, conflating: conflating}
					p.push(rapid.IntRange(0, 6).Draw(t, "backlog"))
					p.run(t)
				})
			})
		}
	}
}

func (p *pair) run(t *rapid.T) {
	t.Repeat(map[string]func(*rapid.T){
		"":         p.compare,
		"work":     p.work,
		"work2":    p.work,
		"work3":    p.work,
		"work4":    p.work,
		"push":     func(t *rapid.T) { p.push(rapid.IntRange(1, 4).Draw(t, "count")) },
		"claim":    p.claim,
		"ack":      p.ack,
		"repeat":   p.repeat,
		"transact": p.transact,
		"extend":   p.extend,
		"seek":     p.seek,
		"retain":   p.retain,
		"handBack": p.handBack,
		"time":     p.pass,
		"term":     p.begin,
		"policy":   p.configure,
		"reload":   p.reload,
	})
}

// pair is the package's state beside the model's, and the world around them.
type pair struct {
	state      State
	model      model
	world      world
	now        int
	term       int
	holds      Holds
	policy     modelPolicy
	conflating bool
	delay      int // messages at the end that a delay hides

	leases []uuid.UUID
	// ended holds the leases that were seen not to be live.
	ended     map[uuid.UUID]bool
	delivered []ClaimOutput
	lastLease uuid.UUID
	lastItems []modelItem
	// charged counts the failures since the cursor moved last.
	charged int
}

func leaseName(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

func modelHash(txid string) (hash [16]byte) {
	h := fnv.New128a()
	h.Write([]byte(txid))
	copy(hash[:], h.Sum(nil))
	return hash
}

func (p *pair) push(count int) {
	for range count {
		txid := fmt.Sprint("m", len(p.world.txids))
		// Now and then a txid comes a second time, as after the dedup window.
		if n := len(p.world.txids); n > 2 && n%7 == 0 {
			txid = p.world.txids[n-3]
		}
		p.world.txids = append(p.world.txids, txid)
	}
}

func (p *pair) visibleEnd() int { return max(len(p.world.txids)-p.delay, p.world.logStart) }

func (p *pair) claim(t *rapid.T) {
	p.delay = rapid.SampledFrom([]int{0, 0, 0, 1, 2, 100}).Draw(t, "hidden")
	most := rapid.IntRange(0, 6).Draw(t, "max")
	seconds := rapid.IntRange(0, 30).Draw(t, "seconds")
	p.take(t, most, seconds, !p.conflating && rapid.IntRange(0, 2).Draw(t, "commit") == 0)
}

// take claims through both.
func (p *pair) take(t *rapid.T, most, seconds int, commit bool) {
	lease := uuid.UUID{13: 1, 14: byte(len(p.leases) >> 8), 15: byte(len(p.leases))}
	p.leases = append(p.leases, lease)
	var visible []int
	for o := p.world.logStart; o < p.visibleEnd(); o++ {
		visible = append(visible, o)
	}
	window := Window{LogStart: uint64(p.world.logStart), VisibleEnd: uint64(p.visibleEnd())}
	ready := p.state.Ready(uint64(p.now), window, p.holds)
	held := p.state.LeaseLive(uint64(p.now), p.holds)
	cursor := max(p.state.Cursor, window.LogStart)
	out, ok := p.state.Claim(uint64(p.now), ClaimInput{
		Window: window, Holds: p.holds, Max: uint64(most), MaxEnd: NoCap, Lease: lease, LeaseMicros: uint64(seconds),
		Term: uint64(p.term), CommitOnDelivery: commit, Conflating: p.conflating,
	})
	first, last, attempt, want := p.model.claim(p.now, lease.String(), visible, most, seconds, p.conflating, commit)
	if ok != want || ok && out != (ClaimOutput{uint64(first), uint64(last), uint32(attempt)}) {
		t.Fatalf("claim = %+v, %v; model %d-%d attempt %d, %v", out, ok, first, last, attempt, want)
	}
	if ok != ready && (p.conflating || most > 0) {
		t.Fatalf("claim ok = %v, ready = %v", ok, ready)
	}
	if !ok {
		return
	}
	if held || out.First != cursor || out.Last < out.First {
		t.Fatalf("I4: batch %+v at cursor %d, lease held %v", out, cursor, held)
	}
	if commit {
		p.delivered = append(p.delivered, out)
		p.charged = 0
	}
}

// work is a consumer that claims when it can and then settles some of its batch, over and over; mostly in the same way, so
// that budgets are used up.
func (p *pair) work(t *rapid.T) {
	items := p.drawBatch(t)
	for range rapid.IntRange(1, 5).Draw(t, "rounds") {
		if p.state.Cursor == uint64(len(p.world.txids)) {
			p.push(3)
		}
		p.now = max(p.now, int(p.state.NotBeforeMicros))
		p.delay = 0
		p.take(t, 5, 30, false)
		p.compare(t)
		if rapid.IntRange(0, 3).Draw(t, "again") == 0 {
			items = p.drawBatch(t)
		}
		lease := p.state.Lease.ID
		if rapid.IntRange(0, 9).Draw(t, "unfenced") == 0 {
			lease = uuid.Nil
		}
		p.settle(t, lease, p.around(items))
		p.compare(t)
	}
}

// batchItem is a status for a message that is named by its distance from the cursor, or from the end of the batch.
type batchItem struct {
	status  string
	back    bool
	by      int
	message *string
}

func (p *pair) drawBatch(t *rapid.T) []batchItem {
	statuses := rapid.SampledFrom([][]string{
		{"completed"}, {"failed"}, {"failed", "completed"}, {"dlq", "completed"}, {"retry", "completed"}, {"failed", "dlq"},
		{"completed", "failed", "retry", "dlq"},
	}).Draw(t, "statuses")
	var items []batchItem
	for range rapid.IntRange(1, 5).Draw(t, "items") {
		item := batchItem{
			status: rapid.SampledFrom(statuses).Draw(t, "status"),
			back:   p.conflating || rapid.IntRange(0, 3).Draw(t, "back") == 0,
			by:     rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3, 4}).Draw(t, "by"),
		}
		if rapid.IntRange(0, 4).Draw(t, "reason") == 0 {
			text := rapid.SampledFrom([]string{"", "boom", "bang"}).Draw(t, "text")
			item.message = &text
		}
		items = append(items, item)
	}
	return items
}

// around makes items of the batch as it stands now.
func (p *pair) around(batch []batchItem) []modelItem {
	var items []modelItem
	for _, one := range batch {
		offset := max(int(p.state.Cursor), p.world.logStart) + one.by
		if one.back {
			offset = int(p.state.Lease.End) - one.by
		}
		item := modelItem{txid: "nobody", status: one.status, err: one.message}
		if offset >= 0 && offset < len(p.world.txids) {
			item.txid = p.world.txids[offset]
		}
		items = append(items, item)
	}
	return items
}

// drawLease names a lease: mostly that of the row, else an older one or none.
func (p *pair) drawLease(t *rapid.T) uuid.UUID {
	switch rapid.IntRange(0, 5).Draw(t, "lease") {
	case 0:
		return uuid.Nil
	case 1:
		if len(p.leases) > 0 {
			return rapid.SampledFrom(p.leases).Draw(t, "old lease")
		}
	case 2:
		return p.state.Released.Lease
	}
	return p.state.Lease.ID
}

func (p *pair) drawItems(t *rapid.T) []modelItem {
	low := max(0, int(p.state.Cursor)-2)
	var items []modelItem
	mixed := rapid.IntRange(0, 2).Draw(t, "mixed") > 0
	for range rapid.IntRange(1, 6).Draw(t, "items") {
		offset := rapid.IntRange(low, max(low, len(p.world.txids))).Draw(t, "offset")
		item := modelItem{txid: "nobody", status: "completed"}
		if offset < len(p.world.txids) {
			item.txid = p.world.txids[offset]
		}
		if mixed {
			item.status = rapid.SampledFrom([]string{"completed", "completed", "failed", "failed", "retry", "dlq"}).Draw(t, "status")
		}
		if rapid.IntRange(0, 3).Draw(t, "reason") == 0 {
			text := rapid.SampledFrom([]string{"", "boom", "bang"}).Draw(t, "text")
			item.err = &text
		}
		items = append(items, item)
	}
	return items
}

// call resolves the items for the package, in the range that it names.
func (p *pair) call(lease uuid.UUID, items []modelItem) AckCall {
	w := &p.world
	lookup := p.state.Lookup(uint64(p.now), lease, uint64(w.logStart), uint64(len(w.txids)), p.holds)
	call := AckCall{Lease: lease, LogStart: uint64(w.logStart), Holds: p.holds}
	for _, one := range items {
		item := AckItem{Txid: modelHash(one.txid)}
		for status := command.AckCompleted; status <= command.AckDeadLetter; status++ {
			if modelStatus(status) == one.status {
				item.Status = status
			}
		}
		if one.err != nil {
			item.Error, item.HasError = *one.err, true
		}
		for o := len(w.txids) - 1; o >= 0 && lookup.Needed; o-- {
			in := uint64(o) >= lookup.Low && uint64(o) < lookup.End
			switch {
			case w.txids[o] != one.txid:
			case in && (lookup.Leased || o >= w.remembered):
				item.Where, item.Offset = InRange, uint64(o)
			case uint64(o) < lookup.Low && item.Where == Unknown && (o >= w.remembered || o >= w.logStart):
				item.Where = Below
			}
		}
		call.Items = append(call.Items, item)
	}
	return call
}

func (p *pair) machinePolicy() Policy {
	return Policy{RetryLimit: uint32(p.policy.limit), RetryDelayMicros: uint64(p.policy.delay), FileDeadLetters: p.policy.files}
}

func (p *pair) ack(t *rapid.T) {
	p.settle(t, p.drawLease(t), p.drawItems(t))
}

// repeat sends the last call, or a part of it, once more.
func (p *pair) repeat(t *rapid.T) {
	if len(p.lastItems) == 0 {
		return
	}
	from := rapid.IntRange(0, len(p.lastItems)-1).Draw(t, "from")
	p.settle(t, p.lastLease, p.lastItems[from:])
}

func (p *pair) settle(t *rapid.T, lease uuid.UUID, items []modelItem) {
	p.lastLease, p.lastItems = lease, items
	before, row := p.state, p.state.AppendTo(nil)
	failures := p.charged
	call := p.call(lease, items)
	out := p.state.Ack(uint64(p.now), call, p.machinePolicy())
	verdicts, letters, dropped := p.model.ack(p.now, &p.world, leaseName(lease), items, p.policy)
	for i := range verdicts {
		want := verdicts[i]
		got := modelVerdict{
			err:      map[command.AckError]string{command.AckBadLease: "lease", command.AckUnresolvable: "unresolvable"}[out.Verdicts[i].Error],
			released: out.Verdicts[i].LeaseReleased, deadLetter: out.Verdicts[i].DeadLettered, nop: out.Verdicts[i].Noop,
		}
		if got != want {
			t.Fatalf("verdict %d of %v = %+v; model %+v", i, items, got, want)
		}
	}
	p.compareFilings(t, out, letters, dropped)
	if changed := !bytes.Equal(row, p.state.AppendTo(nil)); changed && !out.Changed {
		t.Fatalf("changed a row without saying so: %+v to %+v", before, p.state)
	}
	p.audit(t, before, call, out, failures)
}

// transact judges a call as a transaction does, and compares with what an ack would say.
func (p *pair) transact(t *rapid.T) {
	lease, items := p.drawLease(t), p.drawItems(t)
	call := p.call(lease, items)
	row := p.state.AppendTo(nil)
	item, reason := p.state.Check(uint64(p.now), call)
	if !bytes.Equal(row, p.state.AppendTo(nil)) {
		t.Fatalf("check changed the state")
	}
	live := lease == uuid.Nil || p.state.HoldsLease(uint64(p.now), lease, p.holds)
	if !live {
		if reason != command.AckBadLease {
			t.Fatalf("check under a dead lease = %v", reason)
		}
		return
	}
	trial := p.state
	out := trial.Ack(uint64(p.now), call, p.machinePolicy())
	for i, verdict := range out.Verdicts {
		if verdict.Error != command.AckOK {
			if item != i || reason != verdict.Error {
				t.Fatalf("check = %d, %v; ack fails item %d with %v", item, reason, i, verdict.Error)
			}
			break
		}
		if i == len(out.Verdicts)-1 && reason != command.AckOK {
			t.Fatalf("check = %v; ack fails nothing", reason)
		}
	}
	if !bytes.Equal(row, p.state.AppendTo(nil)) {
		t.Fatalf("an ack of a copy changed the original")
	}
	if reason == command.AckOK {
		p.settle(t, lease, items)
	}
}

func (p *pair) extend(t *rapid.T) {
	lease := p.drawLease(t)
	seconds := rapid.IntRange(1, 40).Draw(t, "seconds")
	got, ok := p.state.Extend(uint64(p.now), lease, uint64(seconds), uint64(p.term), p.holds)
	want, wantOK := p.model.extend(p.now, leaseName(lease), seconds)
	if ok != wantOK || got != uint64(want) {
		t.Fatalf("extend = %d, %v; model %d, %v", got, ok, want, wantOK)
	}
}

func (p *pair) seek(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return
	}
	offset := rapid.IntRange(p.world.logStart, len(p.world.txids)).Draw(t, "to")
	p.state.Seek(uint64(offset))
	p.model.seek(offset)
	p.charged = 0
}

func (p *pair) retain(t *rapid.T) {
	w := &p.world
	w.logStart = rapid.IntRange(w.logStart, min(w.logStart+2, len(w.txids))).Draw(t, "log start")
	w.remembered = rapid.IntRange(w.remembered, max(w.remembered, w.logStart)).Draw(t, "remembered")
	p.model.retain(w.logStart)
	if p.state.Cursor < uint64(w.logStart) {
		p.charged = 0
	}
}

func (p *pair) handBack(t *rapid.T) {
	if n := len(p.delivered); n > 0 && rapid.Bool().Draw(t, "delivery") {
		out := p.delivered[n-1]
		// Below the log start nothing is left to hand back, and the two differ in what they remember of it.
		if p.state.Cursor < uint64(p.world.logStart) {
			return
		}
		p.delivered = p.delivered[:n-1]
		got := p.state.UndoDelivery(uint64(p.now), out.First, out.Last, p.holds)
		want := p.model.handBackDelivery(p.now, int(out.First), int(out.Last))
		if got != want {
			t.Fatalf("undo delivery %+v = %v; model %v", out, got, want)
		}
		if got {
			p.state.resume(uint64(p.world.logStart))
			p.model.retain(p.world.logStart)
			p.charged = int(p.state.Failures)
		}
		return
	}
	lease := p.drawLease(t)
	if got, want := p.state.UndoClaim(lease), p.model.handBack(leaseName(lease)); got != want {
		t.Fatalf("undo claim = %v; model %v", got, want)
	}
}

func (p *pair) pass(t *rapid.T) {
	step := rapid.IntRange(1, 25).Draw(t, "step")
	if end := int(p.state.BlockedUntil(p.holds)); end > p.now && rapid.Bool().Draw(t, "to the end") {
		step = end - p.now - rapid.IntRange(0, 1).Draw(t, "before")
	}
	p.now += step
}

func (p *pair) begin(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "really") > 0 {
		return
	}
	hold := rapid.SampledFrom([]int{0, 5, 5, 20}).Draw(t, "hold")
	p.term++
	p.holds = p.holds.Begin(TermHold{Term: uint64(p.term), HoldMicros: uint64(hold), PriorMicros: uint64(p.now)})
	p.model.term(p.now, hold)
	p.now++
	if len(p.holds) == maxHolds {
		// The bound gives up exactness on purpose; start afresh.
		p.now += 1000
		p.holds = nil
		p.state.Lease, p.model.lease = Lease{}, nil
	}
}

func (p *pair) configure(t *rapid.T) {
	p.policy.limit = rapid.IntRange(0, 3).Draw(t, "limit")
	p.policy.delay = rapid.SampledFrom([]int{0, 0, 10}).Draw(t, "delay")
	p.policy.files = rapid.Bool().Draw(t, "files")
}

func (p *pair) reload(t *rapid.T) {
	p.state = decoded(t, p.state)
}
