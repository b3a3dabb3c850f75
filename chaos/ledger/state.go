package ledger

// Record is one stored message.
type Record struct {
	Offset        int64
	TransactionID string
	Token         string
}

// Log is what a partition holds, read by offset from 0.
type Log struct {
	LogStart int64
	Tail     int64
	Records  []Record
}

// DeadLetter is one row of the dead-letter store.
type DeadLetter struct {
	Partition     Partition
	Group         string
	Offset        int64
	MessageID     string
	TransactionID string
	Token         string
	RetryCount    int
}

// Reader is one group on one partition.
type Reader struct {
	Partition Partition
	Group     string
}

// State is what the broker holds, read over its public routes. While load goes on only Logs may be filled.
type State struct {
	Logs        map[Partition]Log
	DeadLetters []DeadLetter
	Positions   map[Reader]int64 // next offset of each group that has one
}

// Violation is one broken promise. Rule is one of the words of the package comment.
type Violation struct {
	Rule   string
	Detail string
}

// String is one line for a report.
func (v Violation) String() string { return v.Rule + ": " + v.Detail }
