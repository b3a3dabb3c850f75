package command

// FormatVersion is the newest entry format that this build reads and writes (cluster 15.2).
const FormatVersion = 7

// Header is what all commands of an entry share. It is the only source of time, randomness and settings during apply.
type Header struct {
	// StampMicros is the leader's time in Unix microseconds; command i has the stamp StampMicros + i.
	StampMicros uint64
	// Seed feeds the ids that only apply can mint, such as partition UUIDs.
	Seed     [16]byte
	Settings Settings
}

// Settings are the leader's configuration values that influence results.
type Settings struct {
	// TxidWindowMinSeconds is QUEEN_RAFT_TXN_WINDOW_MIN_S, the floor of the hash window (messaging 4.6).
	TxidWindowMinSeconds uint32
	// RequestIDWindowSeconds is QUEEN_RAFT_REQUEST_ID_WINDOW_S.
	RequestIDWindowSeconds uint32
	// PartitionCleanupDays is PARTITION_CLEANUP_DAYS; 0 keeps idle partitions for ever.
	PartitionCleanupDays uint32
}

// Item is one command of an entry with the request that it answers.
type Item struct {
	Request RequestID
	// AnsweredBelow tells that the origin has answered every request of it with a smaller sequence, so their outcomes
	// may be forgotten.
	AnsweredBelow uint64
	Command       Command
}

// Entry is one item of the log.
type Entry struct {
	Header Header
	Items  []Item
}
