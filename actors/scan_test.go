package actors

import (
	"slices"
	"testing"
)

// TestScanBringsNothingBackThatIsOlder: a lease that the scan saw was released before the group heard of it. What comes to the partition then
// is ready at once, and not when that lease would have ended.
func TestScanBringsNothingBackThatIsOlder(t *testing.T) {
	const partition, now, leaseEnd = 7, 1000, 60_000_000
	g := newGroup(1, 2, &groupShared{})
	scan := g.shared.scans.Load()
	g.Receive(&scanNote{})
	g.schedule.Released(partition, false, 0, now)
	g.Receive(&foundNote{scan: scan, nowMicros: now, last: true, partitions: []foundPartition{{id: partition, untilMicros: leaseEnd, byLease: true}}})
	g.Receive(&appendedNote{appends: []appendedPartition{{id: partition}}, nowMicros: now})
	if got := g.schedule.Take(2); !slices.Equal(got, []uint64{partition}) {
		t.Errorf("ready are %v", got)
	}
	if !g.loaded {
		t.Error("the scan has ended")
	}
}

// TestOutdatedScanTellsNothing: what a scan has found for an actor that died is not news for the next.
func TestOutdatedScanTellsNothing(t *testing.T) {
	shared := &groupShared{}
	scan := newGroup(1, 2, shared).shared.scans.Load()
	g := newGroup(1, 2, shared)
	g.Receive(&foundNote{scan: scan, nowMicros: 1000, last: true, partitions: []foundPartition{{id: 7, untilMicros: 60_000_000, byLease: true}}})
	if g.schedule.Len() != 0 || g.loaded {
		t.Errorf("%d partitions are known, loaded %t", g.schedule.Len(), g.loaded)
	}
}
