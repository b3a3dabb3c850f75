package partition

import "errors"

// What is wrong with stored bytes or with a call. All of them mean that applying cannot go on (cluster 13).
var (
	// ErrBadHead is returned for a head row that cannot be read.
	ErrBadHead = errors.New("partition head is damaged")
	// ErrBadPage is returned for a page of references that cannot be read.
	ErrBadPage = errors.New("partition page is damaged")
	// ErrBadHashes is returned for a hash row that cannot be read.
	ErrBadHashes = errors.New("partition hash row is damaged")
	// ErrMissingPage is returned when the head speaks of references that no page holds.
	ErrMissingPage = errors.New("partition page is missing")
	// ErrBadAppend is returned when a chunk does not hold the messages that were announced.
	ErrBadAppend = errors.New("append does not hold the announced messages")
	// ErrBadRange is returned for offsets outside of the log.
	ErrBadRange = errors.New("offsets are outside of the partition's log")
)
