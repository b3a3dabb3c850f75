package raftlog

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestCallsAreBoundedInBytes: a node that was away is fed in calls that end in time, however large the entries are.
func TestCallsAreBoundedInBytes(t *testing.T) {
	for _, example := range []struct{ entries, bytes, want int }{
		{0, 0, 0}, {64, 1 << 10, 64}, {64, 1 << 20, 8}, {2, callBytes / 2, 2}, {2, callBytes/2 + 1, 1}, {1, 48 << 20, 1}, {64, 48 << 20, 1},
	} {
		data := make([]byte, example.bytes)
		entries := make([]*raft.Log, example.entries)
		for i := range entries {
			entries[i] = &raft.Log{Index: uint64(i + 1), Data: data}
		}
		if got := oneCall(entries); len(got) != example.want {
			t.Errorf("%d entries of %d bytes: %d in one call, want %d", example.entries, example.bytes, len(got), example.want)
		}
	}
}
