package kv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"queen/raftlog/command"
)

func keysOf(rows []command.KVRow) (keys []string) {
	for _, row := range rows {
		keys = append(keys, row.Key)
	}
	return keys
}

// TestPagesAreCutAtTheirLimit: five keys with limit 2 come as pages of 2, 2 and 1 (state 2.8).
func TestPagesAreCutAtTheirLimit(t *testing.T) {
	r := newRig(t)
	for _, key := range []string{"p/a", "p/b", "p/c", "p/d", "p/e", "p0", "pX/a", "o"} {
		r.one(put(key, "1"))
	}
	after := ""
	for _, want := range []struct {
		keys  []string
		after string
	}{{[]string{"p/a", "p/b"}, "p/b"}, {[]string{"p/c", "p/d"}, "p/d"}, {[]string{"p/e"}, ""}} {
		got := r.one(prefix("p/", after, 2))
		if !slices.Equal(keysOf(got.Rows), want.keys) || got.After != want.after || got.Truncated != (want.after != "") {
			t.Fatalf("after %q: %+v", after, got)
		}
		after = got.After
	}
	if got := r.one(prefix("p/", "", 5)); len(got.Rows) != 5 || got.Truncated {
		t.Errorf("a page that just holds all: %+v", got)
	}
	if got := r.one(prefix("p/", "p0", 5)); len(got.Rows) != 0 || got.Truncated {
		t.Errorf("behind the last key: %+v", got)
	}
	if got := r.one(prefix("p/", "a", 5)); len(got.Rows) != 5 {
		t.Errorf("in front of the first key: %+v", got)
	}
}

func TestPrefixesAreComparedByteByByte(t *testing.T) {
	r := newRig(t)
	keys := []string{"%", "_", "a", "a\x01", "a%", "a_", "ab", "é", "\U0001F600"}
	for _, key := range keys {
		r.one(put(key, "1"))
	}
	slices.Sort(keys)
	for _, of := range []string{"%", "_", "a", "a\x01", "a%", "é", "\xc3", "z"} {
		var want []string
		for _, key := range keys {
			if strings.HasPrefix(key, of) {
				want = append(want, key)
			}
		}
		if got := keysOf(r.one(prefix(of, "", 0)).Rows); !slices.Equal(got, want) {
			t.Errorf("prefix %q: %q, want %q", of, got, want)
		}
	}
}

func TestPageLimitsAreClamped(t *testing.T) {
	r := newRig(t)
	for i := range 1001 {
		at := place{"n", fmt.Sprintf("k%04d", i)}
		x := &writing{w: r.store}
		var err error
		if x.counters, err = readCounters(r.store); err != nil {
			t.Fatal(err)
		}
		x.put(tenantA, at, nil, &Row{}, []byte("1"), inlineBytes)
		if err := x.account.write(r.store, r.store); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[uint32]int{0: 100, 1: 1, 1000: 1000, 1001: 1000, 1 << 31: 1000} {
		if got := r.one(prefix("k", "", limit)); len(got.Rows) != want || !got.Truncated {
			t.Errorf("limit %d gives %d rows", limit, len(got.Rows))
		}
	}
}

// TestReadsShareABudget: the row that exceeds it is still delivered, then the read stops (state 2.8).
func TestReadsShareABudget(t *testing.T) {
	r := newRig(t)
	for _, key := range []string{"a", "b", "c", "d"} {
		r.one(put(key, `"0123456789"`)) // 12 bytes
	}
	keysOnly := prefix("a", "", 0)
	keysOnly.Key, keysOnly.KeysOnly = "", true
	for _, c := range []struct {
		bytes    uint32
		want     int
		whole    bool
		wantMany int
	}{{48, 4, true, 4}, {47, 4, true, 4}, {36, 4, true, 4}, {35, 3, false, 3}, {24, 3, false, 3}, {0, 1, false, 1}} {
		r.limits.ReadBytes = c.bytes
		got := r.one(prefix("", "", 0))
		if len(got.Rows) != c.want || got.Truncated == c.whole || c.whole != (got.After == "") {
			t.Errorf("%d bytes: %q, %v, %q", c.bytes, keysOf(got.Rows), got.Truncated, got.After)
		}
		some := r.one(many("d", "x", "a", "c", "b"))
		if len(some.Rows) != c.wantMany || some.Truncated == c.whole || !slices.IsSorted(keysOf(some.Rows)) {
			t.Errorf("%d bytes: getMany gives %q, %v", c.bytes, keysOf(some.Rows), some.Truncated)
		}
		if only := r.one(keysOnly); len(only.Rows) != 4 || only.Truncated || only.Rows[0].Value != nil || only.Rows[0].Version != 1 {
			t.Errorf("%d bytes: keys only give %+v", c.bytes, only)
		}
	}
	// A read that comes late still gets on, and a get has nothing to cut off.
	r.limits.ReadBytes = 20
	got := r.call(many("a", "b"), prefix("", "b", 0), get("d"), many("c", "d"))
	if len(got[0].Rows) != 2 || len(got[1].Rows) != 1 || got[1].After != "c" || !got[2].Found || len(got[3].Rows) != 1 || !got[3].Truncated {
		t.Errorf("shared: %+v", got)
	}
}

func TestGetManyNamesEveryKeyOnce(t *testing.T) {
	r := newRig(t)
	r.one(put("b", "1"))
	r.one(put("a", "2"))
	r.one(lasting(put("e", "1"), 1))
	r.now += second
	got := r.one(many("z", "b", "e", "a", "b", "z"))
	if !slices.Equal(keysOf(got.Rows), []string{"a", "b"}) || !slices.Equal(got.Missing, []uint32{0, 2}) || got.Truncated {
		t.Errorf("got %+v", got)
	}
	if got := r.one(many()); got.Rows != nil || got.Missing != nil {
		t.Errorf("no keys give %+v", got)
	}
}

func TestExpiredRowsAreNotSeen(t *testing.T) {
	r := newRig(t)
	for _, key := range []string{"a", "b", "c", "d"} {
		r.one(lasting(put(key, "1"), map[string]uint64{"b": 1, "d": 1}[key]))
	}
	r.now += 2 * second
	got := r.one(prefix("", "", 2))
	if !slices.Equal(keysOf(got.Rows), []string{"a", "c"}) || got.Truncated {
		t.Errorf("a row that has expired fills or cuts the page: %+v", got)
	}
	if got := r.one(prefix("d", "", 0)); got.Rows != nil || got.Truncated {
		t.Errorf("got %+v", got)
	}
}

// TestAPageEndsAmongRowsThatHaveExpired: no read walks over any number of them.
func TestAPageEndsAmongRowsThatHaveExpired(t *testing.T) {
	r := newRig(t)
	expired := appendRow(nil, &Row{Version: 1, ExpiresMicros: 1, Inline: []byte("1")})
	for i := range expiredScan + 5 {
		r.store.Set(keyOf(fmt.Sprintf("k%06d", i)), expired)
	}
	r.store.Set(keyOf("z"), appendRow(nil, &Row{Version: 2, Inline: []byte("1")}))
	c := &command.KV{Tenant: tenantA, Limits: r.limits, Ops: []command.KVOp{prefix("", "", 0)}}
	var keys []string
	pages := 0
	for {
		result, err := Read(r.store, c, r.now)
		if err != nil {
			t.Fatal(err)
		}
		page := result.(*command.KVResult).Ops[0]
		if pages++; r.store.Scanned > expiredScan+1 {
			t.Fatalf("a page walks over %d rows", r.store.Scanned)
		}
		keys = append(keys, keysOf(page.Rows)...)
		if !page.Truncated {
			break
		}
		c.Ops[0].After = page.After
	}
	if pages != 2 || !slices.Equal(keys, []string{"z"}) {
		t.Errorf("%d pages with %q", pages, keys)
	}
}

func TestConsoleListsNamespacesWithTheirRows(t *testing.T) {
	r := newRig(t)
	r.one(in("b", put("k", "1")))
	r.one(in("a.b", put("k", "1")))
	r.one(in("a", lasting(put("k", "1"), 1)))
	r.one(in("a", put("l", "1")))
	r.one(in("c", put("k", "1")))
	r.one(in("c", remove("k")))
	r.now += 2 * second
	list := func() (got []string) {
		if err := Namespaces(r.store, tenantA, func(namespace string, rows uint64) bool {
			got = append(got, fmt.Sprint(namespace, rows))
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := list(); !slices.Equal(got, []string{"a2", "a.b1", "b1"}) {
		t.Errorf("got %q", got)
	}
	r.sweep(10)
	if got := list(); !slices.Equal(got, []string{"a1", "a.b1", "b1"}) {
		t.Errorf("after a sweep: %q", got)
	}
	if err := Namespaces(r.store, tenantB, func(string, uint64) bool {
		t.Error("the namespace of another tenant")
		return true
	}); err != nil {
		t.Fatal(err)
	}
}

func TestConsolePagesMayShowExpiredRows(t *testing.T) {
	r := newRig(t)
	r.one(put("a", `"0123"`))
	r.one(lasting(put("b", "12"), 1))
	r.one(put("c", "3"))
	r.now += 2 * second
	list := func(in ListInput) *Listed {
		in.Tenant, in.NowMicros, in.Namespace = tenantA, r.now, "n"
		listed, err := List(r.store, &in)
		if err != nil {
			t.Fatal(err)
		}
		return listed
	}
	got := list(ListInput{IncludeExpired: true, ReadBytes: 100})
	if len(got.Rows) != 3 || !got.Rows[1].Expired || got.Rows[0].Expired || got.Rows[1].Version != 2 || got.Bytes != 9 || got.Truncated {
		t.Errorf("with expired rows: %+v", got)
	}
	got = list(ListInput{ReadBytes: 100, Prefix: "b"})
	if len(got.Rows) != 0 || got.Bytes != 0 {
		t.Errorf("without: %+v", got)
	}
	got = list(ListInput{IncludeExpired: true, ReadBytes: 100, After: "a", Limit: 1, KeysOnly: true})
	if len(got.Rows) != 1 || got.Rows[0].Key != "b" || got.Rows[0].Value != nil || got.Bytes != 0 || !got.Truncated || got.After != "b" {
		t.Errorf("keys only: %+v", got)
	}
	if got = list(ListInput{IncludeExpired: true, ReadBytes: 5}); len(got.Rows) != 1 || !got.Truncated || got.Bytes != 6 {
		t.Errorf("a page that ends before its limit: %+v", got)
	}
}
