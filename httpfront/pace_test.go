package httpfront

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// startPaced starts a server with another pace than that of production.
func startPaced(t *testing.T, config Config, at pace, routes ...Route) *testServer {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	s.pace = at
	s.Handle(routes)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(port); err != nil {
		t.Fatal(err)
	}
	s.Open()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return &testServer{Server: s, addr: port.Addr().String()}
}

const slowRefusal = `{"error":"the request did not arrive in time","code":"request_timeout"}`

func TestABodyThatDripsIsCutAndGivesItsPermitsBack(t *testing.T) {
	config := testConfig()
	config.MaxBodyBytes, config.AdmitBytes, config.AdmitHold = 64<<20, 128<<20, time.Minute
	s := startPaced(t, config, pace{200 * time.Millisecond, 1000}, Route{Method: "POST", Pattern: "/api/v1/push", Admit: true, Handler: echo})
	c := dial(t, s)
	began := time.Now()
	io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 67108864\r\n\r\n")
	eventually(t, "permits are held", func() bool { held, _ := s.admission.state(); return held == 64<<20 })
	stop := make(chan struct{})
	drips := make(chan struct{})
	go func() {
		defer close(drips)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if _, err := io.WriteString(c, " "); err != nil {
					return
				}
			}
		}
	}()
	readAnswer(t, c, "POST").expect(t, 408, slowRefusal)
	if took := time.Since(began); took > deadline/2 {
		t.Errorf("cut after %v", took)
	}
	close(stop)
	<-drips
	eventually(t, "the permits are back", func() bool { held, _ := s.admission.state(); return held == 0 })
	c.SetReadDeadline(time.Now().Add(deadline))
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection is still open: %v", err)
	}
}

func TestABodyThatKeepsItsPaceArrives(t *testing.T) {
	config := testConfig()
	s := startPaced(t, config, pace{300 * time.Millisecond, 1000}, Route{Method: "POST", Pattern: "/api/v1/push", Handler: func(r *Request) {
		r.JSON(200, fmt.Append(nil, len(r.Body())))
	}})
	c := dial(t, s)
	io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n")
	tick := time.NewTicker(50 * time.Millisecond) // 20,000 bytes/s, for longer than one window
	defer tick.Stop()
	for range 10 {
		<-tick.C
		io.WriteString(c, strings.Repeat("x", 1000))
	}
	readAnswer(t, c, "POST").expect(t, 200, "10000")
}

func TestAWaitBetweenRequestsIsNoSlowBody(t *testing.T) {
	s := startPaced(t, testConfig(), pace{20 * time.Millisecond, 1 << 20}, Route{Method: "POST", Pattern: "/api/v1/push", Handler: echo})
	c := dial(t, s)
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for range 3 {
		io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		if got := readAnswer(t, c, "POST"); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		<-tick.C
	}
}
