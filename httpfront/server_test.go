package httpfront

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// fasthttp keeps one goroutine for the date header for the life of the process, and one per server that notices its
	// end up to 10 s later.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// deadline is how long a test waits for what must happen.
const deadline = 10 * time.Second

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	timeout := time.After(deadline)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-timeout:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// testServer is a running server with a table of routes for tests.
type testServer struct {
	*Server
	addr string
}

func echo(r *Request) {
	r.JSON(200, fmt.Appendf(nil, `{"route":%q,"params":%q}`, r.route.Pattern, r.Params))
}

func testConfig() Config {
	return Config{MaxBodyBytes: 1 << 20, Log: zerolog.Nop()}
}

func startServer(t *testing.T, config Config, routes ...Route) *testServer {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
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
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return &testServer{Server: s, addr: port.Addr().String()}
}

// answer is what a client saw.
type answer struct {
	status int
	header http.Header
	body   string
}

// raw sends bytes over a connection of its own and reads one answer. method tells how to read it.
func (s *testServer) raw(t *testing.T, method, request string) answer {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatalf("send: %v", err)
	}
	return readAnswer(t, c, method)
}

func readAnswer(t *testing.T, c net.Conn, method string) answer {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read body: %v", err)
	}
	response.Body.Close()
	return answer{response.StatusCode, response.Header, string(body)}
}

// call sends a request with a target that is sent as it stands.
func (s *testServer) call(t *testing.T, method, target, body string, headers ...string) answer {
	t.Helper()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n", method, target, len(body))
	for _, header := range headers {
		head += header + "\r\n"
	}
	return s.raw(t, method, head+"\r\n"+body)
}

func (a answer) expect(t *testing.T, status int, body string) {
	t.Helper()
	if a.status != status || a.body != body {
		t.Errorf("got %d %s\nwant %d %s", a.status, a.body, status, body)
	}
}

// routingTable has one route of every form.
func routingTable() []Route {
	return []Route{
		{Method: "POST", Pattern: "/api/v1/push", Level: LevelWriteOnly, Handler: echo, Admit: true},
		{Method: "GET", Pattern: "/api/v1/pop/queue/:queue", Level: LevelReadWrite, Handler: echo, Refusal: ShapePop},
		{Method: "GET", Pattern: "/api/v1/pop/queue/:queue/partition/:partition", Level: LevelReadWrite, Handler: echo},
		{Method: "GET", Pattern: "/api/v1/consumer-groups/lagging", Level: LevelReadOnly, Handler: echo},
		{Method: "GET", Pattern: "/api/v1/consumer-groups/:group", Level: LevelReadOnly, Handler: echo},
		{Method: "DELETE", Pattern: "/api/v1/consumer-groups/:group", Level: LevelAdmin, Handler: echo},
		{Method: "GET", Pattern: "/api/v1/timers/:queue/*timerKey", Level: LevelReadOnly, Handler: echo},
		{Method: "GET", Pattern: "/health", Level: LevelPublic, Handler: echo, Head: true, Early: true},
		{Method: "GET", Pattern: "/metrics", Level: LevelPublic, Handler: echo, Head: true},
		{Method: "GET", Pattern: "/status", Level: LevelReadOnly, Handler: echo},
	}
}

func TestPathsAreSplitBeforeTheyAreDecoded(t *testing.T) {
	s := startServer(t, testConfig(), routingTable()...)
	found := func(pattern string, params ...string) string {
		if params == nil {
			params = []string{}
		}
		return fmt.Sprintf(`{"route":%q,"params":%q}`, pattern, params)
	}
	const queue = "/api/v1/pop/queue/:queue"
	for _, c := range []struct {
		method, target string
		want           string
	}{
		{"GET", "/api/v1/pop/queue/orders", found(queue, "orders")},
		{"GET", "/api/v1/pop/queue/", found(queue, "")},
		{"GET", "/api/v1/pop/queue/a%2Fb", found(queue, "a/b")},
		{"GET", "/api/v1/pop/queue/a+b", found(queue, "a+b")},
		{"GET", "/api/v1/pop/queue/100%", found(queue, "100%")},
		{"GET", "/api/v1/pop/queue/%zz%41%4", found(queue, "%zzA%4")},
		{"GET", "/api/v1/pop/queue/..", found(queue, "..")},
		{"GET", "/api/v1/pop/queue/a://b", ""},
		{"GET", "/api/v1/pop/queue/a#b?x=1", found(queue, "a#b")},
		{"GET", "/api/v1/pop/queue/größe", found(queue, "größe")},
		{"GET", "/api/v1/pop/queue/%E2%82%AC", found(queue, "€")},
		{"GET", "/api/v1/pop/queue//partition/p", found("/api/v1/pop/queue/:queue/partition/:partition", "", "p")},
		{"GET", "/api/v1/consumer-groups/lagging", found("/api/v1/consumer-groups/lagging")},
		{"DELETE", "/api/v1/consumer-groups/lagging", found("/api/v1/consumer-groups/:group", "lagging")},
		{"GET", "/api/v1/timers/q/a/b%2Fc//d", found("/api/v1/timers/:queue/*timerKey", "q", "a/b/c//d")},
		{"GET", "http://somewhere/api/v1/pop/queue/orders", found(queue, "orders")},
		{"GET", "/api/v1/%70op/queue/orders", found(queue, "orders")},
	} {
		got := s.call(t, c.method, c.target, "")
		if c.want == "" {
			got.expect(t, 404, `{"code":"no_such_route","error":"not found","path":"`+c.target+`"}`)
			continue
		}
		got.expect(t, 200, c.want)
	}
	// What is not UTF-8 is refused in the form of the route, of every route that the path could have meant.
	s.call(t, "GET", "/api/v1/pop/queue/%ff", "").expect(t, 400, `{"success":false,"error":"a path segment is not UTF-8","messages":[]}`)
	for _, target := range []string{"/api/v1/consumer-groups/%ff", "/api/v1/timers/q/a/%ff", "/api/v1/%ff"} {
		s.call(t, "GET", target, "").expect(t, 400, `{"error":"a path segment is not UTF-8","code":"bad_request"}`)
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	s := startServer(t, testConfig(), routingTable()...)
	notAllowed := `{"error":"method not allowed","code":"method_not_allowed"}`
	for _, c := range []struct {
		method, target string
		status         int
		body, allow    string
	}{
		{"GET", "/api/nope", 404, `{"code":"no_such_route","error":"not found","path":"/api/nope"}`, ""},
		{"GET", "/streams/x?y=1", 404, `{"code":"no_such_route","error":"not found","path":"/streams/x"}`, ""},
		{"GET", "//api/v1/push", 200, "", ""},
		{"POST", "/api//v1/push", 404, `{"code":"no_such_route","error":"not found","path":"/api//v1/push"}`, ""},
		{"POST", "/api/v1/push/", 404, `{"code":"no_such_route","error":"not found","path":"/api/v1/push/"}`, ""},
		{"GET", "/api/v1/push", 405, notAllowed, "POST"},
		{"HEAD", "/status", 405, "", "GET"},
		{"POST", "/health", 405, notAllowed, "GET, HEAD"},
		{"PUT", "/api/v1/consumer-groups/lagging", 405, notAllowed, "GET, DELETE"},
		{"POST", "/nope", 404, `{"error":"Not Found","code":"no_such_route"}`, ""},
		{"GET", "/auth/login", 404, `{"error":"Not Found","code":"no_such_route"}`, ""},
		{"HEAD", "/health", 200, "", ""},
		{"HEAD", "/metrics", 200, "", ""},
		{"HEAD", "/dlq", 200, "", ""},
	} {
		got := s.call(t, c.method, c.target, "")
		if got.status != c.status || c.body != "" && got.body != c.body || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: got %d %s Allow %q", c.method, c.target, got.status, got.body, got.header.Get("Allow"))
		}
		if c.method == "HEAD" && got.body != "" {
			t.Errorf("HEAD %s has a body", c.target)
		}
	}
	for _, target := range []string{"/", "/dlq", "/index.html", "/../../etc/passwd"} {
		got := s.call(t, "GET", target, "")
		if got.status != 200 || !strings.Contains(got.body, "<title>Queen</title>") ||
			!strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("GET %s: got %d %s", target, got.status, got.header.Get("Content-Type"))
		}
	}
}

func TestOnlyEarlyRoutesAnswerBeforeTheNodeIsReady(t *testing.T) {
	s := startServer(t, testConfig(), routingTable()...)
	s.open.Store(false)
	s.call(t, "GET", "/health", "").expect(t, 200, `{"route":"/health","params":[]}`)
	got := s.call(t, "GET", "/status", "")
	got.expect(t, 503, `{"error":"this node is not ready","code":"retry"}`)
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}
	s.call(t, "POST", "/api/v1/push", "{}").expect(t, 503, `{"error":"this node is not ready","code":"retry"}`)
	s.Open()
	s.call(t, "GET", "/status", "").expect(t, 200, `{"route":"/status","params":[]}`)
}

func TestUnavailableNodeAnswersEarlyRoutesOnly(t *testing.T) {
	config := testConfig()
	member := atomic.Bool{}
	config.Unavailable = func() *Error {
		if member.Load() {
			return nil
		}
		return Refuse(CodeNoLeader, "not a member")
	}
	s := startServer(t, config,
		Route{Method: "GET", Pattern: "/early", Handler: echo, Early: true}, Route{Method: "GET", Pattern: "/late", Handler: echo})
	s.call(t, "GET", "/early", "").expect(t, 200, `{"route":"/early","params":[]}`)
	s.call(t, "GET", "/late", "").expect(t, 503, `{"error":"not a member","code":"no_leader"}`)
	member.Store(true)
	s.call(t, "GET", "/late", "").expect(t, 200, `{"route":"/late","params":[]}`)
}

func TestPanicOfAHandlerIsA500(t *testing.T) {
	s := startServer(t, testConfig(), Route{Method: "GET", Pattern: "/api/boom", Handler: func(*Request) { panic("BUG: boom") }})
	s.call(t, "GET", "/api/boom", "").expect(t, 500, `{"error":"internal error","code":"internal"}`)
	s.call(t, "GET", "/api/boom", "").expect(t, 500, `{"error":"internal error","code":"internal"}`)
}

func TestHeadOver16KiBIs431(t *testing.T) {
	s := startServer(t, testConfig(), routingTable()...)
	request := func(bytes int) string {
		head := "GET /health HTTP/1.1\r\nHost: x\r\nX-Fill: "
		return head + strings.Repeat("a", bytes-len(head)-4) + "\r\n\r\n"
	}
	if got := s.raw(t, "GET", request(maxHeadBytes)); got.status != 200 {
		t.Errorf("a head of 16 KiB: %d %s", got.status, got.body)
	}
	s.raw(t, "GET", request(maxHeadBytes+1)).expect(t, 431,
		`{"error":"request line and headers are larger than 16 KiB","code":"header_too_large"}`)
}

func TestStalledRequestsAreCutAndSlowOnesAreNot(t *testing.T) {
	s, err := New(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	s.Handle(routingTable())
	s.http.ReadTimeout = 300 * time.Millisecond
	s.bodyBase = 600 * time.Millisecond
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(port); err != nil {
		t.Fatal(err)
	}
	s.Open()
	defer s.Stop(context.Background())
	running := &testServer{Server: s, addr: port.Addr().String()}
	slow := `{"error":"the request did not arrive in time","code":"request_timeout"}`
	running.raw(t, "GET", "GET /health HTTP/1.1\r\nHos").expect(t, 408, slow)
	running.raw(t, "POST", "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf").expect(t, 408, slow)

	// A body that comes in pieces has more time than a head.
	c := dial(t, running)
	io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 4 {
		<-tick.C
		io.WriteString(c, "x")
	}
	readAnswer(t, c, "POST").expect(t, 200, `{"route":"/api/v1/push","params":[]}`)
}

func TestLargeBodiesOnOtherRoutesShareABudgetAndAreNotRefused(t *testing.T) {
	config := testConfig()
	config.MaxBodyBytes = 4 << 20
	entered, leave := make(chan string, 1), make(chan struct{})
	route := holdRoute(entered, leave)
	route.Pattern, route.Admit = "/api/v1/ack", false
	s := startServer(t, config, route)
	var claims []net.Conn
	for range bulkBodies {
		c := dial(t, s)
		io.WriteString(c, fmt.Sprintf("POST /api/v1/ack HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", config.MaxBodyBytes))
		claims = append(claims, c)
	}
	eventually(t, "the budget is taken", func() bool { held, _ := s.bulk.state(); return held == bulkBodies*config.MaxBodyBytes })
	large := make(chan answer, 1)
	go func() { large <- s.call(t, "POST", "/api/v1/ack", strings.Repeat("x", 2<<20)) }()
	eventually(t, "the next one waits", func() bool { _, waiting := s.bulk.state(); return waiting == 1 })
	go s.call(t, "POST", "/api/v1/ack", "small")
	if body := <-entered; body != "small" {
		t.Errorf("got a body of %d bytes", len(body))
	}
	leave <- struct{}{}
	claims[0].Close()
	if body := <-entered; len(body) != 2<<20 {
		t.Errorf("got a body of %d bytes", len(body))
	}
	leave <- struct{}{}
	if got := <-large; got.status != 201 {
		t.Errorf("got %d", got.status)
	}
	for _, c := range claims {
		c.Close()
	}
	eventually(t, "the budget is free", func() bool { held, _ := s.bulk.state(); return held == 0 })
}

// TestAParkedPollCostsLittle measures what cluster 8.6 promises, goroutine and buffers included.
func TestAParkedPollCostsLittle(t *testing.T) {
	const polls, mostBytes = 500, 10 << 10
	gone, leave := make(chan bool, polls), make(chan struct{})
	s := startServer(t, testConfig(), parkRoute(gone, leave))
	var conns []net.Conn
	for range polls {
		conns = append(conns, dial(t, s))
	}
	before := memoryInUse()
	for _, c := range conns {
		io.WriteString(c, "GET /api/park?autopilot=true&batch=50&wait=true&timeout=30000&consumerGroup=g HTTP/1.1\r\nHost: localhost\r\n"+
			"Accept: */*\r\nConnection: keep-alive\r\nUser-Agent: a client of the tests\r\n\r\n")
	}
	eventually(t, "all are parked", func() bool { return s.stats.parked.Load() == polls })
	each := (memoryInUse() - before) / polls
	t.Logf("%d bytes for each parked poll", each)
	if each > mostBytes {
		t.Errorf("%d bytes for each parked poll, more than %d", each, mostBytes)
	}
	close(leave)
}

// memoryInUse returns the bytes of live heap and stacks.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}
