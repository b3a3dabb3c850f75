package raftlog

import (
	"errors"

	"queen/raftlog/link"
)

// linkReasons are the errors that travel over a link, by their number. Numbers are never reused.
var linkReasons = []struct {
	number link.Reason
	err    error
}{
	{1, ErrQueueFull},
	{2, ErrNotLeader},
	{3, ErrNoLeader},
	{4, ErrClosed},
	{5, ErrDeadline},
	{6, ErrTooLarge},
	{7, ErrStorage},
	{8, ErrApply},
}

// reasonOf returns the number of an error, 0 when it has none.
func reasonOf(err error) link.Reason {
	for _, known := range linkReasons {
		if errors.Is(err, known.err) {
			return known.number
		}
	}
	return 0
}

// errorOf returns the error of a number; ErrNotLeader, which makes the asking node ask again, for one of a later build.
func errorOf(number link.Reason) error {
	for _, known := range linkReasons {
		if known.number == number {
			return known.err
		}
	}
	return ErrNotLeader
}

// elsewhere says whether a refusal only means that the leader is another one, or will be soon.
func elsewhere(err error) bool {
	return !errors.Is(err, ErrQueueFull) && !errors.Is(err, ErrDeadline) && !errors.Is(err, ErrTooLarge)
}
