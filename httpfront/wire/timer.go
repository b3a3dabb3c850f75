package wire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"

	"queen/raftlog/command"
)

// TimerOp is an operation on a timer (state 3.2). Nothing of it aliases the body.
type TimerOp struct {
	Cancel     bool
	Queue, Key string
	// Txid is optional for a cancel.
	Txid    string
	HasTxid bool
	// The rest is of a schedule.
	Partition string
	// DelayMicros is rounded up, and clamped to 100 years either way.
	DelayMicros int64
	// Payload is decoded from its base64. It is JSON, unless Zstd says that it is compressed.
	Payload         []byte
	Zstd, Encrypted bool
}

// The reasons for which a call of timers is refused, all under timers_bad_request (state 3.2).
const (
	TimersBadBody          = "timers_bad_body"
	TimersBadOp            = "timers_bad_op"
	TimersQueueRequired    = "timers_queue_required"
	TimersDelayRequired    = "timers_delay_required"
	TimersPayloadRequired  = "timers_payload_required"
	TimersPayloadNotBase64 = "timers_payload_not_base64"
	TimersPayloadNotJSON   = "timers_payload_not_json"
	TimersTooManyOps       = "timers_too_many_ops"
	TimersServerOwnedField = "timers_server_owned_field"
)

// maxDelayMicros is 100 years (state 1.5).
const maxDelayMicros = 3_155_760_000 * 1_000_000

// TimerRefusal is the refusal of a call of timers for one of the reasons above.
func TimerRefusal(reason, format string, args ...any) *Error {
	return &Error{Code: CodeTimersBadRequest, Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// DecodeTimers reads the body of a call of timers, {"operations":[…]} or a bare array, of so many operations at most. The error
// is an *Error with a reason.
func DecodeTimers(body []byte, maxOps int) ([]TimerOp, error) {
	list, err := operations(body, maxOps)
	if err != nil {
		return nil, TimerRefusal(TimersBadBody, "%s", err)
	}
	if len(list) > maxOps {
		return nil, TimerRefusal(TimersTooManyOps, "more than %d operations", maxOps)
	}
	return DecodeTimerOps(list, "operations")
}

// DecodeTimerOps reads the operations of a list by that name, which the scanner has found valid. The error is an *Error with a
// reason.
func DecodeTimerOps(raw [][]byte, list string) ([]TimerOp, error) {
	ops := make([]TimerOp, len(raw))
	named := make(map[[2]string]struct{}, len(raw))
	for i := range raw {
		path := list + "[" + strconv.Itoa(i) + "]"
		if refusal := decodeTimerOp(&ops[i], raw[i], path); refusal != nil {
			return nil, refusal
		}
		name := [2]string{ops[i].Queue, ops[i].Key}
		if _, repeated := named[name]; repeated {
			return nil, TimerRefusal(TimersBadOp, "%s names the timer of an earlier operation", path)
		}
		named[name] = struct{}{}
	}
	return ops, nil
}

// rawTimerOp holds the texts of the members of an operation; nil ones are absent.
type rawTimerOp struct {
	op, queue, key, txid, partition, delay, payload, zstd, encrypted []byte
}

func decodeTimerOp(op *TimerOp, raw []byte, path string) *Error {
	s := scanner{data: raw}
	if !s.open('{') {
		return TimerRefusal(TimersBadOp, "%s must be an object", path)
	}
	var r rawTimerOp
	owned := ""
	for s.member() {
		if owned == "" && timersServerOwned(s.name) {
			owned = string(s.name)
		}
		if into := r.member(s.name); into != nil {
			*into = s.value()
		} else {
			s.value()
		}
	}
	if owned != "" {
		return TimerRefusal(TimersServerOwnedField, "%s: %s is set by the server", path, shortened(owned))
	}
	return r.read(op, path)
}

func (r *rawTimerOp) member(name []byte) *[]byte {
	switch string(name) {
	case "op":
		return &r.op
	case "queue":
		return &r.queue
	case "timerKey":
		return &r.key
	case "txn":
		return &r.txid
	case "partition":
		return &r.partition
	case "delayMs":
		return &r.delay
	case "payload":
		return &r.payload
	case "payloadZstd":
		return &r.zstd
	case "encrypted":
		return &r.encrypted
	}
	return nil
}

// timersServerOwned tells whether clients may not send a field at all.
func timersServerOwned(name []byte) bool {
	switch string(name) {
	case "producerSub", "producer_sub", "messageId", "message_id", "tenant", "tenantId", "tenant_id", "deliverAt", "deliver_at",
		"delaySeconds", "delay_seconds", "attempts", "claimToken", "claim_token", "claimedUntil":
		return true
	}
	return len(name) > 0 && name[0] == '_'
}

func (r *rawTimerOp) read(op *TimerOp, path string) *Error {
	kind, ok := looseText(r.op)
	switch kind {
	case "schedule", "reschedule":
	case "cancel":
		op.Cancel = true
	default:
		if !ok {
			return TimerRefusal(TimersBadOp, "%s.op must be a string", path)
		}
		return TimerRefusal(TimersBadOp, "%s: unknown op %q", path, shortened(kind))
	}
	if op.Queue, ok = textString(r.queue); !ok || op.Queue == "" {
		return TimerRefusal(TimersQueueRequired, "%s needs a queue", path)
	}
	if op.Key, ok = textString(r.key); !ok || op.Key == "" {
		return TimerRefusal(TimersBadOp, "%s needs a timerKey", path)
	}
	if op.HasTxid = !nothing(r.txid); op.HasTxid {
		if op.Txid, ok = textString(r.txid); !ok {
			return TimerRefusal(TimersBadOp, "%s.txn must be a string", path)
		}
	}
	if len(op.Txid) > MaxTxidBytes {
		return TimerRefusal(TimersBadOp, "%s.txn is longer than %d bytes", path, MaxTxidBytes)
	}
	if op.Cancel {
		return nil
	}
	return r.readSchedule(op, path)
}

func (r *rawTimerOp) readSchedule(op *TimerOp, path string) *Error {
	if op.Txid == "" {
		return TimerRefusal(TimersBadOp, "%s needs a txn", path)
	}
	op.Partition = command.DefaultPartition
	if !nothing(r.partition) {
		var ok bool
		if op.Partition, ok = textString(r.partition); !ok || op.Partition == "" {
			return TimerRefusal(TimersBadOp, "%s.partition must be a string that is not empty", path)
		}
	}
	if kindOf(r.delay) != kindNumber {
		return TimerRefusal(TimersDelayRequired, "%s needs delayMs, a number", path)
	}
	op.DelayMicros = delayMicros(r.delay)
	for _, flag := range []struct {
		name string
		raw  []byte
		into *bool
	}{{"payloadZstd", r.zstd, &op.Zstd}, {"encrypted", r.encrypted, &op.Encrypted}} {
		var ok bool
		if *flag.into, ok = switched(flag.raw); !ok {
			return TimerRefusal(TimersBadOp, "%s.%s must be true or false", path, flag.name)
		}
	}
	return r.readPayload(op, path)
}

func (r *rawTimerOp) readPayload(op *TimerOp, path string) *Error {
	if kindOf(r.payload) != kindString {
		return TimerRefusal(TimersPayloadRequired, "%s needs a payload, a string of base64", path)
	}
	text, _ := textBytes(r.payload)
	op.Payload = make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(op.Payload, text)
	if op.Payload = op.Payload[:n]; err != nil || bytes.ContainsAny(text, "\r\n") { // the decoder skips line ends
		return TimerRefusal(TimersPayloadNotBase64, "%s.payload is not base64", path)
	}
	if !op.Zstd && !validJSON(op.Payload) {
		return TimerRefusal(TimersPayloadNotJSON, "%s.payload is not JSON", path)
	}
	return nil
}

func validJSON(text []byte) bool {
	s := newScanner(text)
	s.value()
	s.end()
	return s.err == nil
}

// delayMicros reads milliseconds.
func delayMicros(raw []byte) int64 {
	// The error of a number beyond float64 comes with ±Inf, which is clamped as it should be.
	ms, _ := strconv.ParseFloat(string(raw), 64)
	return int64(math.Ceil(min(max(ms*1000, -maxDelayMicros), maxDelayMicros)))
}
