package wire

import (
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// PushStatus is the verdict about a pushed message (messaging 4.2).
type PushStatus uint8

// The three verdicts.
const (
	PushQueued PushStatus = iota
	PushDuplicate
	PushFailed
)

// PushVerdict is the answer to one message of a push.
type PushVerdict struct {
	MessageID uuid.UUID
	// Txid is empty when the client named none; the answer shows the message id then.
	Txid   []byte
	Queue  string
	Status PushStatus
	// Offset is meaningless when Status is PushFailed; Error is the reason then.
	Offset uint64
	Error  string
}

// AppendPushVerdict appends one element of the answer to a push, which is an array of them (messaging 4.2); replays show
// one as well (11.5).
func AppendPushVerdict(dst []byte, index int, v *PushVerdict) []byte {
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(index), 10)
	dst = AppendUUID(append(dst, `,"message_id":"`...), v.MessageID)
	dst = appendTxid(append(dst, '"'), "transaction_id", v.Txid, v.MessageID)
	dst = AppendString(append(dst, `,"queueName":`...), v.Queue)
	switch v.Status {
	case PushQueued:
		dst = append(dst, `,"status":"queued"`...)
	case PushDuplicate:
		dst = append(dst, `,"status":"duplicate"`...)
	default:
		dst = append(dst, `,"status":"error"`...)
		return append(appendText(dst, ',', "error", v.Error), '}')
	}
	return append(appendUint(dst, ',', "offset", v.Offset), '}')
}

// appendTxid appends a transaction id, or the message id in its place.
func appendTxid(dst []byte, name string, txid []byte, id uuid.UUID) []byte {
	if len(txid) == 0 {
		return appendID(dst, ',', name, id)
	}
	return appendText(dst, ',', name, txid)
}

// AckVerdict is the answer to one acknowledgment (messaging 6.3). An empty Error means success.
type AckVerdict struct {
	Txid          string
	Error         string
	LeaseReleased bool
	DeadLettered  bool
	Noop          bool
}

// AppendAck appends the answer to an ack call.
func AppendAck(dst []byte, verdicts []AckVerdict) []byte {
	dst = append(dst, '[')
	for i := range verdicts {
		if i > 0 {
			dst = append(dst, ',')
		}
		v := &verdicts[i]
		dst = strconv.AppendInt(append(dst, `{"index":`...), int64(i), 10)
		dst = AppendString(append(dst, `,"transactionId":`...), v.Txid)
		if v.Error == "" {
			dst = append(dst, `,"success":true,"error":null`...)
		} else {
			dst = AppendString(append(dst, `,"success":false,"error":`...), v.Error)
		}
		dst = appendBool(dst, ',', "leaseReleased", v.LeaseReleased)
		dst = appendBool(dst, ',', "dlq", v.DeadLettered)
		dst = append(appendBool(dst, ',', "noop", v.Noop), '}')
	}
	return append(dst, ']')
}

// The error texts of failed acks (messaging 6.2, 6.6).
const (
	AckErrorBadLease     = "invalid or expired lease"
	AckErrorUnresolvable = "transaction is unresolvable, already committed, or acknowledgment is stale"
	AckErrorPartitionID  = "partitionId is not a partition id"
)

// AckErrorNoPartition is the error of an ack of an unknown partition.
func AckErrorNoPartition(id uint64) string { return "no partition " + strconv.FormatUint(id, 10) }

// AckErrorForeign is the error of an ack of another tenant's partition.
func AckErrorForeign(id uint64) string {
	return "partition " + strconv.FormatUint(id, 10) + " not owned by this tenant"
}

// AckErrorStatus is the error of an ack whose status is not one; a long one is shown shortened.
func AckErrorStatus(status string) string { return `unknown ack status "` + shortened(status) + `"` }

// maxEchoedBytes is how much of a text an error shows: it may be as large as a body.
const maxEchoedBytes = 200

// shortened cuts a long text between two characters and marks the cut.
func shortened(text string) string {
	if len(text) <= maxEchoedBytes {
		return text
	}
	end := maxEchoedBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// AppendExtend appends the answer to a lease extend (messaging 7). leaseID is the text of the address; expiresMicros is
// shown only when something was renewed.
func AppendExtend(dst []byte, leaseID string, renewed int, expiresMicros uint64) []byte {
	dst = appendText(dst, '{', "leaseId", leaseID)
	dst = appendBool(dst, ',', "success", renewed > 0)
	dst = appendInt(dst, ',', "renewed", int64(renewed))
	for _, name := range []string{"newExpiresAt", "expiresAt", "lease_expires_at"} {
		dst = appendKey(dst, ',', name)
		if renewed > 0 {
			dst = append(AppendTimeMs(append(dst, '"'), expiresMicros), '"')
		} else {
			dst = append(dst, "null"...)
		}
	}
	return append(dst, '}')
}

// ConfigureAnswer is what a configure answers (messaging 9.4).
type ConfigureAnswer struct {
	QueueID uuid.UUID
	Queue   string
	Options command.Options
}

// AppendConfigure appends the answer to a configure.
func AppendConfigure(dst []byte, a *ConfigureAnswer) []byte {
	dst = append(dst, `{"configured":true`...)
	dst = appendID(dst, ',', "queueId", a.QueueID)
	dst = append(dst, `,"partitionId":null`...)
	dst = appendText(dst, ',', "queue", a.Queue)
	dst = appendText(dst, ',', "namespace", a.Options.Namespace)
	dst = appendText(dst, ',', "task", a.Options.Task)
	dst = append(dst, `,"storage":"segments","options":`...)
	return append(AppendOptions(dst, &a.Options), '}')
}

// AppendOptions appends the 20 option keys of messaging 9.4 as an object.
func AppendOptions(dst []byte, o *command.Options) []byte {
	number := func(separator byte, name string, n int32) { dst = appendInt(dst, separator, name, int64(n)) }
	flag := func(name string, b bool) { dst = appendBool(dst, ',', name, b) }
	number('{', "priority", o.Priority)
	number(',', "leaseTime", o.LeaseTimeSeconds)
	number(',', "retryLimit", o.RetryLimit)
	number(',', "retryDelay", o.RetryDelayMs)
	number(',', "maxSize", o.MaxSize)
	number(',', "ttl", o.TTLSeconds)
	flag("deadLetterQueue", o.DeadLetterQueue)
	flag("dlqAfterMaxRetries", o.DLQAfterMaxRetries)
	number(',', "delayedProcessing", o.DelayedProcessingSeconds)
	number(',', "windowBuffer", o.WindowBufferSeconds)
	flag("retentionEnabled", o.RetentionEnabled)
	number(',', "retentionSeconds", o.RetentionSeconds)
	number(',', "completedRetentionSeconds", o.CompletedRetentionSeconds)
	number(',', "maxWaitTimeSeconds", o.MaxWaitTimeSeconds)
	number(',', "minPopWaitTime", o.MinPopWaitTimeMs)
	flag("encryptionEnabled", o.EncryptionEnabled)
	number(',', "dedupWindowSeconds", o.DedupWindowSeconds)
	dst = appendText(dst, ',', "retentionSinkHold", o.RetentionSinkHold)
	number(',', "retentionSinkHoldMaxSeconds", o.RetentionSinkHoldMaxSeconds)
	number(',', "maxQueueSize", o.MaxSize)
	return append(dst, '}')
}

// Envelope is the body of a refusal (messaging 2.7). Empty members are left out, except Error.
type Envelope struct {
	Error string
	Code  string
	// Leader is the HTTP address of the leader, on 503 (cluster 8.5).
	Leader string
	// Invalid is the option that a configure refused.
	Invalid string
	// Node is the full node of a 507 (cluster 11.3).
	Node uint64
}

// AppendEnvelope appends the body of a refusal.
func AppendEnvelope(dst []byte, e *Envelope) []byte {
	dst = appendText(dst, '{', "error", e.Error)
	if e.Code != "" {
		dst = appendText(dst, ',', "code", e.Code)
	}
	if e.Invalid != "" {
		dst = appendText(dst, ',', "invalid", e.Invalid)
	}
	if e.Leader != "" {
		dst = appendText(dst, ',', "leader", e.Leader)
	}
	if e.Node != 0 {
		dst = appendUint(dst, ',', "node", e.Node)
	}
	return append(dst, '}')
}

// AppendPopRefusal appends the body of a refused pop (messaging 2.7).
func AppendPopRefusal(dst []byte, text string) []byte {
	dst = append(dst, `{"success":false`...)
	dst = appendText(dst, ',', "error", text)
	return append(dst, `,"messages":[]}`...)
}

// AppendStateRefusal appends the body of a refusal of the state surfaces (state 1.3).
func AppendStateRefusal(dst []byte, code, reason, detail string) []byte {
	dst = appendText(dst, '{', "error", code)
	dst = appendText(dst, ',', "reason", reason)
	return append(appendText(dst, ',', "detail", detail), '}')
}

// AppendSuccessRefusal appends a refusal that begins with "success":false (messaging 2.7, 10).
func AppendSuccessRefusal(dst []byte, text string) []byte {
	dst = append(dst, `{"success":false`...)
	return append(appendText(dst, ',', "error", text), '}')
}

// AppendNoRoute appends the body of a 404 under /api/ and /streams/ (messaging 2.3).
func AppendNoRoute(dst []byte, path string) []byte {
	dst = append(dst, `{"code":"no_such_route","error":"not found"`...)
	return append(appendText(dst, ',', "path", path), '}')
}

// AppendQueueDeleted appends the answer to the deletion of a queue (messaging 9.11).
func AppendQueueDeleted(dst []byte, queue string, existed bool) []byte {
	dst = appendBool(dst, '{', "deleted", existed)
	dst = appendText(dst, ',', "queue", queue)
	dst = appendBool(dst, ',', "existed", existed)
	if !existed {
		dst = appendText(dst, ',', "message", "Queue not found, nothing was deleted")
	}
	return append(dst, '}')
}
