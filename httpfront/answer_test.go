package httpfront

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// fate is what the hook of an answer was told.
type fate struct {
	called, begun bool
}

// answerRoute answers with size bytes, for which it reserves room, and tells the fate of the answer.
func answerRoute(size int, fates chan<- fate) Route {
	return Route{Method: "GET", Pattern: "/api/large", Handler: func(r *Request) {
		if err := r.ReserveAnswer(int64(size)); err != nil {
			fates <- fate{}
			r.Fail(err)
			return
		}
		r.OnUndelivered(func(begun bool) { fates <- fate{true, begun} })
		r.JSONOwned(200, bytes.Repeat([]byte("1"), size))
	}}
}

const largeRequest = "GET /api/large HTTP/1.1\r\nHost: x\r\n\r\n"

func TestAnAnswerThatIsNotReadIsUndelivered(t *testing.T) {
	for name, leave := range map[string]func(c *net.TCPConn){
		"reset": func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
		"close": func(c *net.TCPConn) { c.Close() },
		"stays": func(*net.TCPConn) {},
	} {
		t.Run(name, func(t *testing.T) {
			fates := make(chan fate, 1)
			s := startPaced(t, testConfig(), pace{500 * time.Millisecond, 64 << 10}, answerRoute(30<<20, fates))
			c := dial(t, s)
			c.(*net.TCPConn).SetReadBuffer(4096)
			io.WriteString(c, largeRequest)
			eventually(t, "permits are held", func() bool { held, _ := s.answers.state(); return held == 30<<20 })
			if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			leave(c.(*net.TCPConn))
			select {
			case got := <-fates:
				if got != (fate{true, true}) {
					t.Errorf("got %+v", got)
				}
			case <-time.After(deadline):
				t.Fatal("nobody learned that the answer was not read")
			}
			eventually(t, "the permits are back", func() bool { held, _ := s.answers.state(); return held == 0 })
		})
	}
}

func TestADeliveredAnswerGivesItsPermitsBackAndIsNotUndone(t *testing.T) {
	fates := make(chan fate, 1)
	s := startServer(t, testConfig(), answerRoute(4<<20, fates))
	c := dial(t, s)
	for range 3 {
		io.WriteString(c, largeRequest)
		if got := readAnswer(t, c, "GET"); got.status != 200 || len(got.body) != 4<<20 {
			t.Fatalf("got %d with %d bytes", got.status, len(got.body))
		}
		eventually(t, "the permits are back", func() bool { held, _ := s.answers.state(); return held == 0 })
	}
	io.WriteString(c, "GET /api/large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	readAnswer(t, c, "GET")
	eventually(t, "the permits are back", func() bool { held, _ := s.answers.state(); return held == 0 })
	c.Close()
	select {
	case got := <-fates:
		t.Errorf("a delivered answer was taken for undelivered: %+v", got)
	default:
	}
}

func TestAClientThatIsGoneBeforeTheAnswerIsUndeliveredAndNothingHasBegun(t *testing.T) {
	fates, asked, gone := make(chan fate, 1), make(chan struct{}), make(chan struct{})
	s := startServer(t, testConfig(), Route{Method: "GET", Pattern: "/api/late", Handler: func(r *Request) {
		r.OnUndelivered(func(begun bool) { fates <- fate{true, begun} })
		close(asked)
		<-gone
		// The connection is shut from our side: the first byte of the answer fails.
		r.Ctx.Conn().(*conn).tcp.Close()
		r.JSON(200, []byte(`{}`))
	}})
	c := dial(t, s)
	io.WriteString(c, "GET /api/late HTTP/1.1\r\nHost: x\r\n\r\n")
	<-asked
	close(gone)
	select {
	case got := <-fates:
		if got != (fate{true, false}) {
			t.Errorf("got %+v", got)
		}
	case <-time.After(deadline):
		t.Fatal("nobody learned that the answer was not sent")
	}
}

func TestLargeAnswersWithoutRoomAreRefused(t *testing.T) {
	fates := make(chan fate, 1)
	s := startServer(t, testConfig(), answerRoute(2<<20, fates), Route{
		// An answer that turns out large although nobody reserved room for it.
		Method: "GET", Pattern: "/api/surprise", Handler: func(r *Request) {
			r.OnUndelivered(func(begun bool) { fates <- fate{true, begun} })
			r.JSONOwned(200, bytes.Repeat([]byte("1"), 2<<20))
		},
	}, Route{Method: "GET", Pattern: "/api/small", Handler: echo})
	s.answers.hold = 0
	s.answers.acquire(DefaultAnswerBytes)
	refusal := `{"error":"too many large answers are being sent; wait and retry","code":"retry"}`
	for target, want := range map[string]fate{"/api/large": {}, "/api/surprise": {true, false}} {
		got := s.call(t, "GET", target, "")
		got.expect(t, 503, refusal)
		if got.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
		}
		if told := <-fates; told != want {
			t.Errorf("%s: told %+v", target, told)
		}
	}
	if got := s.call(t, "GET", "/api/small", ""); got.status != 200 {
		t.Errorf("a small answer got %d", got.status)
	}
	s.answers.release(DefaultAnswerBytes)
	for _, target := range []string{"/api/large", "/api/surprise"} {
		if got := s.call(t, "GET", target, ""); got.status != 200 || len(got.body) != 2<<20 {
			t.Errorf("%s with room: got %d", target, got.status)
		}
	}
	eventually(t, "the permits are back", func() bool { held, _ := s.answers.state(); return held == 0 })
}

// TestUnreadAnswersAreBounded is the attack: many connections ask for much and read nothing.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const size, asking = 60 << 20, 20
	fates := make(chan fate, asking)
	s := startPaced(t, testConfig(), pace{5 * time.Second, 64 << 10}, answerRoute(size, fates))
	s.answers.hold = 0
	var conns []net.Conn
	for range asking {
		c := dial(t, s)
		c.(*net.TCPConn).SetReadBuffer(4096)
		io.WriteString(c, largeRequest)
		conns = append(conns, c)
	}
	for range asking - DefaultAnswerBytes/size {
		if got := <-fates; got != (fate{}) {
			t.Errorf("got %+v", got)
		}
	}
	if held, _ := s.answers.state(); held != DefaultAnswerBytes/size*size {
		t.Errorf("%d bytes are on their way", held)
	}
	for _, c := range conns {
		c.Close()
	}
	for range DefaultAnswerBytes / size {
		if got := <-fates; !got.called {
			t.Error("an unread answer counts as delivered")
		}
	}
	eventually(t, "the permits are back", func() bool { held, _ := s.answers.state(); return held == 0 })
}

func TestAPanicAfterAClaimUndoesIt(t *testing.T) {
	fates := make(chan fate, 1)
	s := startServer(t, testConfig(), Route{Method: "GET", Pattern: "/api/boom", Handler: func(r *Request) {
		if err := r.ReserveAnswer(2 << 20); err != nil {
			r.Fail(err)
			return
		}
		r.OnUndelivered(func(begun bool) { fates <- fate{true, begun} })
		panic("BUG: boom")
	}})
	s.call(t, "GET", "/api/boom", "").expect(t, 500, `{"error":"internal error","code":"internal"}`)
	if got := <-fates; got != (fate{true, false}) {
		t.Errorf("got %+v", got)
	}
	eventually(t, "the permits are back", func() bool { held, _ := s.answers.state(); return held == 0 })
}

func TestEveryRefusalOfAHostileClientHasAStableCode(t *testing.T) {
	for code, status := range map[Code]int{
		CodeRequestTimeout: 408, CodeOverloaded: 429, CodeRetry: 503, CodePayloadTooLarge: 413, CodeHeaderTooLarge: 431,
		CodeBadBody: 400, CodeBadRequest: 400,
	} {
		if got := Refuse(code, "").HTTPStatus(); got != status {
			t.Errorf("%s is %d", code, got)
		}
	}
	s := startServer(t, testConfig(), routingTable()...)
	for name, request := range map[string]string{
		"malformed": "GET\r\n\r\n",
		"body":      fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 2<<20),
		"head":      "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", maxHeadBytes) + "\r\n\r\n",
		"path":      "GET /api/v1/nope HTTP/1.1\r\nHost: x\r\n\r\n",
		"method":    "PUT /status HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
	} {
		if got := s.raw(t, "GET", request); got.status/100 != 4 || !strings.Contains(got.body, `"code":"`) {
			t.Errorf("%s: got %d %s", name, got.status, got.body)
		}
	}
}

// TestAnAnswerKeepsOnlyThePermitsItNeeds: what an answer may have is reserved before it is known, and the rest given back.
func TestAnAnswerKeepsOnlyThePermitsItNeeds(t *testing.T) {
	const reserved, size = 64 << 20, 16 << 20 // more than the buffers of a connection
	s := startServer(t, testConfig(), Route{Method: "GET", Pattern: "/api/large", Handler: func(r *Request) {
		if err := r.ReserveAnswer(reserved); err != nil {
			r.Fail(err)
			return
		}
		r.JSONOwned(200, bytes.Repeat([]byte("1"), size))
	}})
	client, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte(largeRequest)); err != nil {
		t.Fatal(err)
	}
	await := func(want int64) {
		t.Helper()
		end := time.Now().Add(10 * time.Second)
		for held, _ := s.answers.state(); held != want; held, _ = s.answers.state() {
			if time.Now().After(end) {
				t.Fatalf("%d bytes are held, want %d", held, want)
			}
			time.Sleep(time.Millisecond)
		}
	}
	await(size)
	client.Close()
	await(0)
}
