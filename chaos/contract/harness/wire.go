package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// wireTimeout bounds one exchange over a bare socket.
const wireTimeout = 20 * time.Second

// Wire is one bare connection to a broker, for what a well-behaved client does not send.
type Wire struct {
	connection net.Conn
	reader     *bufio.Reader
}

// Dial opens a bare connection.
func (b *Broker) Dial() (*Wire, error) {
	connection, err := net.DialTimeout("tcp", b.Address(), wireTimeout)
	if err != nil {
		return nil, fmt.Errorf("dial broker: %w", err)
	}
	return &Wire{connection: connection, reader: bufio.NewReader(connection)}, nil
}

// Send writes bytes as they stand.
func (w *Wire) Send(text string) error {
	if err := w.connection.SetWriteDeadline(time.Now().Add(wireTimeout)); err != nil {
		return fmt.Errorf("set write deadline: %w", err)
	}
	if _, err := io.WriteString(w.connection, text); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	return nil
}

// Receive reads the next answer; method is that of the request, because HEAD has no body.
func (w *Wire) Receive(method string) Response {
	if err := w.connection.SetReadDeadline(time.Now().Add(wireTimeout)); err != nil {
		return Response{Err: fmt.Errorf("set read deadline: %w", err)}
	}
	start := time.Now()
	incoming, err := http.ReadResponse(w.reader, &http.Request{Method: method})
	if err != nil {
		return Response{Err: fmt.Errorf("read answer: %w", err)}
	}
	defer func() { _ = incoming.Body.Close() }()
	body, err := io.ReadAll(incoming.Body)
	if err != nil {
		return Response{Err: fmt.Errorf("read body: %w", err)}
	}
	return Response{Status: incoming.StatusCode, Header: incoming.Header, Body: body, Elapsed: time.Since(start)}
}

// Close closes the connection.
func (w *Wire) Close() { _ = w.connection.Close() }

// AwaitIdle watches the connection for the duration and fails when the broker closes it or sends anything.
func (w *Wire) AwaitIdle(duration time.Duration) error {
	if err := w.connection.SetReadDeadline(time.Now().Add(duration)); err != nil {
		return fmt.Errorf("set read deadline: %w", err)
	}
	_, err := w.reader.Peek(1)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err == nil {
		return errors.New("watch idle connection: the broker sent bytes that nobody asked for")
	}
	return fmt.Errorf("watch idle connection: %w", err)
}

// AwaitData waits until something of the next answer has come, and reads no more of it than what one buffer takes.
func (w *Wire) AwaitData() error {
	if err := w.connection.SetReadDeadline(time.Now().Add(wireTimeout)); err != nil {
		return fmt.Errorf("set read deadline: %w", err)
	}
	if _, err := w.reader.Peek(1); err != nil {
		return fmt.Errorf("await answer: %w", err)
	}
	return nil
}
