package raftlog

import (
	"testing"

	"github.com/hashicorp/raft"
)

func TestRebase(t *testing.T) {
	entries := func(from, to uint64) (list []*raft.Log) {
		for i := from; i <= to; i++ {
			list = append(list, &raft.Log{Index: i})
		}
		return list
	}
	f := func(prev, from, to, commit, base uint64, wantPrev, wantFrom, wantCommit uint64) {
		t.Helper()
		request := &raft.AppendEntriesRequest{PrevLogEntry: prev, PrevLogTerm: 3, Entries: entries(from, to), LeaderCommitIndex: commit}
		rebase(request, base)
		gotFrom := uint64(0)
		if len(request.Entries) > 0 {
			gotFrom = request.Entries[0].Index
		}
		if request.PrevLogEntry != wantPrev || gotFrom != wantFrom || request.LeaderCommitIndex != wantCommit {
			t.Errorf("got prev %d, from %d, commit %d", request.PrevLogEntry, gotFrom, request.LeaderCommitIndex)
		}
	}
	f(20, 21, 25, 24, 10, 20, 21, 24) // the log has what it follows
	f(10, 11, 15, 14, 10, 0, 11, 14)  // right behind the base
	f(5, 6, 15, 30, 10, 0, 11, 15)    // across the base: what lies beyond the append is not committed
	f(5, 6, 8, 30, 10, 0, 0, 10)      // all of it in front
	f(5, 1, 0, 30, 10, 0, 0, 10)      // no entries
	f(0, 1, 15, 12, 10, 0, 11, 12)    // from the beginning
	f(0, 1, 0, 0, 10, 0, 0, 0)        // a heartbeat
	f(0, 1, 5, 5, 0, 0, 1, 5)         // a log that begins at the first entry
}
