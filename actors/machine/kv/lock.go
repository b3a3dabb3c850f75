package kv

import (
	"fmt"
	"slices"

	"queen/raftlog/command"
	"queen/store/layout"
)

// lockPlan is a lock call that was judged and has not changed anything yet.
type lockPlan struct {
	plan    Plan
	results []command.LockOpResult
}

// ExecuteLock judges a lock call and commits it. The result is a *command.Refusal or a *command.LockResult.
func ExecuteLock(r Reader, w Writer, c *command.Lock, at Moment) (command.Result, error) {
	p, err := judgeLock(r, c, at)
	if err != nil {
		return nil, err
	}
	if p.plan.refusal != nil {
		return p.plan.refusal, nil
	}
	if err := p.plan.write(r, w); err != nil {
		return nil, err
	}
	return &command.LockResult{Ops: p.results}, nil
}

// ReadLock evaluates a lock call that only asks, which needs no entry.
func ReadLock(r Reader, c *command.Lock, nowMicros uint64) (command.Result, error) {
	for i := range c.Ops {
		if c.Ops[i].Kind != command.LockGet {
			panic("BUG: a lock call that writes is read")
		}
	}
	return ExecuteLock(r, nil, c, Moment{NowMicros: nowMicros, Quota: Quota{NoLimit, NoLimit}})
}

// judgeLock decides the operations of a call. Each has a name of its own, so none depends on another.
func judgeLock(r Reader, c *command.Lock, at Moment) (*lockPlan, error) {
	p := &lockPlan{
		plan:    Plan{tenant: c.Tenant, nowMicros: at.NowMicros},
		results: make([]command.LockOpResult, len(c.Ops)),
	}
	seen := make(map[string]struct{}, len(c.Ops))
	for i := range c.Ops {
		if !(place{LockNamespace, PermitKey(c.Ops[i].Name, MaxSlots)}).valid() {
			p.plan.refuse(codeBadRequest, "an operation names no lock")
			return p, nil
		}
		seen[c.Ops[i].Name] = struct{}{}
	}
	if len(seen) < len(c.Ops) {
		p.plan.refuse(codeDuplicate, "a lock is named twice")
		return p, nil
	}
	for i := range c.Ops {
		if err := p.op(r, &c.Ops[i], &p.results[i]); err != nil {
			return nil, fmt.Errorf("judge lock operation %d: %w", i, err)
		}
	}
	return p, p.plan.weigh(r, at.Quota)
}

func (p *lockPlan) op(r Reader, op *command.LockOp, result *command.LockOpResult) error {
	switch op.Kind {
	case command.LockAcquire:
		return p.acquire(r, op, result)
	case command.LockRenew:
		return p.renew(r, op, result)
	case command.LockRelease:
		return p.release(r, op, result)
	default:
		slots, err := p.slots(r, op.Name, MaxSlots)
		result.Holders = p.holders(slots)
		result.Done = len(result.Holders) > 0
		return err
	}
}

// slot is a permit that has a row, expired or not.
type slot struct {
	number uint32
	row    *Row
}

// acquire takes the lowest free slot below the limit, unless the owner has one already (state 4.4).
func (p *lockPlan) acquire(r Reader, op *command.LockOp, result *command.LockOpResult) error {
	limit := min(max(op.Limit, 1), MaxSlots)
	slots, err := p.slots(r, op.Name, limit)
	if err != nil {
		return err
	}
	result.Holders = p.holders(slots)
	for _, h := range result.Holders {
		if op.Owner != "" && h.Owner == op.Owner {
			*result = command.LockOpResult{Done: true, Already: true, Slot: h.Slot, Token: h.Token}
			return nil
		}
	}
	if len(result.Holders) == int(limit) {
		return nil
	}
	free := uint32(0)
	for _, h := range result.Holders {
		if h.Slot == free {
			free++
		}
	}
	var old *Row
	for _, s := range slots {
		if s.number == free {
			old = s.row
		}
	}
	*result = command.LockOpResult{Done: true, Slot: free}
	p.write(op, free, old, permit(op.Owner, p.plan.nowMicros), result)
	return nil
}

// renew rewrites a permit with a new lifetime and a new token (state 4.4).
func (p *lockPlan) renew(r Reader, op *command.LockOp, result *command.LockOpResult) error {
	row, err := readRow(r, p.plan.tenant, place{LockNamespace, PermitKey(op.Name, op.Slot)})
	if err != nil {
		return err
	}
	result.Slot = op.Slot
	if !row.live(p.plan.nowMicros) {
		return nil
	}
	h := holder(op.Slot, row)
	if h.Token != op.Token && (op.Owner == "" || h.Owner != op.Owner) {
		result.Holders = []command.LockHolder{h}
		return nil
	}
	value, err := row.value(r)
	if err != nil {
		return err
	}
	result.Done = true
	p.write(op, op.Slot, row, value, result)
	return nil
}

// release deletes a permit that has the token (state 4.4).
func (p *lockPlan) release(r Reader, op *command.LockOp, result *command.LockOpResult) error {
	at := place{LockNamespace, PermitKey(op.Name, op.Slot)}
	row, err := readRow(r, p.plan.tenant, at)
	if err != nil {
		return err
	}
	result.Slot = op.Slot
	switch {
	case !row.live(p.plan.nowMicros):
	case row.Version != op.Token:
		result.Holders = []command.LockHolder{holder(op.Slot, row)}
	default:
		result.Done = true
		p.plan.changes = append(p.plan.changes, change{at: at, old: row, remove: true})
	}
	return nil
}

// write plans the row of a permit. A permit ends: no lifetime counts as the shortest one.
func (p *lockPlan) write(op *command.LockOp, slot uint32, old *Row, value []byte, result *command.LockOpResult) {
	p.plan.changes = append(p.plan.changes, change{
		at: place{LockNamespace, PermitKey(op.Name, slot)}, old: old, value: value,
		expiresMicros: expiry(p.plan.nowMicros, max(op.TTLSeconds, 1)), version: &result.Token,
	})
}

// holders are the live ones among the permits.
func (p *lockPlan) holders(slots []slot) (holders []command.LockHolder) {
	for _, s := range slots {
		if s.row.live(p.plan.nowMicros) {
			holders = append(holders, holder(s.number, s.row))
		}
	}
	return holders
}

const (
	// fewSlots is up to how many slots are read one by one rather than by a walk over the rows of the name.
	fewSlots = 8
	// slotScan bounds that walk, which meets keys that are no slots where somebody has put such.
	slotScan = 2 * MaxSlots
)

// slots reads the permits of a name below a limit that have a row, in the order of their slots.
func (p *lockPlan) slots(r Reader, name string, limit uint32) (slots []slot, err error) {
	if limit > fewSlots {
		slots, whole, err := p.walkSlots(r, name, limit)
		if err != nil || whole {
			return slots, err
		}
	}
	for number := range limit {
		row, err := readRow(r, p.plan.tenant, place{LockNamespace, PermitKey(name, number)})
		if err != nil {
			return nil, err
		}
		if row != nil {
			slots = append(slots, slot{number, row})
		}
	}
	return slots, nil
}

// walkSlots walks over the rows of a name; whole is false when there are too many of them.
func (p *lockPlan) walkSlots(r Reader, name string, limit uint32) (slots []slot, whole bool, err error) {
	prefix := layout.KV(p.plan.tenant, LockNamespace, name+"#")
	visited := 0
	whole = true
	scanned := r.Scan(prefix, nil, func(key, value []byte) bool {
		if visited++; visited > slotScan {
			whole = false
			return false
		}
		number, ok := slotOf(string(key[len(prefix):]))
		if !ok || number >= limit {
			return true
		}
		var row *Row
		if row, err = DecodeRow(value); err != nil {
			return false
		}
		slots = append(slots, slot{number, row})
		return true
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list permits: %w", scanned)
	}
	slices.SortFunc(slots, func(a, b slot) int { return int(a.number) - int(b.number) })
	return slots, whole, err
}
