package store

import (
	"errors"
	"sync"
	"testing"
)

func TestCloseWaitsForReadersAndLaterReadsAreRefused(t *testing.T) {
	s := mustOpen(t, quiet(t.TempDir()))
	b := s.Begin(1, 1)
	b.Put([]byte("k"), []byte("v"))
	commit(t, s, b)
	v := s.View()
	inside, closed := make(chan struct{}), make(chan error, 1)
	var readers sync.WaitGroup
	readers.Go(func() {
		err := v.Scan([]byte("k"), nil, func(_, _ []byte) bool {
			close(inside)
			<-s.quit // the store is being closed
			if _, err := v.Get([]byte("k")); !errors.Is(err, ErrStopped) {
				t.Errorf("get within a scan during close: %v", err)
			}
			select {
			case err := <-closed:
				t.Errorf("closed under a reader: %v", err)
			default:
			}
			return true
		})
		if err != nil {
			t.Errorf("scan: %v", err)
		}
	})
	<-inside
	go func() { closed <- s.Close() }()
	readers.Wait()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if _, err := v.Get([]byte("k")); !errors.Is(err, ErrStopped) {
		t.Fatalf("get after close: %v", err)
	}
	v.Close()
	late := s.View()
	if _, err := late.Get([]byte("k")); !errors.Is(err, ErrStopped) {
		t.Fatalf("view opened after close: %v", err)
	}
	late.Close()
}
