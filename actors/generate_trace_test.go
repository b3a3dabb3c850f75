package actors

import (
	"strconv"
	"strings"

	"queen/raftlog/command"
)

// trace reports an event about a partition that may exist, may belong to another tenant, or may be no partition at all.
func (g *generator) trace() command.Command {
	c := command.Trace{
		Tenant: g.tenant(), Partition: strconv.Itoa(1 + g.random.IntN(30)), Txid: pick(g, []string{"t-1", "t-2", "t-3"}),
		Group: g.group(), EventType: "info", Worker: "node", Data: []byte(`{"n":1}`),
	}
	if g.oneIn(10) {
		c.Partition = pick(g, []string{"nowhere", "018f2a3b-0000-7000-8000-000000000001", "0"})
	}
	if g.oneIn(10) {
		c.Data = []byte(`"` + strings.Repeat("x", 5000) + `"`)
	}
	for range g.random.IntN(4) {
		c.Names = append(c.Names, pick(g, []string{"", "order", "mail", "customer-" + strconv.Itoa(g.random.IntN(20))}))
	}
	return c
}

func (g *generator) traceSweep() command.Command {
	return command.TraceSweep{BeforeMicros: uint64(g.instant()), MaxKeys: uint32(1 + g.random.IntN(200))}
}
