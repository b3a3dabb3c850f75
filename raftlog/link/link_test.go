package link

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queen/raftlog/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// linked is a client and the handler that serves it.
func linked(t *testing.T, handler *Handler, refused Refused) *Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		_ = Serve(context.Background(), conn, handler) // ends with the client
	})
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(conn, refused)
	t.Cleanup(func() {
		client.Close()
		serving.Wait()
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

var errBusy = errors.New("busy")

func reasonOf(err error) Reason {
	if errors.Is(err, errBusy) {
		return 7
	}
	return 0
}

func TestCommandsArriveWholeAndInOrder(t *testing.T) {
	const count = 1000
	got := make(chan Command, count)
	client := linked(t, &Handler{Command: func(c Command, _ func(Reason)) { got <- c }, Reason: reasonOf}, nil)
	for i := range uint64(count) {
		sent := &Command{ID: command.RequestID{Origin: 9, Sequence: i}, LeftMs: uint32(i), Keys: 3, Bytes: 4,
			Encoded: bytes.Repeat([]byte{byte(i)}, int(i))}
		if !client.Send(sent) {
			t.Fatal("the link broke")
		}
	}
	for i := range uint64(count) {
		c := <-got
		if c.ID.Sequence != i || c.ID.Origin != 9 || c.LeftMs != uint32(i) || c.Keys != 3 || c.Bytes != 4 || len(c.Encoded) != int(i) {
			t.Fatalf("command %d came as %+v", i, c)
		}
	}
}

func TestRefusalNamesItsCommand(t *testing.T) {
	refusals := make(chan command.RequestID, 1)
	handler := &Handler{Command: func(_ Command, refused func(Reason)) { refused(7) }, Reason: reasonOf}
	client := linked(t, handler, func(id command.RequestID, reason Reason) {
		if reason != 7 {
			t.Errorf("reason %d", reason)
		}
		refusals <- id
	})
	want := command.RequestID{Origin: 1, Sequence: 2}
	client.Send(&Command{ID: want})
	if got := <-refusals; got != want {
		t.Fatalf("got %v", got)
	}
}

func TestCallsAreAnsweredEachForItself(t *testing.T) {
	handler := &Handler{Reason: reasonOf, Call: func(_ context.Context, request []byte) ([]byte, error) {
		switch string(request) {
		case "busy":
			return nil, fmt.Errorf("no room: %w", errBusy)
		case "odd":
			return nil, errors.New("an error without a number")
		}
		return append([]byte("answer to "), request...), nil
	}}
	client := linked(t, handler, nil)
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			request := fmt.Sprint(i)
			answer, err := client.Call(context.Background(), []byte(request))
			if err != nil || string(answer) != "answer to "+request {
				t.Errorf("call %d: %q, %v", i, answer, err)
			}
		})
	}
	group.Wait()
	for request, want := range map[string]Failure{"busy": {7, "no room: busy"}, "odd": {Text, "an error without a number"}} {
		_, err := client.Call(context.Background(), []byte(request))
		var failure *Failure
		if !errors.As(err, &failure) || *failure != want {
			t.Errorf("%s: %v", request, err)
		}
	}
}

func TestCallerThatGivesUpEndsTheCall(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	client := linked(t, &Handler{Reason: reasonOf, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the call
		<-began
		cancel()
	}()
	if _, err := client.Call(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
	<-ended
}

func TestBrokenLinkEndsEveryCall(t *testing.T) {
	began := make(chan struct{})
	client := linked(t, &Handler{Reason: reasonOf, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	}}, nil)
	go func() { // ends with the link
		<-began
		_ = client.conn.Close()
	}()
	if _, err := client.Call(context.Background(), nil); !errors.Is(err, ErrBroken) {
		t.Fatalf("err = %v", err)
	}
	<-client.Done()
	if _, err := client.Call(context.Background(), nil); !errors.Is(err, ErrBroken) {
		t.Fatalf("after the end: err = %v", err)
	}
	if client.Send(&Command{}) {
		t.Fatal("a command was taken after the end")
	}
}

func TestHostileFramesEndTheLink(t *testing.T) {
	for name, frame := range map[string][]byte{
		"unknown kind":      {99, 0, 0, 0, 0},
		"answer to nobody":  {byte(kindAnswer), 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0},
		"length of 4 GiB":   {byte(kindCommand), 255, 255, 255, 255},
		"short command":     {byte(kindCommand), 0, 0, 0, 1, 0},
		"short call":        {byte(kindCall), 0, 0, 0, 1, 0},
		"call number twice": append(appendCall(nil, 1, nil), appendCall(nil, 1, nil)...),
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			go func() { // ends when the other side closes
				_, _ = near.Write(frame)
				_, _ = near.Read(make([]byte, 1))
			}()
			handler := &Handler{Reason: reasonOf, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			done := make(chan error, 1)
			go func() { done <- Serve(context.Background(), far, handler) }()
			select {
			case err := <-done:
				if err == nil {
					t.Fatal("served without an error")
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the link goes on")
			}
			_ = near.Close()
		})
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(appendCommand(nil, &Command{ID: command.RequestID{Origin: 1, Sequence: 2}, Encoded: []byte("item")}))
	f.Add(appendRefusal(nil, command.RequestID{Origin: 1, Sequence: 2}, 3))
	f.Add(appendCall(appendCancel(nil, 4), 5, []byte("request")))
	f.Add(appendAnswer(nil, 5, 0, []byte("response")))
	f.Fuzz(func(t *testing.T, data []byte) {
		reader := bufio.NewReader(bytes.NewReader(data))
		for {
			k, body, err := readFrame(reader)
			if err != nil {
				return
			}
			var again []byte
			switch k {
			case kindCommand:
				if c, err := readCommand(body); err == nil {
					again = appendCommand(nil, &c)
				}
			case kindRefusal:
				if id, reason, err := readRefusal(body); err == nil {
					again = appendRefusal(nil, id, reason)
				}
			case kindAnswer:
				if number, reason, payload, err := readAnswer(body); err == nil {
					again = appendAnswer(nil, number, reason, payload)
				}
			case kindCall:
				if number, rest, err := readNumbered(k, body); err == nil {
					again = appendCall(nil, number, rest)
				}
			}
			if again != nil && !bytes.Equal(again[headBytes:], body) {
				t.Fatalf("kind %d: %x became %x", k, body, again)
			}
		}
	})
}
