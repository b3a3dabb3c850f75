package api

import (
	"testing"

	"queen/raftlog/command"
)

// TestAnswersOfRowsAreReservedWhole: the room that is reserved for the answer of a call holds the most that its reads show.
func TestAnswersOfRowsAreReservedWhole(t *testing.T) {
	limits := command.KVLimits{ValueBytes: 1000, ReadBytes: 5000}
	get := command.KVOp{Kind: command.KVGet}
	keys := command.KVOp{Kind: command.KVGetMany, Keys: []string{"a", "b", "c", "d"}}
	page := command.KVOp{Kind: command.KVGetPrefix, Limit: 4}
	names := command.KVOp{Kind: command.KVGetPrefix, Limit: 4, KeysOnly: true}
	for _, c := range []struct {
		name         string
		ops          []command.KVOp
		rows, values int64
	}{
		{"nothing", nil, 0, 0},
		{"gets have no budget", []command.KVOp{get, get, get, get, get, get, get}, 7, 7000},
		{"one page within it", []command.KVOp{page}, 4, 4000},
		{"keys beyond it end behind the row that exceeds it", []command.KVOp{{Kind: command.KVGetMany, Keys: make([]string, 20)}}, 20, 6000},
		{"each of several shows one row beyond it", []command.KVOp{page, keys, page, keys, get}, 17, 5000 + 4*1000 + 1000},
		{"keys without values", []command.KVOp{names, names}, 8, 0},
	} {
		if got, want := useOfKV(c.ops, limits).answerBytes, c.rows*rowAnswerBytes+c.values; got != want {
			t.Errorf("%s: %d bytes are reserved, want %d", c.name, got, want)
		}
	}
}
