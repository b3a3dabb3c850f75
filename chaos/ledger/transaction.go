package ledger

// checkTransactions: the pushes of a transaction are all there when it committed, none is there when it rolled back,
// and all or none are when nobody knows. That its acks went the same way is judged with the cursors.
func checkTransactions(books Books, logs shelves) []Violation {
	var found []Violation
	for _, transaction := range books.Transactions {
		stored := transaction.stored(logs)
		switch {
		case transaction.Outcome == Done && stored < len(transaction.Pushes):
			found = append(found, violation("lost", "of the transaction with %s, which committed, %d of %d messages are stored",
				transaction.Pushes[0].Token, stored, len(transaction.Pushes)))
		case transaction.Outcome == NotDone && stored > 0:
			found = append(found, violation("transaction", "of the transaction with %s, which rolled back (%s), %d messages are stored",
				transaction.Pushes[0].Token, transaction.Reason, stored))
		case stored > 0 && stored < len(transaction.Pushes):
			found = append(found, violation("transaction", "of the transaction with %s %d of %d messages are stored",
				transaction.Pushes[0].Token, stored, len(transaction.Pushes)))
		}
	}
	return found
}

// stored counts the messages of the transaction that stand in the logs.
func (t Transaction) stored(logs shelves) int {
	stored := 0
	for _, item := range t.Pushes {
		if _, there := logs[item.Partition].find(item.Token); there {
			stored++
		}
	}
	return stored
}

// settled gives the outcome of a transaction after a look at the logs: its pushes tell what the answer did not.
func (t Transaction) settled(logs shelves) Outcome {
	if t.Outcome != Unknown || len(t.Pushes) == 0 {
		return t.Outcome
	}
	if t.stored(logs) > 0 {
		return Done
	}
	return NotDone
}
