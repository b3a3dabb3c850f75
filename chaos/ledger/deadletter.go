package ledger

// place is one message as one group sees it.
type place struct {
	reader Reader
	offset int64
}

// filing is what the acks of one place say about a dead letter there.
type filing struct {
	certain bool // an answer says that it was filed
	allowed bool // some call may have filed it
	byOrder bool // some call asked for it with the status dlq
}

// checkDeadLetters: a message that an answer called dead-lettered has its one row, with the right content and count;
// no other message has one.
func checkDeadLetters(books Books, state State, logs shelves) []Violation {
	filings := collectFilings(books)
	var found []Violation
	rows := map[place]bool{}
	for _, row := range state.DeadLetters {
		at := place{Reader{row.Partition, row.Group}, row.Offset}
		if rows[at] {
			found = append(found, violation("dead letter", "%v offset %d has two rows", at.reader, row.Offset))
		}
		rows[at] = true
		if record, there := logs[row.Partition].at(row.Offset); !there || record.Token != row.Token || record.TransactionID != row.TransactionID {
			found = append(found, violation("altered", "%v offset %d holds %s, its dead letter %s", at.reader, row.Offset, record.Token, row.Token))
		}
		filed := filings[at]
		limit := books.Queues[row.Partition.Queue].RetryLimit
		switch {
		case !filed.allowed:
			found = append(found, violation("dead letter", "%v offset %d has a row that no ack can have filed", at.reader, row.Offset))
		case row.RetryCount > limit, !filed.byOrder && row.RetryCount != limit:
			found = append(found, violation("dead letter", "%v offset %d has retryCount %d, the limit is %d", at.reader, row.Offset, row.RetryCount, limit))
		}
	}
	for at, filed := range filings {
		if filed.certain && !rows[at] {
			found = append(found, violation("dead letter", "%v offset %d was answered dlq and has no row", at.reader, at.offset))
		}
	}
	return sorted(found)
}

func collectFilings(books Books) map[place]filing {
	filings := map[place]filing{}
	note := func(outcome Outcome, group string, items []AckItem) {
		if outcome == NotDone {
			return
		}
		for _, item := range items {
			if item.Status != "dlq" && item.Status != "failed" {
				continue
			}
			at := place{Reader{item.Partition, group}, item.Offset}
			filed := filings[at]
			if outcome == Unknown || item.Verdict.DeadLettered {
				filed.allowed = true
				filed.byOrder = filed.byOrder || item.Status == "dlq"
			}
			filed.certain = filed.certain || outcome == Done && item.Verdict.DeadLettered
			filings[at] = filed
		}
	}
	for _, ack := range books.Acks {
		note(ack.Outcome, ack.Group, ack.Items)
	}
	for _, transaction := range books.Transactions {
		note(transaction.Outcome, transaction.Group, transaction.Acks)
	}
	return filings
}
