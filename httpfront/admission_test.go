package httpfront

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

func newTestAdmission(capacity int64, hold time.Duration) *admission {
	set := metrics.NewSet()
	return &admission{capacity: capacity, largeCapacity: capacity * 3 / 4, hold: hold, stats: &admissionStats{
		waited:  set.NewCounter(`waited`),
		refused: set.NewCounter(`refused`),
	}}
}

func TestAdmissionIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAdmission(100, time.Minute)
		if a.acquire(90) != admitGranted {
			t.Fatal("an empty budget refused")
		}
		var mu sync.Mutex
		var order []int64
		for _, bytes := range []int64{50, 5, 20} {
			go func() {
				if a.acquire(bytes) == admitGranted {
					mu.Lock()
					order = append(order, bytes)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Fatalf("%v overtook the first waiter", order)
		}
		a.release(90)
		synctest.Wait()
		if held, waiting := a.state(); held != 75 || waiting != 0 || len(order) != 3 {
			t.Errorf("held %d, waiting %d, order %v", held, waiting, order)
		}
	})
}

func TestAdmissionRefusesAfterTheHoldAndAQuarterMoreOrLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = 15 * time.Second
		a := newTestAdmission(100, hold)
		a.acquire(100)
		for range 20 {
			start := time.Now()
			if got := a.acquire(1); got != admitRefused {
				t.Fatalf("outcome %d without room", got)
			}
			if waited := time.Since(start); waited < hold*3/4 || waited > hold*5/4 {
				t.Errorf("waited %v", waited)
			}
		}
		if _, waiting := a.state(); waiting != 0 {
			t.Errorf("%d waiters are left", waiting)
		}
		if a.stats.waited.Get() != 20 || a.stats.refused.Get() != 20 {
			t.Errorf("waited %d refused %d", a.stats.waited.Get(), a.stats.refused.Get())
		}
	})
}

func TestARequestLargerThanTheBudgetIsAdmittedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAdmission(100, time.Second)
		if a.acquire(1000) != admitGranted {
			t.Fatal("refused with nothing held")
		}
		if a.acquire(1) != admitRefused {
			t.Error("admitted beside a request larger than the budget")
		}
		a.release(1000)
		a.acquire(1)
		if a.acquire(1000) != admitRefused {
			t.Error("a request larger than the budget was admitted beside another")
		}
	})
}

func TestAWaiterBehindOneThatGaveUpIsLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAdmission(100, 10*time.Second)
		a.acquire(90)
		big := make(chan admitOutcome, 1)
		go func() { big <- a.acquire(50) }()
		synctest.Wait()
		time.Sleep(5 * time.Second) // the clock of the bubble
		small := make(chan admitOutcome, 1)
		go func() { small <- a.acquire(5) }()
		if got := <-big; got != admitRefused {
			t.Fatalf("outcome %d for the first", got)
		}
		synctest.Wait()
		select {
		case got := <-small:
			if got != admitGranted {
				t.Errorf("outcome %d for the second", got)
			}
		default:
			t.Error("the second still waits although it fits")
		}
	})
}

func TestClosedAdmissionLetsWaitersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAdmission(10, time.Hour)
		a.acquire(10)
		outcome := make(chan admitOutcome, 1)
		go func() { outcome <- a.acquire(1) }()
		synctest.Wait()
		a.close()
		if got := <-outcome; got != admitClosed {
			t.Errorf("outcome %d", got)
		}
		if got := a.acquire(1); got != admitClosed {
			t.Errorf("outcome %d after the close", got)
		}
	})
}

func TestSmallBodiesNeverWaitBehindLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		a := newTestAdmission(128*mib, time.Minute)
		if a.acquire(64*mib) != admitGranted {
			t.Fatal("the first large body was refused")
		}
		second := make(chan admitOutcome, 1)
		go func() { second <- a.acquire(64 * mib) }()
		synctest.Wait()
		if _, waiting := a.state(); waiting != 1 {
			t.Fatal("two large bodies hold more than three quarters")
		}
		for range 64 * mib / largeBodyBytes {
			if !a.try(largeBodyBytes) {
				t.Fatal("a small body waits although there is room")
			}
		}
		if a.try(1) {
			t.Error("the budget is exceeded")
		}
		a.release(64 * mib)
		if <-second != admitGranted {
			t.Error("the second large body was not let in after the first")
		}
	})
}

func TestSmallBodiesLeaveALargeOneItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		a := newTestAdmission(128*mib, time.Minute)
		for a.try(largeBodyBytes) {
		}
		large := make(chan admitOutcome, 1)
		go func() { large <- a.acquire(64 * mib) }()
		synctest.Wait()
		// As many small ones come as go: without its share the large one would wait for ever.
		for range 64 * mib / largeBodyBytes {
			a.release(largeBodyBytes)
			if a.try(largeBodyBytes) {
				t.Fatal("a small body took room of the share that a large one waits for")
			}
		}
		if <-large != admitGranted {
			t.Error("the large body was refused")
		}
		if held, _ := a.state(); held != 128*mib {
			t.Errorf("%d bytes are held", held)
		}
	})
}

func TestALargeBodyThatGaveUpBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		a := newTestAdmission(8*mib, time.Second)
		a.acquire(5 * mib)
		if a.acquire(6*mib) != admitRefused {
			t.Error("a second large body was admitted")
		}
		if !a.try(1*mib) || !a.try(largeBodyBytes) {
			t.Error("room is lost")
		}
	})
}

// TestPermitsAreNeverLost runs random requests and checks that the budget is never exceeded by more than one oversized
// request, and that everything is given back.
func TestPermitsAreNeverLost(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		a := newTestAdmission(1000<<10, 50*time.Millisecond)
		var wait sync.WaitGroup
		for worker := range 50 {
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			wait.Go(func() {
				for range 200 {
					bytes := random.Int64N(400 << 10)
					if random.IntN(20) == 0 {
						bytes = 1000<<10 + random.Int64N(1000<<10)
					}
					if a.acquire(bytes) != admitGranted {
						continue
					}
					// One body larger than its share may be in, and small ones in the quarter that is theirs.
					a.mu.Lock()
					if a.small.held+min(a.large.held, a.largeCapacity) > a.capacity || a.large.held > max(a.largeCapacity, 2000<<10) {
						t.Errorf("%d and %d bytes are held", a.small.held, a.large.held)
					}
					a.mu.Unlock()
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
					a.release(bytes)
				}
			})
		}
		wait.Wait()
		if held, waiting := a.state(); held != 0 || waiting != 0 {
			t.Errorf("%d bytes and %d waiters are left", held, waiting)
		}
	})
}

// holdRoute is a push that keeps its permit until it is told.
func holdRoute(entered chan<- string, leave <-chan struct{}) Route {
	return Route{Method: "POST", Pattern: "/api/v1/push", Admit: true, Handler: func(r *Request) {
		entered <- string(r.Body())
		<-leave
		r.JSON(201, []byte(`[]`))
	}}
}

func TestPermitsAreTakenBeforeTheBodyAndGivenBackWithTheAnswer(t *testing.T) {
	config := testConfig()
	config.AdmitBytes, config.AdmitHold = 1000, time.Minute
	entered, leave := make(chan string), make(chan struct{})
	s := startServer(t, config, holdRoute(entered, leave))
	held := func() int64 { bytes, _ := s.admission.state(); return bytes }

	slow := dial(t, s)
	io.WriteString(slow, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 600\r\n\r\n")
	eventually(t, "permits before the body", func() bool { return held() == 600 })

	second := make(chan answer, 1)
	go func() { second <- s.call(t, "POST", "/api/v1/push", strings.Repeat("b", 500)) }()
	eventually(t, "the second request waits", func() bool { _, waiting := s.admission.state(); return waiting == 1 })

	io.WriteString(slow, strings.Repeat("a", 600))
	if body := <-entered; body != strings.Repeat("a", 600) {
		t.Errorf("the first body is %q", body)
	}
	leave <- struct{}{}
	if got := readAnswer(t, slow, "POST"); got.status != 201 {
		t.Errorf("the first answer is %d", got.status)
	}
	<-entered
	leave <- struct{}{}
	if got := <-second; got.status != 201 {
		t.Errorf("the second answer is %d", got.status)
	}
	eventually(t, "all permits are back", func() bool { return held() == 0 })
}

func dial(t *testing.T, s *testServer) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestClientsThatVanishGiveTheirPermitsBack(t *testing.T) {
	config := testConfig()
	config.AdmitBytes, config.AdmitHold = 1<<20, time.Minute
	s := startServer(t, config, Route{Method: "POST", Pattern: "/api/v1/push", Admit: true, Handler: echo})
	for name, head := range map[string]string{
		"in a body":           "Content-Length: 100000\r\n\r\nhalf",
		"before the body":     "Content-Length: 100000\r\n\r\n",
		"in a chunk":          "Transfer-Encoding: chunked\r\n\r\n10\r\nhalf",
		"between two chunks":  "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"before any chunk":    "Transfer-Encoding: chunked\r\n\r\n",
		"in the trailer":      "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y",
		"after a bad chunk":   "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"waiting for the 100": "Expect: 100-continue\r\nContent-Length: 100000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s)
			io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\n"+head)
			eventually(t, "permits are held or the request has failed", func() bool {
				held, _ := s.admission.state()
				return held > 0 || name == "after a bad chunk"
			})
			c.Close()
			eventually(t, "the permits are back", func() bool { held, _ := s.admission.state(); return held == 0 })
			s.pendings.mu.Lock()
			left := len(s.pendings.byHeader)
			s.pendings.mu.Unlock()
			if left != 0 {
				t.Errorf("%d decisions are left", left)
			}
		})
	}
}

func TestClientsThatVanishWhileTheyWaitGiveTheirPermitsBack(t *testing.T) {
	config := testConfig()
	config.AdmitBytes, config.AdmitHold = 1000, time.Minute
	s := startServer(t, config, Route{Method: "POST", Pattern: "/api/v1/push", Admit: true, Handler: echo})
	for _, header := range []string{"", "Expect: 100-continue\r\n"} {
		s.admission.acquire(1000)
		c := dial(t, s)
		io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n"+header+"\r\n")
		eventually(t, "the request waits", func() bool { _, waiting := s.admission.state(); return waiting == 1 })
		c.(*net.TCPConn).SetLinger(0) // a reset makes writing "100 Continue" fail
		c.Close()
		s.admission.release(1000)
		eventually(t, "the permits are back", func() bool {
			held, waiting := s.admission.state()
			return held == 0 && waiting == 0
		})
	}
}

func TestChunkedBodiesAreCorrectedToTheirSize(t *testing.T) {
	config := testConfig()
	config.AdmitBytes, config.AdmitHold = 1<<20, time.Minute
	entered, leave := make(chan string), make(chan struct{})
	s := startServer(t, config, holdRoute(entered, leave))
	c := dial(t, s)
	io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
	eventually(t, "the guess is held", func() bool { held, _ := s.admission.state(); return held == chunkedBytes })
	io.WriteString(c, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 100_000, strings.Repeat("x", 100_000)))
	<-entered
	if held, _ := s.admission.state(); held != 100_000 {
		t.Errorf("%d bytes are held", held)
	}
	leave <- struct{}{}
	readAnswer(t, c, "POST")
	eventually(t, "the permits are back", func() bool { held, _ := s.admission.state(); return held == 0 })
}

func TestRefusedBodiesAreAnsweredAndNotReset(t *testing.T) {
	// The bodies are larger than what the kernel buffers: a client that writes before it reads gets through only if the
	// server reads on.
	const limit = 16 << 20
	config := testConfig()
	config.MaxBodyBytes, config.AdmitBytes, config.AdmitHold = limit, 1000, 0
	entered, leave := make(chan string), make(chan struct{})
	s := startServer(t, config, holdRoute(entered, leave))
	first := make(chan answer, 1)
	go func() { first <- s.call(t, "POST", "/api/v1/push", "first") }()
	<-entered

	overloaded := `{"error":"too many bytes are being written; wait and retry","code":"overloaded"}`
	tooLarge := `{"error":"the body is larger than this server accepts","code":"payload_too_large"}`
	for _, c := range []struct {
		name   string
		bytes  int
		expect bool
		status int
		body   string
	}{
		{"429 of a body that the client sends at once", limit, false, 429, overloaded},
		{"429 of a body of one byte", 1, false, 429, overloaded},
		{"429 after Expect", limit, true, 429, overloaded},
		{"413", limit + 1, false, 413, tooLarge},
		{"413 of twice the limit", 2 * limit, false, 413, tooLarge},
		{"413 after Expect", 2 * limit, true, 413, tooLarge},
	} {
		if c.bytes == 1 {
			s.admission.correct(0, 1000) // one byte fits otherwise
		}
		var got answer
		if c.expect {
			got = s.raw(t, "POST", fmt.Sprintf(
				"POST /api/v1/push HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", c.bytes))
		} else {
			got = s.call(t, "POST", "/api/v1/push", strings.Repeat("x", c.bytes))
		}
		if c.bytes == 1 {
			s.admission.correct(1000, 0)
		}
		if got.status != c.status || c.body != "" && got.body != c.body {
			t.Errorf("%s: got %d %s", c.name, got.status, got.body)
		}
		if after := got.header.Get("Retry-After"); c.status == 429 && (len(after) != 1 || after < "1" || after > "5") {
			t.Errorf("%s: Retry-After is %q", c.name, after)
		}
	}
	s.raw(t, "POST", "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n").expect(t, 429, overloaded)
	leave <- struct{}{}
	if got := <-first; got.status != 201 {
		t.Errorf("the first request got %d", got.status)
	}
}

func TestAdmissionIsOffForOtherRoutes(t *testing.T) {
	config := testConfig()
	config.AdmitBytes, config.AdmitHold = 10, 0
	s := startServer(t, config, routingTable()...)
	s.admission.acquire(10)
	defer s.admission.release(10)
	s.call(t, "DELETE", "/api/v1/consumer-groups/g", strings.Repeat("x", 1000)).expect(t, 200,
		`{"route":"/api/v1/consumer-groups/:group","params":["g"]}`)
	if got := s.call(t, "POST", "/api/v1/push", "12"); got.status != 429 {
		t.Errorf("push got %d", got.status)
	}
}
