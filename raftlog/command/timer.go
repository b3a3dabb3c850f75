package command

import "github.com/google/uuid"

// Timers schedules and cancels timers, all of what it holds or nothing (state 3.2). The same operations serve in a transaction
// (state 3.7). One command names a timer at most once.
type Timers struct {
	Tenant Tenant
	Ops    []TimerOp
}

// TimerOpKind is what an operation does to a timer.
type TimerOpKind uint8

// The kinds. Schedule and reschedule of the client are the same upsert, TimerSchedule.
const (
	TimerSchedule TimerOpKind = 1
	TimerCancel   TimerOpKind = 2
)

// TimerOp is one operation on the timer of a queue and a key (state 3.2).
type TimerOp struct {
	Kind  TimerOpKind
	Queue string
	Key   string
	// Txid is the transactionId of the message. A cancel only has it echoed, and HasTxid tells whether the client sent one; a
	// schedule has one always, and HasTxid is not looked at.
	Txid    string
	HasTxid bool
	// The rest is of a schedule.
	Partition string
	// DelayMicros counts from the stamp of the command; zero and less is due at once. Beyond 100 years either way it counts as
	// 100 years (state 1.5).
	DelayMicros int64
	// MessageID is minted by whoever prepares the command; the message keeps it.
	MessageID uuid.UUID
	// ProducerSub is the subject of the token that scheduled the timer, empty without one.
	ProducerSub string
	// Payload is what is kept until the timer fires: JSON, an envelope when Encrypted is set, compressed when Zstd is.
	Payload         []byte
	Zstd, Encrypted bool
	// Inflated is the decompressed and checked Payload of a Zstd timer that is due at once: apply cannot decompress. Without
	// it such a timer waits for the leader's next tick, which finds out what is wrong with it.
	Inflated []byte
}

// TimerFire appends the messages of timers that are due and deletes the timers, or files what became of the attempt (state
// 3.6). Proposed by the leader, which has decompressed, checked and encrypted what is appended.
type TimerFire struct {
	Backoff TimerBackoff
	Timers  []PlannedTimer
}

// TimerBackoff are the settings of the leader by which a refused fire is put off (cluster 1.9, the sweeper variables).
type TimerBackoff struct {
	// MinMs is the pause after the first permanent failure; it doubles with each up to MaxMs.
	MinMs, MaxMs uint32
	// TransientMs is the pause after a transient failure.
	TransientMs uint32
	// MaxAttempts is how many permanent failures make a timer a dead letter.
	MaxAttempts uint32
}

// TimerFailure is why a planned timer cannot fire now.
type TimerFailure uint8

// The failures; TimerFires is none.
const (
	TimerFires TimerFailure = 0
	// TimerTransient passes by itself and does not count towards the attempts.
	TimerTransient TimerFailure = 1
	// TimerPermanent counts.
	TimerPermanent TimerFailure = 2
)

// PlannedTimer is one timer of a TimerFire.
type PlannedTimer struct {
	Tenant Tenant
	Queue  string
	Key    string
	// Number is that of the row that was planned: a timer that has changed since has another one, and stays as it is.
	Number uint64
	// Payload is what is appended, an envelope when Encrypted is set. All else of the message stands in the row of the timer.
	Payload   []byte
	Encrypted bool
	// Failure says that the timer does not fire, for Reason; there is no payload then.
	Failure TimerFailure
	Reason  string
}

// TimersResult has one element per operation, in order.
type TimersResult struct {
	Ops []TimerOpResult
}

// TimerStatus is what became of an operation (state 3.2).
type TimerStatus uint8

// The statuses. too_late is never given: the log orders cancel and fire.
const (
	TimerScheduled   TimerStatus = 1
	TimerRescheduled TimerStatus = 2
	TimerCancelled   TimerStatus = 3
	TimerAbsent      TimerStatus = 4
)

// String is the status as clients see it.
func (s TimerStatus) String() string {
	switch s {
	case TimerScheduled:
		return "scheduled"
	case TimerRescheduled:
		return "rescheduled"
	case TimerCancelled:
		return "cancelled"
	case TimerAbsent:
		return "absent"
	default:
		return "unknown"
	}
}

// TimerOpResult is what became of one operation. Queue, key and message id are those of the operation.
type TimerOpResult struct {
	Status TimerStatus
	// DeliverMicros is the deliverAt of a schedule, Fired tells that its message is appended in the same entry.
	DeliverMicros int64
	Fired         bool
	// Txid is that of the cancelled timer; of an absent one what the client sent, if HasTxid.
	Txid    string
	HasTxid bool
}

// TimerFireResult has one element per timer of the TimerFire, in order.
type TimerFireResult struct {
	Timers []TimerFireOutcome
}

// TimerFate is what became of a planned timer.
type TimerFate uint8

// The fates. After TimerGone and what follows it nothing has happened to the timer.
const (
	// TimerFired: the message is appended, or is a duplicate in its partition; the timer is done.
	TimerFired TimerFate = 1
	// TimerPutOff: it failed and waits for another attempt.
	TimerPutOff TimerFate = 2
	// TimerDead: it failed for the last time and is a dead letter.
	TimerDead TimerFate = 3
	// TimerGone: there is no such timer any more.
	TimerGone TimerFate = 4
	// TimerChanged: it has changed since it was planned.
	TimerChanged TimerFate = 5
	// TimerEarly: it is not due at the stamp of the command.
	TimerEarly TimerFate = 6
	// TimerInClear: its queue encrypts by now and the payload is in clear; it is planned again.
	TimerInClear TimerFate = 7
	// TimerNoRoom: the entry has no room for what becomes of it; it is planned again.
	TimerNoRoom TimerFate = 8
	// TimerPaused: the operator has stopped firing (state 11.1).
	TimerPaused TimerFate = 9
)

// TimerFireOutcome is what became of one planned timer.
type TimerFireOutcome struct {
	Fate TimerFate
	// LagMicros is how long after its deliverAt a timer has fired.
	LagMicros uint64
}
