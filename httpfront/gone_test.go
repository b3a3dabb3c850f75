package httpfront

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// parkRoute waits for its client to go or for a word.
func parkRoute(gone chan<- bool, leave <-chan struct{}) Route {
	return Route{Method: "GET", Pattern: "/api/park", Handler: func(r *Request) {
		watch := r.WatchClient()
		defer watch.Close()
		select {
		case <-watch.C:
			gone <- watch.Gone()
			r.Abandon()
		case <-leave:
			r.JSON(200, []byte(`{}`))
		case <-r.Draining():
			r.NoContent()
		}
	}}
}

const parkRequest = "GET /api/park HTTP/1.1\r\nHost: x\r\n\r\n"

func TestAClientThatClosesIsNoticed(t *testing.T) {
	gone, leave := make(chan bool, 1), make(chan struct{})
	s := startServer(t, testConfig(), parkRoute(gone, leave))
	for name, leaveServer := range map[string]func(c *net.TCPConn){
		"close":      func(c *net.TCPConn) { c.Close() },
		"half close": func(c *net.TCPConn) { c.CloseWrite() },
		"reset":      func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s)
			io.WriteString(c, parkRequest)
			eventually(t, "the request is parked", func() bool { return s.stats.parked.Load() == 1 })
			leaveServer(c.(*net.TCPConn))
			select {
			case sure := <-gone:
				if !sure {
					t.Error("Gone is false after C was closed")
				}
			case <-time.After(time.Second):
				t.Fatal("not noticed within 1 s")
			}
			eventually(t, "nothing is parked", func() bool { return s.stats.parked.Load() == 0 })
		})
	}
}

func TestAClientThatStaysIsNotTakenForGone(t *testing.T) {
	gone, leave := make(chan bool, 1), make(chan struct{})
	s := startServer(t, testConfig(), parkRoute(gone, leave))
	c := dial(t, s)
	for range 3 {
		// The second request is in the socket while the first one is parked: bytes to read are no end of the stream.
		io.WriteString(c, parkRequest)
		eventually(t, "the request is parked", func() bool { return s.stats.parked.Load() == 1 })
		leave <- struct{}{}
		if got := readAnswer(t, c, "GET"); got.status != 200 {
			t.Fatalf("got %d", got.status)
		}
	}
	io.WriteString(c, parkRequest+parkRequest)
	eventually(t, "the request is parked", func() bool { return s.stats.parked.Load() == 1 })
	leave <- struct{}{}
	leave <- struct{}{}
	select {
	case <-gone:
		t.Error("taken for gone")
	default:
	}
	c.Close()
}

func TestManyClientsComeAndGo(t *testing.T) {
	const clients, rounds = 100, 5
	gone, leave := make(chan bool, clients), make(chan struct{})
	s := startServer(t, testConfig(), parkRoute(gone, leave))
	for range rounds {
		var conns []net.Conn
		for range clients {
			c := dial(t, s)
			io.WriteString(c, parkRequest)
			conns = append(conns, c)
		}
		eventually(t, "all are parked", func() bool { return s.stats.parked.Load() == clients })
		var wait sync.WaitGroup
		for _, c := range conns {
			wait.Go(func() { c.Close() })
		}
		wait.Wait()
		for range clients {
			select {
			case <-gone:
			case <-time.After(deadline):
				t.Fatal("a client that went was not noticed")
			}
		}
	}
	s.gone.mu.Lock()
	defer s.gone.mu.Unlock()
	if len(s.gone.watches) != 0 {
		t.Errorf("%d watches are left", len(s.gone.watches))
	}
}

func TestAClientOverTLSIsNoticed(t *testing.T) {
	certFile, keyFile := writeCertificate(t, "first")
	certificate, err := LoadCertificate(certFile, keyFile, testConfig().Log)
	if err != nil {
		t.Fatal(err)
	}
	config := testConfig()
	config.TLS = certificate.Config()
	gone, leave := make(chan bool, 1), make(chan struct{})
	s := startServer(t, config, parkRoute(gone, leave), Route{Method: "GET", Pattern: "/health", Handler: echo})
	c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := readAnswer(t, c, "GET"); got.status != 200 {
		t.Fatalf("got %d", got.status)
	}
	io.WriteString(c, parkRequest)
	eventually(t, "the request is parked", func() bool { return s.stats.parked.Load() == 1 })
	c.Close()
	select {
	case <-gone:
	case <-time.After(time.Second):
		t.Fatal("not noticed within 1 s")
	}
}

func TestStopAnswersParkedRequestsAndCutsWhatIsLeft(t *testing.T) {
	gone, leave := make(chan bool, 1), make(chan struct{})
	stuck := make(chan struct{})
	s, err := New(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	s.Handle([]Route{parkRoute(gone, leave), {Method: "GET", Pattern: "/api/stuck", Handler: func(r *Request) { <-stuck }}})
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(port); err != nil {
		t.Fatal(err)
	}
	s.Open()
	running := &testServer{Server: s, addr: port.Addr().String()}
	parked, silent, half := dial(t, running), dial(t, running), dial(t, running)
	io.WriteString(parked, parkRequest)
	io.WriteString(half, "GET /api/st")
	eventually(t, "the request is parked", func() bool { return s.stats.parked.Load() == 1 })
	s.Drain()
	if got := readAnswer(t, parked, "GET"); got.status != 204 {
		t.Errorf("a parked request got %d", got.status)
	}
	io.WriteString(half, "uck HTTP/1.1\r\nHost: x\r\n\r\n")
	eventually(t, "the stuck request runs", func() bool { return s.http.GetCurrentConcurrency() > 0 })

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = s.Stop(ctx)
	if err == nil || !strings.Contains(err.Error(), "drain http connections") {
		t.Errorf("stop with a stuck request: %v", err)
	}
	if _, err := net.Dial("tcp", running.addr); err == nil {
		t.Error("the port is still open")
	}
	silent.SetReadDeadline(time.Now().Add(deadline))
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("a silent connection got data")
	}
	close(stuck)
}

func TestOneLookTellsWhetherTheClientHasGone(t *testing.T) {
	asked, answers := make(chan struct{}), make(chan bool, 1)
	s := startServer(t, testConfig(), Route{Method: "GET", Pattern: "/api/look", Handler: func(r *Request) {
		<-asked
		answers <- r.ClientGone()
		r.Abandon()
	}})
	const request = "GET /api/look HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		act  func(c *net.TCPConn)
		want bool
	}{
		"stays":      {func(*net.TCPConn) {}, false},
		"sends more": {func(c *net.TCPConn) { io.WriteString(c, request) }, false},
		"closes":     {func(c *net.TCPConn) { c.Close() }, true},
		"resets":     {func(c *net.TCPConn) { c.SetLinger(0); c.Close() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, s)
			io.WriteString(conn, request)
			c.act(conn.(*net.TCPConn))
			asked <- struct{}{}
			if got := <-answers; got != c.want {
				t.Errorf("want %t, got %t", c.want, got)
			}
		})
	}
}
