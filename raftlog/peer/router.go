package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxRequestBytes bounds a request to a router.
	maxRequestBytes = 1 << 20
	// routerIdle is how long a router waits for the next request of a connection, routerWrite for an answer to be taken.
	routerIdle  = time.Minute
	routerWrite = 10 * time.Second
)

// Router serves requests and answers in JSON by their kind, over the connections of one purpose: one frame each,
// {"kind":"…","body":…} and {"body":…} or {"error":"…"}.
type Router struct {
	network *Network
	purpose Purpose

	mu       sync.Mutex
	handlers map[string]func(remote Hello, body []byte) ([]byte, error)
}

type routerRequest struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body,omitempty"`
}

type routerAnswer struct {
	Body  json.RawMessage `json:"body,omitempty"`
	Error string          `json:"error,omitempty"`
}

// RemoteError is the error that another node's handler has returned.
type RemoteError struct {
	Node uint64
	Kind string
	Text string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("node %d answers to %s: %s", e.Node, e.Kind, e.Text)
}

// NewRouter makes a router the handler of a purpose.
func NewRouter(network *Network, purpose Purpose) *Router {
	r := &Router{
		network: network, purpose: purpose,
		handlers: map[string]func(remote Hello, body []byte) ([]byte, error){},
	}
	network.Handle(purpose, r.serve)
	return r
}

// Handle sets who answers a kind of request. serve is called from the goroutine of the connection; it gets the body and
// returns the answer, both JSON or nothing. The caller has proved to know the token and no more: purpose admin carries
// requests of nodes that are no members, too.
func (r *Router) Handle(kind string, serve func(remote Hello, body []byte) ([]byte, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handlers[kind] = serve
}

// Ask sends a request to a node and returns the body of its answer. An error of its handler is a *RemoteError.
func (r *Router) Ask(ctx context.Context, id uint64, kind string, body []byte) ([]byte, error) {
	return r.ask(id, kind, body, func(request []byte) ([]byte, error) { return r.network.Call(ctx, id, r.purpose, request) })
}

// AskAt is Ask with a node that is expected at one address.
func (r *Router) AskAt(ctx context.Context, id uint64, address, kind string, body []byte) ([]byte, error) {
	return r.ask(id, kind, body, func(request []byte) ([]byte, error) {
		return r.network.CallAt(ctx, id, address, r.purpose, request)
	})
}

func (r *Router) ask(id uint64, kind string, body []byte, call func(request []byte) ([]byte, error)) ([]byte, error) {
	request, err := json.Marshal(routerRequest{Kind: kind, Body: body})
	if err != nil {
		return nil, fmt.Errorf("ask node %d: encode %s: %w", id, kind, err)
	}
	if len(request) > maxRequestBytes {
		return nil, fmt.Errorf("ask node %d: %s of %d bytes: %w", id, kind, len(request), ErrFrameTooLarge)
	}
	frame, err := call(request)
	if err != nil {
		return nil, fmt.Errorf("ask node %d for %s: %w", id, kind, err)
	}
	var answer routerAnswer
	if err := json.Unmarshal(frame, &answer); err != nil {
		return nil, fmt.Errorf("ask node %d for %s: decode answer: %w", id, kind, err)
	}
	if answer.Error != "" {
		return nil, &RemoteError{Node: id, Kind: kind, Text: answer.Error}
	}
	return answer.Body, nil
}

// serve answers the requests of one connection, one after the other.
func (r *Router) serve(conn *Conn) {
	err := r.answerAll(conn)
	closeQuietly(conn)
	r.network.logger.Debug().Err(err).Uint64("peer", conn.Remote.NodeID).Str("purpose", string(r.purpose)).
		Msg("raft port: connection ended")
}

// answerAll returns why the connection ended.
func (r *Router) answerAll(conn *Conn) error {
	for {
		if err := conn.SetReadDeadline(time.Now().Add(routerIdle)); err != nil {
			return err
		}
		frame, err := conn.ReadFrame(maxRequestBytes)
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		answer, err := json.Marshal(r.answer(conn.Remote, frame))
		if err != nil { // the handler's body is no JSON
			answer = fmt.Appendf(nil, `{"error":%q}`, err)
		}
		if err := conn.SetWriteDeadline(time.Now().Add(routerWrite)); err != nil {
			return err
		}
		if err := conn.WriteFrame(answer); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
}

var errUnknownKind = errors.New("this node does not know the request")

// answer calls the handler of one request.
func (r *Router) answer(remote Hello, frame []byte) routerAnswer {
	var request routerRequest
	if err := json.Unmarshal(frame, &request); err != nil {
		return routerAnswer{Error: fmt.Sprintf("decode request: %v", err)}
	}
	r.mu.Lock()
	serve := r.handlers[request.Kind]
	r.mu.Unlock()
	if serve == nil {
		return routerAnswer{Error: fmt.Sprintf("%v: %.40q", errUnknownKind, request.Kind)}
	}
	body, err := serve(remote, request.Body)
	if err != nil {
		return routerAnswer{Error: err.Error()}
	}
	return routerAnswer{Body: body}
}
