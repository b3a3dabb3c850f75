package store

import "sync/atomic"

// Operations count what has been asked of main since Open, for the metrics: rows read and searched for, also in vain, and rows
// written and deleted by entries.
type Operations struct {
	Gets, Seeks, Puts, Deletes uint64
}

// operations are Operations as they count.
type operations struct {
	gets, seeks, puts, deletes atomic.Uint64
}

// Operations returns the counts. Any goroutine.
func (s *Store) Operations() Operations {
	o := &s.operations
	return Operations{Gets: o.gets.Load(), Seeks: o.seeks.Load(), Puts: o.puts.Load(), Deletes: o.deletes.Load()}
}

// wrote counts the rows of an entry.
func (o *operations) wrote(rows, deleted int) {
	o.puts.Add(uint64(rows - deleted))
	o.deletes.Add(uint64(deleted))
}
