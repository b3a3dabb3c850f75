package api

import (
	"sync/atomic"
	"time"
)

// Stats counts what has gone through this node since its start.
type Stats struct {
	Started time.Time

	// Requests are those that a handler of the routing table has served.
	Requests atomic.Uint64

	PushRequests, PushMessages atomic.Uint64
	PopRequests, PopMessages   atomic.Uint64
	PopEmpty                   atomic.Uint64
	AckRequests, AckMessages   atomic.Uint64
	Transactions               atomic.Uint64
	DecryptFailures            atomic.Uint64
}

// NewStats starts counting.
func NewStats(now time.Time) *Stats { return &Stats{Started: now} }

func (s *Stats) pushed(messages int) {
	s.PushRequests.Add(1)
	s.PushMessages.Add(uint64(messages))
}

func (s *Stats) popped(messages int) {
	s.PopRequests.Add(1)
	s.PopMessages.Add(uint64(messages))
	if messages == 0 {
		s.PopEmpty.Add(1)
	}
}

func (s *Stats) acked(messages int) {
	s.AckRequests.Add(1)
	s.AckMessages.Add(uint64(messages))
}

func (s *Stats) transacted(pushes, acks int) {
	s.Transactions.Add(1)
	s.PushMessages.Add(uint64(pushes))
	s.AckMessages.Add(uint64(acks))
}

func (s *Stats) decryptFailed() { s.DecryptFailures.Add(1) }
