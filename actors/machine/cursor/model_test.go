package cursor

import (
	"sort"

	"queen/raftlog/command"
)

// model is a second writing of messaging 6.4 to 6.7 and 17.1, made from the text alone: slow, with maps and pointers, and
// without a line of the package's code. Offsets are ints, leases are strings, txids are strings.
type model struct {
	cursor       int
	lease        *modelLease
	failures     int
	attempt      int
	attemptStart *int
	notBefore    *int
	ceiling      *int
	released     *modelReleased
	delivered    *modelDelivery
	consumed     int
}

type modelLease struct {
	id             string
	end            int
	expiresAt      int
	held           bool
	conflating     bool
	attemptBefore  int
	attemptStartBf *int
}

// modelReleased is the memory of the repeat rule: "the last lease that an ack released and the items of that call".
type modelReleased struct {
	lease string
	items []modelItem
	said  []modelVerdict
}

// modelDelivery is what a commit-on-delivery claim took away.
type modelDelivery struct {
	first, failures, attempt int
	attemptStart, ceiling    *int
}

type modelItem struct {
	txid   string
	status string // completed, failed, retry, dlq
	err    *string
}

type modelVerdict struct {
	err             string // "", lease, unresolvable
	released        bool
	deadLetter, nop bool
}

type modelLetter struct {
	offset  int
	message *string
	retries int
}

// world is the partition that both machines look at.
type world struct {
	txids    []string // by offset; the tail is their number
	logStart int
	// remembered is the lowest offset whose txid is inside the hash window.
	remembered int
}

func number(n int) *int { return &n }

func (m *model) live(now int) bool { return m.lease != nil && now < m.lease.expiresAt }

// move is move(x) of 17.1.
func (m *model) move(x int) {
	m.cursor = x
	m.failures = 0
	m.notBefore = nil
	m.delivered = nil
	if m.ceiling != nil && x >= *m.ceiling {
		m.ceiling = nil
	}
}

// retain: cursors below the new log start resume at it (section 15).
func (m *model) retain(logStart int) {
	if m.cursor < logStart {
		m.move(logStart)
	}
}

func (m *model) clearAttempts() { m.attempt, m.attemptStart = 0, nil }

// term: a lease that is live when a term begins is held, once (cluster 10).
func (m *model) term(priorStamp, hold int) {
	if m.live(priorStamp) && !m.lease.held {
		m.lease.held = true
		m.lease.expiresAt += hold
	}
}

// claim is the claim of 17.1. visible tells of each retained offset whether it may be delivered; the visible ones are a
// prefix of them.
func (m *model) claim(now int, lease string, visible []int, most, seconds int, conflating, commit bool) (first, last, attempt int, ok bool) {
	if m.live(now) || m.notBefore != nil && now < *m.notBefore {
		return 0, 0, 0, false
	}
	var batch []int
	for _, offset := range visible {
		if offset >= m.cursor && (m.ceiling == nil || offset < *m.ceiling) && (conflating || len(batch) < most) {
			batch = append(batch, offset)
		}
	}
	if len(batch) == 0 {
		return 0, 0, 0, false
	}
	first, last = batch[0], batch[len(batch)-1]
	m.retain(first)
	m.notBefore = nil
	if commit {
		taken := &modelDelivery{first, m.failures, m.attempt, m.attemptStart, m.ceiling}
		m.consumed += last + 1 - first
		m.move(last + 1)
		m.clearAttempts()
		m.lease = nil
		m.delivered = taken
		return first, last, 1, true
	}
	granted := &modelLease{
		id: lease, end: last, expiresAt: now + seconds, conflating: conflating,
		attemptBefore: m.attempt, attemptStartBf: m.attemptStart,
	}
	if m.attemptStart != nil && *m.attemptStart == first {
		m.attempt++
	} else {
		m.attempt = 1
	}
	m.attemptStart = number(first)
	m.lease = granted
	return first, last, m.attempt, true
}

func (m *model) handBack(lease string) bool {
	if m.lease == nil || m.lease.id != lease {
		return false
	}
	m.attempt, m.attemptStart = m.lease.attemptBefore, m.lease.attemptStartBf
	m.lease = nil
	return true
}

func (m *model) handBackDelivery(now, first, last int) bool {
	if m.delivered == nil || m.cursor != last+1 || m.delivered.first != first || m.live(now) {
		return false
	}
	taken := m.delivered
	m.consumed -= last + 1 - first
	m.move(first)
	m.lease = nil
	m.failures, m.attempt, m.attemptStart = taken.failures, taken.attempt, taken.attemptStart
	if taken.ceiling != nil {
		m.ceiling = taken.ceiling
	}
	return true
}

func (m *model) extend(now int, lease string, seconds int) (int, bool) {
	if !m.live(now) || m.lease.id != lease {
		return 0, false
	}
	m.lease.expiresAt = max(m.lease.expiresAt, now+seconds)
	m.lease.held = false
	return m.lease.expiresAt, true
}

func (m *model) seek(x int) {
	m.move(x)
	m.lease = nil
	m.clearAttempts()
}

// resolve is 6.4.4: the lowest offset in range, else whether the txid is known below the cursor.
func (m *model) resolve(now int, w *world, txid string) (offset int, found, below bool) {
	for o := m.cursor; o < len(w.txids); o++ {
		if w.txids[o] != txid {
			continue
		}
		if m.live(now) && o <= m.lease.end || !m.live(now) && o >= w.remembered {
			return o, true, false
		}
	}
	for o := 0; o < m.cursor; o++ {
		if w.txids[o] == txid && (o >= w.remembered || o >= w.logStart) {
			return 0, false, true
		}
	}
	return 0, false, false
}

var precedence = map[string]int{"completed": 1, "retry": 2, "failed": 3, "dlq": 4}

type modelPolicy struct {
	limit int
	delay int
	files bool
}

// ack is section 6.4 with 6.5 to 6.7. It returns the verdicts, the dead letters and the dropped offset (-1 for none).
func (m *model) ack(now int, w *world, lease string, items []modelItem, p modelPolicy) ([]modelVerdict, []modelLetter, int) {
	verdicts := make([]modelVerdict, len(items))
	if lease != "" && !(m.live(now) && m.lease.id == lease) {
		for i, item := range items {
			verdicts[i] = m.refuse(now, w, lease, item)
		}
		return verdicts, nil, -1
	}
	said := map[int]string{} // the strongest status at each offset in range
	places := make([]int, len(items))
	acted := false
	for i, item := range items {
		offset, found, below := m.resolve(now, w, item.txid)
		places[i] = -1
		switch {
		case found:
			places[i] = offset
			if precedence[item.status] > precedence[said[offset]] {
				said[offset] = item.status
			}
		case below && item.status == "completed":
			verdicts[i].nop = true
			acted = true
		default:
			verdicts[i].err = "unresolvable"
		}
	}
	letters, dropped, released := m.settle(now, lease, said, acted, p)
	if released == "" {
		return verdicts, nil, -1
	}
	for i := range items {
		if places[i] < 0 {
			continue
		}
		verdicts[i].released = true
		for k := range letters {
			if letters[k].offset == places[i] {
				verdicts[i].deadLetter = true
			}
		}
	}
	for k := range letters {
		letters[k].message = reason(letters[k].offset, said, items, places)
	}
	m.released = &modelReleased{released, append([]modelItem(nil), items...), append([]modelVerdict(nil), verdicts...)}
	return verdicts, letters, dropped
}

// refuse answers an item whose lease is not live: 6.4.2 with its exceptions.
func (m *model) refuse(now int, w *world, lease string, item modelItem) modelVerdict {
	if m.released == nil || m.released.lease != lease {
		return modelVerdict{err: "lease"}
	}
	for i, before := range m.released.items {
		if before.txid == item.txid && before.status == item.status {
			return m.released.said[i]
		}
	}
	// Whatever the group has leased since, only what stands below the cursor counts.
	below := false
	for o := 0; o < m.cursor; o++ {
		if w.txids[o] == item.txid && (o >= w.remembered || o >= w.logStart) {
			below = true
		}
	}
	if item.status == "completed" && below {
		return modelVerdict{nop: true}
	}
	return modelVerdict{err: "lease"}
}

// reason is the errorMessage of a dead letter (6.5).
func reason(offset int, said map[int]string, items []modelItem, places []int) *string {
	for i, item := range items {
		if places[i] == offset && item.status == said[offset] && item.err != nil {
			return item.err
		}
	}
	for _, item := range items {
		if item.err != nil {
			return item.err
		}
	}
	if said[offset] == "failed" {
		text := "Retries exhausted"
		return &text
	}
	return nil
}

// settle is 6.5. It returns the id of the lease that it released.
func (m *model) settle(now int, lease string, said map[int]string, acted bool, p modelPolicy) (letters []modelLetter, dropped int, released string) {
	dropped = -1
	var offsets []int
	for offset := range said {
		offsets = append(offsets, offset)
	}
	sort.Ints(offsets)
	l := -1
	for _, offset := range offsets {
		if said[offset] != "completed" {
			l = offset
			break
		}
	}
	prefix := -1
	for _, offset := range offsets {
		if said[offset] == "completed" && (l < 0 || offset < l) {
			prefix = offset
		}
	}
	if !m.live(now) {
		if prefix >= 0 {
			m.consumed += prefix + 1 - m.cursor
			m.move(prefix + 1)
			m.lease = nil
		}
		return nil, -1, ""
	}
	held := m.lease
	release := func() { released, m.lease = held.id, nil }
	if len(said) == 0 {
		// Nothing of the batch is left: retention took it, and its holder is done.
		if acted && lease == held.id && m.cursor > held.end {
			release()
			m.clearAttempts()
		}
		return nil, -1, released
	}
	if prefix >= 0 {
		m.consumed += prefix + 1 - m.cursor
		m.move(prefix + 1)
		m.attemptStart = number(prefix + 1)
		if l < 0 && prefix == held.end {
			release()
			m.clearAttempts()
		}
	}
	if l < 0 {
		return nil, -1, released
	}
	release()
	judged := m.failures
	for _, offset := range offsets {
		if said[offset] == "dlq" {
			letters = append(letters, modelLetter{offset: offset, retries: judged})
		}
	}
	pass := func() {
		to := l + 1
		for said[to] == "dlq" {
			to++
		}
		m.consumed += to - m.cursor
		m.move(to)
		m.clearAttempts()
	}
	switch said[l] {
	case "dlq":
		pass()
	case "failed":
		m.fail(now, l, judged, held.conflating, p, pass, &letters, &dropped)
	}
	return letters, dropped, released
}

// fail is the failed rule at L.
func (m *model) fail(now, l, judged int, conflating bool, p modelPolicy, pass func(), letters *[]modelLetter, dropped *int) {
	if judged < p.limit {
		m.failures++
		if p.delay > 0 {
			m.notBefore = number(now + p.delay)
		}
		return
	}
	if m.cursor != l && !conflating {
		m.ceiling = number(l)
		return
	}
	if p.files {
		*letters = append([]modelLetter{{offset: l, retries: judged}}, *letters...)
	} else {
		*dropped = l
	}
	pass()
}

// modelStatus names a status as the model does.
func modelStatus(status command.AckStatus) string {
	return [...]string{"completed", "retry", "failed", "dlq"}[status]
}
