package raftlog

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/time/rate"

	"queen/raftlog/transfer"
)

const (
	// sendBytesPerSecond paces a transfer: what it takes of the disk and the network of a leader that has other work. On a disk that both
	// share, the p99 of a push was 1.5 times what it is else; 2.1 times at 32 MiB/s and 3.2 times at 64.
	sendBytesPerSecond = 24 << 20
	// maxTransferBytes bounds a frame of a transfer.
	maxTransferBytes = transfer.MaxRangeBytes + 64<<10
	// transferTimeout is how long one request of a transfer may take.
	transferTimeout = 30 * time.Second
	// sentStateHolds is how long the log waits for the receiver of a state to be heard again.
	sentStateHolds = 10 * time.Minute
)

// newStateSender answers nodes that lack entries which this one has cut.
func (n *Node) newStateSender() *transfer.Sender {
	limit := rate.NewLimiter(sendBytesPerSecond, transfer.MaxRangeBytes)
	return transfer.NewSender(transfer.SenderOptions{
		Open: n.openState,
		Pace: func(ctx context.Context, bytes int) error {
			n.options.observer().StateBytesSent(bytes)
			return limit.WaitN(ctx, bytes)
		},
		Received: n.options.observer().StateSent,
		Now:      time.Now,
		Logger:   n.logger,
		Faults:   n.options.fault,
	})
}

// openState opens the state as it is now, and keeps the log behind it for the node that asks.
func (n *Node) openState(_ context.Context) (transfer.Source, []byte, error) {
	if n.options.OpenState == nil {
		return nil, nil, errNoTransfer
	}
	source, index, err := n.options.OpenState()
	if err != nil {
		return nil, nil, err
	}
	members, ok := n.keeper.fsm.membershipOf(index)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("the membership at entry %d is not known any more", index), source.Close())
	}
	meta, err := json.Marshal(stateMeta{MembershipIndex: members.index, Servers: members.configuration.Servers})
	if err != nil {
		return nil, nil, errors.Join(err, source.Close())
	}
	n.members.sending(index)
	n.options.observer().StateOpened()
	return source, meta, nil
}

// serveState answers one node's requests for the state.
func (n *Node) serveState(ctx context.Context, from uint64, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	for {
		request, err := readBlock(conn, time.Minute)
		if err != nil {
			return
		}
		if err := writeBlock(conn, n.states.Serve(ctx, from, request)); err != nil {
			return
		}
	}
}

// StateFrom returns how the state of another node is asked for, over one connection that is made anew when it breaks. One
// caller at a time; close ends it.
func StateFrom(network Network, node uint64) (call transfer.Call, closeConn func()) {
	var conn net.Conn
	closeConn = func() {
		if conn != nil {
			_ = conn.Close()
			conn = nil
		}
	}
	return func(ctx context.Context, request []byte) ([]byte, error) {
		if conn == nil {
			var err error
			if conn, err = network.Dial(ctx, node, PurposeSnapshot); err != nil {
				return nil, fmt.Errorf("ask node %d for its state: %w", node, err)
			}
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		err := writeBlock(conn, request)
		var answer []byte
		if err == nil {
			answer, err = readBlock(conn, transferTimeout)
		}
		if err != nil {
			closeConn()
			return nil, fmt.Errorf("ask node %d for its state: %w", node, err)
		}
		return answer, nil
	}, closeConn
}

// offeredState answers a leader whose log begins behind what this node has. Nil says that everything up to the index is here.
func (n *Node) offeredState(leader, index uint64) error {
	if n.snapshots.current().Index >= index {
		return nil
	}
	return n.options.install(leader, index)
}

func writeBlock(conn net.Conn, block []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(transferTimeout)); err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(block)))
	buffers := net.Buffers{head, block}
	_, err := buffers.WriteTo(conn)
	return err
}

func readBlock(conn net.Conn, limit time.Duration) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	bytes := binary.BigEndian.Uint32(head[:])
	if bytes > maxTransferBytes {
		return nil, fmt.Errorf("block of %d bytes: at most %d", bytes, maxTransferBytes)
	}
	block := make([]byte, bytes)
	_, err := io.ReadFull(conn, block)
	return block, err
}

// installPause is how often a leader asks a node whether it has installed the state that it offered.
const installPause = 200 * time.Millisecond

// InstallSnapshot implements raft.Transport: it tells a node that the log begins behind what it has, again and again until the node
// has the state, which it fetches by itself. The library would wait longer after each refusal.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, request *raft.InstallSnapshotRequest,
	response *raft.InstallSnapshotResponse, data io.Reader) error {
	t.mu.Lock()
	released := t.released
	t.mu.Unlock()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-released:
			return errNotAwaited
		case <-t.stop:
			return raft.ErrTransportShutdown
		}
		err := t.NetworkTransport.InstallSnapshot(id, target, request, response, data)
		if err == nil {
			return nil
		}
		t.logger.Debug("state offered", "node", id, "answer", err)
		pause.Reset(installPause)
	}
}
