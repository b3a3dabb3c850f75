package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"queen/raftlog/command"
)

// Ack is the body of an ack call, single or batch (messaging 6.1).
type Ack struct {
	// Group is the consumer group; command.QueueModeGroup when none was named.
	Group string
	Items []AckItem
}

// AckItem is one acknowledgment. An item whose status or partition is not one is kept: it fails alone, with the error
// text of messaging 6.2 or 6.6.
type AckItem struct {
	Txid string
	// Partition is valid when PartitionOK; otherwise the client's partitionId is not a decimal number.
	Partition   uint64
	PartitionOK bool
	Status      command.AckStatus
	// UnknownStatus is set when the status is none of those of 6.2; BadStatus is that status as sent.
	UnknownStatus bool
	BadStatus     string
	// Lease is the zero value when no lease is named, command.NoSuchLease when the text is not a UUID.
	Lease command.LeaseID
	// Error is the reason kept on a dead letter; HasError tells an empty reason from none.
	Error    string
	HasError bool
}

const ackPrefix = "bad ack body: "

// DecodeAck reads the body of an ack call. A body with an acknowledgments array is a batch, every other one a single
// ack. Nothing of the result aliases the body. The error is an *Error with code bad_body (messaging 6.3).
func DecodeAck(body []byte) (*Ack, error) {
	s := newScanner(body)
	ack := &Ack{Group: command.QueueModeGroup}
	var single rawAck
	var group []byte
	var batch []AckItem
	var refusal error
	isBatch := false
	opened := s.open('{')
	if !opened {
		s.value()
		refusal = errNotAnObject
	}
	for opened && s.member() {
		switch string(s.name) {
		case "acknowledgments":
			isBatch = s.peek() != 'n'
			batch, refusal = s.ackItems(batch[:0])
		case "consumerGroup":
			group = s.value()
		default:
			single.keep(&s)
		}
	}
	s.end()
	if s.err != nil {
		return nil, badBody(ackPrefix, s.err)
	}
	if refusal == nil && !nothing(group) {
		var ok bool
		if ack.Group, ok = textString(group); !ok {
			refusal = errors.New("consumerGroup must be a string")
		}
	}
	ack.Items = batch
	if refusal == nil && !isBatch {
		ack.Items = make([]AckItem, 1)
		refusal = single.item(&ack.Items[0])
	}
	if refusal != nil {
		return nil, badBody(ackPrefix, refusal)
	}
	return ack, nil
}

// ackItems reads the value of acknowledgments. As with the items of a push, a refusal is not about syntax.
func (s *scanner) ackItems(items []AckItem) ([]AckItem, error) {
	if !s.open('[') {
		if !nothing(s.value()) {
			return items, errors.New("acknowledgments must be an array")
		}
		return items, nil
	}
	var refusal error
	if items == nil {
		items = make([]AckItem, 0, min((len(s.data)-s.pos)/bytesPerItem+1, maxItemGuess))
	}
	index := 0
	for ; s.element(); index++ {
		var raw rawAck
		if !s.open('{') {
			s.value()
			if refusal == nil {
				refusal = fmt.Errorf("acknowledgments[%d] must be an object", index)
			}
			continue
		}
		for s.member() {
			raw.keep(s)
		}
		if s.err != nil || refusal != nil {
			continue
		}
		items = append(items, AckItem{})
		if err := raw.item(&items[index]); err != nil {
			refusal = fmt.Errorf("acknowledgments[%d]: %w", index, err)
		}
	}
	if index == 0 {
		refusal = errors.New("acknowledgments is empty")
	}
	return items, refusal
}

// rawAck holds the texts of the members of an ack; nil ones are absent.
type rawAck struct {
	txid, partition, status, lease, reason []byte
}

// keep consumes the value of the member that the scanner stands at, and remembers it when it is one of ours.
func (r *rawAck) keep(s *scanner) {
	switch string(s.name) {
	case "transactionId":
		r.txid = s.value()
	case "partitionId":
		r.partition = s.value()
	case "status":
		r.status = s.value()
	case "leaseId":
		r.lease = s.value()
	case "error":
		r.reason = s.value()
	default:
		s.value()
	}
}

func (r *rawAck) item(item *AckItem) error {
	var ok bool
	if nothing(r.txid) {
		return errors.New("missing transactionId")
	}
	if item.Txid, ok = textString(r.txid); !ok {
		return errors.New("transactionId must be a string")
	}
	if nothing(r.partition) {
		return errors.New("missing partitionId")
	}
	partition, ok := textBytes(r.partition)
	if !ok {
		return errors.New("partitionId must be a string")
	}
	item.Partition, item.PartitionOK = ParsePartitionID(partition)
	if item.Lease, ok = leaseID(r.lease); !ok {
		return errors.New("leaseId must be a string")
	}
	if !nothing(r.reason) {
		if item.Error, ok = looseText(r.reason); !ok {
			return errors.New("error must be a string")
		}
		item.HasError = true
	}
	if nothing(r.status) {
		return nil
	}
	status, ok := looseText(r.status)
	if !ok {
		return errors.New("status must be a string")
	}
	if item.Status, ok = ParseAckStatus(status); !ok {
		item.UnknownStatus, item.BadStatus = true, status
	}
	return nil
}

// ParsePartitionID reads the decimal partition id of the message plane (messaging 2.12).
func ParsePartitionID[T string | []byte](text T) (uint64, bool) {
	if len(text) == 0 || len(text) > 20 {
		return 0, false
	}
	for i := range len(text) {
		if text[i]-'0' > 9 {
			return 0, false
		}
	}
	id, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0, false
	}
	return id, true
}

// ParseAckStatus reads a status in any letter case (messaging 6.2). The empty text is not one: absence is the caller's.
func ParseAckStatus(text string) (command.AckStatus, bool) {
	switch text {
	case "completed":
		return command.AckCompleted, true
	case "failed":
		return command.AckFailed, true
	}
	switch strings.ToLower(text) {
	case "failed", "nack":
		return command.AckFailed, true
	case "retry":
		return command.AckRetry, true
	case "dlq":
		return command.AckDeadLetter, true
	case "completed", "success", "acked", "ok":
		return command.AckCompleted, true
	}
	return command.AckCompleted, false
}

// leaseID reads a member that names a lease: absent, null and "" name none, a text that is not a UUID names one that can
// never be live. ok is false for what is neither a string nor null.
func leaseID(raw []byte) (command.LeaseID, bool) {
	if nothing(raw) {
		return command.LeaseID{}, true
	}
	if kindOf(raw) != kindString {
		return command.LeaseID{}, false
	}
	text, _ := textBytes(raw)
	return ParseLeaseID(text), true
}

// ParseLeaseID reads a lease id. The empty text names no lease; any other text that is not a UUID, and the UUID that
// stands for no lease inside, give command.NoSuchLease.
func ParseLeaseID[T string | []byte](text T) command.LeaseID {
	if len(text) == 0 {
		return command.LeaseID{}
	}
	id, ok := ParseUUID(text)
	if !ok || id == (command.LeaseID{}) {
		return command.NoSuchLease
	}
	return id
}
