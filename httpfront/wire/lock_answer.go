package wire

import "queen/raftlog/command"

// Guard is the operation that holds as long as a permit has a token (state 4.3).
type Guard func(name string, slot uint32, token uint64) command.KVOp

// AppendLock appends the answer to a lock call (state 4.3).
func AppendLock(dst []byte, ops []command.LockOp, r *command.LockResult, guard Guard) []byte {
	dst = append(dst, `{"results":[`...)
	for i := range ops {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, '{', "index", int64(i))
		dst = append(appendLockOutcome(dst, &ops[i], &r.Ops[i], guard), '}')
	}
	return append(dst, `]}`...)
}

func appendLockOutcome(dst []byte, op *command.LockOp, r *command.LockOpResult, guard Guard) []byte {
	head := func(outcome string) {
		dst = appendText(dst, ',', "op", lockNames[op.Kind])
		dst = appendText(dst, ',', "name", op.Name)
		dst = appendBool(dst, ',', outcome, r.Done)
	}
	switch op.Kind {
	case command.LockAcquire:
		head("acquired")
		if !r.Done {
			return appendHolders(appendText(dst, ',', "reason", "held"), r.Holders)
		}
		dst = appendPermit(dst, r)
		dst = appendTextOrNull(dst, ',', "owner", op.Owner, op.Owner != "")
		dst = appendGuard(dst, guard(op.Name, r.Slot, r.Token))
		if r.Already {
			dst = appendBool(dst, ',', "already", true)
		}
		return dst
	case command.LockRenew:
		head("renewed")
		if !r.Done {
			return appendLostPermit(dst, r)
		}
		return appendGuard(appendPermit(dst, r), guard(op.Name, r.Slot, r.Token))
	case command.LockRelease:
		head("released")
		if !r.Done {
			return appendLostPermit(dst, r)
		}
		return appendUint(dst, ',', "slot", uint64(r.Slot))
	default:
		head("held")
		return appendPermits(dst, r.Holders)
	}
}

func appendPermit(dst []byte, r *command.LockOpResult) []byte {
	return appendUint(appendUint(dst, ',', "slot", uint64(r.Slot)), ',', "token", r.Token)
}

func appendLostPermit(dst []byte, r *command.LockOpResult) []byte {
	dst = appendText(dst, ',', "reason", "lost")
	return appendHolders(appendUint(dst, ',', "slot", uint64(r.Slot)), r.Holders)
}

func appendHolder(dst []byte, h *command.LockHolder) []byte {
	dst = appendUint(dst, '{', "slot", uint64(h.Slot))
	return appendTextOrNull(dst, ',', "owner", h.Owner, h.Owner != "")
}

// appendHolders appends who stands in the way.
func appendHolders(dst []byte, holders []command.LockHolder) []byte {
	dst = append(appendKey(dst, ',', "holders"), '[')
	for i := range holders {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendHolder(dst, &holders[i]), '}')
	}
	return append(dst, ']')
}

// appendPermits appends the live permits with all that is known of them.
func appendPermits(dst []byte, holders []command.LockHolder) []byte {
	dst = append(appendKey(dst, ',', "holders"), '[')
	for i := range holders {
		h := &holders[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendUint(appendHolder(dst, h), ',', "token", h.Token)
		dst = appendTime(dst, "since", h.SinceMicros)
		dst = appendTime(dst, "renewedAt", h.UpdatedMicros)
		dst = append(appendTime(dst, "expiresAt", h.ExpiresMicros), '}')
	}
	return append(dst, ']')
}

func appendGuard(dst []byte, op command.KVOp) []byte {
	dst = appendText(append(dst, `,"guard":`...), '{', "op", kvNames[op.Kind])
	dst = appendText(dst, ',', "ns", op.Namespace)
	dst = appendText(dst, ',', "key", op.Key)
	dst = appendUint(dst, ',', "expect", op.Expect)
	return append(appendBool(dst, ',', "required", op.Required), '}')
}
