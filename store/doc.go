// Package store keeps the replicated state of one Raft group on disk.
//
// It is a main Badger database for everything small and a row of bucket databases for message bytes. One Raft entry is
// one Batch: its chunks become one block in the open bucket, all its other effects one transaction in main, committed
// at the entry's log index. Views read at a committed index. A durable point makes everything up to an index survive a
// power cut; after an unclean stop the store starts again exactly at that index.
//
// DESIGN.md beside this file has the flow, the numbered invariants and the reasons.
package store
