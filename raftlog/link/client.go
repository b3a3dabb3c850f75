package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"queen/raftlog/command"
)

// Refused is told, on the goroutine that reads the link, that the leader will not propose a command.
type Refused func(id command.RequestID, reason Reason)

// Failure is the error of a call that the other end answered with a reason.
type Failure struct {
	Reason Reason
	Text   string
}

// Error implements error.
func (f *Failure) Error() string { return fmt.Sprintf("the leader answered: %s", f.Text) }

// Client is the end of a link that sends commands and calls. Any goroutine may use it.
type Client struct {
	conn    net.Conn
	sender  *sender
	refused Refused
	done    chan struct{}

	mu     sync.Mutex
	number uint64
	calls  map[uint64]chan answer
	closed bool
}

type answer struct {
	payload []byte
	err     error
}

// NewClient makes a link of a connection, which it owns from then on. Close ends it.
func NewClient(conn net.Conn, refused Refused) *Client {
	c := &Client{conn: conn, sender: newSender(conn), refused: refused, done: make(chan struct{}), calls: map[uint64]chan answer{}}
	var running sync.WaitGroup
	running.Go(func() {
		_ = c.sender.run()
		_ = conn.Close()
	})
	running.Go(func() {
		_ = c.read(bufio.NewReaderSize(conn, 64<<10)) // whatever ended it, the link is broken
		_ = conn.Close()
		c.sender.close()
	})
	go func() {
		running.Wait()
		c.end()
		close(c.done)
	}()
	return c
}

// Done is closed when the link has ended and no function of it runs any more.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the link and waits for its goroutines.
func (c *Client) Close() {
	_ = c.conn.Close()
	c.sender.close()
	<-c.done
}

// Send hands a command over to be written; false when the link is broken.
func (c *Client) Send(command *Command) bool {
	return c.sender.send(func(dst []byte) []byte { return appendCommand(dst, command) })
}

// Call asks and waits for the answer. The error is a *Failure, ErrBroken, or the cause of ctx.
func (c *Client) Call(ctx context.Context, request []byte) ([]byte, error) {
	done := make(chan answer, 1)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrBroken
	}
	c.number++
	number := c.number
	c.calls[number] = done
	c.mu.Unlock()
	if !c.sender.send(func(dst []byte) []byte { return appendCall(dst, number, request) }) {
		c.forget(number)
		return nil, ErrBroken
	}
	select {
	case a := <-done:
		return a.payload, a.err
	case <-ctx.Done():
		c.forget(number)
		c.sender.send(func(dst []byte) []byte { return appendCancel(dst, number) })
		return nil, context.Cause(ctx)
	}
}

func (c *Client) forget(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, number)
}

func (c *Client) read(r *bufio.Reader) error {
	for {
		k, body, err := readFrame(r)
		if err != nil {
			return err
		}
		switch k {
		case kindRefusal:
			id, reason, err := readRefusal(body)
			if err != nil {
				return err
			}
			c.refused(id, reason)
		case kindAnswer:
			number, reason, payload, err := readAnswer(body)
			if err != nil {
				return err
			}
			c.answered(number, reason, payload)
		default:
			return errors.New("the leader sent a frame of a kind that it does not send")
		}
	}
}

func (c *Client) answered(number uint64, reason Reason, payload []byte) {
	c.mu.Lock()
	done := c.calls[number]
	delete(c.calls, number)
	c.mu.Unlock()
	switch {
	case done == nil: // given up meanwhile
	case reason == 0:
		done <- answer{payload: payload}
	default:
		done <- answer{err: &Failure{Reason: reason, Text: string(payload)}}
	}
}

// end answers every call that still waits.
func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, done := range c.calls {
		done <- answer{err: ErrBroken}
	}
	c.calls = nil
}
