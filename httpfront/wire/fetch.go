package wire

import (
	"errors"
	"fmt"
	"strconv"

	"queen/raftlog/command"
)

const defaultPartition = command.DefaultPartition

// Limits of the fetch family (messaging 13).
const (
	// MaxFetchEntries bounds the entries of a fetch and of a fetch of offsets.
	MaxFetchEntries = 1024
	// MaxChangedEntries bounds the entries of a read of changed partitions.
	MaxChangedEntries = 64
	// DefaultFetchBytes and MaxFetchBytes are the bytes of payload per entry.
	DefaultFetchBytes = 1 << 20
	MaxFetchBytes     = 8 << 20
	// MaxFetchWaitMs is how long a fetch may wait.
	MaxFetchWaitMs = 30_000
	// MaxChangedLimit is the largest page of changed partitions, and the default.
	MaxChangedLimit = 1000
)

// Fetch is the body of a fetch; all numbers are clamped to their ranges (messaging 13.1).
type Fetch struct {
	Entries  []FetchEntry
	WaitMs   int64
	MinBytes int64
}

// FetchEntry asks for the records of one partition from an offset on.
type FetchEntry struct {
	PartitionName
	Offset   int64
	MaxBytes int64
}

// DecodeFetch reads the body of a fetch. The error is an *Error, whose text is that of the answer.
func DecodeFetch(body []byte) (*Fetch, error) {
	var entries, wait, minimum []byte
	err := objectMembers(body, member{"entries", &entries}, member{"maxWaitMs", &wait}, member{"minBytes", &minimum})
	if err != nil {
		return nil, badBody("bad fetch body: ", err)
	}
	fetch := &Fetch{}
	if fetch.WaitMs, err = clamped(wait, "maxWaitMs", 0, 0, MaxFetchWaitMs); err != nil {
		return nil, badRequest("%s", err)
	}
	if fetch.MinBytes, err = clamped(minimum, "minBytes", 1, 0, 1<<62); err != nil {
		return nil, badRequest("%s", err)
	}
	list, err := fetchEntries(entries, MaxFetchEntries)
	if err != nil {
		return nil, err
	}
	fetch.Entries = make([]FetchEntry, len(list))
	for i, element := range list {
		if err := fetch.Entries[i].read(element); err != nil {
			return nil, asEntryError(i, err)
		}
	}
	return fetch, nil
}

// asEntryError keeps the text of an *Error, which is exact, and says of any other error in which entry it is.
func asEntryError(index int, err error) error {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal
	}
	return badRequest("%s", entryError(index, err))
}

// fetchEntries splits the required entries array of the fetch family.
func fetchEntries(raw []byte, most int) ([][]byte, error) {
	if nothing(raw) {
		return nil, badRequest("entries is required")
	}
	list, err := elements(raw, "entries", most)
	if err != nil {
		return nil, badRequest("%s", err)
	}
	if len(list) > most {
		return nil, badRequest("too many entries")
	}
	return list, nil
}

func (e *FetchEntry) read(raw []byte) error {
	var queue, partition, offset, most []byte
	s := scanner{data: raw}
	err := s.members(member{"queue", &queue}, member{"partition", &partition}, member{"offset", &offset}, member{"maxBytes", &most})
	if err != nil {
		return err
	}
	if e.PartitionName, err = fetchName(queue, partition); err != nil {
		return err
	}
	if e.MaxBytes, err = clamped(most, "maxBytes", DefaultFetchBytes, 1, MaxFetchBytes); err != nil {
		return err
	}
	if kindOf(offset) != kindNumber {
		return errors.New("offset must be an integer")
	}
	if e.Offset, err = integer(offset); err != nil {
		return errors.New("offset must be an integer")
	}
	if e.Offset < 0 {
		return badRequest("offset must be non-negative")
	}
	return nil
}

// fetchName is partitionName, where a partition may also be a number, which is read as its decimal text.
func fetchName(queue, partition []byte) (PartitionName, error) {
	if kindOf(partition) != kindNumber {
		return partitionName(queue, partition)
	}
	name, err := partitionName(queue, nil)
	if _, bad := strconv.ParseInt(string(partition), 10, 64); bad != nil {
		return name, errors.New("partition must be a string or an integer")
	}
	name.Partition = string(partition)
	return name, err
}

// integer reads a JSON integer and lets one beyond 64 bits count as the largest or the smallest.
func integer(raw []byte) (int64, error) {
	if kindOf(raw) != kindNumber {
		return 0, strconv.ErrSyntax
	}
	number, err := strconv.ParseInt(string(raw), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	return number, err
}

// clamped reads an optional integer and brings it into its range.
func clamped(raw []byte, name string, fallback, least, most int64) (int64, error) {
	if nothing(raw) {
		return fallback, nil
	}
	number, err := integer(raw)
	if err != nil {
		return 0, fmt.Errorf("%s must be an integer", name)
	}
	return min(max(number, least), most), nil
}

// OffsetQuery asks for the first record of a partition at or after an instant (messaging 13.2).
type OffsetQuery struct {
	PartitionName
	TimestampMicros int64
}

// DecodeFetchOffsets reads the body of a fetch of offsets. The error is an *Error.
func DecodeFetchOffsets(body []byte) ([]OffsetQuery, error) {
	var entries []byte
	if err := objectMembers(body, member{"entries", &entries}); err != nil {
		return nil, badBody("bad fetch body: ", err)
	}
	list, err := fetchEntries(entries, MaxFetchEntries)
	if err != nil {
		return nil, err
	}
	queries := make([]OffsetQuery, len(list))
	for i, element := range list {
		if err := queries[i].read(element); err != nil {
			return nil, asEntryError(i, err)
		}
	}
	return queries, nil
}

func (q *OffsetQuery) read(raw []byte) error {
	var queue, partition, timestamp []byte
	s := scanner{data: raw}
	err := s.members(member{"queue", &queue}, member{"partition", &partition}, member{"timestamp", &timestamp})
	if err != nil {
		return err
	}
	if q.PartitionName, err = fetchName(queue, partition); err != nil {
		return err
	}
	if q.TimestampMicros, err = timestampMicros(timestamp); err != nil {
		return err
	}
	return nil
}

// maxEpochMs keeps epoch milliseconds inside int64 when they become microseconds.
const maxEpochMs = 1 << 53

// timestampMicros reads epoch milliseconds or an ISO timestamp.
func timestampMicros(raw []byte) (int64, error) {
	switch kindOf(raw) {
	case kindNumber:
		ms, err := integer(raw)
		if err != nil {
			return 0, errors.New("timestamp must be an integer or an ISO timestamp")
		}
		return min(max(ms, -maxEpochMs), maxEpochMs) * 1000, nil
	case kindString:
		text, _ := textBytes(raw)
		if micros, ok := ParseTime(text); ok {
			return micros, nil
		}
	}
	return 0, errors.New("timestamp is invalid")
}

// ChangedQuery asks which partitions of a queue changed (messaging 13.3). After is the cursor of an earlier page.
type ChangedQuery struct {
	Queue       string
	SinceMicros int64
	HasSince    bool
	After       string
	Limit       int64
}

// DecodeChanged reads the body of a read of changed partitions. The error is an *Error.
func DecodeChanged(body []byte) ([]ChangedQuery, error) {
	var entries []byte
	if err := objectMembers(body, member{"entries", &entries}); err != nil {
		return nil, badBody("bad body: ", err)
	}
	list, err := fetchEntries(entries, MaxChangedEntries)
	if err != nil {
		return nil, err
	}
	queries := make([]ChangedQuery, len(list))
	for i, element := range list {
		if err := queries[i].read(element); err != nil {
			return nil, asEntryError(i, err)
		}
	}
	return queries, nil
}

func (q *ChangedQuery) read(raw []byte) error {
	var queue, since, after, limit []byte
	s := scanner{data: raw}
	err := s.members(member{"queue", &queue}, member{"since", &since}, member{"after", &after}, member{"limit", &limit})
	if err != nil {
		return err
	}
	name, err := partitionName(queue, nil)
	if err != nil {
		return err
	}
	if q.Queue = name.Queue; q.Queue == "" {
		return errors.New("queue must not be empty")
	}
	if !nothing(since) {
		if q.SinceMicros, err = timestampMicros(since); err != nil {
			return errors.New("since is not a timestamp")
		}
		q.HasSince = true
	}
	if !nothing(after) {
		var ok bool
		if q.After, ok = textString(after); !ok {
			return errors.New("after must be a string")
		}
	}
	q.Limit, err = clamped(limit, "limit", MaxChangedLimit, 1, MaxChangedLimit)
	return err
}
