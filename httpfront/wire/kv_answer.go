package wire

import "queen/raftlog/command"

// AppendKV appends the answer to a call of the KV store: its results, or the verdict of a required operation that lost its
// condition (state 2.2, 2.4).
func AppendKV(dst []byte, ops []command.KVOp, r *command.KVResult) []byte {
	if r.Lost != nil {
		return AppendKVLost(dst, r.Lost)
	}
	dst = append(dst, `{"results":[`...)
	for i := range ops {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendKVElement(dst, i, &ops[i], &r.Ops[i])
	}
	return append(dst, `]}`...)
}

// AppendKVLost appends the verdict of a lost condition.
func AppendKVLost(dst []byte, lost *command.KVLost) []byte {
	dst = append(dst, `{"ok":false,"reason":"kv_precondition"`...)
	return append(appendKVLoss(dst, lost, int(lost.Op)), '}')
}

// appendKVLoss appends the members that say which condition was lost, and to what row.
func appendKVLoss(dst []byte, lost *command.KVLost, failedIndex int) []byte {
	dst = appendInt(dst, ',', "failedIndex", int64(failedIndex))
	dst = appendText(dst, ',', "kvReason", lost.Reason.String())
	dst = appendUint(dst, ',', "version", lost.Version)
	return appendValue(dst, lost.Value)
}

// AppendKVElement appends the result of one operation.
func AppendKVElement(dst []byte, index int, op *command.KVOp, r *command.KVOpResult) []byte {
	return appendKVOutcome(appendInt(dst, '{', "index", int64(index)), op, r)
}

// appendKVOutcome appends what stands behind the numbers of a result, and ends it.
func appendKVOutcome(dst []byte, op *command.KVOp, r *command.KVOpResult) []byte {
	dst = appendText(dst, ',', "op", kvNames[op.Kind])
	switch op.Kind {
	case command.KVGet:
		dst = appendKVGot(dst, op, r)
	case command.KVGetMany:
		dst = appendKVRows(dst, r.Rows, false)
		dst = appendKey(dst, ',', "missing")
		dst = append(dst, '[')
		for i, at := range r.Missing {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendString(dst, op.Keys[at])
		}
		dst = appendBool(append(dst, ']'), ',', "truncated", r.Truncated)
	case command.KVGetPrefix:
		dst = appendKVRows(dst, r.Rows, op.KeysOnly)
		dst = appendBool(dst, ',', "truncated", r.Truncated)
		dst = appendTextOrNull(dst, ',', "nextAfter", r.After, r.Truncated)
	default:
		dst = appendKVWritten(dst, op, r)
	}
	return append(dst, '}')
}

func appendKVGot(dst []byte, op *command.KVOp, r *command.KVOpResult) []byte {
	dst = appendBool(dst, ',', "found", r.Found)
	dst = appendText(dst, ',', "key", op.Key)
	if !r.Found {
		return dst
	}
	dst = appendUint(appendValue(dst, r.Value), ',', "version", r.Version)
	return appendKVTimes(dst, r.ExpiresMicros, r.UpdatedMicros)
}

func appendKVWritten(dst []byte, op *command.KVOp, r *command.KVOpResult) []byte {
	applied := r.Reason == command.KVApplied
	dst = appendBool(dst, ',', "applied", applied)
	value := r.Value
	if !applied {
		dst = appendText(dst, ',', "reason", r.Reason.String())
	} else if op.Kind == command.KVPut || op.Kind == command.KVPutIfAbsent {
		value = op.Value
	}
	dst = appendText(dst, ',', "key", op.Key)
	if !applied || op.Kind != command.KVCheck {
		dst = appendValue(dst, value)
	}
	return appendUint(dst, ',', "version", r.Version)
}

// appendValue appends a stored value, null when there is none.
func appendValue(dst, value []byte) []byte {
	dst = appendKey(dst, ',', "value")
	if len(value) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, value...)
}

func appendKVTimes(dst []byte, expiresMicros, updatedMicros uint64) []byte {
	dst = appendTime(dst, "expiresAt", expiresMicros)
	return appendTime(dst, "updatedAt", updatedMicros)
}

// appendTime appends a time of the state surfaces (state 1.5), null for 0.
func appendTime(dst []byte, name string, micros uint64) []byte {
	dst = appendKey(dst, ',', name)
	if micros == 0 {
		return append(dst, "null"...)
	}
	return append(AppendTimeMicros(append(dst, '"'), micros), '"')
}

func appendKVRows(dst []byte, rows []command.KVRow, keysOnly bool) []byte {
	dst = append(appendKey(dst, ',', "rows"), '[')
	for i := range rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendKVRow(dst, &rows[i], keysOnly), '}')
	}
	return append(dst, ']')
}

func appendKVRow(dst []byte, row *command.KVRow, keyOnly bool) []byte {
	dst = appendText(dst, '{', "key", row.Key)
	if !keyOnly {
		dst = appendValue(dst, row.Value)
	}
	dst = appendUint(dst, ',', "version", row.Version)
	return appendKVTimes(dst, row.ExpiresMicros, row.UpdatedMicros)
}

// KVPage is a page of the console (state 2.11).
type KVPage struct {
	Rows []KVPageRow
	// KeysOnly tells that the rows show no values.
	KeysOnly, Truncated bool
	// After is where the next page begins, when this one is truncated.
	After string
	Bytes uint64
}

// KVPageRow is a row of it.
type KVPageRow struct {
	Row     *command.KVRow
	Expired bool
}

// AppendKVPage appends a page of the console.
func AppendKVPage(dst []byte, page *KVPage) []byte {
	dst = append(dst, `{"rows":[`...)
	for i := range page.Rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendKVRow(dst, page.Rows[i].Row, page.KeysOnly)
		dst = append(appendBool(dst, ',', "expired", page.Rows[i].Expired), '}')
	}
	dst = appendBool(append(dst, ']'), ',', "truncated", page.Truncated)
	dst = appendTextOrNull(dst, ',', "nextAfter", page.After, page.Truncated)
	return append(appendUint(dst, ',', "bytes", page.Bytes), '}')
}
