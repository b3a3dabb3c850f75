package raftlog

import (
	"context"
	"net"
)

// Purpose says what a connection between nodes is for (cluster 2.4).
type Purpose string

// The purposes of this package.
const (
	PurposeRaft     Purpose = "raft"
	PurposeStatus   Purpose = "status"
	PurposeCommand  Purpose = "command"
	PurposeRead     Purpose = "read"
	PurposeSnapshot Purpose = "snapshot"
)

// Network is the raft port, as a group uses it. A connection has proved whose it is before either side gets it; whoever gets
// it closes it.
type Network interface {
	// Dial connects to a node for a purpose.
	Dial(ctx context.Context, node uint64, purpose Purpose) (net.Conn, error)
	// Handle says who serves the connections of a purpose that other nodes make, each on a goroutine of its own. It replaces
	// whoever did before; nil lets nobody in.
	Handle(purpose Purpose, serve func(from uint64, conn net.Conn))
}
