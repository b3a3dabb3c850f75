package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"queen/actors"
	"queen/cmd/queen/version"
	"queen/raftlog/command"
	"queen/store"
)

// TestStoreOfANewerFormatIsRefused: cluster 15.2, a store from which a newer build has raised its cluster.
func TestStoreOfANewerFormatIsRefused(t *testing.T) {
	state, err := store.Open(store.Options{Dir: t.TempDir(), Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := state.Close(); err != nil {
			t.Error(err)
		}
	}()
	broker, err := actors.NewBroker(actors.Config{Store: state, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Stop()
	if err := checkFormat(state); err != nil {
		t.Fatalf("a new store: %v", err)
	}
	raise := &command.Membership{Format: version.Format + 1}
	entry := command.Entry{Header: command.Header{StampMicros: 1}, Items: []command.Item{{Command: raise}}}
	if err := errors.Join(broker.Apply(1, 1, command.EncodeEntry(&entry)), broker.Flush()); err != nil {
		t.Fatal(err)
	}
	err = checkFormat(state)
	const want = "this build reads format 7, and the cluster this store belongs to writes format 8"
	if !errors.Is(err, errNewerFormat) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
