package wire

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// MaxTxidBytes is the longest transaction id (messaging 2.11): lengths of ids fit 16 bits in every format.
const MaxTxidBytes = 65_535

// PushItem is one message of a push request (messaging 4.1).
type PushItem struct {
	// Queue and Partition are copies. Items in a row with the same names share them.
	Queue     string
	Partition string
	// Txid is empty when the client named none. It aliases the body unless it was written with escapes.
	Txid []byte
	// TraceID is uuid.Nil when there is none or when it is not a UUID.
	TraceID uuid.UUID
	// Payload is the JSON text as sent. It aliases the body.
	Payload []byte
}

const pushPrefix = "bad push body: "

// bytesPerItem is a guess of how long an item of a push is in JSON; it only sizes the first allocation.
const bytesPerItem = 160

// maxItemGuess bounds the first allocation of a list: the text of a body may claim anything.
const maxItemGuess = 4096

var (
	errNotAnObject = errors.New("it is not an object")
	errNoItems     = errors.New("missing items")
)

// DecodePush reads the body of a push. The items alias the body as their comments say. The error is an *Error with code
// bad_body whose text begins "bad push body: " (messaging 4.3).
func DecodePush(body []byte) ([]PushItem, error) {
	s := newScanner(body)
	var items []PushItem
	refusal := errNotAnObject
	opened := s.open('{')
	if opened {
		refusal = errNoItems
	} else {
		s.value()
	}
	for opened && s.member() {
		if string(s.name) == "items" {
			items, refusal = s.pushItems(items[:0], "items")
			continue
		}
		s.value()
	}
	s.end()
	if s.err != nil {
		return nil, badBody(pushPrefix, s.err)
	}
	if refusal != nil {
		return nil, badBody(pushPrefix, refusal)
	}
	return items, nil
}

// pushItems reads the array of messages at pos. A refusal is about the meaning of the array, not its syntax: a later
// member of the same name makes up for it.
func (s *scanner) pushItems(items []PushItem, path string) ([]PushItem, error) {
	if !s.open('[') {
		s.value()
		return items, fmt.Errorf("%s must be an array", path)
	}
	var refusal error
	if items == nil {
		items = make([]PushItem, 0, min((len(s.data)-s.pos)/bytesPerItem+1, maxItemGuess))
	}
	for index := 0; s.element(); index++ {
		var raw rawItem
		if !s.open('{') {
			s.value()
			if refusal == nil {
				refusal = fmt.Errorf("%s[%d] must be an object", path, index)
			}
			continue
		}
		for s.member() {
			raw.keep(s)
		}
		if s.err != nil || refusal != nil {
			continue
		}
		items = append(items, PushItem{})
		var previous *PushItem
		if index > 0 {
			previous = &items[index-1]
		}
		if err := raw.item(&items[index], previous); err != nil {
			refusal = fmt.Errorf("%s[%d]%w", path, index, err)
		}
	}
	return items, refusal
}

// rawItem holds the texts of the members of a message; nil ones are absent.
type rawItem struct {
	queue, partition, payload, txid, trace []byte
}

// keep consumes the value of the member that the scanner stands at, and remembers it when it is one of ours.
func (r *rawItem) keep(s *scanner) {
	switch string(s.name) {
	case "queue":
		r.queue = s.value()
	case "partition":
		r.partition = s.value()
	case "payload":
		r.payload = s.value()
	case "transactionId":
		r.txid = s.value()
	case "traceId":
		r.trace = s.value()
	default:
		s.value()
	}
}

// errTxidTooLong is told apart because a transaction refuses it with another code than a push.
var errTxidTooLong = errors.New(".transactionId is longer than 65535 bytes")

// item fills in one message. Error texts begin with what follows the path of the item.
func (r *rawItem) item(item, previous *PushItem) error {
	if r.queue == nil {
		return errors.New(" has no queue")
	}
	if r.payload == nil {
		return errors.New(" has no payload")
	}
	queue, ok := textBytes(r.queue)
	if !ok {
		return errors.New(".queue must be a string")
	}
	if previous != nil && previous.Queue == string(queue) {
		item.Queue = previous.Queue
	} else {
		item.Queue = string(queue)
	}
	if nothing(r.partition) {
		item.Partition = command.DefaultPartition
	} else {
		partition, ok := textBytes(r.partition)
		if !ok {
			return errors.New(".partition must be a string")
		}
		if previous != nil && previous.Partition == string(partition) {
			item.Partition = previous.Partition
		} else {
			item.Partition = string(partition)
		}
	}
	if !nothing(r.txid) {
		if item.Txid, ok = textBytes(r.txid); !ok {
			return errors.New(".transactionId must be a string")
		}
		if len(item.Txid) > MaxTxidBytes {
			return errTxidTooLong
		}
	}
	item.TraceID, _ = traceID(r.trace)
	item.Payload = r.payload
	return nil
}

// traceID reads a trace id; anything that is not a UUID is none.
func traceID(raw []byte) (uuid.UUID, bool) {
	if kindOf(raw) != kindString {
		return uuid.Nil, false
	}
	text, _ := textBytes(raw)
	return ParseUUID(text)
}
