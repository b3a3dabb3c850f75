package actors

import (
	"queen/actors/machine/deadletter"
	"queen/actors/machine/kv"
	"queen/actors/machine/membership"
	window "queen/actors/machine/outcome"
	"queen/actors/machine/timer"
	"queen/actors/machine/trace"
	"queen/raftlog/command"
	"queen/store"
)

// What one entry writes must fit one store transaction and one block (architecture 7). What a command will write at most
// is estimated before it is proposed (weigh); where only apply can know, because it depends on stored messages, it looks
// at what the batch holds so far and refuses or postpones the rest. Both are functions of the log alone.
const (
	// MaxEntryKeys and MaxEntryStateBytes are what the commands of an entry may write by their estimates.
	MaxEntryKeys       = store.MaxBatchKeys*7/8 - endKeys
	MaxEntryStateBytes = store.MaxBatchBytes*7/8 - endBytes
	// unforeseenKeys, unforeseenBytes and unforeseenChunkBytes bound the batch up to which apply lets commands write what
	// their estimates leave out: dead letters, and hashes that retention moves.
	unforeseenKeys       = store.MaxBatchKeys*15/16 - endKeys
	unforeseenBytes      = store.MaxBatchBytes*15/16 - endBytes
	unforeseenChunkBytes = store.MaxBlockBytes - 2<<20 - endChunkBytes
	// endKeys, endBytes and endChunkBytes are left to what is written when the commands of an entry are done: the outcomes of
	// their requests, and the last stamp.
	endKeys       = window.MaxKeys + 1
	endBytes      = window.MaxBytes + rowBytes
	endChunkBytes = window.LeastRoomBytes + chunkOverheadBytes
)

// fits tells whether the batch has room for something that no estimate has foreseen.
func (a *apply) fits(keys, bytes, chunkBytes int) bool {
	k, b, c := a.batch.Size()
	return k+keys <= unforeseenKeys && b+bytes <= unforeseenBytes && c+chunkBytes <= unforeseenChunkBytes
}

const (
	// rowBytes is about what a small row takes with its key.
	rowBytes = 128
	// groupKeys are the rows of a push to a new partition: identity, name, UUID, head, page; and its share of the rows that
	// a command writes once.
	groupKeys = 6
	// groupBytes is what they take without names and hashes: mostly the references inside the head.
	groupBytes = 1600
	// hashBytes is the txid hash of a message.
	hashBytes = 16
	// hashedMessages is how many messages of one append leave hashes in rows.
	hashedMessages = 1024
	// partKeys are the rows of an ack of one partition: cursor, memory of the release, lease.
	partKeys = 3
	// partBytes is what they take without items, of which at most releasedItems are remembered.
	partBytes     = 1200
	releasedItems = 16_384
	// positionKeys are the rows of a position write that makes partition, group and cursor.
	positionKeys = 10
)

// weigh estimates the keys and bytes that a command writes into the main database, from above.
func weigh(c command.Command) (keys, bytes int) {
	switch c := c.(type) {
	case *command.Push:
		return weighGroups(c.Groups)
	case *command.Ack:
		return weighParts(c.Parts)
	case *command.Claim:
		for i := range c.Parts {
			keys += 4 + 4*len(c.Parts[i].Targets)
		}
		bytes = keys * partBytes
	case *command.HandBack:
		keys, bytes = 2*len(c.Parts), 2*len(c.Parts)*partBytes
	case *command.Transaction:
		keys, bytes = weighGroups(c.Pushes)
		for i := range c.Acks {
			k, b := weighParts([]command.AckPart{c.Acks[i].AckPart})
			keys, bytes = keys+k, bytes+b
		}
		for i := range c.Positions {
			keys, bytes = keys+positionKeys, bytes+groupBytes+2*len(c.Positions[i].Metadata)
		}
		rowKeys, rowBytes := kv.Weigh(c.KV)
		timerKeys, timerBytes := weighTimers(c.Timers)
		keys, bytes = keys+rowKeys+timerKeys, bytes+rowBytes+timerBytes
	case *command.Configure:
		for i := range c.Changes {
			bytes += 6 * len(c.Changes[i].Text) // as escaped JSON
		}
		keys, bytes = 4, bytes+16*rowBytes
	case *command.Seek:
		keys, bytes = partKeys*seekStep, partKeys*seekStep*rowBytes*4
	case *command.DeleteGroup, *command.ChangeSubscription:
		keys, bytes = 4*catalogStep, 8*catalogStep*rowBytes
	case *command.DeadLetterDelete:
		keys, bytes = 4*purgeStep, 4*purgeStep*rowBytes
	case *command.Retain:
		keys, bytes = 4*len(c.Partitions), 4*len(c.Partitions)*rowBytes
	case *command.Sweep:
		keys, bytes = 4*int(c.MaxKeys), 4*int(c.MaxKeys)*rowBytes
	case *command.Trace:
		keys, bytes = weighTrace(c)
	case *command.Membership:
		keys, bytes = membership.Keys, 4096+rowBytes*membership.Keys
		for i := range c.Put {
			bytes += 1024
			for _, id := range c.Put[i].KeyIDs {
				bytes += 6 * len(id)
			}
		}
	case *command.KV:
		keys, bytes = kv.Weigh(c.Ops)
	case *command.Lock:
		keys, bytes = kv.WeighLock(c.Ops)
	case *command.KVSweep:
		keys, bytes = kv.WeighSweep(int(c.MaxRows))
	case *command.Timers:
		keys, bytes = weighTimers(c.Ops)
	case *command.TimerFire:
		keys, bytes = fireKeys*len(c.Timers), fireBytes*len(c.Timers)
	case *command.TraceSweep:
		keys, bytes = int(c.MaxKeys), 2*int(c.MaxKeys)*rowBytes
	default:
		keys, bytes = 16, 16*rowBytes*4
	}
	return keys, bytes
}

func weighGroups(groups []command.PushGroup) (keys, bytes int) {
	for i := range groups {
		keys += groupKeys
		bytes += groupBytes + 3*len(groups[i].Partition) + hashBytes*int(min(groups[i].Count, hashedMessages))
	}
	return keys, bytes
}

func weighParts(parts []command.AckPart) (keys, bytes int) {
	for i := range parts {
		letters, letterBytes := weighFilings(parts[i].Items)
		keys += partKeys + deadletter.Rows*letters
		bytes += partBytes + 9*min(len(parts[i].Items), releasedItems) + letterBytes
	}
	return keys, bytes
}

// weighFilings estimates the dead letters of a part: every item that asks for one, and one for a budget that may be
// exhausted.
func weighFilings(items []command.AckItem) (letters, bytes int) {
	failed := 0
	for i := range items {
		switch size := deadletter.RowBytes(len(items[i].Error), len(items[i].Txid)); items[i].Status {
		case command.AckDeadLetter:
			letters++
			bytes += size
		case command.AckFailed:
			failed = max(failed, size)
		}
	}
	if failed > 0 {
		letters++
		bytes += failed
	}
	return letters, bytes
}

func weighTrace(c *command.Trace) (keys, bytes int) {
	keys, bytes = trace.Keys, trace.RowBytes
	for _, name := range c.Names {
		keys += trace.NameKeys
		bytes += trace.NameBytes + 2*len(name)
	}
	return keys, bytes
}

const (
	// fireKeys and fireBytes are what firing a planned timer writes: its rows go, and its message may be the first in a partition
	// whose name stands in the row of the timer and is bounded.
	fireKeys  = timer.Keys + groupKeys
	fireBytes = timer.RowBytes + groupBytes + 3*maxNameBytes + hashBytes
	// maxNameBytes is the longest name of a partition (messaging 2.11).
	maxNameBytes = 411
	// fireOverheadBytes is what a fired message takes in its chunk beside payload and transaction id, which it may have at its
	// longest.
	fireOverheadBytes = messageOverheadBytes + chunkOverheadBytes
)

// weighTimers estimates operations on timers. One that is due at once is pushed in the same entry.
func weighTimers(ops []command.TimerOp) (keys, bytes int) {
	for i := range ops {
		op := &ops[i]
		keys, bytes = keys+timer.Keys, bytes+timer.OpBytes(op)
		if op.Kind == command.TimerSchedule && op.DelayMicros <= 0 {
			keys, bytes = keys+groupKeys, bytes+groupBytes+3*len(op.Partition)+hashBytes
		}
	}
	return keys, bytes
}
