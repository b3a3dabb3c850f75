package kv

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen/raftlog/command"
)

// modelKey names a row of the model.
type modelKey struct {
	tenant uuid.UUID
	place
}

type modelRow struct {
	value                     string
	version, expires, updated uint64
}

// model is the store as a map, walked over for everything.
type model struct {
	rows map[modelKey]modelRow
	last uint64
}

func (m *model) live(at modelKey, now uint64) (modelRow, bool) {
	row, ok := m.rows[at]
	return row, ok && (row.expires == 0 || row.expires > now)
}

// judge says what an operation does: why not, and else the row that it leaves, nil for none.
func (m *model) judge(at modelKey, op *command.KVOp, limits command.KVLimits, now uint64) (reason string, after *modelRow) {
	row, live := m.live(at, now)
	written := &modelRow{value: string(op.Value), updated: now}
	if op.TTLSeconds > 0 {
		written.expires = now + op.TTLSeconds*second
	}
	switch op.Kind {
	case command.KVIncr:
		if live {
			written.expires = row.expires
		} else {
			row = modelRow{value: "0"}
		}
		next, reason := modelIncr(row.value, op, limits)
		written.value = next
		return reason, written
	case command.KVPutIfAbsent:
		if live {
			return "exists", nil
		}
		return "", written
	case command.KVDelete:
		switch {
		case !live:
			return "absent", nil
		case op.HasExpect && op.Expect == 0:
			return "exists", nil
		case op.HasExpect && op.Expect != row.version:
			return "version", nil
		}
		return "", nil
	}
	if op.HasExpect && op.Expect == 0 && live {
		return "exists", nil
	}
	if op.HasExpect && op.Expect > 0 && !live {
		return "absent", nil
	}
	if op.HasExpect && op.Expect > 0 && op.Expect != row.version {
		return "version", nil
	}
	return "", written
}

// modelIncr counts with fractions.
func modelIncr(value string, op *command.KVOp, limits command.KVLimits) (next, reason string) {
	fraction := func(text string) *big.Rat {
		r, _ := new(big.Rat).SetString(text)
		return r
	}
	text := func(r *big.Rat) string {
		digits, _ := r.FloatPrec()
		return r.FloatString(digits)
	}
	if strings.ContainsAny(value[:1], `"{[ntf`) || len(text(fraction(value))) > int(limits.ValueBytes) {
		return "", "type"
	}
	sum := new(big.Rat).Add(fraction(value), fraction(op.Delta))
	if op.Max != "" && sum.Cmp(fraction(op.Max)) > 0 || op.Min != "" && sum.Cmp(fraction(op.Min)) < 0 || len(text(sum)) > int(limits.ValueBytes) {
		return "", "limit"
	}
	return text(sum), ""
}

// usage is what is live of a tenant.
func (m *model) usage(tenant uuid.UUID, now uint64) (u Usage) {
	for at := range m.rows {
		if row, live := m.live(at, now); live && at.tenant == tenant {
			u.Rows++
			u.Bytes += uint64(len(at.namespace) + len(at.key) + len(row.value))
		}
	}
	return u
}

// call executes a call and returns its result; the text of a refusal is left out.
func (m *model) call(c *command.KV, now uint64, quota Quota) command.Result {
	written := map[place]int{}
	for i := range c.Ops {
		if op := &c.Ops[i]; op.Kind.Writes() {
			if written[place{op.Namespace, op.Key}]++; written[place{op.Namespace, op.Key}] > 1 {
				return &command.Refusal{Code: codeDuplicate}
			}
		}
	}
	after := &model{rows: maps.Clone(m.rows), last: m.last}
	results := make([]command.KVOpResult, len(c.Ops))
	for i := range c.Ops {
		op, result := &c.Ops[i], &results[i]
		if op.Kind.Reads() {
			continue
		}
		at := modelKey{c.Tenant, place{op.Namespace, op.Key}}
		row, live := m.live(at, now)
		reason, left := m.judge(at, op, c.Limits, now)
		if live {
			result.Version = row.version
		}
		if reason != "" {
			for result.Reason.String() != reason {
				result.Reason++
			}
			if live {
				result.Value = []byte(row.value)
			} else if op.Kind == command.KVIncr {
				result.Value = []byte("0")
			}
			if op.Required {
				return &command.KVResult{Lost: &command.KVLost{Op: uint32(i), Reason: result.Reason, Version: result.Version, Value: result.Value}}
			}
			continue
		}
		if op.Kind == command.KVCheck {
			continue
		}
		after.last++
		delete(after.rows, at)
		if left != nil {
			if op.Kind == command.KVIncr {
				result.Value = []byte(left.value)
			}
			left.version, result.Version = after.last, after.last
			after.rows[at] = *left
		} else {
			after.last-- // a delete takes no version
		}
	}
	before, grown := m.usage(c.Tenant, now), after.usage(c.Tenant, now)
	if grown.Rows > before.Rows && grown.Rows > quota.Rows || grown.Bytes > before.Bytes && grown.Bytes > quota.Bytes {
		return &command.Refusal{Code: CodeQuota}
	}
	*m = *after
	left := int64(c.Limits.ReadBytes)
	for i := range c.Ops {
		m.read(c, &c.Ops[i], &results[i], now, &left)
	}
	return &command.KVResult{Ops: results}
}

func (m *model) read(c *command.KV, op *command.KVOp, result *command.KVOpResult, now uint64, left *int64) {
	of := func(key string) (modelRow, bool) { return m.live(modelKey{c.Tenant, place{op.Namespace, key}}, now) }
	take := func(key string, row modelRow) command.KVRow {
		shown := command.KVRow{Key: key, Version: row.version, ExpiresMicros: row.expires, UpdatedMicros: row.updated}
		if !op.KeysOnly {
			shown.Value = []byte(row.value)
			*left -= int64(len(row.value))
		}
		return shown
	}
	switch op.Kind {
	case command.KVGet:
		if row, live := of(op.Key); live {
			result.Found, result.Version, result.ExpiresMicros, result.UpdatedMicros = true, row.version, row.expires, row.updated
			result.Value = []byte(row.value)
			*left -= int64(len(row.value))
		}
	case command.KVGetMany:
		keys := slices.Compact(slices.Sorted(slices.Values(op.Keys)))
		for _, key := range keys {
			row, live := of(key)
			if !live {
				result.Missing = append(result.Missing, uint32(slices.Index(op.Keys, key)))
				continue
			}
			if len(result.Rows) > 0 && *left < 0 {
				result.Truncated = true
				break
			}
			result.Rows = append(result.Rows, take(key, row))
		}
		slices.Sort(result.Missing)
	case command.KVGetPrefix:
		limit := int(op.Limit)
		if limit == 0 {
			limit = 100
		}
		for _, key := range m.keys(c.Tenant, op.Namespace) {
			row, live := of(key)
			if !live || !strings.HasPrefix(key, op.Key) || key <= op.After {
				continue
			}
			if n := len(result.Rows); n == limit || n > 0 && *left < 0 {
				result.Truncated, result.After = true, result.Rows[n-1].Key
				break
			}
			result.Rows = append(result.Rows, take(key, row))
		}
	}
}

// keys lists the keys of a namespace, of expired rows too.
func (m *model) keys(tenant uuid.UUID, namespace string) (keys []string) {
	for at := range m.rows {
		if at.tenant == tenant && at.namespace == namespace {
			keys = append(keys, at.key)
		}
	}
	slices.Sort(keys)
	return keys
}

// sweep drops as many rows as were swept, those first that expired first.
func (m *model) sweep(removed int, now uint64) (due int) {
	var gone []modelKey
	for at := range m.rows {
		if _, live := m.live(at, now); !live {
			gone = append(gone, at)
		}
	}
	slices.SortFunc(gone, func(a, b modelKey) int {
		return cmp.Or(cmp.Compare(m.rows[a].expires, m.rows[b].expires), cmp.Compare(string(a.tenant[:]), string(b.tenant[:])),
			cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.key, b.key))
	})
	for _, at := range gone[:min(removed, len(gone))] {
		delete(m.rows, at)
	}
	return len(gone)
}

var (
	drawnTenants = []uuid.UUID{tenantA, tenantB}
	drawnSpaces  = []string{"n", "n.m", "m"}
	drawnKeys    = []string{"a", "a/b", "a/c", "ab", "b", "\xff", "é"}
	drawnValues  = []string{"1", "-0.5", "1e3", "null", `"x"`, `{"a":1}`, "99999", `"` + strings.Repeat("y", inlineBytes) + `"`}
)

func drawOp(t *rapid.T, last uint64) command.KVOp {
	op := command.KVOp{
		Kind:      command.KVOpKind(rapid.IntRange(int(command.KVGet), int(command.KVCheck)).Draw(t, "kind")),
		Namespace: rapid.SampledFrom(drawnSpaces).Draw(t, "namespace"),
		Key:       rapid.SampledFrom(drawnKeys).Draw(t, "key"),
	}
	if op.Kind.Reads() {
		op.KeysOnly = op.Kind == command.KVGetPrefix && rapid.Bool().Draw(t, "keys only")
		op.Limit = rapid.Uint32Range(0, 4).Draw(t, "limit")
		op.After = rapid.SampledFrom(append([]string{""}, drawnKeys...)).Draw(t, "after")
		op.Keys = rapid.SliceOfN(rapid.SampledFrom(drawnKeys), 0, 4).Draw(t, "keys")
		return op
	}
	op.Required = rapid.IntRange(0, 9).Draw(t, "required") == 0
	if op.Kind == command.KVPut || op.Kind == command.KVDelete || op.Kind == command.KVCheck {
		if op.HasExpect = op.Kind == command.KVCheck || rapid.Bool().Draw(t, "conditional"); op.HasExpect {
			// Mostly a version that may be there.
			op.Expect = rapid.Uint64Range(last-min(last, 8), last).Draw(t, "expect")
			if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
				op.Expect = 0
			}
		}
	}
	if op.Kind == command.KVPut || op.Kind == command.KVPutIfAbsent {
		op.Value = []byte(rapid.SampledFrom(drawnValues).Draw(t, "value"))
	}
	if op.Kind == command.KVPut || op.Kind == command.KVPutIfAbsent || op.Kind == command.KVIncr {
		op.TTLSeconds = rapid.Uint64Range(0, 3).Draw(t, "ttl")
	}
	if op.Kind == command.KVIncr {
		op.Delta = rapid.SampledFrom([]string{"1", "-1", "0.25", "1e4", "-3e-2", "99999"}).Draw(t, "delta")
		op.Min = rapid.SampledFrom([]string{"", "", "0", "-1e2"}).Draw(t, "min")
		op.Max = rapid.SampledFrom([]string{"", "", "5", "1e5"}).Draw(t, "max")
	}
	return op
}

func drawQuota(t *rapid.T) Quota {
	return Quota{
		Rows:  rapid.SampledFrom([]uint64{NoLimit, NoLimit, 0, 3, 10}).Draw(t, "rows"),
		Bytes: rapid.SampledFrom([]uint64{NoLimit, NoLimit, 40, 20_000}).Draw(t, "bytes"),
	}
}

// TestStoreFollowsTheModel compares the answer of every call with that of a plain map, and looks through the rows after each.
func TestStoreFollowsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		m := &model{rows: map[modelKey]modelRow{}}
		t.Repeat(map[string]func(*rapid.T){
			"call":  func(t *rapid.T) { callBoth(t, r, m) },
			"call2": func(t *rapid.T) { callBoth(t, r, m) },
			"call3": func(t *rapid.T) { callBoth(t, r, m) },
			"time": func(t *rapid.T) {
				r.now += rapid.SampledFrom([]uint64{1, second - 5, second, 3 * second}).Draw(t, "pause")
			},
			"sweep": func(t *rapid.T) {
				step := rapid.IntRange(1, 5).Draw(t, "rows")
				removed, more := r.sweep(step)
				if due := m.sweep(removed, r.now); removed != min(step, due) || more != (due > removed) {
					t.Fatalf("removed %d of %d, more %v", removed, due, more)
				}
			},
			"list": func(t *rapid.T) { compareLists(t, r, m) },
		})
	})
}

func callBoth(t *rapid.T, r *rig, m *model) {
	r.tenant = rapid.SampledFrom(drawnTenants).Draw(t, "tenant")
	r.quota = drawQuota(t)
	r.limits = command.KVLimits{
		ValueBytes: rapid.SampledFrom([]uint32{65_536, 5}).Draw(t, "value bytes"),
		ReadBytes:  rapid.SampledFrom([]uint32{4 << 20, 10, 0}).Draw(t, "read bytes"),
	}
	ops := make([]command.KVOp, rapid.IntRange(1, 6).Draw(t, "operations"))
	for i := range ops {
		ops[i] = drawOp(t, m.last)
	}
	got := r.execute(ops...)
	if refusal, ok := got.(*command.Refusal); ok {
		refusal.Text = ""
	}
	want := m.call(&command.KV{Tenant: r.tenant, Limits: r.limits, Ops: ops}, r.now, r.quota)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v\ngives %+v\nwant  %+v", ops, plainResult(got), plainResult(want))
	}
}

func compareLists(t *rapid.T, r *rig, m *model) {
	tenant := rapid.SampledFrom(drawnTenants).Draw(t, "tenant")
	var got, want []string
	if err := Namespaces(r.store, tenant, func(namespace string, rows uint64) bool {
		got = append(got, fmt.Sprint(namespace, " ", rows))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range slices.Sorted(slices.Values(drawnSpaces)) {
		if keys := m.keys(tenant, namespace); len(keys) > 0 {
			want = append(want, fmt.Sprint(namespace, " ", len(keys)))
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("namespaces are %q, want %q", got, want)
	}
	namespace := rapid.SampledFrom(drawnSpaces).Draw(t, "namespace")
	in := &ListInput{Tenant: tenant, Namespace: namespace, Limit: 2, IncludeExpired: true, NowMicros: r.now, ReadBytes: 4 << 20}
	var rows []ListedRow
	for {
		page, err := List(r.store, in)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, page.Rows...)
		if in.After = page.After; !page.Truncated {
			break
		}
	}
	keys := m.keys(tenant, namespace)
	if len(rows) != len(keys) {
		t.Fatalf("listed %d rows, want %q", len(rows), keys)
	}
	for i, row := range rows {
		at := modelKey{tenant, place{namespace, keys[i]}}
		if known, live := m.live(at, r.now); row.Key != keys[i] || row.Expired == live || string(row.Value) != known.value || row.Version != known.version {
			t.Fatalf("row %d is %+v, want %+v", i, row, known)
		}
	}
}
