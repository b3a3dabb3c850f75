package node

import (
	"errors"
	"testing"
	"time"

	"queen/httpfront"
	"queen/raftlog"
	"queen/raftlog/command"
)

func TestForwardedCommandsWaitForRoomAsLongAsTheyMay(t *testing.T) {
	push := command.AppendItem(nil, &command.Item{Command: &command.Push{Groups: []command.PushGroup{{Queue: "q"}}}})
	ack := command.AppendItem(nil, &command.Item{Command: &command.Ack{Group: "g"}})
	for name, c := range map[string]struct {
		encoded []byte
		left    time.Duration
		hold    time.Duration // -1: no permits are asked for
	}{
		"no deadline":          {push, 0, 2 * time.Second},
		"a far deadline":       {push, 30 * time.Second, 2 * time.Second},
		"half of what is left": {push, time.Second, 500 * time.Millisecond},
		"an ack":               {ack, time.Second, -1},
	} {
		asked, answered := time.Duration(-1), 0
		a := &admitter{hold: 2 * time.Second, ask: func(node uint64, bytes int64, hold time.Duration, admitted func(func(), error)) {
			if asked = hold; node != 3 || bytes != int64(len(c.encoded)) {
				t.Errorf("%s: asked for %d bytes of node %d", name, bytes, node)
			}
			admitted(func() {}, nil)
		}}
		a.admit(&raftlog.Foreign{From: 3, Encoded: c.encoded, Left: c.left}, func(release func(), refusal error) {
			if answered++; refusal != nil || (release == nil) != (c.hold < 0) {
				t.Errorf("%s: got %v", name, refusal)
			}
		})
		if asked != c.hold || answered != 1 {
			t.Errorf("%s: waits %v, want %v; answered %d times", name, asked, c.hold, answered)
		}
	}
}

func TestRefusalsOfRoomInTheWordsOfTheLog(t *testing.T) {
	for refusal, want := range map[error]error{
		httpfront.ErrNoRoom: raftlog.ErrQueueFull, httpfront.ErrStopping: raftlog.ErrClosed, nil: nil,
	} {
		if got := admitReason(refusal); !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("%v: got %v, want %v", refusal, got, want)
		}
	}
}
