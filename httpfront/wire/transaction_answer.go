package wire

import (
	"github.com/google/uuid"

	"queen/raftlog/command"
)

// TransactionAnswer is the 200 of a transaction, committed or rolled back (messaging 8.3, 8.4). It is rolled back when
// Reason is set.
type TransactionAnswer struct {
	ID      uuid.UUID
	Results []TransactionResult
	Reason  string
	Error   string
	// Lost is the operation on a row that cancelled the transaction; nil when none has.
	Lost *LostGate
}

// LostGate is a required operation on a row that lost its condition, with its place in the flat numbering (state 2.12).
type LostGate struct {
	*command.KVLost
	FlatIndex int
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
	// OpIndex is the index within its own array: of an operation on a row, a timer or a position.
	OpIndex int
	// KVOp and KV are an operation on a row and what became of it.
	KVOp *command.KVOp
	KV   *command.KVOpResult
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
	ResultKV
	ResultTimer
)

// AppendTransaction appends the answer to a transaction.
func AppendTransaction(dst []byte, a *TransactionAnswer) []byte {
	dst = appendID(dst, '{', "transactionId", a.ID)
	dst = appendBool(dst, ',', "success", a.Reason == "")
	if a.Reason != "" {
		if a.Lost != nil {
			dst = appendBool(dst, ',', "ok", false)
		}
		dst = appendText(dst, ',', "reason", a.Reason)
		dst = appendText(dst, ',', "error", a.Error)
		dst = append(dst, `,"results":[]`...)
		if a.Lost != nil {
			dst = appendKVLoss(dst, a.Lost.KVLost, a.Lost.FlatIndex)
		}
		return append(dst, '}')
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
	case ResultKV:
		dst = append(dst, `,"type":"kv"`...)
		dst = appendInt(dst, ',', "opIndex", int64(r.OpIndex))
		return appendKVOutcome(dst, r.KVOp, r.KV)
	case ResultTimer:
		dst = append(dst, `,"type":"timer"`...)
		dst = appendInt(dst, ',', "opIndex", int64(r.OpIndex))
		dst = appendTimer(dst, ',', r.Timer)
	}
	return append(dst, '}')
}
