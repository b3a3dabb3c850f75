package partition

import (
	"fmt"
	"math"

	"queen/store/layout"
)

// SweepInput is one step of removing all that a partition has stored.
type SweepInput struct {
	Queue, Partition uint64
	// MaxAppends is the most appends that the step removes. Its keys are at most so many pages, 256 hash rows and the head.
	MaxAppends uint32
}

// Sweep removes the log of a deleted partition in bounded steps, the head last; its chunks are released. done tells that
// nothing is left. Nobody may hold a machine of the partition.
func Sweep(r Reader, w Writer, in SweepInput) (done bool, err error) {
	m, err := Load(r, in.Queue, in.Partition)
	if err != nil {
		return false, fmt.Errorf("sweep partition %d: %w", in.Partition, err)
	}
	if m.head.Tail == 0 {
		return true, nil
	}
	out, err := m.Retain(r, w, RetainInput{NowMicros: math.MaxUint64, Rules: Retention{EvictMicros: 1}, MaxAppends: in.MaxAppends})
	if err != nil {
		return false, fmt.Errorf("sweep partition %d: %w", in.Partition, err)
	}
	if out.More || m.head.Segments > 0 {
		return false, nil
	}
	w.Delete(layout.Head(in.Queue, in.Partition))
	return true, nil
}
