package kv

import "queen/raftlog/command"

const (
	// callKeys and callBytes are what a call with writes writes once: the counters of the group and the counts of the tenant.
	callKeys  = 2
	callBytes = 256
	// writeKeys are the keys of one write at most: the row, its places in the order of expiry before and after, those in
	// a bucket before and after, the count of its namespace. writeBytes is what they take without names and value.
	writeKeys  = 6
	writeBytes = 6*32 + 128
	// lockBytes is what a permit takes at most without the owner: a value that somebody else has put in its place is kept by
	// a renewal.
	lockBytes = inlineBytes
)

// Weigh estimates from above what the operations of a call write into the main database: keys, and their bytes with the
// values. What goes into chunks is not in it.
func Weigh(ops []command.KVOp) (keys, bytes int) {
	for i := range ops {
		op := &ops[i]
		if !op.Kind.Writes() {
			continue
		}
		value := 0
		switch {
		case op.Kind == command.KVIncr:
			value = inlineNumberBytes // a longer number is a chunk
		case len(op.Value) <= inlineBytes:
			value = len(op.Value)
		}
		k, b := weighWrite(len(op.Namespace)+len(op.Key), value)
		keys, bytes = keys+k, bytes+b
	}
	if keys == 0 {
		return 0, 0
	}
	return keys + callKeys, bytes + callBytes
}

// WeighLock estimates what a lock call writes.
func WeighLock(ops []command.LockOp) (keys, bytes int) {
	for i := range ops {
		if ops[i].Kind == command.LockGet {
			continue
		}
		k, b := weighWrite(len(LockNamespace)+len(ops[i].Name)+len("#1024"), lockBytes)
		keys, bytes = keys+k, bytes+b
	}
	if keys == 0 {
		return 0, 0
	}
	return keys + callKeys, bytes + callBytes
}

func weighWrite(names, value int) (keys, bytes int) {
	return writeKeys, writeBytes + writeKeys*names + value
}

// WeighSweep estimates what a sweep of so many rows writes; apply looks what there is room for.
func WeighSweep(rows int) (keys, bytes int) {
	rows = min(rows, sweepRows)
	return callKeys + rows*(sweepKeys+countKeys), callBytes + rows*(sweepBytes+countBytes)
}
