package actors

import (
	"fmt"
	"strings"

	"queen/raftlog/command"
)

func (g *generator) kvCall() command.Command {
	c := command.KV{Tenant: g.tenant(), Limits: g.kvLimits()}
	c.Ops = g.kvOps(c.Tenant, 1+g.random.IntN(1+g.random.IntN(6)), true)
	return c
}

func (g *generator) kvLimits() command.KVLimits {
	return command.KVLimits{ValueBytes: 64 << 10, ReadBytes: pick(g, []uint32{4 << 20, 4 << 20, 60})}
}

// kvOps makes operations that mostly write different rows.
func (g *generator) kvOps(tenant command.Tenant, n int, pages bool) (ops []command.KVOp) {
	type place struct{ namespace, key string }
	written := map[place]bool{}
	for range n {
		op := g.kvOp(tenant)
		at := place{op.Namespace, op.Key}
		if op.Kind == command.KVGetPrefix && !pages || op.Kind.Writes() && written[at] && !g.oneIn(30) {
			continue
		}
		written[at] = written[at] || op.Kind.Writes()
		ops = append(ops, op)
	}
	return ops
}

func (g *generator) kvKey() string {
	return pick(g, []string{"a", "b", "c", "a/1", "a/2", "a/10", "counter", "counter", fmt.Sprintf("k%d", g.random.IntN(40))})
}

func (g *generator) kvOp(tenant command.Tenant) command.KVOp {
	op := command.KVOp{
		Kind: command.KVOpKind(1 + g.random.IntN(8)), Namespace: pick(g, []string{"app", "app", "app", "app.2", "queen-locks"}), Key: g.kvKey(),
	}
	if op.Namespace == "queen-locks" { // whatever is written there is a permit
		op.Kind = pick(g, []command.KVOpKind{command.KVGet, command.KVGetPrefix, command.KVDelete, command.KVCheck})
		op.Key = pick(g, []string{"job#0", "job#1", "pool#2"})
	}
	switch op.Kind {
	case command.KVGetMany:
		op.Key = ""
		for range g.random.IntN(5) {
			op.Keys = append(op.Keys, g.kvKey())
		}
	case command.KVGetPrefix:
		op.Key = pick(g, []string{"a", "a/", "k", "k1", "j"})
		op.Limit = pick(g, []uint32{0, 1, 2, 1000})
		op.KeysOnly = g.oneIn(3)
		if g.oneIn(3) {
			op.After = g.kvKey()
		}
	case command.KVPut, command.KVPutIfAbsent:
		op.Value = g.kvValue()
	case command.KVIncr:
		op.Delta = pick(g, []string{"1", "1", "-2.5", "1e2", "0.125", "900719925474099300"})
		if g.oneIn(3) {
			op.Max = pick(g, []string{"3", "1000"})
		}
		if g.oneIn(4) {
			op.Min = pick(g, []string{"0", "-5"})
		}
	}
	return g.kvCondition(tenant, op)
}

// kvCondition adds expiry, condition and gate.
func (g *generator) kvCondition(tenant command.Tenant, op command.KVOp) command.KVOp {
	if op.Kind.Reads() {
		return op
	}
	if op.Kind.Writes() && op.Kind != command.KVDelete && g.oneIn(2) {
		op.TTLSeconds = pick(g, []uint64{1, 2, 30})
	}
	if op.Kind == command.KVCheck || op.Kind != command.KVIncr && op.Kind != command.KVPutIfAbsent && g.oneIn(3) {
		op.HasExpect = true
		if !g.oneIn(3) { // often the version that there is
			op.Expect = g.model.kv.rows[modelPlace{tenant, op.Namespace, op.Key}].version
		}
		if g.oneIn(8) {
			op.Expect = 1 + uint64(g.random.IntN(50))
		}
	}
	op.Required = g.oneIn(6)
	return op
}

// kvValue is now and then so large that it lies in a chunk.
func (g *generator) kvValue() []byte {
	switch g.random.IntN(12) {
	case 0:
		return []byte(`"` + strings.Repeat(g.text(10), 900) + `"`)
	case 1:
		return []byte("null")
	case 2:
		return []byte(`{"n":[1,2.50]}`)
	case 3, 4:
		return fmt.Appendf(nil, "%d", g.random.IntN(20))
	default:
		return fmt.Appendf(nil, "%q", g.text(g.random.IntN(30)))
	}
}

func (g *generator) kvSweep() command.Command {
	return command.KVSweep{MaxRows: uint32(1 + g.random.IntN(5))}
}

func (g *generator) lock() command.Command {
	c := command.Lock{Tenant: g.tenant()}
	for _, name := range []string{"job", "pool"}[g.random.IntN(2):] {
		op := command.LockOp{Kind: command.LockOpKind(1 + g.random.IntN(4)), Name: name}
		if g.oneIn(2) {
			op.Owner = pick(g, []string{"one", "two", "three"})
		}
		op.TTLSeconds = pick(g, []uint64{1, 2, 60})
		switch op.Kind {
		case command.LockAcquire:
			op.Limit = pick(g, []uint32{1, 1, 3, 12})
		case command.LockRenew, command.LockRelease:
			op.Slot = g.random.Uint32N(3)
			op.Token = g.model.kv.rows[permitPlace(c.Tenant, name, op.Slot)].version
			if op.Token == 0 || g.oneIn(4) {
				op.Token = 1 + uint64(g.random.IntN(50))
			}
		}
		c.Ops = append(c.Ops, op)
	}
	return c
}
