package command

// KV runs operations on rows of the KV store (state 2). The same operations stand in a transaction (state 2.12).
type KV struct {
	Tenant Tenant
	Limits KVLimits
	Ops    []KVOp
}

// KVLimits are settings of the node that took a call, which influence its result (cluster 1.9).
type KVLimits struct {
	// ValueBytes is QUEEN_KV_MAX_VALUE_BYTES: how long a number that incr makes may be.
	ValueBytes uint32
	// ReadBytes is QUEEN_KV_MAX_READ_BYTES: how many bytes of values the reads of a call return.
	ReadBytes uint32
}

// KVOpKind is what an operation does (state 2.3). Numbers are never reused.
type KVOpKind uint8

// The operations.
const (
	KVGet         KVOpKind = 1
	KVGetMany     KVOpKind = 2
	KVGetPrefix   KVOpKind = 3
	KVPut         KVOpKind = 4
	KVPutIfAbsent KVOpKind = 5
	KVDelete      KVOpKind = 6
	KVIncr        KVOpKind = 7
	KVCheck       KVOpKind = 8
)

// Reads tells whether the operation only reads; a check is a condition and no read (state 2.9).
func (k KVOpKind) Reads() bool { return k <= KVGetPrefix }

// Writes tells whether the operation may change a row.
func (k KVOpKind) Writes() bool { return k >= KVPut && k <= KVIncr }

// KVOp is one operation, validated (state 2.5). Which fields it uses follows from its kind, as in the table of state 2.2.
type KVOp struct {
	Kind      KVOpKind
	Namespace string
	// Key is the prefix of a getPrefix.
	Key  string
	Keys []string
	// After is where a page goes on, exclusive; empty begins with the first key.
	After string
	// Limit is how many rows a page has at most; 0 means that none was given.
	Limit    uint32
	KeysOnly bool
	// Value is compact JSON.
	Value []byte
	// TTLSeconds is how long the row lives; 0 means for ever.
	TTLSeconds uint64
	// Expect is the version that the row must have, 0 that there must be none; HasExpect tells it from no condition.
	Expect    uint64
	HasExpect bool
	// Required cancels the whole call when the operation loses its condition (state 2.4).
	Required bool
	// Delta, Min and Max are JSON numbers; an empty bound is none.
	Delta, Min, Max string
}

// KVReason is why an operation was not applied (state 2.3).
type KVReason uint8

// The reasons; KVApplied means that there is none.
const (
	KVApplied       KVReason = 0
	KVReasonExists  KVReason = 1
	KVReasonAbsent  KVReason = 2
	KVReasonVersion KVReason = 3
	KVReasonLimit   KVReason = 4
	KVReasonType    KVReason = 5
)

// kvReasons are the names of the reasons, as clients know them.
var kvReasons = [...]string{"", "exists", "absent", "version", "limit", "type"}

// String is the reason as it stands in an answer.
func (r KVReason) String() string {
	if int(r) < len(kvReasons) {
		return kvReasons[r]
	}
	return "KVReason(?)"
}

// KVResult is what became of a call: Lost, when an operation with required lost its condition and nothing happened, or one
// element per operation, in order. In a transaction it is that of the kv array.
type KVResult struct {
	Lost *KVLost
	Ops  []KVOpResult
}

// KVLost is the operation that cancelled a call (state 2.4).
type KVLost struct {
	// Op is the position among the operations of the call.
	Op     uint32
	Reason KVReason
	// Version and Value are those of the row, 0 and nothing when there is none.
	Version uint64
	Value   []byte
}

// KVOpResult is the answer to one operation (state 2.2).
type KVOpResult struct {
	// Reason is why a write or check was not applied.
	Reason KVReason
	// Found tells whether a get found a row.
	Found bool
	// Version is that of the row as it stands afterwards; of an applied delete, that of the row it removed.
	Version uint64
	// Value is what a get found, the number that an incr has made, or the value of the row where an operation was not applied;
	// nothing when there is no row. An applied put answers the value that it was sent with, which is not repeated here.
	Value []byte
	// ExpiresMicros is the expiry of the row that a get found, 0 for never; UpdatedMicros when it was written.
	ExpiresMicros, UpdatedMicros uint64
	// Rows are those of getMany and getPrefix, in the order of their keys.
	Rows []KVRow
	// Missing are the positions among the keys of a getMany that have no row; a key that is named twice counts once.
	Missing []uint32
	// Truncated tells that a getMany or getPrefix ended early; After is where the next page of a getPrefix begins.
	Truncated bool
	After     string
}

// KVRow is a row as readers see it. Value is nothing where only keys were asked for.
type KVRow struct {
	Key                                   string
	Value                                 []byte
	Version, ExpiresMicros, UpdatedMicros uint64
}

// KVSweep removes at most MaxRows rows that have expired (state 2.7). Proposed by the leader while there are such rows.
type KVSweep struct {
	MaxRows uint32
}

// KVSweepResult counts the removed rows; More tells that one step did not reach all of them.
type KVSweepResult struct {
	Removed int
	More    bool
}

// Lock runs operations on locks and semaphores, independent of each other (state 4).
type Lock struct {
	Tenant Tenant
	Ops    []LockOp
}

// LockOpKind is what an operation on a lock does (state 4.2). Numbers are never reused.
type LockOpKind uint8

// The operations.
const (
	LockAcquire LockOpKind = 1
	LockRenew   LockOpKind = 2
	LockRelease LockOpKind = 3
	LockGet     LockOpKind = 4
)

// LockOp is one operation, validated (state 4.2).
type LockOp struct {
	Kind LockOpKind
	Name string
	// Owner is empty when none was given.
	Owner string
	// Limit is how many permits an acquire knows of, at least 1.
	Limit uint32
	// Slot and Token name the permit of a renew or release.
	Slot  uint32
	Token uint64
	// TTLSeconds is the lifetime of the permit, at least 1.
	TTLSeconds uint64
}

// LockResult has one element per operation, in order.
type LockResult struct {
	Ops []LockOpResult
}

// LockOpResult is the answer to one operation (state 4.3).
type LockOpResult struct {
	// Done tells that the permit was acquired, renewed or released, or, of a get, that the lock is held.
	Done bool
	// Already tells that the owner held the permit before the acquire.
	Already bool
	// Slot and Token are the permit that was acquired or renewed.
	Slot  uint32
	Token uint64
	// Holders are the live permits that stood in the way, or those of a get, in the order of their slots.
	Holders []LockHolder
}

// LockHolder is a live permit.
type LockHolder struct {
	Slot uint32
	// Owner is empty when the permit has none.
	Owner string
	Token uint64
	// SinceMicros is when it was acquired, UpdatedMicros when it was renewed last, ExpiresMicros when it ends, 0 for never.
	SinceMicros, UpdatedMicros, ExpiresMicros uint64
}
