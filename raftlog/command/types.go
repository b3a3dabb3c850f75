package command

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Opcode names the kind of a command on the wire. Numbers are never reused.
type Opcode uint8

// The opcodes of format 7, the first released format.
const (
	OpTermStart        Opcode = 1
	OpTick             Opcode = 2
	OpPush             Opcode = 3
	OpAck              Opcode = 4
	OpExtend           Opcode = 5
	OpClaim            Opcode = 6
	OpHandBack         Opcode = 7
	OpRegister         Opcode = 8
	OpConfigure        Opcode = 9
	OpDeleteQueue      Opcode = 10
	OpDeleteGroup      Opcode = 11
	OpSeek             Opcode = 12
	OpSubscription     Opcode = 13
	OpTransaction      Opcode = 14
	OpDeadLetterDelete Opcode = 15
	OpDeadLetterReplay Opcode = 16
	OpRetain           Opcode = 17
	OpSweep            Opcode = 18
	OpMoveChunks       Opcode = 19
	OpTrace            Opcode = 20
	OpTraceSweep       Opcode = 21
	OpMembership       Opcode = 22
	OpKV               Opcode = 23
	OpKVSweep          Opcode = 24
	OpLock             Opcode = 25
	OpTimers           Opcode = 26
	OpTimerFire        Opcode = 27
	OpSwitches         Opcode = 28
)

// Command is anything that can be put into an entry. The concrete types are the exported structs of this package.
type Command interface {
	// Op returns the opcode under which the command is encoded.
	Op() Opcode
}

// Tenant is the owner of every named thing. The zero value is not a tenant; DefaultTenant is used when none is named.
type Tenant = uuid.UUID

// DefaultTenant owns everything while tenancy is off (messaging 2.5).
var DefaultTenant = uuid.MustParse("00000000-0000-0000-0000-000000000001")

// QueueModeGroup is the reserved name of reading without a group (messaging 1).
const QueueModeGroup = "__QUEUE_MODE__"

// DefaultPartition is the partition of a push that names none (messaging 4.1).
const DefaultPartition = "Default"

// LeaseID names a lease. The zero value means that no lease is named.
type LeaseID = uuid.UUID

// NoSuchLease stands for a lease id of a client that is not a UUID: it names a lease, and one that can never be live.
var NoSuchLease = uuid.Max

// RequestID identifies one command of one node for as long as its outcome is remembered (architecture 8, I9).
type RequestID struct {
	// Origin is drawn at random at every start of a node, so that a restarted node never repeats an id.
	Origin uint64
	// Sequence rises by one with every command of that origin.
	Sequence uint64
}

// TermStart is the first command of every term. It closes the gap between the library's commit index and the applied
// index, and carries how long leases of earlier terms are held (cluster 10).
type TermStart struct {
	Node   uint64
	HoldMs uint32
}

// Tick changes nothing but the time: an idle leader proves with it that the group still commits (cluster 1.4).
type Tick struct{}

// Push appends messages. Each group is stored whole or not at all, groups are independent (messaging 4.4).
type Push struct {
	Tenant Tenant
	Groups []PushGroup
}

// PushGroup holds the messages of one push for one partition, already in the form in which they are stored.
type PushGroup struct {
	Queue     string
	Partition string
	// Count is the number of messages in Chunk; at least 1.
	Count uint32
	// Chunk is a sequence of messages in the encoding of AppendMessage.
	Chunk []byte
}

// AckStatus is what a client says about a message (messaging 6.2). The order is the precedence at one offset.
type AckStatus uint8

// The four statuses, lowest precedence first.
const (
	AckCompleted  AckStatus = 0
	AckRetry      AckStatus = 1
	AckFailed     AckStatus = 2
	AckDeadLetter AckStatus = 3
)

// Ack settles messages for one group (messaging 6).
type Ack struct {
	Tenant Tenant
	Group  string
	Parts  []AckPart
}

// AckPart is one atomic step of an ack call: its items for one partition under one lease.
type AckPart struct {
	Partition uint64
	Lease     LeaseID
	Items     []AckItem
}

// AckItem is one message of an ack.
type AckItem struct {
	Txid   string
	Status AckStatus
	// Error is the reason kept on a dead letter; HasError tells an empty reason from none.
	Error    string
	HasError bool
}

// Extend prolongs every live batch of a lease (messaging 7).
type Extend struct {
	Tenant  Tenant
	Lease   LeaseID
	Seconds uint64
}

// SubscriptionMode says where a group starts in a partition that it meets for the first time (messaging 5.8).
type SubscriptionMode uint8

// The modes; SubscriptionNone stands for a group that has no registration.
const (
	SubscriptionNone      SubscriptionMode = 0
	SubscriptionAll       SubscriptionMode = 1
	SubscriptionNew       SubscriptionMode = 2
	SubscriptionTimestamp SubscriptionMode = 3
)

// Subscription is a mode with its instant. InstantMicros is in Unix microseconds of leader time; 0 with SubscriptionNew
// means the stamp of the command that carries it.
type Subscription struct {
	Mode          SubscriptionMode
	InstantMicros uint64
}

// Claim reserves batches of ready partitions for one group under one lease. The leader's group actor has chosen the
// targets; apply decides (architecture 6).
type Claim struct {
	Tenant Tenant
	Lease  LeaseID
	Group  string
	// Batch is the most messages that the call takes over all targets.
	Batch uint64
	// LeaseMs is how long the lease lasts; 0 means the leaseTime of each queue.
	LeaseMs uint64
	// CommitOnDelivery moves the cursors at once and makes no lease (messaging 5.6).
	CommitOnDelivery bool
	Parts            []ClaimPart
	// For is the pop that the claim serves: it waits under this id at its node, which is that of the claim or another one,
	// and learns what it got when that node applies the claim. Zero serves nobody.
	For RequestID
	// AutoPartitions and AutoBatch are what autopilot chose for the pop; 0 where it was not asked (messaging
	// 5.10).
	AutoPartitions, AutoBatch uint32
}

// serves tells whether the claim serves anybody.
func (c *Claim) serves() bool {
	return c.For != RequestID{} || c.AutoPartitions != 0 || c.AutoBatch != 0
}

// ClaimPart holds the targets of a claim in one queue.
type ClaimPart struct {
	Queue   string
	Targets []ClaimTarget
	// Seed makes the cursor of a group that is not registered, on the pinned route (messaging 5.8). SubscriptionNone
	// means that the registration decides.
	Seed Subscription
}

// ClaimTarget is one partition that a claim wants: by id, or by name when the id is not known yet because the push that
// creates the partition rides in the same entry.
type ClaimTarget struct {
	Partition uint64
	Name      string
}

// HandBack undoes a claim that nobody received: the lease is released, the attempt taken back (messaging 5.5.9).
type HandBack struct {
	Tenant Tenant
	Lease  LeaseID
	Group  string
	// Parts are the batches of the claim as its result listed them.
	Parts []HandBackPart
	// CommitOnDelivery says that the claim made no lease and moved the cursors.
	CommitOnDelivery bool
}

// HandBackPart is one batch of a claim that is handed back. Offsets are inclusive.
type HandBackPart struct {
	Partition   uint64
	FirstOffset uint64
	LastOffset  uint64
}

// Register makes the subscription of a named group on a queue, and the queue too where the wildcard route asks for it.
// An existing registration wins.
type Register struct {
	Tenant       Tenant
	Queue        string
	Group        string
	CreateQueue  bool
	Subscription Subscription
	Conflation   bool
}

// Configure sets options of a queue (messaging 9.1).
type Configure struct {
	Tenant  Tenant
	Queue   string
	Replace bool
	Changes []OptionChange
}

// DeleteQueue removes a queue and everything under it (messaging 9.11).
type DeleteQueue struct {
	Tenant Tenant
	Queue  string
}

// DeleteGroup removes the cursors, leases and optionally the registration of a group, on one queue or on all
// (messaging 10.4).
type DeleteGroup struct {
	Tenant         Tenant
	Group          string
	Queue          string
	AllQueues      bool
	DeleteMetadata bool
	// After leaves out the queues up to that id: one command visits a bounded number of them.
	After uint64
}

// Seek moves the cursors of a group (messaging 10.5). One command moves a bounded number of partitions; the result says
// where the next one goes on.
type Seek struct {
	Tenant    Tenant
	Group     string
	Queue     string
	Partition string
	// AllPartitions ignores Partition and visits the partitions in id order, those above After only.
	AllPartitions bool
	After         uint64
	ToEnd         bool
	// TimestampMicros is used when ToEnd is false.
	TimestampMicros int64
}

// ChangeSubscription sets the instant of the stored registrations of a group on all queues (messaging 10.6).
type ChangeSubscription struct {
	Tenant          Tenant
	Group           string
	TimestampMicros int64
	// After leaves out the queues up to that id, as in DeleteGroup.
	After uint64
}

// Transaction takes effect whole or not at all (messaging 8).
type Transaction struct {
	Tenant         Tenant
	RequiredLeases []LeaseID
	Pushes         []PushGroup
	Acks           []TransactionAck
	Positions      []Position
	// KV and Timers are the riders of state 2.12 and 3.7, KVLimits as in a call of its own.
	KVLimits KVLimits
	KV       []KVOp
	Timers   []TimerOp
}

// TransactionAck holds the acks of a transaction for one (partition, group, lease).
type TransactionAck struct {
	Group string
	AckPart
}

// Position sets the cursor of a group (messaging 8.1).
type Position struct {
	Queue     string
	Group     string
	Partition string
	// Offset is the next message to deliver; HasOffset false leaves the cursor alone.
	Offset       int64
	HasOffset    bool
	Metadata     string
	HasMetadata  bool
	Subscription Subscription
}

// DeadLetterDelete removes dead letters: of one address (Partition and Txid), or of a queue and optionally a group.
type DeadLetterDelete struct {
	Tenant    Tenant
	ByAddress bool
	Partition uint64
	Txid      string
	Queue     string
	Group     string
	AnyGroup  bool
}

// DeadLetterReplay appends a copy of a dead letter to its destination and deletes the row (messaging 11.5).
type DeadLetterReplay struct {
	Tenant Tenant
	Row    uuid.UUID
	// ByAddress looks the oldest row of (Partition, Txid) up in place of Row.
	ByAddress bool
	Partition uint64
	Txid      string
	// Queue and Destination override where the copy goes; empty with Has… false keeps the message's own.
	Queue        string
	HasQueue     bool
	Destination  string
	HasPartition bool
	// MessageID is the id of the copy.
	MessageID uuid.UUID
	// Sealed is the payload in its encrypted form, for a row that is stored in clear and a destination that encrypts. Without
	// it such a row does not move: the outcome is ReplayInClear, and the sender seals the payload and asks again.
	Sealed []byte
}

// Retain removes appends that are due from the front of partitions (messaging 15). Proposed by the leader.
type Retain struct {
	Partitions []RetainPartition
}

// RetainPartition asks to remove at most MaxAppends due appends of one partition, or hashes past their window.
type RetainPartition struct {
	Partition  uint64
	MaxAppends uint32
}

// Sweep removes at most MaxKeys store keys of deleted queues. Proposed by the leader while there is something to sweep.
type Sweep struct {
	MaxKeys uint32
}

// NoPartition is no partition's id: they begin with 1.
const NoPartition uint64 = 0

// MoveChunks copies the still referenced chunks of an old bucket, in one partition, into the open bucket, so that the
// old one can be dropped (architecture 7). Proposed by the leader in small steps.
type MoveChunks struct {
	Bucket uint32
	// Partition is NoPartition for the chunks that rows of other kinds refer to: values of the KV store, and payloads of timers.
	Partition uint64
	MaxBytes  uint32
}

// Trace records an event that an application reports about a message (state 7). Whether there is such a message is not
// looked at.
type Trace struct {
	Tenant Tenant
	// Partition is the address as the client named it: the decimal id of a partition, its UUID in lower case with hyphens,
	// or any other text.
	Partition string
	Txid      string
	Group     string
	EventType string
	// Worker names the node that accepted the trace.
	Worker string
	// Names may repeat; each counts once.
	Names []string
	// Data is the JSON text as it was sent.
	Data []byte
}

// TraceSweep removes traces from before an instant, the oldest first, with at most MaxKeys store keys. Proposed by the
// leader, which alone knows how long traces are kept.
type TraceSweep struct {
	BeforeMicros uint64
	MaxKeys      uint32
}

// names are the names of the kinds, for people.
var names = func() map[Opcode]string {
	names := map[Opcode]string{}
	for _, c := range []Command{
		TermStart{}, Tick{}, Push{}, Ack{}, Extend{}, Claim{}, HandBack{}, Register{}, Configure{}, DeleteQueue{}, DeleteGroup{}, Seek{},
		ChangeSubscription{}, Transaction{}, DeadLetterDelete{}, DeadLetterReplay{}, Retain{}, Sweep{}, MoveChunks{}, Trace{},
		TraceSweep{}, Membership{}, KV{}, KVSweep{}, Lock{}, Timers{}, TimerFire{}, Switches{},
	} {
		names[c.Op()] = strings.TrimPrefix(fmt.Sprintf("%T", c), "command.")
	}
	return names
}()

// String is the name of the kind, as in logs and metrics.
func (o Opcode) String() string {
	if name := names[o]; name != "" {
		return name
	}
	return fmt.Sprintf("Opcode(%d)", uint8(o))
}

func (TermStart) Op() Opcode          { return OpTermStart }
func (Tick) Op() Opcode               { return OpTick }
func (Push) Op() Opcode               { return OpPush }
func (Ack) Op() Opcode                { return OpAck }
func (Extend) Op() Opcode             { return OpExtend }
func (Claim) Op() Opcode              { return OpClaim }
func (HandBack) Op() Opcode           { return OpHandBack }
func (Register) Op() Opcode           { return OpRegister }
func (Configure) Op() Opcode          { return OpConfigure }
func (DeleteQueue) Op() Opcode        { return OpDeleteQueue }
func (DeleteGroup) Op() Opcode        { return OpDeleteGroup }
func (Seek) Op() Opcode               { return OpSeek }
func (ChangeSubscription) Op() Opcode { return OpSubscription }
func (Transaction) Op() Opcode        { return OpTransaction }
func (DeadLetterDelete) Op() Opcode   { return OpDeadLetterDelete }
func (DeadLetterReplay) Op() Opcode   { return OpDeadLetterReplay }
func (Retain) Op() Opcode             { return OpRetain }
func (Sweep) Op() Opcode              { return OpSweep }
func (MoveChunks) Op() Opcode         { return OpMoveChunks }
func (Trace) Op() Opcode              { return OpTrace }
func (TraceSweep) Op() Opcode         { return OpTraceSweep }
func (KV) Op() Opcode                 { return OpKV }
func (KVSweep) Op() Opcode            { return OpKVSweep }
func (Lock) Op() Opcode               { return OpLock }
func (Timers) Op() Opcode             { return OpTimers }
func (TimerFire) Op() Opcode          { return OpTimerFire }
func (Switches) Op() Opcode           { return OpSwitches }
