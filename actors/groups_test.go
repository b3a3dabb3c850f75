package actors

import (
	"fmt"
	"testing"

	"queen/raftlog/command"
	"queen/store/layout"
)

// TestRowWalkerFindsEachRow: a walk over all partitions meets the row of every one that has one, over more than a page of
// them, and never takes that of a later partition for it.
func TestRowWalkerFindsEachRow(t *testing.T) {
	r := newRig(t)
	const partitions = 2*scanSlice - 100 // of which two in three have rows
	hasRow := func(i int) bool { return i%3 != 0 }
	groups := make([]command.PushGroup, partitions)
	for i := range groups {
		groups[i] = pushGroup("orders", fmt.Sprint("p", i), "t")
	}
	if _, err := r.Push(command.DefaultTenant, groups, soon()); err != nil {
		t.Fatal(err)
	}
	for i := range groups {
		if hasRow(i) {
			r.pop(wildcard("orders", pinnedTo(groups[i].Partition)))
		}
	}
	queue := r.Directory().Queue(command.DefaultTenant, "orders")
	view := r.LocalView()
	defer view.Close()
	rows, err := newRowWalker(view, layout.CursorsOf(queue.ID, queue.Groups["workers"].ID))
	if err != nil {
		t.Fatal(err)
	}
	for i := range groups { // in the order of their ids
		row, ok, err := rows.at(r.partitionID(queue.ID, groups[i].Partition))
		if err != nil || ok != hasRow(i) || (row.Lease.ID != [16]byte{}) != ok {
			t.Fatalf("partition %d: got %v with the lease %v, %v", i, ok, row.Lease.ID, err)
		}
	}
}
