package actors

import (
	"cmp"
	"math/big"
	"slices"
	"strings"

	"queen/actors/machine/kv"
	"queen/raftlog/command"
)

// modelRows is the KV store as a map, walked over for everything.
type modelRows struct {
	rows        map[modelPlace]modelRow
	lastVersion uint64
}

type modelPlace struct {
	tenant         command.Tenant
	namespace, key string
}

// order is that of the rows in the store.
func (p modelPlace) order() string { return string(p.tenant[:]) + p.namespace + "\x00" + p.key }

type modelRow struct {
	value                     string
	version, expires, updated uint64
}

// modelWrite is what an operation does to a row: nil removes it.
type modelWrite struct {
	at    modelPlace
	row   *modelRow
	given func(version uint64)
}

func (m *model) liveRow(at modelPlace) (row modelRow, live bool) {
	row = m.kv.rows[at]
	live = row.version > 0 && (row.expires == 0 || row.expires > m.now)
	return row, live
}

func (m *model) until(ttlSeconds uint64) uint64 {
	if ttlSeconds == 0 {
		return 0
	}
	return m.now + ttlSeconds*modelSecond
}

// runKV executes a call.
func (m *model) runKV(c *command.KV) command.Result {
	if refusal := m.refuseKV(); refusal != nil {
		return refusal
	}
	result, writes, refusal := m.judgeKV(c)
	if refusal != nil {
		return refusal
	}
	if result.Lost == nil {
		m.writeRows(writes)
		m.readRows(c, result)
	}
	return result
}

// judgeKV decides the operations against the rows as they are.
func (m *model) judgeKV(c *command.KV) (result *command.KVResult, writes []modelWrite, refusal *command.Refusal) {
	result = &command.KVResult{Ops: make([]command.KVOpResult, len(c.Ops))}
	written := map[modelPlace]bool{}
	for i := range c.Ops {
		at := modelPlace{c.Tenant, c.Ops[i].Namespace, c.Ops[i].Key}
		if c.Ops[i].Kind.Writes() && written[at] {
			return nil, nil, &command.Refusal{Code: "kv_duplicate_key_in_call", Text: "a row is written twice"}
		}
		written[at] = written[at] || c.Ops[i].Kind.Writes()
	}
	for i := range c.Ops {
		op, r := &c.Ops[i], &result.Ops[i]
		if op.Kind == command.KVGet || op.Kind == command.KVGetMany || op.Kind == command.KVGetPrefix {
			continue
		}
		at := modelPlace{c.Tenant, op.Namespace, op.Key}
		row, live := m.liveRow(at)
		if live {
			r.Version = row.version
		}
		var write *modelWrite
		if op.Kind == command.KVIncr {
			r.Reason, write = m.incr(op, r, row, live)
		} else if r.Reason = modelVerdict(op, row, live); r.Reason != command.KVApplied {
			if live {
				r.Value = []byte(row.value)
			}
		} else if op.Kind == command.KVDelete {
			write = &modelWrite{}
		} else if op.Kind != command.KVCheck {
			write = &modelWrite{row: &modelRow{value: string(op.Value), expires: m.until(op.TTLSeconds)}}
		}
		if r.Reason != command.KVApplied && op.Required {
			return &command.KVResult{Lost: &command.KVLost{Op: uint32(i), Reason: r.Reason, Version: r.Version, Value: r.Value}}, nil, nil
		}
		if write != nil {
			write.at, write.given = at, func(version uint64) { r.Version = version }
			writes = append(writes, *write)
		}
	}
	return result, writes, nil
}

// modelVerdict is the table of state 2.3, row by row.
func modelVerdict(op *command.KVOp, row modelRow, live bool) command.KVReason {
	none, some := command.KVApplied, command.KVApplied
	switch {
	case op.Kind == command.KVPutIfAbsent, op.Kind == command.KVPut && op.HasExpect && op.Expect == 0, op.Kind == command.KVCheck && op.Expect == 0:
		some = command.KVReasonExists
	case op.Kind == command.KVDelete && op.HasExpect && op.Expect == 0:
		none, some = command.KVReasonAbsent, command.KVReasonExists
	case op.HasExpect:
		none = command.KVReasonAbsent
		if op.Expect != row.version {
			some = command.KVReasonVersion
		}
	case op.Kind == command.KVDelete:
		none = command.KVReasonAbsent
	}
	if live {
		return some
	}
	return none
}

// incr counts with fractions.
func (m *model) incr(op *command.KVOp, r *command.KVOpResult, row modelRow, live bool) (command.KVReason, *modelWrite) {
	fraction := func(text string) *big.Rat {
		number, _ := new(big.Rat).SetString(text)
		return number
	}
	next := &modelRow{expires: m.until(op.TTLSeconds)}
	if live {
		next.expires = row.expires
	} else {
		row.value = "0"
	}
	r.Value = []byte(row.value)
	current := fraction(row.value)
	if current == nil {
		return command.KVReasonType, nil
	}
	sum := current.Add(current, fraction(op.Delta))
	if op.Max != "" && sum.Cmp(fraction(op.Max)) > 0 || op.Min != "" && sum.Cmp(fraction(op.Min)) < 0 {
		return command.KVReasonLimit, nil
	}
	digits, _ := sum.FloatPrec()
	next.value = sum.FloatString(digits)
	r.Value = []byte(next.value)
	return command.KVApplied, &modelWrite{row: next}
}

// writeRows gives out versions in the order of the operations.
func (m *model) writeRows(writes []modelWrite) {
	for _, w := range writes {
		if w.row == nil {
			delete(m.kv.rows, w.at)
			continue
		}
		m.kv.lastVersion++
		w.row.version, w.row.updated = m.kv.lastVersion, m.now
		m.kv.rows[w.at] = *w.row
		w.given(w.row.version)
	}
}

// readRows evaluates the reads, which share a budget.
func (m *model) readRows(c *command.KV, result *command.KVResult) {
	left := int(c.Limits.ReadBytes)
	for i := range c.Ops {
		op, r := &c.Ops[i], &result.Ops[i]
		switch op.Kind {
		case command.KVGet:
			if row, live := m.liveRow(modelPlace{c.Tenant, op.Namespace, op.Key}); live {
				left -= len(row.value)
				r.Found, r.Version, r.Value, r.ExpiresMicros, r.UpdatedMicros = true, row.version, []byte(row.value), row.expires, row.updated
			}
		case command.KVGetMany:
			m.many(c.Tenant, op, r, &left)
		case command.KVGetPrefix:
			m.prefix(c.Tenant, op, r, &left)
		}
	}
}

func (m *model) many(tenant command.Tenant, op *command.KVOp, r *command.KVOpResult, left *int) {
	for _, key := range slices.Compact(slices.Sorted(slices.Values(op.Keys))) {
		row, live := m.liveRow(modelPlace{tenant, op.Namespace, key})
		if !live {
			r.Missing = append(r.Missing, uint32(slices.Index(op.Keys, key)))
			continue
		}
		if r.Truncated = len(r.Rows) > 0 && *left < 0; r.Truncated {
			break
		}
		r.Rows = append(r.Rows, row.shown(key, false, left))
	}
	slices.Sort(r.Missing)
}

func (m *model) prefix(tenant command.Tenant, op *command.KVOp, r *command.KVOpResult, left *int) {
	limit := int(op.Limit)
	if limit == 0 {
		limit = 100
	}
	for _, at := range m.placesOf(tenant, op.Namespace) {
		row, live := m.liveRow(at)
		if !live || !strings.HasPrefix(at.key, op.Key) || at.key <= op.After {
			continue
		}
		if r.Truncated = len(r.Rows) == limit || len(r.Rows) > 0 && *left < 0; r.Truncated {
			r.After = r.Rows[len(r.Rows)-1].Key
			return
		}
		r.Rows = append(r.Rows, row.shown(at.key, op.KeysOnly, left))
	}
}

func (r modelRow) shown(key string, keyOnly bool, left *int) command.KVRow {
	shown := command.KVRow{Key: key, Version: r.version, ExpiresMicros: r.expires, UpdatedMicros: r.updated}
	if !keyOnly {
		*left -= len(r.value)
		shown.Value = []byte(r.value)
	}
	return shown
}

// placesOf lists the rows of a namespace in the order of their keys.
func (m *model) placesOf(tenant command.Tenant, namespace string) (places []modelPlace) {
	for at := range m.kv.rows {
		if at.tenant == tenant && at.namespace == namespace {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, func(a, b modelPlace) int { return cmp.Compare(a.key, b.key) })
	return places
}

// sweepKV removes the rows that have expired, those first that expired first.
func (m *model) sweepKV(c *command.KVSweep) command.Result {
	var due []modelPlace
	for at, row := range m.kv.rows {
		if row.expires > 0 && row.expires <= m.now {
			due = append(due, at)
		}
	}
	slices.SortFunc(due, func(a, b modelPlace) int {
		return cmp.Or(cmp.Compare(m.kv.rows[a].expires, m.kv.rows[b].expires), cmp.Compare(a.order(), b.order()))
	})
	removed := min(len(due), int(c.MaxRows))
	for _, at := range due[:removed] {
		delete(m.kv.rows, at)
	}
	return &command.KVSweepResult{Removed: removed, More: removed < len(due)}
}

func (d *dump) keyValue(at modelPlace, row modelRow) {
	d.add("row %s %s %q version=%d expires=%d updated=%d %s", at.tenant, at.namespace, at.key, row.version, row.expires, row.updated, row.value)
}

func (d *dump) usage(tenant command.Tenant, rows, bytes uint64) {
	if rows > 0 {
		d.add("tenant %s has %d rows with %d bytes", tenant, rows, bytes)
	}
}

// dumpRows lists the rows, and what each tenant has of them.
func (m *model) dumpRows(d *dump) {
	used := map[command.Tenant]*kv.Usage{}
	for at, row := range m.kv.rows {
		d.keyValue(at, row)
		if used[at.tenant] == nil {
			used[at.tenant] = &kv.Usage{}
		}
		used[at.tenant].Rows++
		used[at.tenant].Bytes += uint64(len(at.namespace) + len(at.key) + len(row.value))
	}
	for tenant, usage := range used {
		d.usage(tenant, usage.Rows, usage.Bytes)
	}
}

// keyValues reads the same out of the store, with the counts of the namespaces.
func (d *dumper) keyValues() {
	d.t.Helper()
	found := uint64(0)
	for _, tenant := range generatedTenants {
		d.check(kv.Namespaces(d.view, tenant, func(namespace string, rows uint64) bool {
			if listed := d.namespace(tenant, namespace); listed != rows {
				d.t.Fatalf("namespace %s of %s counts %d rows and has %d", namespace, tenant, rows, listed)
			}
			found += rows
			return true
		}))
		usage, err := kv.UsageOf(d.view, tenant)
		d.check(err)
		d.dump.usage(tenant, usage.Rows, usage.Bytes)
	}
	if total, err := kv.Total(d.view); err != nil || total.Rows != found {
		d.t.Fatalf("%d of %d rows are in a namespace: %v", found, total.Rows, err)
	}
}

func (d *dumper) namespace(tenant command.Tenant, namespace string) (rows uint64) {
	d.t.Helper()
	in := kv.ListInput{Tenant: tenant, Namespace: namespace, Limit: 7, IncludeExpired: true, ReadBytes: 1 << 20}
	for {
		page, err := kv.List(d.view, &in)
		d.check(err)
		for _, row := range page.Rows {
			rows++
			d.dump.keyValue(modelPlace{tenant, namespace, row.Key}, modelRow{string(row.Value), row.Version, row.ExpiresMicros, row.UpdatedMicros})
		}
		if !page.Truncated {
			return rows
		}
		in.After = page.After
	}
}
