package timer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
)

func keysOf(rows []*Row) (keys []string) {
	for _, row := range rows {
		keys = append(keys, row.Key)
	}
	return keys
}

func TestListsComeInTheOrderOfTheBytes(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	for _, key := range []string{"b", "a/2", "é", "a", "a/10", "B", "%"} {
		r.call(r.schedule(key, second))
	}
	other := r.schedule("zz", second)
	other.Queue = "q2"
	r.call(other)
	for _, c := range []struct {
		after     string
		limit     int
		want      string
		truncated bool
	}{
		{"", 100, "% B a a/10 a/2 b é", false},
		{"", 3, "% B a", true},
		{"a", 2, "a/10 a/2", true},
		{"a/2", 2, "b é", false},
		{"a/1", 1, "a/10", true},
		{"é", 100, "", false},
		{"", 0, "%", true},
		{"", -5, "%", true},
		{"", 1 << 40, "% B a a/10 a/2 b é", false},
	} {
		rows, truncated, err := r.reads().List(tenantA, "q", c.after, c.limit)
		if got := strings.Join(keysOf(rows), " "); err != nil || got != c.want || truncated != c.truncated {
			t.Errorf("after %q, limit %d: %q, %v, %v", c.after, c.limit, got, truncated, err)
		}
	}
	for _, queue := range []string{"", "none", "q2x"} {
		if rows, truncated, err := r.reads().List(tenantA, queue, "", 10); len(rows) != 0 || truncated || err != nil {
			t.Errorf("queue %q: %v, %v, %v", queue, rows, truncated, err)
		}
	}
}

func TestALimitOfAListIsClamped(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	var ops []command.TimerOp
	for i := range MaxListed + 1 {
		ops = append(ops, r.schedule(fmt.Sprintf("%04d", i), second))
	}
	r.call(ops...)
	if rows, truncated, err := r.reads().List(tenantA, "q", "", 5000); len(rows) != MaxListed || !truncated || err != nil {
		t.Errorf("%d rows, %v, %v", len(rows), truncated, err)
	}
}

func TestAPageOfLongRowsEndsEarly(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	var ops []command.TimerOp
	for i := range 100 {
		op := r.schedule(fmt.Sprintf("%03d", i), second)
		op.Txid = strings.Repeat("t", 65_535)
		ops = append(ops, op)
	}
	r.call(ops...)
	seen, pages := 0, 0
	for after, more := "", true; more; pages++ {
		rows, truncated, err := r.reads().List(tenantA, "q", after, 1000)
		if err != nil || len(rows) == 0 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		seen, after, more = seen+len(rows), rows[len(rows)-1].Key, truncated
	}
	if seen != 100 || pages != 2 {
		t.Errorf("%d rows in %d pages", seen, pages)
	}
}

func TestCountsGoByPrefix(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	for _, key := range []string{"a", "ab", "a%", "a_", "b", "A"} {
		r.call(r.schedule(key, second))
	}
	for prefix, want := range map[string]uint64{"a": 4, "ab": 1, "a%": 1, "a_": 1, "abc": 0, "b": 1, "c": 0, "": 6} {
		if got, err := r.reads().Count(tenantA, "q", prefix); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", prefix, got, err, want)
		}
	}
	if got, err := r.reads().Count(tenantB, "q", "a"); got != 0 || err != nil {
		t.Errorf("another tenant: %d, %v", got, err)
	}
}

func TestAReadEndsWithItsRequest(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	var ops []command.TimerOp
	for i := range checkEvery {
		ops = append(ops, r.schedule(fmt.Sprint(i), second))
	}
	r.call(ops...)
	ended := errors.New("the deadline has passed")
	reads := &Reads{Reader: r.space, Check: func() error { return ended }}
	if _, err := reads.Count(tenantA, "q", "1"); err != nil {
		t.Errorf("a short read: %v", err)
	}
	if _, err := reads.Count(tenantA, "q", ""); !errors.Is(err, ended) {
		t.Errorf("a count: %v", err)
	}
	if _, _, err := reads.List(tenantA, "q", "", 1000); !errors.Is(err, ended) {
		t.Errorf("a list: %v", err)
	}
}

func dueKeys(due []Due) (keys []string) {
	for _, d := range due {
		keys = append(keys, d.Key)
	}
	return keys
}

func TestPlansAreBoundedAndInOrder(t *testing.T) {
	r := newRig(t, rowtest.NewMemory())
	for i, delay := range []int64{5, 1, 3, 2, 4, 100} {
		op := r.schedule(fmt.Sprint(i), delay*second)
		op.Payload = make([]byte, 10_000-len("Default")-len(op.Txid))
		r.call(op)
	}
	r.now += 10 * second
	for _, c := range []struct {
		at     uint64
		limits Limits
		want   string
		more   bool
	}{
		{r.now, Limits{100, 1 << 20}, "1 3 2 4 0", false},
		{r.now, Limits{5, 1 << 20}, "1 3 2 4 0", false},
		{r.now, Limits{2, 1 << 20}, "1 3", true},
		{r.now, Limits{0, 1 << 20}, "1", true},
		{r.now, Limits{100, 30_000}, "1 3 2", true},
		{r.now, Limits{100, 29_999}, "1 3", true},
		{r.now, Limits{100, 1}, "1", true}, // the first may be larger
		{testStart + second, Limits{100, 1 << 20}, "", false},
		{testStart + second + 2, Limits{100, 1 << 20}, "1", false},
		{r.now + 1000*second, Limits{100, 1 << 20}, "1 3 2 4 0 5", false},
	} {
		due, more, err := PlanDue(r.space, c.at, c.limits)
		if got := strings.Join(dueKeys(due), " "); err != nil || got != c.want || more != c.more {
			t.Errorf("%+v: %q, %v, %v", c, got, more, err)
		}
	}
}

func TestAPlanFindsDamage(t *testing.T) {
	for name, damage := range map[string]func(m *rowtest.Memory, row *Row){
		"no row":      func(m *rowtest.Memory, row *Row) { m.Delete(row.key()) },
		"another row": func(m *rowtest.Memory, row *Row) { row.Number++; m.Put(row.key(), appendRow(nil, row)) },
		"no place": func(m *rowtest.Memory, row *Row) {
			m.Delete(row.place().key())
			m.Put(append(row.place().key(), 0), row.key())
		},
	} {
		m := rowtest.NewMemory()
		r := newRig(t, m)
		r.call(r.schedule("k", second))
		row, _ := r.peek(tenantA, "q", "k")
		damage(m, row)
		if _, _, err := PlanDue(m, r.now+2*second, Limits{10, 10}); !errors.Is(err, ErrBadRow) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whether something is due is one read, and finding it begins at the first place (architecture 7).
func TestPlansBeginAtTheFirstPlace(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	for i := range 10 {
		r.call(r.schedule(fmt.Sprint(i), int64(i+1)*second))
	}
	m.Scans = 0
	if due, _, err := PlanDue(m, r.now, Limits{10, 10}); len(due) != 0 || err != nil || m.Scans != 0 {
		t.Errorf("nothing is due: %v, %v, %d scans", due, err, m.Scans)
	}
	r.call(cancel("0"))
	r.now += 3 * second
	r.fire(r.plan())
	r.now += second
	planned := r.plan()
	row, _ := r.peek(tenantA, "q", planned[0].Key)
	if !slices.Equal(m.ScannedFrom, row.place().key()) {
		t.Errorf("the plan begins at %x", m.ScannedFrom)
	}
}
