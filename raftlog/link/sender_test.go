package link

import (
	"io"
	"net"
	"sync"
	"testing"
)

// TestFramesAreSentWhileTheLinkIsClosed: whoever sends at that moment is told that it is, or has sent.
func TestFramesAreSentWhileTheLinkIsClosed(t *testing.T) {
	for range 200 {
		near, far := net.Pipe()
		s := newSender(near)
		var group sync.WaitGroup
		group.Go(func() { _ = s.run() })
		group.Go(func() { _, _ = io.Copy(io.Discard, far) })
		start := make(chan struct{})
		var senders sync.WaitGroup
		for range 4 {
			senders.Go(func() {
				<-start
				for s.send(func(dst []byte) []byte { return append(dst, 1) }) {
				}
			})
		}
		senders.Go(func() {
			<-start
			s.close()
		})
		close(start)
		senders.Wait()
		if s.send(func(dst []byte) []byte { return dst }) {
			t.Fatal("a closed link takes a frame")
		}
		_ = near.Close()
		_ = far.Close()
		group.Wait()
	}
}
