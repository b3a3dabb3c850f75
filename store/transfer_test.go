package store

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"queen/raftlog/transfer"
)

// TestStateTravelsByTransfer is the whole way over a connection that breaks, with the source at work: sender, receiver,
// import, activation over a store of its own.
func TestStateTravelsByTransfer(t *testing.T) {
	source, w := exportSource(t, testOptions(t, t.TempDir()))
	defer mustClose(t, source)
	var exported atomic.Uint64
	sender := transfer.NewSender(transfer.SenderOptions{
		Open: func(context.Context) (transfer.Source, []byte, error) {
			e, err := source.Export()
			if err != nil {
				return nil, nil, err
			}
			exported.Store(e.Index())
			return e, []byte("members"), nil
		},
		Now:    time.Now,
		Logger: zerolog.Nop(),
	})
	defer sender.Close()
	root := t.TempDir()
	staging := filepath.Join(root, "snapshots", "incoming")
	receiver, err := transfer.NewReceiver(transfer.ReceiverOptions{Dir: staging, MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	broken := errors.New("connection broke")
	call := func(ctx context.Context, message []byte) ([]byte, error) {
		if calls++; calls%3 == 0 {
			return nil, broken
		}
		return sender.Serve(ctx, 2, message), nil
	}
	var result transfer.Result
	for {
		if result, err = receiver.Fetch(t.Context(), call); err == nil {
			break
		}
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		w.run(t, source, w.last()+1)
	}
	sender.CloseAll("the end may have been lost")
	source.buckets.mu.Lock()
	pinned := len(source.buckets.pinned)
	source.buckets.mu.Unlock()
	if sender.Exports() != 0 || source.Usage().OpenViews != 0 || pinned != 0 {
		t.Fatalf("left: %d exports, %d views, %d pinned buckets", sender.Exports(), source.Usage().OpenViews, pinned)
	}
	o := testOptions(t, filepath.Join(root, "store"))
	old := mustOpen(t, o)
	newWorld(77).run(t, old, 5)
	mustClose(t, old)
	imported, err := Import(t.Context(), staging, result.Meta, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := Activate(staging, o); err != nil {
		t.Fatal(err)
	}
	if err := CleanStaging(filepath.Dir(staging)); err != nil {
		t.Fatal(err)
	}
	o.BucketBytes = source.opts.BucketBytes
	s := mustOpen(t, o)
	defer mustClose(t, s)
	if index, _ := s.Applied(); index != exported.Load() || index != imported.Index || index >= w.last() {
		t.Fatalf("applied %d, exported %d, imported %d, source at %d", index, exported.Load(), imported.Index, w.last())
	}
	w.checkView(t, s)
	w.run(t, s, w.last())
	w.checkView(t, s)
}
