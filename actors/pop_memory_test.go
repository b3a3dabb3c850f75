//go:build !race

package actors

import (
	"runtime"
	"testing"
	"time"
)

// TestParkedPopOfAnotherNodeCostsLittle parks pops of a follower and weighs them: at most 10 KiB at each node, the goroutine
// that stands for the handler included (cluster 8.6). The race detector has a weight of its own.
func TestParkedPopOfAnotherNodeCostsLittle(t *testing.T) {
	const pops, mostBytes = 2000, 2 * 10 << 10
	c := newCluster(t, 2)
	at := c.follower(0)
	weigh := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	at.pop(wildcard("orders"))
	before := weigh()
	var parked []*popping
	gone := make(chan struct{})
	for range pops {
		parked = append(parked, at.start(wildcard("orders", waiting, inTime(time.Minute), clientOf(gone))))
	}
	c.parked("orders", "workers", pops)
	after := weigh()
	if each := int64(after-before) / pops; each > mostBytes {
		t.Errorf("a parked pop costs %d bytes at both nodes together", each)
	} else {
		t.Logf("a parked pop costs %d bytes at both nodes together", each)
	}
	at.AnswerParked()
	for _, pop := range parked {
		pop.wait(t)
	}
	c.forgotten()
}
