// Package layout is the one place that knows how keys of the main database look: a one-byte family, then fixed-width
// big-endian ids, so that a range scan yields rows in the order of their numbers. Golden tests pin every family; a family
// letter is never given a second meaning.
package layout

import (
	"encoding/binary"
	"strings"

	"github.com/google/uuid"
)

// Family is the first byte of a key.
type Family = byte

// The families of format 7.
const (
	// FamilyMeta holds single rows: applied index, counters, last stamp.
	FamilyMeta Family = 'm'
	// FamilyQueue: queue id -> queue row (tenant, name, options, creation).
	FamilyQueue Family = 'q'
	// FamilyGroup: queue id, group id -> group row (name, registration).
	FamilyGroup Family = 'g'
	// FamilyPartitionName: queue id, partition name -> partition id, creation, UUID.
	FamilyPartitionName Family = 'n'
	// FamilyPartition: partition id -> partition row (queue id, name, UUID, creation).
	FamilyPartition Family = 'i'
	// FamilyPartitionUUID: partition UUID -> partition id.
	FamilyPartitionUUID Family = 'u'
	// FamilyHead: queue id, partition id -> head of the partition's log with its newest chunk references.
	FamilyHead Family = 'p'
	// FamilyPage: partition id, base offset -> page of older chunk references.
	FamilyPage Family = 'x'
	// FamilyHashes: partition id, base offset -> txid hashes of appends that retention has removed.
	FamilyHashes Family = 'h'
	// FamilyCursor: queue id, group id, partition id -> cursor row.
	FamilyCursor Family = 'c'
	// FamilyReleased: queue id, group id, partition id -> the items of the last releasing ack, when the cursor row has no
	// room for them.
	FamilyReleased Family = 'C'
	// FamilyLease: lease id, queue id -> members of the lease in that queue.
	FamilyLease Family = 'l'
	// FamilyDeadLetter: queue id, dead letter id -> dead letter.
	FamilyDeadLetter Family = 'd'
	// FamilyDeadLetterPlace: partition id, offset, group id -> queue id and dead letter id.
	FamilyDeadLetterPlace Family = 'D'
	// FamilyDeadLetterID: dead letter id -> queue id.
	FamilyDeadLetterID Family = 'e'
	// FamilyDeadLetterTxid: partition id, 128-bit txid hash, dead letter id -> nothing.
	FamilyDeadLetterTxid Family = 'E'
	// FamilyPosition: queue id, group id, partition id -> metadata of a position write.
	FamilyPosition Family = 'o'
	// FamilyTrash: queue id, group id -> a deleted queue (group 0) or group whose rows are still to be swept.
	FamilyTrash Family = 't'
	// FamilyOutcome: log index -> outcomes of the requests of that entry.
	FamilyOutcome Family = 'r'
	// FamilyTrace: trace number -> trace row. Numbers rise in the order of apply, and so do the times of traces.
	FamilyTrace Family = 'z'
	// FamilyTraceAddress: 128-bit hash of tenant, partition and txid, trace number -> nothing.
	FamilyTraceAddress Family = 'Z'
	// FamilyTraceName: tenant, trace name -> id of the name.
	FamilyTraceName Family = 'w'
	// FamilyTraceNameRow: name id -> name row (tenant, name, counts, newest trace).
	FamilyTraceNameRow Family = 'W'
	// FamilyTraceNamed: name id, trace number -> nothing.
	FamilyTraceNamed Family = 'y'
	// FamilyTraceNameMessage: name id, address hash -> how many traces of that message have the name.
	FamilyTraceNameMessage Family = 'Y'
	// FamilyTraceNameSeen: tenant, complement of the minute, name id -> nothing: names by the minute of their newest trace,
	// the latest first.
	FamilyTraceNameSeen Family = 'v'
	// FamilyTraceNameCount: tenant -> how many trace names it has.
	FamilyTraceNameCount Family = 'V'
	// FamilyKV: tenant, namespace, zero byte, key -> row of the KV store. Neither name holds a zero byte, so the rows of a
	// namespace are in the order of the bytes of their keys.
	FamilyKV Family = 'k'
	// FamilyKVExpiry: instant of expiry, then what follows the family in the key of the row -> bytes that the row is
	// charged with.
	FamilyKVExpiry Family = 'K'
	// FamilyKVNamespace: tenant, namespace -> how many rows it has.
	FamilyKVNamespace Family = 's'
	// FamilyKVUsage: tenant -> rows and bytes that it has in the KV store.
	FamilyKVUsage Family = 'U'
	// FamilyKVChunk: bucket id, then what follows the family in the key of the row -> nothing: the rows whose value lies in
	// that bucket.
	FamilyKVChunk Family = 'B'
	// FamilyTimer: tenant, length of the queue name, queue name, timer key -> timer row.
	FamilyTimer Family = 'T'
	// FamilyTimerDue: instant from which a timer may fire, its deliverAt, number of its row -> its FamilyTimer key.
	FamilyTimerDue Family = 'f'
	// FamilyTimerCount: tenant -> its pending timers and the bytes of their payloads.
	FamilyTimerCount Family = 'F'
	// FamilyTimerChunk: bucket id, then what follows the family in the key of the row -> nothing: the timers whose payload lies in
	// that bucket.
	FamilyTimerChunk Family = 'G'
	// FamilyMember: node id -> row of the members table.
	FamilyMember Family = 'M'
	// FamilyBucket: bucket id -> bytes and live chunks of the bucket. Written by the store alone.
	FamilyBucket Family = 'b'
)

func ids(family Family, numbers ...uint64) []byte {
	key := make([]byte, 1, 1+8*len(numbers))
	key[0] = family
	for _, n := range numbers {
		key = binary.BigEndian.AppendUint64(key, n)
	}
	return key
}

// Meta is the key of a single row, by name.
func Meta(name string) []byte { return append([]byte{FamilyMeta}, name...) }

// Queue is the key of a queue row.
func Queue(queue uint64) []byte { return ids(FamilyQueue, queue) }

// Group is the key of a group row.
func Group(queue, group uint64) []byte { return ids(FamilyGroup, queue, group) }

// GroupsOf is the prefix of all group rows of a queue.
func GroupsOf(queue uint64) []byte { return ids(FamilyGroup, queue) }

// PartitionName is the key under which a partition is found by name.
func PartitionName(queue uint64, name string) []byte {
	return append(ids(FamilyPartitionName, queue), name...)
}

// Partition is the key of a partition row.
func Partition(partition uint64) []byte { return ids(FamilyPartition, partition) }

// PartitionUUID is the key under which a partition is found by its UUID.
func PartitionUUID(id uuid.UUID) []byte { return append([]byte{FamilyPartitionUUID}, id[:]...) }

// Head is the key of the head of a partition's log.
func Head(queue, partition uint64) []byte { return ids(FamilyHead, queue, partition) }

// HeadsOf is the prefix of all heads of a queue, in the order of partition ids.
func HeadsOf(queue uint64) []byte { return ids(FamilyHead, queue) }

// Page is the key of a page of chunk references that begins at an offset.
func Page(partition, baseOffset uint64) []byte { return ids(FamilyPage, partition, baseOffset) }

// PagesOf is the prefix of all pages of a partition.
func PagesOf(partition uint64) []byte { return ids(FamilyPage, partition) }

// Hashes is the key of the hashes that outlive their append.
func Hashes(partition, baseOffset uint64) []byte { return ids(FamilyHashes, partition, baseOffset) }

// HashesOf is the prefix of all such hashes of a partition.
func HashesOf(partition uint64) []byte { return ids(FamilyHashes, partition) }

// Cursor is the key of a cursor row.
func Cursor(queue, group, partition uint64) []byte {
	return ids(FamilyCursor, queue, group, partition)
}

// CursorsOf is the prefix of all cursor rows of a group on a queue.
func CursorsOf(queue, group uint64) []byte { return ids(FamilyCursor, queue, group) }

// Released is the key of what a cursor row has no room for.
func Released(queue, group, partition uint64) []byte {
	return ids(FamilyReleased, queue, group, partition)
}

// ReleasedOf is the prefix of such rows of a group on a queue, AllReleasedOf that of all groups.
func ReleasedOf(queue, group uint64) []byte { return ids(FamilyReleased, queue, group) }

// AllReleasedOf is the prefix of such rows of all groups of a queue.
func AllReleasedOf(queue uint64) []byte { return ids(FamilyReleased, queue) }

// AllCursorsOf is the prefix of the cursor rows of all groups of a queue.
func AllCursorsOf(queue uint64) []byte { return ids(FamilyCursor, queue) }

// PositionsOf is the prefix of the position metadata of a group on a queue, AllPositionsOf that of all groups.
func PositionsOf(queue, group uint64) []byte { return ids(FamilyPosition, queue, group) }

// AllPositionsOf is the prefix of the position metadata of all groups of a queue.
func AllPositionsOf(queue uint64) []byte { return ids(FamilyPosition, queue) }

// PartitionNamesOf is the prefix of the names of the partitions of a queue.
func PartitionNamesOf(queue uint64) []byte { return ids(FamilyPartitionName, queue) }

// Lease is the key of the members that a lease has in one queue.
func Lease(lease uuid.UUID, queue uint64) []byte {
	return binary.BigEndian.AppendUint64(LeaseOf(lease), queue)
}

// LeaseOf is the prefix of the rows of one lease, one row a queue.
func LeaseOf(lease uuid.UUID) []byte { return append([]byte{FamilyLease}, lease[:]...) }

// DeadLetter is the key of a dead letter.
func DeadLetter(queue uint64, letter uuid.UUID) []byte {
	return append(ids(FamilyDeadLetter, queue), letter[:]...)
}

// DeadLettersOf is the prefix of all dead letters of a queue.
func DeadLettersOf(queue uint64) []byte { return ids(FamilyDeadLetter, queue) }

// DeadLetterPlace is the key that makes dead letters unique per message and group.
func DeadLetterPlace(partition, offset, group uint64) []byte {
	return ids(FamilyDeadLetterPlace, partition, offset, group)
}

// DeadLetterPlacesOf is the prefix of the places of a partition.
func DeadLetterPlacesOf(partition uint64) []byte { return ids(FamilyDeadLetterPlace, partition) }

// DeadLetterID is the key under which a dead letter is found by its id alone.
func DeadLetterID(letter uuid.UUID) []byte { return append([]byte{FamilyDeadLetterID}, letter[:]...) }

// DeadLetterTxid is the key under which a dead letter is found by its address.
func DeadLetterTxid(partition uint64, hash [16]byte, letter uuid.UUID) []byte {
	return append(DeadLettersAt(partition, hash), letter[:]...)
}

// DeadLettersAt is the prefix of all dead letters of one address.
func DeadLettersAt(partition uint64, hash [16]byte) []byte {
	return append(ids(FamilyDeadLetterTxid, partition), hash[:]...)
}

// Position is the key of the metadata of a position write.
func Position(queue, group, partition uint64) []byte {
	return ids(FamilyPosition, queue, group, partition)
}

// Trash is the key of a deleted queue (group 0) or of a deleted group whose rows are still to be swept.
func Trash(queue, group uint64) []byte { return ids(FamilyTrash, queue, group) }

// Outcome is the key of the outcomes of one entry.
func Outcome(index uint64) []byte { return ids(FamilyOutcome, index) }

// Trace is the key of a trace row.
func Trace(number uint64) []byte { return ids(FamilyTrace, number) }

// TraceAt is the key under which a trace is found by its address.
func TraceAt(address [16]byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(TracesAt(address), number)
}

// TracesAt is the prefix of all traces of one address.
func TracesAt(address [16]byte) []byte { return append([]byte{FamilyTraceAddress}, address[:]...) }

// TraceName is the key under which the id of a trace name is found.
func TraceName(tenant uuid.UUID, name string) []byte {
	return append(append([]byte{FamilyTraceName}, tenant[:]...), name...)
}

// TraceNameRow is the key of a name row.
func TraceNameRow(name uint64) []byte { return ids(FamilyTraceNameRow, name) }

// TraceNamed is the key under which a trace is found by one of its names.
func TraceNamed(name, number uint64) []byte { return ids(FamilyTraceNamed, name, number) }

// TracesNamed is the prefix of all traces of a name.
func TracesNamed(name uint64) []byte { return ids(FamilyTraceNamed, name) }

// TraceNameMessage is the key of the number of traces that one message has under a name.
func TraceNameMessage(name uint64, address [16]byte) []byte {
	return append(ids(FamilyTraceNameMessage, name), address[:]...)
}

// TraceNameSeen is the key of a name in the order in which names were seen, the latest minute first.
func TraceNameSeen(tenant uuid.UUID, minute, name uint64) []byte {
	key := binary.BigEndian.AppendUint64(TraceNamesSeen(tenant), ^minute)
	return binary.BigEndian.AppendUint64(key, name)
}

// TraceNamesSeen is the prefix of that order for one tenant.
func TraceNamesSeen(tenant uuid.UUID) []byte {
	return append([]byte{FamilyTraceNameSeen}, tenant[:]...)
}

// TraceNameCount is the key of the number of trace names of a tenant.
func TraceNameCount(tenant uuid.UUID) []byte {
	return append([]byte{FamilyTraceNameCount}, tenant[:]...)
}

// KV is the key of a row of the KV store.
func KV(tenant uuid.UUID, namespace, key string) []byte {
	return append(KVRowsOf(tenant, namespace), key...)
}

// KVRowsOf is the prefix of the rows of a namespace, in the order of the bytes of their keys.
func KVRowsOf(tenant uuid.UUID, namespace string) []byte {
	prefix := make([]byte, 0, 1+len(tenant)+len(namespace)+1)
	prefix = append(append(prefix, FamilyKV), tenant[:]...)
	return append(append(prefix, namespace...), 0)
}

// KVPlace reads the key of a row of the KV store. ok is false when it is no such key.
func KVPlace(row []byte) (tenant uuid.UUID, namespace, key string, ok bool) {
	if len(row) < 1+len(tenant) || row[0] != FamilyKV {
		return tenant, "", "", false
	}
	copy(tenant[:], row[1:])
	namespace, key, ok = strings.Cut(string(row[1+len(tenant):]), "\x00")
	return tenant, namespace, key, ok
}

// KVExpiry is the key under which a row of the KV store, given by its key, is found by the instant of its expiry.
func KVExpiry(instantMicros uint64, row []byte) []byte {
	return append(ids(FamilyKVExpiry, instantMicros), row[1:]...)
}

// KVExpiryFrom is where the rows that expire at an instant or later begin.
func KVExpiryFrom(instantMicros uint64) []byte { return ids(FamilyKVExpiry, instantMicros) }

// KVChunk is the key under which a row of the KV store, given by its key, is found by the bucket of its value.
func KVChunk(bucket uint32, row []byte) []byte {
	return append(KVChunksIn(bucket), row[1:]...)
}

// KVChunksIn is the prefix of the rows of the KV store whose values lie in a bucket.
func KVChunksIn(bucket uint32) []byte { return ids(FamilyKVChunk, uint64(bucket)) }

// KVIndexed reads a key of KVExpiry or KVChunk: the instant or bucket, and the key of the row. ok is false when it is no
// such key.
func KVIndexed(key []byte) (number uint64, row []byte, ok bool) {
	const head = 1 + 8
	if len(key) < head {
		return 0, nil, false
	}
	row = make([]byte, 0, 1+len(key)-head)
	return binary.BigEndian.Uint64(key[1:]), append(append(row, FamilyKV), key[head:]...), true
}

// KVNamespace is the key of the number of rows of a namespace.
func KVNamespace(tenant uuid.UUID, namespace string) []byte {
	return append(KVNamespacesOf(tenant), namespace...)
}

// KVNamespacesOf is the prefix of the namespaces of a tenant, in the order of their bytes.
func KVNamespacesOf(tenant uuid.UUID) []byte { return append([]byte{FamilyKVNamespace}, tenant[:]...) }

// KVUsage is the key of what a tenant has in the KV store.
func KVUsage(tenant uuid.UUID) []byte { return append([]byte{FamilyKVUsage}, tenant[:]...) }

// Timer is the key of a pending timer (state 3.1). A queue name has at most 475 bytes here, which the limit on the two names
// leaves.
func Timer(tenant uuid.UUID, queue, timerKey string) []byte {
	return append(TimersOf(tenant, queue), timerKey...)
}

// TimersOf is the prefix of the pending timers of a queue, in the byte order of their keys. The length in front keeps the
// names of two queues apart of which one begins with the other.
func TimersOf(tenant uuid.UUID, queue string) []byte {
	key := append([]byte{FamilyTimer}, tenant[:]...)
	key = binary.BigEndian.AppendUint16(key, uint16(len(queue)))
	return append(key, queue...)
}

// SplitTimer reads a Timer key; ok is false when it is none.
func SplitTimer(key []byte) (tenant uuid.UUID, queue, timerKey string, ok bool) {
	const head = 1 + len(tenant) + 2
	if len(key) < head || key[0] != FamilyTimer {
		return tenant, "", "", false
	}
	copy(tenant[:], key[1:])
	names := key[head:]
	length := int(binary.BigEndian.Uint16(key[head-2:]))
	if length > len(names) {
		return tenant, "", "", false
	}
	return tenant, string(names[:length]), string(names[length:]), true
}

// TimerDue is the place of a pending timer in the order of firing. deliverAt may lie before 1970.
func TimerDue(dueMicros uint64, deliverMicros int64, number uint64) []byte {
	return ids(FamilyTimerDue, dueMicros, uint64(deliverMicros)^1<<63, number)
}

// TimersDue is the prefix of that order.
func TimersDue() []byte { return []byte{FamilyTimerDue} }

// SplitTimerDue reads a TimerDue key; ok is false when it is none.
func SplitTimerDue(key []byte) (dueMicros uint64, deliverMicros int64, number uint64, ok bool) {
	if len(key) != 1+3*8 || key[0] != FamilyTimerDue {
		return 0, 0, 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), int64(binary.BigEndian.Uint64(key[9:]) ^ 1<<63), LastNumber(key), true
}

// TimerCount is the key of what a tenant has pending.
func TimerCount(tenant uuid.UUID) []byte { return append([]byte{FamilyTimerCount}, tenant[:]...) }

// TimerChunk is the key under which a timer, given by its key, is found by the bucket of its payload.
func TimerChunk(bucket uint32, row []byte) []byte { return append(TimerChunksIn(bucket), row[1:]...) }

// TimerChunksIn is the prefix of the timers whose payloads lie in a bucket.
func TimerChunksIn(bucket uint32) []byte { return ids(FamilyTimerChunk, uint64(bucket)) }

// TimerOfChunk is the key of the timer of a TimerChunk key; ok is false when it is none.
func TimerOfChunk(key []byte) (row []byte, ok bool) {
	const head = 1 + 8
	if len(key) < head || key[0] != FamilyTimerChunk {
		return nil, false
	}
	return append([]byte{FamilyTimer}, key[head:]...), true
}

// Member is the key of a row of the members table.
func Member(node uint64) []byte { return ids(FamilyMember, node) }

// Members is the prefix of the members table, in the order of the ids.
func Members() []byte { return []byte{FamilyMember} }

// Bucket is the key of a bucket row.
func Bucket(bucket uint32) []byte { return ids(FamilyBucket, uint64(bucket)) }

// LastNumber reads the last eight bytes of a key as a number: the partition id, offset or group id that ends it.
func LastNumber(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }
