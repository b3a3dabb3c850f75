package httpfront

import (
	"errors"
	"time"
)

// Refusals of AdmitForwarded.
var (
	// ErrNoRoom says that there was no room for a command for as long as it could wait.
	ErrNoRoom = errors.New("too many bytes are being written")
	// ErrStopping says that the server stops.
	ErrStopping = errors.New("the server is stopping")
)

// AdmitForwarded asks for byte permits for a command that another node has sent to this one, which leads (cluster 11.1). It shares them
// with the clients of this node and with the other nodes, and never blocks: admitted is called once, at once or on a goroutine of its
// own, with what gives the permits back, to be called once, or with ErrNoRoom or ErrStopping.
func (s *Server) AdmitForwarded(node uint64, bytes int64, hold time.Duration, admitted func(release func(), refusal error)) {
	s.admission.acquireLater(node, bytes, hold, func(outcome admitOutcome) {
		switch outcome {
		case admitGranted:
			s.stats.admission.forwardAdmitted.Inc()
			admitted(func() { s.admission.release(bytes) }, nil)
		case admitRefused:
			s.stats.admission.forwardRefused.Inc()
			admitted(nil, ErrNoRoom)
		case admitClosed:
			admitted(nil, ErrStopping)
		}
	})
}
