package actors

// pace is what autopilot knows of a group (messaging 5.10): how fast it drains its queue.
type pace struct {
	perSecond     float64
	windowStart   uint64
	windowDrained int
}

const (
	autoBatchMin     = 100
	autoBatchMax     = 1000
	autoPartitionMax = 64
	// autoBatchSeconds is how much work one batch is meant to be.
	autoBatchSeconds = 0.2
	paceWindowMicros = 1_000_000
	// paceMemory is the weight of what was measured before.
	paceMemory = 0.5
)

// note counts the messages that the group has passed, however few items its ack named (messaging 6.5).
func (p *pace) note(drained int, nowMicros uint64) {
	if p.windowStart == 0 {
		p.windowStart = nowMicros
	}
	p.windowDrained += drained
	if elapsed := nowMicros - p.windowStart; nowMicros > p.windowStart && elapsed >= paceWindowMicros {
		rate := float64(p.windowDrained) * 1e6 / float64(elapsed)
		p.perSecond = paceMemory*p.perSecond + (1-paceMemory)*rate
		p.windowStart, p.windowDrained = nowMicros, 0
	}
}

// batch is the drain rate of the group times 200 ms, within its bounds.
func (p *pace) batch() int {
	return min(max(int(p.perSecond*autoBatchSeconds), autoBatchMin), autoBatchMax)
}

// partitions shares the ready partitions among the pops that are in flight.
func (p *pace) partitions(ready, inFlight int) int {
	return min(max(ready/max(inFlight, 1), 1), autoPartitionMax)
}
