package lease

import (
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen/actors/machine/rowtest"
	"queen/store/layout"
)

// TestTableAgreesWithSets runs random calls against a map of sets; now and then the table is made anew from its rows.
func TestTableAgreesWithSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, table := rowtest.NewMemory(), NewTable(7)
		sets := map[uuid.UUID]map[Member]bool{}
		leases := []uuid.UUID{{1}, {2}, {3}}
		member := rapid.Custom(func(t *rapid.T) Member {
			return Member{Group: rapid.Uint64Range(1, 2).Draw(t, "group"), Partition: rapid.Uint64Range(1, 4).Draw(t, "partition")}
		})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			rows.NextEntry()
			id := rapid.SampledFrom(leases).Draw(t, "lease")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				members := rapid.SliceOfNDistinct(member, 1, 4, func(m Member) Member { return m }).Draw(t, "members")
				table.Grant(rows, id, members)
				sets[id] = map[Member]bool{}
				for _, m := range members {
					sets[id][m] = true
				}
			case 1:
				gone := member.Draw(t, "gone")
				before, err := table.Members(rows, id)
				held := slices.Clone(before)
				if err != nil {
					t.Fatal(err)
				}
				if err := table.Release(rows, rows, id, gone); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(before, held) {
					t.Fatal("a release has changed members that were handed out")
				}
				delete(sets[id], gone)
				if len(sets[id]) == 0 {
					delete(sets, id)
				}
			case 2:
				table = NewTable(7)
			case 3:
				other, err := NewTable(8).Members(rows, id)
				if err != nil || len(other) != 0 {
					t.Fatalf("another queue's table has %v, %v", other, err)
				}
			}
			for _, id := range leases {
				members, err := table.Members(rows, id)
				if err != nil {
					t.Fatal(err)
				}
				got := map[Member]bool{}
				for _, m := range members {
					got[m] = true
				}
				if len(members) != len(sets[id]) || !maps.Equal(got, sets[id]) && len(got)+len(sets[id]) > 0 {
					t.Fatalf("lease %s has %v, want %v", id, members, sets[id])
				}
			}
			if rows.Len() != len(sets) {
				t.Fatalf("%d rows for %d leases", rows.Len(), len(sets))
			}
		}
	})
}

func TestLeaseRowFormat(t *testing.T) {
	rows := rowtest.NewMemory()
	id := uuid.MustParse("01020304-0506-0708-090a-0b0c0d0e0f10")
	NewTable(7).Grant(rows, id, []Member{{Group: 1, Partition: 2}, {Group: 1, Partition: 0x0102030405060708}})
	const want = "01" + "0000000000000001" + "0000000000000002" + "0000000000000001" + "0102030405060708"
	if got := hex.EncodeToString(rows.Row(layout.Lease(id, 7))); got != want {
		t.Errorf("the row is %s", got)
	}
}

func TestDamagedLeaseRowIsRefused(t *testing.T) {
	for _, row := range [][]byte{{}, {2}, make([]byte, 16), append([]byte{rowVersion}, make([]byte, 15)...)} {
		if _, err := Decode(row); !errors.Is(err, ErrBadRow) {
			t.Errorf("row %x gives %v", row, err)
		}
	}
	id := uuid.UUID{1}
	rows := rowtest.Holding(map[string][]byte{string(layout.Lease(id, 7)): {9}})
	if _, err := NewTable(7).Members(rows, id); !errors.Is(err, ErrBadRow) {
		t.Errorf("Members gives %v", err)
	}
	if err := NewTable(7).Release(rows, rows, id, Member{}); !errors.Is(err, ErrBadRow) {
		t.Errorf("Release gives %v", err)
	}
}

func FuzzLeaseRow(f *testing.F) {
	f.Add([]byte{1})
	f.Add(encode([]Member{{1, 2}, {3, 4}}))
	codec := rowtest.Codec[[]Member]{Encode: encode, Decode: Decode, Bad: ErrBadRow}
	f.Fuzz(func(t *testing.T, row []byte) { codec.Exact(t, row) })
}
