package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// modelTrace is a trace as a list of all of them would hold it.
type modelTrace struct {
	tenant uuid.UUID
	stamp  uint64
	id     uuid.UUID
	record Record
}

// model answers the three reads by walking over everything.
type model struct {
	traces []modelTrace
	// used tells in which order the names that traces have were first used.
	used map[string]int
	uses int
}

func (m *model) record(trace modelTrace) {
	for _, name := range trace.record.Names {
		if !slices.ContainsFunc(m.traces, func(known modelTrace) bool {
			return known.tenant == trace.tenant && slices.Contains(known.record.Names, name)
		}) {
			m.uses++
			m.used[trace.tenant.String()+name] = m.uses
		}
	}
	m.traces = append(m.traces, trace)
}

func (m *model) newestFirst(match func(*modelTrace) bool) (found []modelTrace) {
	for i := len(m.traces) - 1; i >= 0; i-- {
		if match(&m.traces[i]) {
			found = append(found, m.traces[i])
		}
	}
	return found
}

func (m *model) names(tenant uuid.UUID) []Name {
	type known struct {
		Name
		messages map[string]bool
		used     int
	}
	byName := map[string]*known{}
	for _, trace := range m.traces {
		if trace.tenant != tenant {
			continue
		}
		for _, name := range trace.record.Names {
			if byName[name] == nil {
				byName[name] = &known{Name: Name{Name: name}, messages: map[string]bool{}, used: m.used[tenant.String()+name]}
			}
			k := byName[name]
			k.Traces++
			k.LastStampMicros = trace.stamp
			k.messages[fmt.Sprintf("%q %q", trace.record.Partition, trace.record.Txid)] = true
			k.Messages = uint64(len(k.messages))
		}
	}
	all := slices.Collect(maps.Values(byName))
	slices.SortFunc(all, func(a, b *known) int {
		return cmp.Or(cmp.Compare(b.LastStampMicros, a.LastStampMicros), cmp.Compare(a.used, b.used))
	})
	names := make([]Name, len(all))
	for i, k := range all {
		names[i] = k.Name
	}
	return names
}

func page[T any](all []T, p Page) []T {
	first := min(p.Skip, uint64(len(all)))
	return all[first:min(first+p.Limit, uint64(len(all)))]
}

var (
	drawnTenants = []uuid.UUID{tenantA, tenantB}
	drawnNames   = []string{"", "a", "b", "order/1", "\x00", "é"}
)

func drawPage(t *rapid.T) Page {
	return Page{Skip: rapid.Uint64Range(0, 5).Draw(t, "skip"), Limit: rapid.Uint64Range(1, 5).Draw(t, "limit")}
}

// TestReadsEqualAModel compares every read with a walk over a plain list, across sweeps and restarts.
func TestReadsEqualAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		m := &model{used: map[string]int{}}
		t.Repeat(map[string]func(*rapid.T){
			"record": func(t *rapid.T) {
				r.now += rapid.SampledFrom([]uint64{1, 1000, minuteMicros / 3, 3 * minuteMicros}).Draw(t, "pause")
				record := Record{
					Partition: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "partition"),
					Txid:      rapid.SampledFrom([]string{"t", "u"}).Draw(t, "txid"),
					Names:     rapid.SliceOfNDistinct(rapid.SampledFrom(drawnNames), 0, 3, rapid.ID).Draw(t, "names"),
					Data:      []byte(strings.Repeat("x", rapid.SampledFrom([]int{0, 5, 2 * inlineBytes}).Draw(t, "bytes"))),
				}
				tenant := rapid.SampledFrom(drawnTenants).Draw(t, "tenant")
				id := r.record(tenant, record)
				m.record(modelTrace{tenant, r.now, id, record})
			},
			"sweep": func(t *rapid.T) {
				if len(m.traces) == 0 {
					return
				}
				before := m.traces[rapid.IntRange(0, len(m.traces)-1).Draw(t, "oldest kept")].stamp
				room := rapid.IntRange(0, 20).Draw(t, "room")
				removed, more := r.sweep(SweepInput{BeforeMicros: before, MaxKeys: rapid.IntRange(1, 100).Draw(t, "keys"),
					Fits: func(int, int) bool { room--; return room >= 0 }})
				for range removed {
					if m.traces[0].stamp >= before {
						t.Fatal("a trace that is kept was removed")
					}
					m.traces = m.traces[1:]
				}
				if due := len(m.traces) > 0 && m.traces[0].stamp < before; due != more {
					t.Fatalf("more is %v, the oldest is due: %v", more, due)
				}
			},
			"restart": func(*rapid.T) { r.load() },
			"":        func(t *rapid.T) { compare(t, r, m) },
		})
	})
}

func compare(t *rapid.T, r *rig, m *model) {
	if total, err := Total(r.store); err != nil || total != uint64(len(m.traces)) {
		t.Fatalf("total %d, %v; want %d", total, err, len(m.traces))
	}
	tenant := rapid.SampledFrom(drawnTenants).Draw(t, "reader")
	for _, partition := range []string{"1", "2"} {
		for _, txid := range []string{"t", "u"} {
			var got []*Stored
			err := r.reads().At(tenant, partition, txid, func(trace *Stored) (bool, error) {
				got = append(got, trace)
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, m.newestFirst(func(trace *modelTrace) bool {
				return trace.tenant == tenant && trace.record.Partition == partition && trace.record.Txid == txid
			}))
		}
	}
	for _, name := range drawnNames {
		var got []*Stored
		p := drawPage(t)
		total, err := r.reads().Named(tenant, name, p, func(trace *Stored) (bool, error) {
			got = append(got, trace)
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := m.newestFirst(func(trace *modelTrace) bool {
			return trace.tenant == tenant && slices.Contains(trace.record.Names, name)
		})
		if total != uint64(len(want)) {
			t.Fatalf("total of %q is %d, want %d", name, total, len(want))
		}
		same(t, got, page(want, p))
	}
	p := drawPage(t)
	names, total := r.names(tenant, p)
	want := m.names(tenant)
	if total != uint64(len(want)) || !slices.Equal(names, page(want, p)) {
		t.Fatalf("page %+v of names: %v of %d, want %v of %d", p, names, total, page(want, p), len(want))
	}
}

func same(t *rapid.T, got []*Stored, want []modelTrace) {
	if len(got) != len(want) {
		t.Fatalf("%d traces, want %d", len(got), len(want))
	}
	for i, trace := range got {
		w := want[i]
		if trace.ID != w.id || trace.StampMicros != w.stamp || trace.Tenant != w.tenant || !bytes.Equal(trace.Data, w.record.Data) ||
			!slices.Equal(trace.Record.Names, w.record.Names) || trace.Txid != w.record.Txid || trace.Partition != w.record.Partition {
			t.Fatalf("trace %d is %+v, want %+v", i, trace, w)
		}
	}
}
