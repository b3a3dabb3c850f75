package actors

import (
	"encoding/json"
	"fmt"
	"time"

	"queen/raftlog/command"
)

// runLock executes a lock call: permits are rows (state 4.1).
func (m *model) runLock(c *command.Lock) command.Result {
	if refusal := m.refuseKV(); refusal != nil {
		return refusal
	}
	result := &command.LockResult{Ops: make([]command.LockOpResult, len(c.Ops))}
	var writes []modelWrite
	for i := range c.Ops {
		op, r := &c.Ops[i], &result.Ops[i]
		var write *modelWrite
		switch op.Kind {
		case command.LockAcquire:
			write = m.acquire(c.Tenant, op, r)
		case command.LockRenew:
			write = m.renew(c.Tenant, op, r)
		case command.LockRelease:
			write = m.release(c.Tenant, op, r)
		default:
			r.Holders = m.holders(c.Tenant, op.Name, 1024)
			r.Done = len(r.Holders) > 0
		}
		if write != nil {
			write.given = func(version uint64) { r.Token = version }
			writes = append(writes, *write)
		}
	}
	m.writeRows(writes)
	return result
}

func permitPlace(tenant command.Tenant, name string, slot uint32) modelPlace {
	return modelPlace{tenant, "queen-locks", fmt.Sprintf("%s#%d", name, slot)}
}

// holders lists the live permits of a name below a limit.
func (m *model) holders(tenant command.Tenant, name string, limit uint32) (holders []command.LockHolder) {
	for slot := range limit {
		row, live := m.liveRow(permitPlace(tenant, name, slot))
		if live {
			holders = append(holders, modelHolder(slot, row))
		}
	}
	return holders
}

func modelHolder(slot uint32, row modelRow) command.LockHolder {
	var permit struct {
		Owner *string   `json:"owner"`
		Since time.Time `json:"since"`
	}
	if err := json.Unmarshal([]byte(row.value), &permit); err != nil {
		panic(err)
	}
	h := command.LockHolder{
		Slot: slot, Token: row.version, SinceMicros: uint64(permit.Since.UnixMicro()), UpdatedMicros: row.updated, ExpiresMicros: row.expires,
	}
	if permit.Owner != nil {
		h.Owner = *permit.Owner
	}
	return h
}

func (m *model) acquire(tenant command.Tenant, op *command.LockOp, r *command.LockOpResult) *modelWrite {
	holders := m.holders(tenant, op.Name, op.Limit)
	taken := map[uint32]bool{}
	for _, h := range holders {
		if taken[h.Slot] = true; op.Owner != "" && h.Owner == op.Owner {
			*r = command.LockOpResult{Done: true, Already: true, Slot: h.Slot, Token: h.Token}
			return nil
		}
	}
	for slot := range op.Limit {
		if taken[slot] {
			continue
		}
		owner := "null"
		if op.Owner != "" {
			owner = fmt.Sprintf("%q", op.Owner)
		}
		since := time.UnixMicro(int64(m.now)).UTC().Format("2006-01-02T15:04:05.000000Z")
		*r = command.LockOpResult{Done: true, Slot: slot}
		return &modelWrite{at: permitPlace(tenant, op.Name, slot), row: &modelRow{
			value: fmt.Sprintf(`{"owner":%s,"since":"%s"}`, owner, since), expires: m.until(op.TTLSeconds),
		}}
	}
	r.Holders = holders
	return nil
}

func (m *model) renew(tenant command.Tenant, op *command.LockOp, r *command.LockOpResult) *modelWrite {
	at := permitPlace(tenant, op.Name, op.Slot)
	row, live := m.liveRow(at)
	if r.Slot = op.Slot; !live {
		return nil
	}
	if h := modelHolder(op.Slot, row); row.version != op.Token && (op.Owner == "" || h.Owner != op.Owner) {
		r.Holders = []command.LockHolder{h}
		return nil
	}
	r.Done = true
	return &modelWrite{at: at, row: &modelRow{value: row.value, expires: m.until(op.TTLSeconds)}}
}

func (m *model) release(tenant command.Tenant, op *command.LockOp, r *command.LockOpResult) *modelWrite {
	at := permitPlace(tenant, op.Name, op.Slot)
	row, live := m.liveRow(at)
	r.Slot = op.Slot
	switch {
	case !live:
		return nil
	case row.version != op.Token:
		r.Holders = []command.LockHolder{modelHolder(op.Slot, row)}
		return nil
	}
	r.Done = true
	return &modelWrite{at: at}
}
