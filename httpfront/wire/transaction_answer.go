package wire

import "github.com/google/uuid"

// TransactionAnswer is the 200 of a transaction, committed or rolled back (messaging 8.3, 8.4). It is rolled back when
// Reason is set.
type TransactionAnswer struct {
	ID      uuid.UUID
	Results []TransactionResult
	Reason  string
	Error   string
}

// TransactionResult is one element of results; Kind decides which fields count.
type TransactionResult struct {
	Kind TransactionResultKind
	// Txid and MessageID belong to a push; Txid is the client's or empty. Queue and Duplicate belong to a push too.
	Txid      []byte
	MessageID uuid.UUID
	Queue     string
	Duplicate bool
	// AckTxid and DeadLettered belong to an ack.
	AckTxid      string
	DeadLettered bool
	// OpIndex is the index within its own array: of a position or a timer.
	OpIndex int
	// Timer belongs to a timer.
	Timer *TimerResult
}

// TransactionResultKind is the type of a result.
type TransactionResultKind uint8

// The kinds of results.
const (
	ResultPush TransactionResultKind = iota
	ResultAck
	ResultPosition
	ResultTimer
)

// AppendTransaction appends the answer to a transaction.
func AppendTransaction(dst []byte, a *TransactionAnswer) []byte {
	dst = appendID(dst, '{', "transactionId", a.ID)
	dst = appendBool(dst, ',', "success", a.Reason == "")
	if a.Reason != "" {
		dst = appendText(dst, ',', "reason", a.Reason)
		dst = appendText(dst, ',', "error", a.Error)
		return append(dst, `,"results":[]}`...)
	}
	dst = append(dst, `,"results":[`...)
	for i := range a.Results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendResult(dst, i, &a.Results[i])
	}
	return append(dst, `]}`...)
}

func appendResult(dst []byte, index int, r *TransactionResult) []byte {
	dst = appendInt(dst, '{', "index", int64(index))
	switch r.Kind {
	case ResultPush:
		dst = append(dst, `,"type":"push","success":true`...)
		dst = appendTxid(dst, "transactionId", r.Txid, r.MessageID)
		dst = appendID(dst, ',', "messageId", r.MessageID)
		dst = appendText(dst, ',', "queueName", r.Queue)
		if r.Duplicate {
			dst = append(dst, `,"duplicate":true`...)
		}
	case ResultAck:
		dst = append(dst, `,"type":"ack","success":true`...)
		dst = appendText(dst, ',', "transactionId", r.AckTxid)
		dst = appendBool(append(dst, `,"error":null`...), ',', "dlq", r.DeadLettered)
	case ResultPosition:
		dst = append(dst, `,"type":"position"`...)
		dst = appendInt(dst, ',', "opIndex", int64(r.OpIndex))
		dst = append(dst, `,"success":true`...)
	case ResultTimer:
		dst = append(dst, `,"type":"timer"`...)
		dst = appendInt(dst, ',', "opIndex", int64(r.OpIndex))
		dst = appendTimer(dst, ',', r.Timer)
	}
	return append(dst, '}')
}
