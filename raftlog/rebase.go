package raftlog

import "github.com/hashicorp/raft"

// rebase takes out of an append what lies in front of this node's log, up to base: it is committed and applied here, so it is what the
// leader has. The library would look the entry in front of the append up in the log, refuse what it does not find, and be offered
// the same state for ever: a state that was fetched goes further than the one that was offered (cluster 20, note 4).
func rebase(request *raft.AppendEntriesRequest, base uint64) {
	heartbeat := request.PrevLogEntry == 0 && len(request.Entries) == 0
	if base == 0 || heartbeat || request.PrevLogEntry > base {
		return
	}
	behind := 0
	for behind < len(request.Entries) && request.Entries[behind].Index <= base {
		behind++
	}
	request.Entries = request.Entries[behind:]
	// What follows begins right behind base, so there is nothing in front of it to compare. What this node may have beyond it has
	// not been compared either, and is not to be committed.
	request.PrevLogEntry, request.PrevLogTerm = 0, 0
	compared := base
	if n := len(request.Entries); n > 0 {
		compared = request.Entries[n-1].Index
	}
	request.LeaderCommitIndex = min(request.LeaderCommitIndex, compared)
}

// logBase is the entry behind which the log begins; 0 when it begins at the first.
func (n *Node) logBase() uint64 {
	if first, err := n.log.FirstIndex(); err == nil && first > 0 {
		return first - 1
	}
	return n.snapshots.current().Index
}
