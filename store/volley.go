package store

import "github.com/dgraph-io/badger/v4"

// volley is a row of transactions that are on their way at the same time. The engine writes them in the order of their
// commits, those that have come together in one go, and each is whole or not there at all.
type volley struct {
	size     int
	outcomes []chan error
}

// newVolley makes a volley of at most size transactions.
func newVolley(size int) *volley {
	return &volley{size: size, outcomes: make([]chan error, 0, size)}
}

// commit hands a transaction over. What it refers to must stay as it is until wait has returned.
func (v *volley) commit(txn *badger.Txn, at uint64) {
	outcome := make(chan error, 1)
	v.outcomes = append(v.outcomes, outcome)
	if v.size == 1 { // spares a goroutine of the engine
		outcome <- txn.CommitAt(at, nil)
		return
	}
	_ = txn.CommitAt(at, func(err error) { outcome <- err }) // every error goes to the callback
}

// settle adds an outcome that is known without a transaction; nil is nothing to write.
func (v *volley) settle(err error) {
	outcome := make(chan error, 1)
	outcome <- err
	v.outcomes = append(v.outcomes, outcome)
}

// wait waits for all, and returns how many succeeded before the first that failed.
func (v *volley) wait() (int, error) {
	succeeded, first := 0, error(nil)
	for _, outcome := range v.outcomes {
		switch err := <-outcome; {
		case first != nil:
		case err != nil:
			first = err
		default:
			succeeded++
		}
	}
	return succeeded, first
}
