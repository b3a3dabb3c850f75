package link

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"

	"queen/raftlog/command"
)

// maxCalls bounds the calls of one link that are answered at one time: one per parked pop of the other node.
const maxCalls = 1 << 17

// Handler is what a link asks of the node that leads.
type Handler struct {
	// Command takes a command in, on the goroutine that reads the link. refused may be called at most once, from any
	// goroutine, at any time.
	Command func(c Command, refused func(Reason))
	// Call answers a call, on a goroutine of its own. ctx ends when the caller gives up or the link breaks. An error that
	// has no Reason travels as text.
	Call func(ctx context.Context, request []byte) ([]byte, error)
	// Reason gives the number of an error; 0 has none.
	Reason func(err error) Reason
}

// Serve answers a link until it breaks or ctx ends, and closes the connection. It returns when every call has ended.
func Serve(ctx context.Context, conn net.Conn, handler *Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &server{handler: handler, sender: newSender(conn), cancels: map[uint64]context.CancelFunc{}}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	s.running.Go(func() {
		_ = s.sender.run()
		_ = conn.Close()
	})
	err := s.read(ctx, bufio.NewReaderSize(conn, 256<<10))
	cancel()
	stop()
	s.sender.close()
	s.running.Wait()
	return errors.Join(err, conn.Close())
}

type server struct {
	handler *Handler
	sender  *sender
	running sync.WaitGroup

	mu      sync.Mutex
	cancels map[uint64]context.CancelFunc
}

func (s *server) read(ctx context.Context, r *bufio.Reader) error {
	for {
		k, body, err := readFrame(r)
		if err != nil {
			return err
		}
		switch k {
		case kindCommand:
			c, err := readCommand(body)
			if err != nil {
				return err
			}
			s.handler.Command(c, func(reason Reason) { s.refuse(c.ID, reason) })
		case kindCall:
			number, request, err := readNumbered(k, body)
			if err != nil {
				return err
			}
			if err := s.call(ctx, number, request); err != nil {
				return err
			}
		case kindCancel:
			number, _, err := readNumbered(k, body)
			if err != nil {
				return err
			}
			s.cancel(number)
		default:
			return errors.New("the node sent a frame of a kind that it does not send")
		}
	}
}

func (s *server) refuse(id command.RequestID, reason Reason) {
	s.sender.send(func(dst []byte) []byte { return appendRefusal(dst, id, reason) })
}

func (s *server) call(ctx context.Context, number uint64, request []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	if !s.begin(number, cancel) {
		cancel()
		return errors.New("the node has too many calls under way, or gave two of them one number")
	}
	s.running.Go(func() {
		response, err := s.handler.Call(ctx, request)
		s.cancel(number)
		s.answer(number, response, err)
	})
	return nil
}

// begin notes how a call is cancelled; false when it may not begin.
func (s *server) begin(number uint64, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.cancels[number]; known || len(s.cancels) >= maxCalls {
		return false
	}
	s.cancels[number] = cancel
	return true
}

func (s *server) answer(number uint64, response []byte, err error) {
	var reason Reason
	if err != nil {
		if reason = s.handler.Reason(err); reason == 0 {
			reason = Text
		}
		response = []byte(err.Error())
		response = response[:min(len(response), maxTextBytes)]
	}
	s.sender.send(func(dst []byte) []byte { return appendAnswer(dst, number, reason, response) })
}

// cancel ends the context of a call.
func (s *server) cancel(number uint64) {
	s.mu.Lock()
	cancel := s.cancels[number]
	delete(s.cancels, number)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
