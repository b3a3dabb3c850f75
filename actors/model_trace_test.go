package actors

import (
	"slices"
	"strconv"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// modelTrace is a trace. It outlives what it is about, so it keeps names.
type modelTrace struct {
	command.Trace
	id        uuid.UUID
	stamp     uint64
	queue     string
	partition string
	placed    bool
	names     []string
}

func (m *model) trace(c *command.Trace) command.Result {
	t := modelTrace{Trace: *c, stamp: m.now}
	for _, p := range m.partitions {
		id := strconv.FormatUint(p.id, 10)
		if c.Partition != id && c.Partition != p.uuid.String() {
			continue
		}
		if p.queue.tenant != c.Tenant {
			return &command.TraceResult{Foreign: true}
		}
		t.Partition, t.queue, t.partition, t.placed = id, p.queue.name, p.name, true
	}
	for _, name := range c.Names {
		if !slices.Contains(t.names, name) {
			t.names = append(t.names, name)
		}
	}
	m.minted++
	t.id = m.mint('d', m.minted)
	m.traces = append(m.traces, t)
	return &command.TraceResult{ID: t.id}
}

// sweepTraces removes from the front what is old enough, as long as the keys suffice: three a trace and five a name.
func (m *model) sweepTraces(c *command.TraceSweep) command.Result {
	result := &command.TraceSweepResult{}
	keys := 0
	for _, t := range m.traces {
		if t.stamp >= c.BeforeMicros {
			break
		}
		keys += 3 + 5*len(t.names)
		if result.More = result.Removed > 0 && keys > int(c.MaxKeys) || result.Removed == 512; result.More {
			break
		}
		result.Removed++
	}
	m.traces = m.traces[result.Removed:]
	return result
}
