package cursor

import (
	"cmp"
	"slices"

	"queen/raftlog/command"
)

// ReasonExhausted is the errorMessage of a dead letter whose budget was exhausted when the call names no error
// (messaging 6.5).
const ReasonExhausted = "Retries exhausted"

// Filing is a dead letter to file: a new row, or the refreshed one of the same message and group (messaging 6.5).
type Filing struct {
	Offset uint64
	// Item is the position in the call of the first item that asks for the filing.
	Item int
	// Error is the errorMessage of the row; HasError false stands for null.
	Error    string
	HasError bool
	// RetryCount is the number of failures with which the budget was judged.
	RetryCount uint32
}

// deadLetters lists what a call files: all its dlq items, wherever they stand in the batch, and with spentAt the
// exhausted message at signalAt.
func deadLetters(call *AckCall, verdicts []command.AckVerdict, signalAt uint64, spent bool, failures uint32) []Filing {
	var filings []Filing
	sorted := true
	for i := range call.Items {
		item := &call.Items[i]
		if verdicts[i].Error != command.AckOK || verdicts[i].Noop {
			continue
		}
		exhausted := spent && item.Status == command.AckFailed && item.Offset == signalAt
		if item.Status != command.AckDeadLetter && !exhausted {
			continue
		}
		if n := len(filings); n > 0 && filings[n-1].Offset > item.Offset {
			sorted = false
		}
		filings = append(filings, Filing{
			Offset: item.Offset, Item: i, Error: item.Error, HasError: item.HasError, RetryCount: failures,
		})
	}
	if len(filings) == 0 {
		return nil
	}
	if !sorted {
		slices.SortStableFunc(filings, func(a, b Filing) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	filings = oneEach(filings)
	nameReasons(call, filings, spent, signalAt)
	return filings
}

// oneEach keeps one filing a message: the first, with the first error that the items of that message name.
func oneEach(filings []Filing) []Filing {
	kept := filings[:1]
	for _, filing := range filings[1:] {
		last := &kept[len(kept)-1]
		if filing.Offset != last.Offset {
			kept = append(kept, filing)
			continue
		}
		if !last.HasError && filing.HasError {
			last.Error, last.HasError = filing.Error, true
		}
	}
	return kept
}

// nameReasons gives the filings without an error of their own the first error of the call, else the reason that the
// budget is exhausted.
func nameReasons(call *AckCall, filings []Filing, spent bool, signalAt uint64) {
	first := slices.IndexFunc(call.Items, func(item AckItem) bool { return item.HasError })
	for i := range filings {
		filing := &filings[i]
		switch {
		case filing.HasError:
		case first >= 0:
			filing.Error, filing.HasError = call.Items[first].Error, true
		case spent && filing.Offset == signalAt:
			filing.Error, filing.HasError = ReasonExhausted, true
		}
	}
}

// pastFiled returns the first offset at or above offset that is not filed.
func pastFiled(filings []Filing, offset uint64) uint64 {
	for i := range filings {
		if filings[i].Offset == offset {
			offset++
		}
	}
	return offset
}

// filed tells whether a message is among the filings.
func filed(filings []Filing, offset uint64) bool {
	if len(filings) == 0 {
		return false
	}
	_, found := slices.BinarySearchFunc(filings, offset, func(filing Filing, target uint64) int {
		return cmp.Compare(filing.Offset, target)
	})
	return found
}
