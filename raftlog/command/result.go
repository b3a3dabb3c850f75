package command

import "github.com/google/uuid"

// Result is what applying a command produced. The concrete types are the exported structs of this file; a *Refusal is
// the result of a command that changed nothing.
type Result any

// Refusal is a command's "no": nothing changed. Code is stable, Text is for people.
type Refusal struct {
	Code string
	Text string
}

// Error makes a Refusal usable as an error.
func (r *Refusal) Error() string { return r.Text }

// PushResult has one element per group of the push, in order.
type PushResult struct {
	Groups []PushGroupResult
}

// PushGroupResult says what became of the messages of one group: those that are not in Duplicates were stored under
// consecutive offsets from FirstOffset on.
type PushGroupResult struct {
	Refusal     *Refusal
	Partition   uint64
	FirstOffset uint64
	// Duplicates are ordered by Item.
	Duplicates []Duplicate
}

// Duplicate is a message of a push that was not stored because its txid is in the window already, or stands earlier in
// the same group.
type Duplicate struct {
	// Item is the position in the group.
	Item uint32
	// ID and Offset are those of the message that was stored first.
	ID     uuid.UUID
	Offset uint64
}

// AckResult has one element per part of the ack, in order.
type AckResult struct {
	Parts []AckPartResult
}

// AckPartResult has one verdict per item of the part, in order.
type AckPartResult struct {
	Items []AckVerdict
}

// AckError is why an item of an ack failed (messaging 6.6).
type AckError uint8

// The errors; AckOK means success.
const (
	AckOK             AckError = 0
	AckBadLease       AckError = 1
	AckUnresolvable   AckError = 2
	AckNoPartition    AckError = 3
	AckForeignTenant  AckError = 4
	AckUnknownOutcome AckError = 5
	// AckTooManyDeadLetters refuses a part whose dead letters do not fit one entry: nothing of it happened, smaller calls
	// will do.
	AckTooManyDeadLetters AckError = 6
)

// AckVerdict is the answer to one item of an ack (messaging 6.3).
type AckVerdict struct {
	Error         AckError
	LeaseReleased bool
	DeadLettered  bool
	Noop          bool
}

// ExtendResult says how many batches were extended and when the first of them ends; ExpiresMicros is 0 when none was.
type ExtendResult struct {
	Renewed       int
	ExpiresMicros uint64
}

// ClaimResult lists what a claim got, in the order of claiming. No batches means that the claim lost its races.
type ClaimResult struct {
	Batches []ClaimedBatch
}

// ClaimedBatch is a contiguous range of one partition. Offsets are inclusive.
type ClaimedBatch struct {
	Queue         string
	QueueID       uint64
	Partition     uint64
	PartitionName string
	FirstOffset   uint64
	LastOffset    uint64
	Attempt       uint32
	// DeliverLastOnly is set for a conflating group: only the message at LastOffset is delivered.
	DeliverLastOnly bool
	ExpiresMicros   uint64
}

// HandBackResult says how many batches were undone.
type HandBackResult struct {
	Undone int
}

// RegisterResult is the stored registration.
type RegisterResult struct {
	QueueID    uint64
	GroupID    uint64
	Mode       SubscriptionMode
	Conflation bool
}

// ConfigureResult is the queue as it stands after a configure.
type ConfigureResult struct {
	QueueID   uint64
	QueueUUID uuid.UUID
	Options   Options
}

// DeleteQueueResult says whether there was a queue to delete.
type DeleteQueueResult struct {
	Existed bool
}

// DeleteGroupResult lists what was deleted.
type DeleteGroupResult struct {
	Partitions      int
	MetadataDeleted bool
	Queues          []string
	// More tells that queues above Last are still to be visited.
	More bool
	Last uint64
}

// SeekResult says how many cursors moved; More tells that partitions above Last are still to be visited.
type SeekResult struct {
	Updated int
	More    bool
	Last    uint64
}

// ChangeSubscriptionResult counts the changed registrations.
type ChangeSubscriptionResult struct {
	Updated int
	// More tells that queues above Last are still to be visited.
	More bool
	Last uint64
}

// TransactionResult is a committed or rolled back transaction.
type TransactionResult struct {
	// Reason and Text are set when the transaction rolled back.
	Reason string
	Text   string
	// Pushes are in the order of the groups, Acks in the order of the parts.
	Pushes []PushGroupResult
	Acks   []AckPartResult
	// KV is that of the riders; its Lost is set, with a Reason, when one of them cancelled the transaction.
	KV     KVResult
	Timers []TimerOpResult
}

// DeadLetterDeleteResult counts the deleted rows; More tells that one step did not reach all of them.
type DeadLetterDeleteResult struct {
	Deleted int
	More    bool
}

// ReplayOutcome is what became of a dead letter that was to be replayed (messaging 11.5).
type ReplayOutcome uint8

// The outcomes of a replay.
const (
	ReplayGone      ReplayOutcome = 0
	ReplayMoved     ReplayOutcome = 1
	ReplayDuplicate ReplayOutcome = 2
	// ReplayInClear: the row is stored in clear and its destination encrypts; nothing happened (state 8.1).
	ReplayInClear ReplayOutcome = 3
)

// DeadLetterReplayResult describes the move.
type DeadLetterReplayResult struct {
	Outcome      ReplayOutcome
	Row          uuid.UUID
	Queue        string
	Partition    string
	Group        string
	OriginalTxid string
	Offset       uint64
}

// RetainResult says what retention removed, and which partitions have more due already.
type RetainResult struct {
	Appends  uint64
	Messages uint64
	More     []uint64
}

// SweepResult tells whether there is more to sweep.
type SweepResult struct {
	More bool
}

// MoveChunksResult counts the moved bytes; More tells that the partition has more in the bucket.
type MoveChunksResult struct {
	Bytes uint64
	More  bool
}

// TraceResult is the id of a stored trace.
type TraceResult struct {
	ID uuid.UUID
	// Foreign refuses a trace of a partition that belongs to another tenant: nothing was stored.
	Foreign bool
}

// TraceSweepResult counts the removed traces; More tells that one step did not reach all of them.
type TraceSweepResult struct {
	Removed int
	More    bool
}

// Done is the result of commands that have nothing to report.
type Done struct{}
