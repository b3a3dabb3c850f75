package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"queen/actors/machine/rowtest"
	"queen/store"
	"queen/store/layout"
)

// The store's batch and view are what the machine works on.
var (
	_ Reader = (*store.Batch)(nil)
	_ Writer = (*store.Batch)(nil)
	_ Reader = (*store.View)(nil)
)

var (
	tenantA = uuid.MustParse("00000000-0000-0000-0000-00000000000a")
	tenantB = uuid.MustParse("00000000-0000-0000-0000-00000000000b")
)

const testStart = 1_700_000_000_000_000

func always(int, int) bool { return true }

func unchecked() error { return nil }

// failer is a test, drawn or not.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// rig is a machine over a store of its own.
type rig struct {
	t       failer
	store   *rowtest.Memory
	machine *Machine
	now     uint64
	serial  byte
}

func newRig(t failer) *rig {
	r := &rig{t: t, store: rowtest.NewMemory(), now: testStart}
	r.load()
	return r
}

func (r *rig) load() {
	r.t.Helper()
	machine, err := Load(r.store)
	if err != nil {
		r.t.Fatal(err)
	}
	r.machine = machine
}

// record stores a trace one microsecond after the last.
func (r *rig) record(tenant uuid.UUID, record Record) uuid.UUID {
	r.t.Helper()
	r.now++
	r.serial++
	r.store.NextEntry()
	in := &Input{StampMicros: r.now, ID: uuid.UUID{0: 1, 15: r.serial}, Tenant: tenant, Record: record}
	if err := r.machine.Record(r.store, r.store, in); err != nil {
		r.t.Fatal(err)
	}
	return in.ID
}

func (r *rig) sweep(in SweepInput) (removed int, more bool) {
	r.t.Helper()
	if in.Fits == nil {
		in.Fits = always
	}
	r.store.NextEntry()
	removed, more, err := r.machine.Sweep(r.store, r.store, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return removed, more
}

func (r *rig) reads() *Reads { return &Reads{Reader: r.store, Check: unchecked} }

func (r *rig) at(tenant uuid.UUID, partition, txid string) (ids []uuid.UUID) {
	r.t.Helper()
	err := r.reads().At(tenant, partition, txid, func(trace *Stored) (bool, error) {
		ids = append(ids, trace.ID)
		return true, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return ids
}

func (r *rig) named(tenant uuid.UUID, name string, page Page) (ids []uuid.UUID, total uint64) {
	r.t.Helper()
	total, err := r.reads().Named(tenant, name, page, func(trace *Stored) (bool, error) {
		ids = append(ids, trace.ID)
		return true, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return ids, total
}

func (r *rig) names(tenant uuid.UUID, page Page) (names []Name, total uint64) {
	r.t.Helper()
	names, total, err := r.reads().Names(tenant, page)
	if err != nil {
		r.t.Fatal(err)
	}
	return names, total
}

var wholePage = Page{Limit: 100}

func TestTracesComeNewestFirst(t *testing.T) {
	r := newRig(t)
	first := r.record(tenantA, Record{Partition: "1", Txid: "t", Names: []string{"n"}})
	second := r.record(tenantA, Record{Partition: "1", Txid: "t", Names: []string{"n"}})
	other := r.record(tenantA, Record{Partition: "2", Txid: "t", Names: []string{"n"}})
	if got := r.at(tenantA, "1", "t"); !slices.Equal(got, []uuid.UUID{second, first}) {
		t.Errorf("at the address: %v", got)
	}
	if got, total := r.named(tenantA, "n", wholePage); total != 3 || !slices.Equal(got, []uuid.UUID{other, second, first}) {
		t.Errorf("by name: %v of %d", got, total)
	}
	if got, total := r.named(tenantA, "n", Page{Skip: 1, Limit: 1}); total != 3 || !slices.Equal(got, []uuid.UUID{second}) {
		t.Errorf("second page: %v of %d", got, total)
	}
}

func TestTracesOfAnotherTenantAreInvisible(t *testing.T) {
	r := newRig(t)
	r.record(tenantA, Record{Partition: "1", Txid: "t", Names: []string{"n"}})
	if got := r.at(tenantB, "1", "t"); got != nil {
		t.Errorf("at the address: %v", got)
	}
	if got, total := r.named(tenantB, "n", wholePage); got != nil || total != 0 {
		t.Errorf("by name: %v of %d", got, total)
	}
	if names, total := r.names(tenantB, wholePage); names != nil || total != 0 {
		t.Errorf("names: %v of %d", names, total)
	}
}

// Two addresses with one hash must not show each other's traces: here the row of one is filed under the other.
func TestACollisionOfAddressesShowsNothingForeign(t *testing.T) {
	for _, foreign := range []struct {
		tenant uuid.UUID
		record Record
	}{
		{tenantA, Record{Partition: "1", Txid: "t"}},
		{tenantB, Record{Partition: "2", Txid: "t"}},
		{tenantB, Record{Partition: "1", Txid: "u"}},
	} {
		r := newRig(t)
		r.record(foreign.tenant, foreign.record)
		r.store.Put(layout.TraceAt(AddressOf(tenantB, "1", "t"), 1), []byte{})
		if got := r.at(tenantB, "1", "t"); got != nil {
			t.Errorf("%+v: got %v", foreign, got)
		}
	}
}

// Nothing may walk across the keys of traces that are gone (architecture 7).
func TestReadsAndSweepsBeginAtTheOldestTraceThatIsLeft(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.record(tenantA, Record{Partition: "1", Txid: "t"})
	}
	r.sweep(SweepInput{BeforeMicros: r.now, MaxKeys: 100})
	r.load()
	r.sweep(SweepInput{BeforeMicros: r.now, MaxKeys: 100})
	if !slices.Equal(r.store.ScannedFrom, layout.Trace(3)) {
		t.Errorf("the sweep begins at %x", r.store.ScannedFrom)
	}
	r.at(tenantA, "1", "t")
	if !slices.Equal(r.store.ScannedFrom, layout.TraceAt(AddressOf(tenantA, "1", "t"), 3)) {
		t.Errorf("the read begins at %x", r.store.ScannedFrom)
	}
}

func TestAPageOfNamesReadsTheMinutesThatItShows(t *testing.T) {
	r := newRig(t)
	for i := range 100 {
		r.now += minuteMicros
		r.record(tenantA, Record{Partition: "1", Txid: "t", Names: []string{fmt.Sprint(i)}})
	}
	r.store.Gets = 0
	if names, _ := r.names(tenantA, Page{Skip: 50, Limit: 2}); len(names) != 2 || names[0].Name != "49" {
		t.Errorf("got %v", names)
	}
	if r.store.Gets != 3 { // the number of names, and two of them
		t.Errorf("%d rows are read", r.store.Gets)
	}
}

func TestAddressesDoNotRunTogether(t *testing.T) {
	if AddressOf(tenantA, "1", "2t") == AddressOf(tenantA, "12", "t") {
		t.Error("the border between partition and txid is lost")
	}
}

func TestANameThatRepeatsCountsOnce(t *testing.T) {
	r := newRig(t)
	r.record(tenantA, Record{Partition: "1", Txid: "t", Names: []string{"n", "m", "n"}})
	names, total := r.names(tenantA, wholePage)
	want := []Name{{"n", 1, 1, r.now}, {"m", 1, 1, r.now}}
	if total != 2 || !slices.Equal(names, want) {
		t.Errorf("got %v of %d, want %v", names, total, want)
	}
	var shown []string
	if err := r.reads().At(tenantA, "1", "t", func(trace *Stored) (bool, error) {
		shown = trace.Record.Names
		return true, nil
	}); err != nil || !slices.Equal(shown, []string{"n", "m"}) {
		t.Errorf("shown names %q, %v", shown, err)
	}
}

func TestMessagesOfANameAreCountedOnce(t *testing.T) {
	r := newRig(t)
	for _, txid := range []string{"a", "b", "a", "a"} {
		r.record(tenantA, Record{Partition: "1", Txid: txid, Names: []string{"n"}})
	}
	if names, _ := r.names(tenantA, wholePage); len(names) != 1 || names[0].Traces != 4 || names[0].Messages != 2 {
		t.Fatalf("got %v", names)
	}
	// The first trace of a goes, two of it stay; then the only one of b.
	for i, want := range []Name{{"n", 3, 2, r.now}, {"n", 2, 1, r.now}} {
		r.sweep(SweepInput{BeforeMicros: testStart + uint64(i) + 2, MaxKeys: 1000})
		if names, _ := r.names(tenantA, wholePage); len(names) != 1 || names[0] != want {
			t.Errorf("after %d removals: %v, want %v", i+1, names, want)
		}
	}
}

func TestNamesComeMostRecentlySeenFirst(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.record(tenantA, Record{Partition: "1", Txid: "t", Names: []string{name}})
		r.now += minuteMicros / 2 // minutes begin between them
	}
	r.record(tenantA, Record{Partition: "1", Txid: "t", Names: []string{"a"}})
	for _, page := range []struct {
		Page
		want string
	}{{Page{0, 10}, "acb"}, {Page{0, 1}, "a"}, {Page{1, 1}, "c"}, {Page{2, 5}, "b"}, {Page{3, 5}, ""}} {
		names, total := r.names(tenantA, page.Page)
		got := ""
		for _, name := range names {
			got += name.Name
		}
		if got != page.want || total != 3 {
			t.Errorf("page %+v: %q of %d, want %q", page.Page, got, total, page.want)
		}
	}
}

// A name that is in every trace must not leave a deleted key with each of them: the list of names is read across those.
func TestAHotNameMovesOnceAMinute(t *testing.T) {
	r := newRig(t)
	moves := 0
	for range 1000 {
		r.now += 119_999 // two minutes in all
		r.record(tenantA, Record{Partition: "1", Txid: "t", Names: []string{"hot"}})
		for key, size := range r.store.Written {
			if key[0] == layout.FamilyTraceNameSeen && size == 0 && r.store.Row([]byte(key)) == nil {
				moves++
			}
		}
	}
	if moves < 1 || moves > 2 {
		t.Errorf("the name has moved %d times in two minutes", moves)
	}
}

func TestLargeTracesLieInChunks(t *testing.T) {
	r := newRig(t)
	data := []byte(`"` + strings.Repeat("x", 3*inlineBytes) + `"`)
	r.record(tenantA, Record{Partition: "1", Txid: "t", Data: data})
	if len(r.store.Chunks) != 1 {
		t.Fatalf("%d chunks", len(r.store.Chunks))
	}
	err := r.reads().At(tenantA, "1", "t", func(trace *Stored) (bool, error) {
		if string(trace.Data) != string(data) {
			t.Errorf("data of %d bytes", len(trace.Data))
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.sweep(SweepInput{BeforeMicros: r.now + 1, MaxKeys: 100})
	if len(r.store.Chunks) != 0 {
		t.Error("the chunk is not released")
	}
}

func TestSweepKeepsWhatIsYoungEnough(t *testing.T) {
	r := newRig(t)
	r.record(tenantA, Record{Partition: "1", Txid: "old", Names: []string{"n"}})
	kept := r.record(tenantA, Record{Partition: "1", Txid: "young", Names: []string{"n"}})
	if removed, more := r.sweep(SweepInput{BeforeMicros: r.now, MaxKeys: 100}); removed != 1 || more {
		t.Errorf("removed %d, more %v", removed, more)
	}
	if got, total := r.named(tenantA, "n", wholePage); total != 1 || !slices.Equal(got, []uuid.UUID{kept}) {
		t.Errorf("left %v of %d", got, total)
	}
	if oldest, err := OldestStampMicros(r.store); err != nil || oldest != r.now {
		t.Errorf("oldest at %d, %v", oldest, err)
	}
}

func TestSweepStaysWithinItsStep(t *testing.T) {
	r := newRig(t)
	for i := range 10 {
		r.record(tenantA, Record{Partition: "1", Txid: fmt.Sprint(i), Names: []string{"a", "b"}})
	}
	const keysOfOne = sweepKeys + 2*sweepNameKeys
	if removed, more := r.sweep(SweepInput{BeforeMicros: r.now + 1, MaxKeys: 3*keysOfOne + 1}); removed != 3 || !more {
		t.Errorf("removed %d, more %v", removed, more)
	}
	if keys, _ := r.store.Writes(); keys > 3*keysOfOne+1 {
		t.Errorf("%d keys are written", keys)
	}
	if removed, more := r.sweep(SweepInput{BeforeMicros: r.now + 1, MaxKeys: 1}); removed != 1 || !more {
		t.Errorf("the first may take more than the step: removed %d, more %v", removed, more)
	}
	full := func(int, int) bool { return false }
	if removed, more := r.sweep(SweepInput{BeforeMicros: r.now + 1, MaxKeys: 100, Fits: full}); removed != 0 || !more {
		t.Errorf("a full entry: removed %d, more %v", removed, more)
	}
	if keys, _ := r.store.Writes(); keys != 0 {
		t.Errorf("%d keys are written without room", keys)
	}
	if removed, more := r.sweep(SweepInput{BeforeMicros: r.now + 1, MaxKeys: 1000}); removed != 6 || more {
		t.Errorf("the rest: removed %d, more %v", removed, more)
	}
}

// What commands are weighed by must be what they write at most: a batch that is too large ends the node.
func TestWritesStayWithinTheirEstimates(t *testing.T) {
	r := newRig(t)
	long := func(i int) string { return fmt.Sprint(i, strings.Repeat("n", 470)) }
	for _, count := range []int{0, 1, 50, 1000} {
		var names []string
		keys, bytes, removedBytes := Keys, RowBytes, sweepBytes
		for i := range count {
			names = append(names, long(i))
			keys, bytes, removedBytes = keys+NameKeys, bytes+NameBytes+2*len(names[i]), removedBytes+sweepNameBytes
		}
		for _, data := range []int{0, inlineBytes - 100, 10 * inlineBytes} {
			r.now += 2 * minuteMicros
			r.record(tenantA, Record{Partition: "1", Txid: strings.Repeat("t", 475), Names: names, Data: make([]byte, data)})
			if k, b := r.store.Writes(); k > keys || b > bytes {
				t.Errorf("%d names, %d bytes of data: wrote %d keys of %d, %d bytes of %d", count, data, k, keys, b, bytes)
			}
		}
		for range 3 {
			r.sweep(SweepInput{BeforeMicros: r.now + 1, MaxKeys: 1})
			k, b := r.store.Writes()
			if k > 1+sweepKeys+count*sweepNameKeys || b > removedBytes {
				t.Errorf("%d names: removing wrote %d keys, %d bytes of %d", count, k, b, removedBytes)
			}
		}
	}
	if r.store.Len() != 1 || len(r.store.Chunks) != 0 {
		t.Errorf("%d rows and %d chunks are left when all traces are gone", r.store.Len(), len(r.store.Chunks))
	}
}

func TestPartitionsResolveToOneText(t *testing.T) {
	r := newRig(t)
	known := uuid.MustParse("018f2a3b-0000-7000-8000-00000000abcd")
	r.store.Put(layout.PartitionUUID(known), appendNumber64(17))
	for _, c := range []struct {
		text, canonical string
		id              uint64
		known           bool
	}{
		{"17", "17", 17, true},
		{"017", "17", 17, true},
		{known.String(), "17", 17, true},
		{strings.ToUpper(known.String()), "17", 17, true},
		{"018F2A3B-0000-7000-8000-00000000ffff", "018f2a3b-0000-7000-8000-00000000ffff", 0, false},
		{"18446744073709551616", "18446744073709551616", 0, false},
		{"no id", "no id", 0, false},
		{"-1", "-1", 0, false},
		{"{" + known.String() + "}", "{" + known.String() + "}", 0, false},
	} {
		id, isKnown, canonical, err := Resolve(r.store, c.text)
		if err != nil || id != c.id || isKnown != c.known || canonical != c.canonical {
			t.Errorf("%q: %d, %v, %q, %v", c.text, id, isKnown, canonical, err)
		}
	}
}

func TestAReadEndsWithItsRequest(t *testing.T) {
	r := newRig(t)
	for i := range 2 * checkEvery {
		r.record(tenantA, Record{Partition: "1", Txid: "t", Names: []string{"n", fmt.Sprint(i)}})
	}
	ended := errors.New("the deadline has passed")
	reads := &Reads{Reader: r.store, Check: func() error { return ended }}
	visit := func(*Stored) (bool, error) { return true, nil }
	if err := reads.At(tenantA, "1", "t", visit); !errors.Is(err, ended) {
		t.Errorf("at the address: %v", err)
	}
	if _, err := reads.Named(tenantA, "n", Page{Limit: 1000}, visit); !errors.Is(err, ended) {
		t.Errorf("by name: %v", err)
	}
	if _, _, err := reads.Names(tenantA, Page{Limit: 1000}); !errors.Is(err, ended) {
		t.Errorf("names: %v", err)
	}
}

func TestAnAddressShowsItsNewestTraces(t *testing.T) {
	r := newRig(t)
	// Index keys alone: a row for each would make the test slow.
	address := AddressOf(tenantA, "1", "t")
	const stored = 2*AddressMost + 10
	for n := range uint64(stored) {
		r.store.Put(layout.TraceAt(address, n+1), []byte{})
	}
	r.machine.counters.last = stored - 1
	newest := r.record(tenantA, Record{Partition: "1", Txid: "t"})
	seen := 0
	err := r.reads().At(tenantA, "1", "t", func(trace *Stored) (bool, error) {
		if seen++; trace.ID != newest {
			t.Errorf("first is trace %d", trace.Number)
		}
		return false, nil
	})
	if err != nil || seen != 1 {
		t.Errorf("%d seen, %v", seen, err)
	}
}
