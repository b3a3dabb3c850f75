package wire

import (
	"time"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// TimerResult is what became of an operation on a timer (state 3.2). Its status decides which fields count.
type TimerResult struct {
	Status     command.TimerStatus
	Queue, Key string
	// Txid is that of the schedule or of the cancelled timer; of an absent one what the client sent, if HasTxid.
	Txid    string
	HasTxid bool
	// MessageID and DeliverMicros are of a schedule.
	MessageID     uuid.UUID
	DeliverMicros int64
}

// AppendTimers appends the answer to a call of timers.
func AppendTimers(dst []byte, results []TimerResult) []byte {
	dst = append(dst, `{"results":[`...)
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendTimer(dst, &results[i])
	}
	return append(dst, `]}`...)
}

// AppendTimer appends one result as an object.
func AppendTimer(dst []byte, r *TimerResult) []byte { return append(appendTimer(dst, '{', r), '}') }

// appendTimer appends the members of a result, with what stands in front of them.
func appendTimer(dst []byte, separator byte, r *TimerResult) []byte {
	dst = appendBool(dst, separator, "ok", r.Status != command.TimerAbsent)
	dst = appendText(dst, ',', "status", r.Status.String())
	dst = appendText(dst, ',', "queue", r.Queue)
	dst = appendText(dst, ',', "timerKey", r.Key)
	if r.Status != command.TimerAbsent || r.HasTxid {
		dst = appendText(dst, ',', "txn", r.Txid)
	}
	if r.Status == command.TimerScheduled || r.Status == command.TimerRescheduled {
		dst = appendID(dst, ',', "messageId", r.MessageID)
		dst = AppendInstant(append(appendKey(dst, ',', "deliverAt"), '"'), r.DeliverMicros)
		dst = append(dst, '"')
	}
	return dst
}

// AppendInstant is AppendTimeMicros for an instant that may lie before 1970: a delay may be negative.
func AppendInstant(dst []byte, micros int64) []byte {
	if micros >= 0 {
		return AppendTimeMicros(dst, uint64(micros))
	}
	return time.UnixMicro(micros).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
}
