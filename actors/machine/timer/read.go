package timer

import (
	"fmt"

	"github.com/google/uuid"

	"queen/store/layout"
)

// Reads finds timers for one request. It needs no machine: everything is in the view.
type Reads struct {
	Reader Reader
	// Check is asked now and then whether to go on; its error ends the read.
	Check func() error
}

const (
	// checkEvery is how many rows pass between two calls of Check.
	checkEvery = 256
	// MaxListed is the longest page of a list (state 3.5).
	MaxListed = 1000
	// pageBytes ends a page whose rows show more than that, so that a page of long txids does not grow without bound. The row
	// that reaches it is still in the page.
	pageBytes = 4 << 20
)

// Peek reads a timer with its payload as stored; nil when it is not pending (state 3.4).
func (q *Reads) Peek(tenant uuid.UUID, queue, timerKey string) (row *Row, payload []byte, err error) {
	row, err = find(q.Reader, tenant, queue, timerKey)
	if err != nil || row == nil {
		return nil, nil, err
	}
	payload, err = row.Payload(q.Reader)
	return row, payload, err
}

// List reads the pending timers of a queue whose keys come behind after, in the byte order of the keys, limit of them at most:
// it is clamped to 1..MaxListed. truncated tells that there are more behind the last. Payloads are not shown.
func (q *Reads) List(tenant uuid.UUID, queue, after string, limit int) (rows []*Row, truncated bool, err error) {
	limit = max(1, min(limit, MaxListed))
	shown := 0
	err = q.walk(layout.TimersOf(tenant, queue), append(layout.Timer(tenant, queue, after), 0), func(key, value []byte) (bool, error) {
		if truncated = len(rows) == limit || shown >= pageBytes; truncated {
			return false, nil
		}
		row, err := DecodeRow(key, value)
		if err != nil {
			return false, err
		}
		row.Inline = nil
		rows = append(rows, row)
		shown += len(row.Key) + len(row.Partition) + len(row.Txid) + len(row.ProducerSub) + len(row.LastError)
		return true, nil
	})
	return rows, truncated, err
}

// Count counts the pending timers of a queue whose keys begin with the prefix (state 3.5).
func (q *Reads) Count(tenant uuid.UUID, queue, prefix string) (n uint64, err error) {
	err = q.walk(layout.Timer(tenant, queue, prefix), nil, func(_, _ []byte) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// walk visits rows and asks Check in between.
func (q *Reads) walk(prefix, from []byte, visit func(key, value []byte) (more bool, err error)) error {
	var failure error
	visited := 0
	scanned := q.Reader.Scan(prefix, from, func(key, value []byte) (more bool) {
		if visited++; visited%checkEvery == 0 {
			if failure = q.Check(); failure != nil {
				return false
			}
		}
		more, failure = visit(key, value)
		return more && failure == nil
	})
	if failure == nil {
		failure = scanned
	}
	if failure != nil {
		return fmt.Errorf("list timers: %w", failure)
	}
	return nil
}
