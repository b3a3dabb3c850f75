package command

import "bytes"

// The smallest encodings of list elements, for decoder.count.
const (
	// minKVOpBytes: kind, flags, eight empty texts and lists, three numbers.
	minKVOpBytes       = 2 + 8 + 3
	minKVKeyBytes      = 1
	minKVOpResultBytes = 9
	minKVRowBytes      = 5
	minKVMissingBytes  = 1
	// minLockOpBytes: kind, two empty texts, four numbers.
	minLockOpBytes       = 1 + 2 + 4
	minLockOpResultBytes = 4
	minLockHolderBytes   = 6
)

func (c KV) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = c.Limits.appendTo(dst)
	return appendKVOps(dst, c.Ops)
}

func (l KVLimits) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, uint64(l.ValueBytes))
	return appendNumber(dst, uint64(l.ReadBytes))
}

func (d *decoder) kvLimits() KVLimits {
	return KVLimits{ValueBytes: d.number32(), ReadBytes: d.number32()}
}

func appendKVOps(dst []byte, ops []KVOp) []byte {
	dst = appendNumber(dst, uint64(len(ops)))
	for i := range ops {
		op := &ops[i]
		dst = append(dst, byte(op.Kind))
		dst = appendFlags(dst, op.KeysOnly, op.HasExpect, op.Required)
		dst = appendString(dst, op.Namespace)
		dst = appendString(dst, op.Key)
		dst = appendNumber(dst, uint64(len(op.Keys)))
		for _, key := range op.Keys {
			dst = appendString(dst, key)
		}
		dst = appendString(dst, op.After)
		dst = appendNumber(dst, uint64(op.Limit))
		dst = appendBytes(dst, op.Value)
		dst = appendNumber(dst, op.TTLSeconds)
		dst = appendNumber(dst, op.Expect)
		for _, number := range [...]string{op.Delta, op.Min, op.Max} {
			dst = appendString(dst, number)
		}
	}
	return dst
}

func (d *decoder) kv() KV {
	return KV{Tenant: d.uuid(), Limits: d.kvLimits(), Ops: d.kvOps()}
}

// kvOps reads operations; their values alias the input.
func (d *decoder) kvOps() []KVOp {
	ops := list[KVOp](d.count(minKVOpBytes))
	for i := range ops {
		op := &ops[i]
		op.Kind = KVOpKind(d.byte("kv operation"))
		if op.Kind < KVGet || op.Kind > KVCheck {
			d.fail("kv operation")
		}
		flags := d.flags(3)
		op.KeysOnly, op.HasExpect, op.Required = bit(flags, 0), bit(flags, 1), bit(flags, 2)
		op.Namespace, op.Key = d.name(), d.name()
		op.Keys = list[string](d.count(minKVKeyBytes))
		for j := range op.Keys {
			op.Keys[j] = d.name()
		}
		op.After = d.name()
		op.Limit = d.number32()
		op.Value = d.bytes()
		op.TTLSeconds, op.Expect = d.number(), d.number()
		op.Delta, op.Min, op.Max = d.name(), d.name(), d.name()
		if d.err != nil {
			return nil
		}
	}
	return ops
}

func (r *KVResult) appendTo(dst []byte) []byte {
	dst = appendFlags(dst, r.Lost != nil)
	if r.Lost != nil {
		dst = appendNumber(dst, uint64(r.Lost.Op))
		dst = append(dst, byte(r.Lost.Reason))
		dst = appendNumber(dst, r.Lost.Version)
		dst = appendBytes(dst, r.Lost.Value)
	}
	dst = appendCount(dst, len(r.Ops))
	for i := range r.Ops {
		dst = r.Ops[i].appendTo(dst)
	}
	return dst
}

func (r *KVOpResult) appendTo(dst []byte) []byte {
	dst = append(dst, byte(r.Reason))
	dst = appendFlags(dst, r.Found, r.Truncated)
	dst = appendNumber(dst, r.Version)
	dst = appendBytes(dst, r.Value)
	dst = appendNumber(dst, r.ExpiresMicros)
	dst = appendNumber(dst, r.UpdatedMicros)
	dst = appendCount(dst, len(r.Rows))
	for i := range r.Rows {
		row := &r.Rows[i]
		dst = appendString(dst, row.Key)
		dst = appendBytes(dst, row.Value)
		dst = appendNumber(dst, row.Version)
		dst = appendNumber(dst, row.ExpiresMicros)
		dst = appendNumber(dst, row.UpdatedMicros)
	}
	dst = appendCount(dst, len(r.Missing))
	for _, key := range r.Missing {
		dst = appendNumber(dst, uint64(key))
	}
	return appendString(dst, r.After)
}

func (d *decoder) kvResult() *KVResult {
	r := &KVResult{}
	if d.flag() {
		r.Lost = &KVLost{Op: d.number32(), Reason: d.kvReason(), Version: d.number(), Value: bytes.Clone(d.bytes())}
	}
	r.Ops = list[KVOpResult](d.count(minKVOpResultBytes))
	for i := range r.Ops {
		d.kvOpResult(&r.Ops[i])
		if d.err != nil {
			r.Ops = nil
			break
		}
	}
	return r
}

func (d *decoder) kvReason() KVReason {
	reason := KVReason(d.byte("kv reason"))
	if reason > KVReasonType {
		d.fail("kv reason")
	}
	return reason
}

func (d *decoder) kvOpResult(r *KVOpResult) {
	r.Reason = d.kvReason()
	flags := d.flags(2)
	r.Found, r.Truncated = bit(flags, 0), bit(flags, 1)
	r.Version, r.Value = d.number(), bytes.Clone(d.bytes())
	r.ExpiresMicros, r.UpdatedMicros = d.number(), d.number()
	r.Rows = list[KVRow](d.count(minKVRowBytes))
	for i := range r.Rows {
		r.Rows[i] = KVRow{Key: d.name(), Value: bytes.Clone(d.bytes()), Version: d.number(), ExpiresMicros: d.number(), UpdatedMicros: d.number()}
	}
	r.Missing = list[uint32](d.count(minKVMissingBytes))
	for i := range r.Missing {
		r.Missing[i] = d.number32()
	}
	r.After = d.name()
}

func (c KVSweep) appendTo(dst []byte) []byte { return appendNumber(dst, uint64(c.MaxRows)) }

func (d *decoder) kvSweep() KVSweep { return KVSweep{MaxRows: d.number32()} }

func (r *KVSweepResult) appendTo(dst []byte) []byte {
	return appendFlags(appendCount(dst, r.Removed), r.More)
}

func (d *decoder) kvSweepResult() *KVSweepResult {
	return &KVSweepResult{Removed: d.size(), More: d.flag()}
}

func (c Lock) appendTo(dst []byte) []byte {
	dst = appendUUID(dst, c.Tenant)
	dst = appendNumber(dst, uint64(len(c.Ops)))
	for i := range c.Ops {
		op := &c.Ops[i]
		dst = append(dst, byte(op.Kind))
		dst = appendString(dst, op.Name)
		dst = appendString(dst, op.Owner)
		dst = appendNumber(dst, uint64(op.Limit))
		dst = appendNumber(dst, uint64(op.Slot))
		dst = appendNumber(dst, op.Token)
		dst = appendNumber(dst, op.TTLSeconds)
	}
	return dst
}

func (d *decoder) lock() Lock {
	c := Lock{Tenant: d.uuid()}
	c.Ops = list[LockOp](d.count(minLockOpBytes))
	for i := range c.Ops {
		op := &c.Ops[i]
		op.Kind = LockOpKind(d.byte("lock operation"))
		if op.Kind < LockAcquire || op.Kind > LockGet {
			d.fail("lock operation")
		}
		op.Name, op.Owner = d.name(), d.name()
		op.Limit, op.Slot = d.number32(), d.number32()
		op.Token, op.TTLSeconds = d.number(), d.number()
		if d.err != nil {
			c.Ops = nil
			break
		}
	}
	return c
}

func (r *LockResult) appendTo(dst []byte) []byte {
	dst = appendCount(dst, len(r.Ops))
	for i := range r.Ops {
		op := &r.Ops[i]
		dst = appendFlags(dst, op.Done, op.Already)
		dst = appendNumber(dst, uint64(op.Slot))
		dst = appendNumber(dst, op.Token)
		dst = appendCount(dst, len(op.Holders))
		for _, holder := range op.Holders {
			dst = appendNumber(dst, uint64(holder.Slot))
			dst = appendString(dst, holder.Owner)
			dst = appendNumber(dst, holder.Token)
			dst = appendNumber(dst, holder.SinceMicros)
			dst = appendNumber(dst, holder.UpdatedMicros)
			dst = appendNumber(dst, holder.ExpiresMicros)
		}
	}
	return dst
}

func (d *decoder) lockResult() *LockResult {
	r := &LockResult{Ops: list[LockOpResult](d.count(minLockOpResultBytes))}
	for i := range r.Ops {
		op := &r.Ops[i]
		flags := d.flags(2)
		op.Done, op.Already = bit(flags, 0), bit(flags, 1)
		op.Slot, op.Token = d.number32(), d.number()
		op.Holders = list[LockHolder](d.count(minLockHolderBytes))
		for j := range op.Holders {
			op.Holders[j] = LockHolder{
				Slot: d.number32(), Owner: d.name(), Token: d.number(), SinceMicros: d.number(), UpdatedMicros: d.number(),
				ExpiresMicros: d.number(),
			}
		}
		if d.err != nil {
			r.Ops = nil
			break
		}
	}
	return r
}
