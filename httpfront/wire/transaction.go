package wire

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"queen/raftlog/command"
)

// Limits of a transaction (messaging 2.11).
const (
	// MaxPositions is how many positions one transaction may set.
	MaxPositions = 16_384
	// MaxMetadataBytes is how long the metadata of a position may be.
	MaxMetadataBytes = 4_096
)

// Transaction is the body of a transaction (messaging 8.1).
type Transaction struct {
	// Operations are the pushed messages and the acks in the flat order of the answer: one element per message.
	Operations     []Operation
	RequiredLeases []command.LeaseID
	Positions      []command.Position
	// KV and Timers are the texts of the elements of these members, aliasing the body. Their families read them.
	KV     [][]byte
	Timers [][]byte
}

// Operation is a pushed message or an ack: exactly one of Push and Ack is set.
type Operation struct {
	Push *PushItem
	Ack  *AckItem
	// Group is the consumer group of the ack.
	Group string
}

const transactionPrefix = "bad transaction body: "

// DecodeTransaction reads the body of a transaction. Pushed messages alias the body as PushItem says, KV and Timers do;
// everything else is copied. The error is an *Error: bad_body or bad_request, and with RollBack set where messaging 8.4
// wants a 200.
func DecodeTransaction(body []byte) (*Transaction, error) {
	s := newScanner(body)
	var operations, leases, positions, kv, timers []byte
	opened := s.open('{')
	if !opened {
		s.value()
	}
	for opened && s.member() {
		value := s.value()
		switch string(s.name) {
		case "operations":
			operations = value
		case "requiredLeases":
			leases = value
		case "positions":
			positions = value
		case "kv":
			kv = value
		case "timers":
			timers = value
		}
	}
	s.end()
	if s.err != nil {
		return nil, badBody(transactionPrefix, s.err)
	}
	if !opened {
		return nil, badBody(transactionPrefix, errNotAnObject)
	}
	t := &Transaction{}
	var err error
	for _, read := range []func() error{
		func() error { return t.operations(operations) },
		func() error { return t.requiredLeases(leases) },
		func() error { t.KV, err = elements(kv, "kv", TransactionKVOps); return err },
		func() error { t.Timers, err = elements(timers, "timers", anyNumber); return err },
		func() error { return t.positions(positions) },
	} {
		if err := read(); err != nil {
			return nil, asError(transactionPrefix, err)
		}
	}
	if len(t.Operations)+len(t.KV)+len(t.Timers)+len(t.Positions) == 0 {
		return nil, rollBack("the transaction has no operations, kv, timers or positions")
	}
	return t, nil
}

// asError lets an *Error pass and makes every other error a bad_body.
func asError(prefix string, err error) error {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal
	}
	return badBody(prefix, err)
}

// anyNumber is the bound of an array that has none but the size of the body.
const anyNumber = math.MaxInt - 1

// elements splits an array that the scanner has found valid into the texts of its elements. Absent and null are empty. Of an array
// that has more than most elements it returns one more than that and leaves the rest alone: a body of 64 MiB has room for thirty
// million, and a list of their texts takes many times as much memory.
func elements(raw []byte, name string, most int) ([][]byte, error) {
	if nothing(raw) {
		return nil, nil
	}
	if kindOf(raw) != kindArray {
		return nil, fmt.Errorf("%s must be an array", name)
	}
	var list [][]byte
	s := scanner{data: raw}
	for ok := s.open('['); ok && len(list) <= most && s.element(); {
		list = append(list, s.value())
	}
	return list, nil
}

func (t *Transaction) requiredLeases(raw []byte) error {
	list, err := elements(raw, "requiredLeases", anyNumber)
	for i, element := range list {
		lease, ok := leaseID(element)
		if !ok {
			return fmt.Errorf("requiredLeases[%d] must be a string", i)
		}
		if lease != (command.LeaseID{}) {
			t.RequiredLeases = append(t.RequiredLeases, lease)
		}
	}
	return err
}

// rawOperation holds the members of an operation: those of an inline message, those of an ack, and its own.
type rawOperation struct {
	rawItem
	rawAck
	kind, items, group []byte
}

func (t *Transaction) operations(raw []byte) error {
	list, err := elements(raw, "operations", anyNumber)
	for i, element := range list {
		if err := t.operation(element, fmt.Sprintf("operations[%d]", i)); err != nil {
			return err
		}
	}
	return err
}

func (t *Transaction) operation(raw []byte, path string) error {
	s := scanner{data: raw}
	if !s.open('{') {
		return fmt.Errorf("%s must be an object", path)
	}
	var o rawOperation
	for s.member() {
		switch string(s.name) {
		case "type":
			o.kind = s.value()
		case "items":
			o.items = s.value()
		case "consumerGroup":
			o.group = s.value()
		case "transactionId":
			o.rawItem.txid = s.value()
			o.rawAck.txid = o.rawItem.txid
		case "queue", "partition", "payload", "traceId":
			o.rawItem.keep(&s)
		default:
			o.rawAck.keep(&s)
		}
	}
	kind, ok := looseText(o.kind)
	if !ok {
		return badRequest("%s.type must be a string", path)
	}
	switch kind {
	case "push":
		return t.push(&o, path)
	case "ack":
		return t.ack(&o, path)
	case "kv", "timer":
		return badRequest("%s: %s operations belong into a member of their own", path, kind)
	}
	return badRequest("%s: unknown operation type %.64q", path, kind)
}

// push takes over the messages of a push operation. An inline message without queue or payload rolls the transaction
// back; one inside items makes the body bad (messaging 8.4, 8.5).
func (t *Transaction) push(o *rawOperation, path string) error {
	if nothing(o.items) {
		if o.queue == nil || o.payload == nil {
			return rollBack("%s: a push needs queue and payload", path)
		}
		return t.message(&o.rawItem, path)
	}
	s := scanner{data: o.items}
	items, err := s.pushItems(nil, path+".items")
	if err != nil {
		return transactionTxid(err)
	}
	for i := range items {
		if items[i].Partition == "" {
			items[i].Partition = command.DefaultPartition
		}
		t.Operations = append(t.Operations, Operation{Push: &items[i]})
	}
	return nil
}

func (t *Transaction) message(raw *rawItem, path string) error {
	item := &PushItem{}
	if err := raw.item(item, nil); err != nil {
		return transactionTxid(fmt.Errorf("%s%w", path, err))
	}
	if item.Partition == "" {
		item.Partition = command.DefaultPartition
	}
	t.Operations = append(t.Operations, Operation{Push: item})
	return nil
}

// transactionTxid gives a txid that is too long the code that it has in a transaction (messaging 2.11).
func transactionTxid(err error) error {
	if errors.Is(err, errTxidTooLong) {
		return badRequest("%s", err)
	}
	return err
}

func (t *Transaction) ack(o *rawOperation, path string) error {
	operation := Operation{Ack: &AckItem{}, Group: command.QueueModeGroup}
	if err := o.rawAck.item(operation.Ack); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !nothing(o.group) {
		var ok bool
		if operation.Group, ok = textString(o.group); !ok {
			return fmt.Errorf("%s: consumerGroup must be a string", path)
		}
	}
	if len(operation.Ack.Txid) > MaxTxidBytes {
		return badRequest("%s%s", path, errTxidTooLong)
	}
	if operation.Ack.UnknownStatus {
		return badRequest("%s: unknown ack status %.64q", path, operation.Ack.BadStatus)
	}
	if !operation.Ack.PartitionOK {
		return rollBack("%s: partitionId is not a partition id", path)
	}
	t.Operations = append(t.Operations, operation)
	return nil
}

func (t *Transaction) positions(raw []byte) error {
	list, err := elements(raw, "positions", MaxPositions)
	if len(list) > MaxPositions {
		return rollBack("more than %d positions", MaxPositions)
	}
	for i, element := range list {
		position, err := decodePosition(element)
		if err != nil {
			if refusal, ok := errors.AsType[*Error](err); ok {
				return rollBack("positions[%d]: %s", i, refusal.Text)
			}
			return fmt.Errorf("positions[%d]: %w", i, err)
		}
		t.Positions = append(t.Positions, position)
	}
	return err
}

// decodePosition reads one position. An *Error is an invalid position; any other error is a member of the wrong type.
func decodePosition(raw []byte) (command.Position, error) {
	p := command.Position{Partition: command.DefaultPartition}
	s := scanner{data: raw}
	if !s.open('{') {
		return p, errors.New("it must be an object")
	}
	var queue, group, partition, offset, metadata, mode []byte
	for s.member() {
		value := s.value()
		switch string(s.name) {
		case "queue":
			queue = value
		case "consumerGroup":
			group = value
		case "partition":
			partition = value
		case "offset":
			offset = value
		case "metadata":
			metadata = value
		case "subscriptionMode":
			mode = value
		}
	}
	var modeText string
	for _, member := range []struct {
		name     string
		raw      []byte
		into     *string
		required bool
	}{
		{"queue", queue, &p.Queue, true},
		{"consumerGroup", group, &p.Group, true},
		{"partition", partition, &p.Partition, false},
		{"metadata", metadata, &p.Metadata, false},
		{"subscriptionMode", mode, &modeText, false},
	} {
		if nothing(member.raw) {
			if member.required {
				return p, badRequest("missing %s", member.name)
			}
			continue
		}
		var ok bool
		if *member.into, ok = textString(member.raw); !ok {
			return p, fmt.Errorf("%s must be a string", member.name)
		}
	}
	p.HasMetadata = !nothing(metadata)
	if len(p.Metadata) > MaxMetadataBytes {
		return p, badRequest("metadata is longer than %d bytes", MaxMetadataBytes)
	}
	if !nothing(mode) {
		p.Subscription.Mode = ParseSubscriptionMode(modeText)
	}
	return p, positionOffset(&p, offset)
}

func positionOffset(p *command.Position, raw []byte) error {
	if nothing(raw) {
		return nil
	}
	if kindOf(raw) != kindNumber {
		return errors.New("offset must be an integer")
	}
	offset, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || offset < 0 {
		return badRequest("offset %.32s is not an offset", raw)
	}
	p.Offset, p.HasOffset = offset, true
	return nil
}

// ParseSubscriptionMode reads a subscriptionMode: "new" is new, every other value is all (messaging 5.2).
func ParseSubscriptionMode(text string) command.SubscriptionMode {
	if text == "new" {
		return command.SubscriptionNew
	}
	return command.SubscriptionAll
}
