package raftlog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"queen/raftlog/transfer"
)

// machineState is all that a recorder's state is, for the purpose of sending it.
type machineState struct{ Index, Term uint64 }

// stateSource sends it as one part.
type stateSource struct {
	data []byte
	read bool
}

func (s *stateSource) Next() (string, int64, error) {
	if s.read {
		return "", 0, io.EOF
	}
	s.read = true
	return "state", int64(len(s.data)), nil
}

func (s *stateSource) ReadAt(to []byte, offset int64) (int, error) {
	return copy(to, s.data[offset:]), nil
}
func (s *stateSource) Sum() ([32]byte, error) { return sha256.Sum256(s.data), nil }
func (s *stateSource) Bytes() int64           { return int64(len(s.data)) }
func (s *stateSource) Close() error           { return nil }

func (r *recorder) openState() (transfer.Source, uint64, error) {
	index, term := r.AppliedIndex()
	data, err := json.Marshal(machineState{index, term})
	return &stateSource{data: data}, index, err
}

var errInstalling = errors.New("the state is being installed")

// TestNodeThatWasAwayTooLongGetsTheState: cluster 12, once, and goes on from there, also after a restart. Its log reaches beyond the
// state of the others with entries that were never committed (cluster 20, note 4).
func TestNodeThatWasAwayTooLongGetsTheState(t *testing.T) {
	offers := make(chan [2]uint64, 1)
	c := openClusterWith(t, newTestNetwork(t), func(o *Options) {
		o.fileBytes, o.DurableEveryMs, o.LogKeepEntries, o.PurgeHoldSeconds = 4096, 10, 16, 0
		o.Install = func(leader, index uint64) error {
			select {
			case offers <- [2]uint64{leader, index}:
			default:
			}
			return errInstalling
		}
	})
	for i := range c.machines {
		closeNode(t, c.nodes[i])
		c.options[i].OpenState = c.machines[i].openState
		c.nodes[i] = c.open(t, i)
	}
	away := c.leader(t, -1)
	mustPropose(t, c.nodes[away], extend(1))
	c.wantAll(t, 1)
	c.isolate(away)
	for i := uint64(1000); i < 1020; i++ {
		mustPropose(t, c.nodes[away], extend(i)) // never committed under this leader
	}
	next := c.leader(t, away)
	for i := uint64(2); i <= 600; i++ {
		mustPropose(t, c.nodes[next], extend(i))
		if i%10 == 0 {
			eventually(t, "applying", func() bool { return len(c.machines[next].numbers()) >= int(i) })
		}
	}
	held, _ := c.machines[away].AppliedIndex()
	eventually(t, "the log to be cut behind what the others need", func() bool {
		mustPropose(t, c.nodes[next], extend(600))
		return c.nodes[next].Status().FirstIndex > held+30
	})
	c.connect(away)

	offer := <-offers
	dir := t.TempDir()
	receiver, err := transfer.NewReceiver(transfer.ReceiverOptions{Dir: dir, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	call, end := StateFrom(c.options[away].Network, offer[0])
	result, err := receiver.Fetch(testContext(t), call)
	end()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	var state machineState
	if err := json.Unmarshal(data, &state); err != nil {
		t.Fatal(err)
	}
	if state.Index < offer[1] {
		t.Fatalf("the state goes to %d, offered was %d", state.Index, offer[1])
	}
	if err := c.nodes[away].Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be repeated
		if err := Installed(c.options[away].Dir, state.Index, state.Term, result.Meta); err != nil {
			t.Fatal(err)
		}
	}
	c.machines[away] = &recorder{index: state.Index, term: state.Term}
	c.nodes[away] = c.open(t, away)
	caughtUp := func() bool {
		index, _ := c.machines[next].AppliedIndex()
		own, _ := c.machines[away].AppliedIndex()
		return own >= index
	}
	mustPropose(t, c.nodes[next], extend(600))
	eventually(t, "catching up", func() bool { return caughtUp() && c.nodes[away].Status().FirstIndex > 0 })
	if first := c.nodes[away].Status().FirstIndex; first != state.Index+1 {
		t.Fatalf("the log begins at %d, the state ends at %d", first, state.Index)
	}
	closeNode(t, c.nodes[away])
	c.nodes[away] = c.open(t, away)
	mustPropose(t, c.nodes[away], extend(5000))
	eventually(t, "a command of the node that was away", func() bool {
		numbers := c.machines[next].numbers()
		return len(numbers) > 0 && numbers[len(numbers)-1] == 5000
	})
	eventually(t, "catching up", caughtUp)
	if len(offers) > 0 {
		t.Fatal("the state was offered again")
	}
}
