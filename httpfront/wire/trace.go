package wire

import (
	"errors"
	"fmt"

	"queen/raftlog/command"
)

// MaxTraceNames bounds the names of one trace: each takes six keys of the store, and a log entry has room for about so many.
const MaxTraceNames = 4000

// Trace is the body of a trace (state 7).
type Trace struct {
	Txid      string
	Partition string
	Group     string
	EventType string
	Names     []string
	// Data is JSON text that aliases the body.
	Data []byte
}

const (
	tracePrefix      = "bad trace body: "
	defaultEventType = "info"
)

// DecodeTrace reads the body of a trace. An id that is absent, null or empty counts as missing. The error is an *Error.
func DecodeTrace(body []byte) (*Trace, error) {
	var txid, partition, group, eventType, names, data []byte
	err := objectMembers(body, member{"transactionId", &txid}, member{"partitionId", &partition}, member{"data", &data},
		member{"consumerGroup", &group}, member{"eventType", &eventType}, member{"traceNames", &names})
	if err != nil {
		return nil, badBody(tracePrefix, err)
	}
	trace := &Trace{Group: command.QueueModeGroup, EventType: defaultEventType, Data: data}
	for _, text := range []struct {
		name string
		raw  []byte
		into *string
	}{
		{"transactionId", txid, &trace.Txid}, {"partitionId", partition, &trace.Partition},
		{"consumerGroup", group, &trace.Group}, {"eventType", eventType, &trace.EventType},
	} {
		if nothing(text.raw) {
			continue
		}
		var ok bool
		if *text.into, ok = textString(text.raw); !ok {
			return nil, badBody(tracePrefix, fmt.Errorf("%s must be a string", text.name))
		}
	}
	if trace.Txid == "" || trace.Partition == "" {
		return nil, badRequest("transactionId and partitionId are required")
	}
	if data == nil {
		return nil, badRequest("data is required")
	}
	trace.Names, err = traceNames(names)
	return trace, err
}

// traceNames reads one name, a list of names, or nothing.
func traceNames(raw []byte) (names []string, err error) {
	if nothing(raw) {
		return nil, nil
	}
	if kindOf(raw) == kindString {
		name, ok := textString(raw)
		if !ok {
			return nil, badBody(tracePrefix, errors.New("traceNames has an unpaired surrogate"))
		}
		return []string{name}, nil
	}
	if kindOf(raw) != kindArray {
		return nil, badBody(tracePrefix, errors.New("traceNames must be a string or an array of strings"))
	}
	s := scanner{data: raw}
	for ok := s.open('['); ok && s.element(); {
		if len(names) == MaxTraceNames {
			return nil, badRequest("traceNames has more than %d names", MaxTraceNames)
		}
		name, isText := textString(s.value())
		if !isText {
			return nil, badBody(tracePrefix, fmt.Errorf("traceNames[%d] must be a string", len(names)))
		}
		names = append(names, name)
	}
	return names, nil
}
