package raftlog

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// exchangeTimeout is how long one side of a talk waits for the other.
	exchangeTimeout = 2 * time.Second
	// maxFrameBytes bounds a frame of a talk.
	maxFrameBytes = 64 << 10
)

// exchange keeps the leader and the members informed about each other (cluster 2.5): the leader dials each member and sends a
// frame every QUEEN_RAFT_HEARTBEAT_MS, which the member answers. What was said is judged by members.
type exchange struct {
	node     *Node
	members  *members
	interval time.Duration
	logger   zerolog.Logger
	running  sync.WaitGroup

	mu sync.Mutex
	// end ends the talks of the term in which this node leads; nil while it does not.
	end context.CancelFunc
}

func newExchange(n *Node, m *members) *exchange {
	return &exchange{
		node: n, members: m, logger: n.logger, interval: time.Duration(n.options.HeartbeatMs) * time.Millisecond,
	}
}

// lead begins the talks of a term. Called by the leadership goroutine, as is follow.
func (e *exchange) lead(term uint64) {
	e.members.lead(term)
	ctx, cancel := context.WithCancel(context.Background())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked()
	e.end = cancel
	e.running.Go(func() { e.run(ctx, term) })
}

func (e *exchange) follow() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked()
}

func (e *exchange) endLocked() {
	if e.end != nil {
		e.end()
		e.end = nil
	}
}

// close ends the talks and waits for them.
func (e *exchange) close() {
	e.follow()
	e.running.Wait()
}

// run keeps one talk with each member of the newest membership.
func (e *exchange) run(ctx context.Context, term uint64) {
	talks := map[uint64]context.CancelFunc{}
	var group sync.WaitGroup
	defer group.Wait()
	ticker := time.NewTicker(e.interval)
	defer ticker.Stop()
	for {
		present := map[uint64]bool{}
		for _, server := range e.node.servers() {
			id := nodeID(server.ID)
			present[id] = true
			if id == e.node.options.NodeID || talks[id] != nil {
				continue
			}
			talking, cancel := context.WithCancel(ctx)
			talks[id] = cancel
			group.Go(func() { e.talk(talking, term, id) })
		}
		for id, cancel := range talks {
			if !present[id] {
				cancel()
				delete(talks, id)
				e.members.forget(id)
				e.node.transport.forget(id)
			}
		}
		select {
		case <-ctx.Done():
			for _, cancel := range talks {
				cancel()
			}
			return
		case <-ticker.C:
		}
	}
}

// talk exchanges frames with a member until ctx ends, over a new connection whenever one breaks.
func (e *exchange) talk(ctx context.Context, term, id uint64) {
	for ctx.Err() == nil {
		if err := e.talkOnce(ctx, term, id); err != nil && ctx.Err() == nil {
			e.logger.Debug().Err(err).Uint64("node", id).Msg("raft: no status of a member")
		}
		select {
		case <-ctx.Done():
		case <-time.After(e.interval):
		}
	}
}

func (e *exchange) talkOnce(ctx context.Context, term, id uint64) error {
	dialing, cancel := context.WithTimeout(ctx, exchangeTimeout)
	conn, err := e.node.options.Network.Dial(dialing, id, PurposeStatus)
	cancel()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	ticker := time.NewTicker(e.interval)
	defer ticker.Stop()
	for {
		asked := e.members.ask()
		if err := sendFrame(conn, e.members.leaderFrame(term)); err != nil {
			return err
		}
		var frame MemberFrame
		if err := receiveFrame(conn, &frame, exchangeTimeout); err != nil {
			return err
		}
		e.members.heard(term, id, &frame, asked)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// answer is the member's side of a talk.
func (e *exchange) answer(ctx context.Context, from uint64, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	for {
		var frame LeaderFrame
		if err := receiveFrame(conn, &frame, exchangeTimeout+e.interval); err != nil {
			return
		}
		e.members.told(from, &frame)
		if err := sendFrame(conn, e.members.memberFrame()); err != nil {
			return
		}
	}
}

// sendFrame writes a value as JSON behind its length.
func sendFrame(conn net.Conn, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return err
	}
	if _, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return fmt.Errorf("send status: %w", err)
	}
	return nil
}

func receiveFrame(conn net.Conn, value any, limit time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return fmt.Errorf("receive status: %w", err)
	}
	bytes := binary.BigEndian.Uint32(head[:])
	if bytes > maxFrameBytes {
		return fmt.Errorf("status of %d bytes: at most %d", bytes, maxFrameBytes)
	}
	body := make([]byte, bytes)
	if _, err := io.ReadFull(conn, body); err != nil {
		return fmt.Errorf("receive status: %w", err)
	}
	if err := json.Unmarshal(body, value); err != nil {
		return fmt.Errorf("decode status: %w", err)
	}
	return nil
}
