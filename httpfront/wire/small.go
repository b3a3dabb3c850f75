package wire

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// Limits of messaging 2.11 and 7.
const (
	// DefaultExtendSeconds is what an extend means that names no number.
	DefaultExtendSeconds = 60
	// MaxLeaseSeconds is 100 years; more counts as that much.
	MaxLeaseSeconds = 3_155_760_000
	// MaxPositionEntries is how many entries a read of positions may name.
	MaxPositionEntries = 65_536
)

// member is a member that objectMembers looks for, and where its text goes.
type member struct {
	name string
	raw  *[]byte
}

// objectMembers reads an object and keeps the texts of the members that are asked for. It returns the syntax error, or
// one that says that the body is not an object.
func objectMembers(body []byte, members ...member) error {
	s := newScanner(body)
	return s.members(members...)
}

// members is objectMembers on what is left of the scanner's text.
func (s *scanner) members(members ...member) error {
	if !s.open('{') {
		s.value()
		s.end()
		if s.err != nil {
			return s.err
		}
		return errNotAnObject
	}
next:
	for s.member() {
		for _, m := range members {
			if string(s.name) == m.name {
				*m.raw = s.value()
				continue next
			}
		}
		s.value()
	}
	s.end()
	return s.err
}

// DecodeExtend reads the body of a lease extend and returns the seconds, 1 to MaxLeaseSeconds. Whatever is not a number
// means DefaultExtendSeconds; a fraction is rounded up (messaging 7).
func DecodeExtend(body []byte) (seconds uint64) {
	var raw []byte
	if err := objectMembers(body, member{"seconds", &raw}); err != nil || kindOf(raw) != kindNumber {
		return DefaultExtendSeconds
	}
	// The error of a number beyond float64 comes with ±Inf, which is the right answer.
	number, _ := strconv.ParseFloat(string(raw), 64)
	return uint64(math.Ceil(min(max(number, 1), MaxLeaseSeconds)))
}

// Seek is the body of a seek: ToEnd, or an instant in Unix microseconds (messaging 10.5).
type Seek struct {
	ToEnd           bool
	TimestampMicros int64
}

// seekRefusal is the one text with which a seek is refused.
const seekRefusal = "Must specify toEnd=true or a timestamp"

// DecodeSeek reads the body of a seek. Every refusal is an *Error with the text of messaging 10.5, which the handler puts
// into the shape of that route.
func DecodeSeek(body []byte) (Seek, error) {
	refusal := &Error{Code: CodeBadRequest, Text: seekRefusal}
	if len(bytes.TrimSpace(body)) == 0 {
		return Seek{ToEnd: true}, nil
	}
	var toEnd, timestamp []byte
	if err := objectMembers(body, member{"toEnd", &toEnd}, member{"timestamp", &timestamp}); err != nil {
		return Seek{}, refusal
	}
	if !nothing(toEnd) && kindOf(toEnd) != kindBool {
		return Seek{}, refusal
	}
	seek := Seek{ToEnd: kindOf(toEnd) == kindBool && toEnd[0] == 't'}
	if nothing(timestamp) == seek.ToEnd {
		if seek.ToEnd {
			return seek, nil
		}
		text, _ := textBytes(timestamp)
		var ok bool
		if seek.TimestampMicros, ok = ParseTime(text); ok {
			return seek, nil
		}
	}
	return Seek{}, refusal
}

// DecodeSubscription reads the body of a subscription change and returns its instant in Unix microseconds. A refusal is an
// *Error with one of the texts of messaging 10.6.
func DecodeSubscription(body []byte) (micros int64, err error) {
	var raw []byte
	if err := objectMembers(body, member{"subscriptionTimestamp", &raw}); err != nil || nothing(raw) {
		return 0, badRequest("subscriptionTimestamp is required")
	}
	text, ok := textBytes(raw)
	if ok {
		micros, ok = ParseTime(text)
	}
	if !ok {
		return 0, badRequest("subscriptionTimestamp is invalid")
	}
	return micros, nil
}

// PartitionName names one partition of a queue.
type PartitionName struct {
	Queue     string
	Partition string
}

// DecodePositions reads the body of a read of positions (messaging 10.7). all is true when the body names no entries.
// The error is an *Error.
func DecodePositions(body []byte) (entries []PartitionName, all bool, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, true, nil
	}
	const prefix = "bad positions body: "
	var raw []byte
	if err := objectMembers(body, member{"entries", &raw}); err != nil {
		return nil, false, badBody(prefix, err)
	}
	if nothing(raw) {
		return nil, true, nil
	}
	list, err := elements(raw, "entries", MaxPositionEntries)
	if err != nil {
		return nil, false, badBody(prefix, err)
	}
	if len(list) > MaxPositionEntries {
		return nil, false, badRequest("more than %d entries", MaxPositionEntries)
	}
	entries = make([]PartitionName, len(list))
	for i, element := range list {
		var queue, partition []byte
		s := scanner{data: element}
		if err := s.members(member{"queue", &queue}, member{"partition", &partition}); err != nil {
			return nil, false, badBody(prefix, entryError(i, err))
		}
		if entries[i], err = partitionName(queue, partition); err != nil {
			return nil, false, badBody(prefix, entryError(i, err))
		}
	}
	return entries, false, nil
}

func entryError(index int, err error) error {
	return errors.New("entries[" + strconv.Itoa(index) + "]: " + err.Error())
}

// partitionName reads a queue and an optional partition.
func partitionName(queue, partition []byte) (PartitionName, error) {
	name := PartitionName{Partition: defaultPartition}
	var ok bool
	if name.Queue, ok = textString(queue); !ok {
		return name, errors.New("queue must be a string")
	}
	if nothing(partition) {
		return name, nil
	}
	if name.Partition, ok = textString(partition); !ok {
		return name, errors.New("partition must be a string")
	}
	return name, nil
}

// Replay is the body of a dead-letter replay (messaging 11.5). A nil name keeps that of the message.
type Replay struct {
	Queue     *string
	Partition *string
}

// DecodeReplay reads the optional body of a replay: names are trimmed, a blank one is refused, and a value that is not a
// string is ignored. The error is an *Error.
func DecodeReplay(body []byte) (Replay, error) {
	var replay Replay
	if len(bytes.TrimSpace(body)) == 0 {
		return replay, nil
	}
	var queue, partition []byte
	if err := objectMembers(body, member{"queue", &queue}, member{"partition", &partition}); err != nil {
		return replay, badBody("bad replay body: ", err)
	}
	for _, override := range []struct {
		raw  []byte
		into **string
	}{{queue, &replay.Queue}, {partition, &replay.Partition}} {
		if kindOf(override.raw) != kindString {
			continue
		}
		text, ok := textBytes(override.raw)
		if !ok {
			return Replay{}, badBody("bad replay body: ", errors.New("a name has an unpaired surrogate"))
		}
		name := string(bytes.TrimSpace(text))
		if name == "" {
			return Replay{}, badRequest("queue and partition overrides must be non-empty")
		}
		*override.into = &name
	}
	return replay, nil
}
