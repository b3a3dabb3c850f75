package httpfront

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"
)

// Limits of the server.
const (
	// maxHeadBytes bounds request line and headers together (messaging 2.11). It is the read buffer of a connection while
	// a request arrives.
	maxHeadBytes = 16 << 10
	// writeBufferBytes is the write buffer of an answer that is being sent: most answers fit, larger ones are written
	// around it.
	writeBufferBytes = 4 << 10
	// maxConnections bounds the connections; descriptors run out earlier on most machines.
	maxConnections = 256 << 10
	// idleTimeout is how long a connection without a request is kept: at least 60 s (messaging 2.1).
	idleTimeout = 75 * time.Second
	// answerTimeout is how long a client may take to read an answer: 64 MiB at 220 KB/s.
	answerTimeout = 300 * time.Second
	// silentGrace is how long Stop leaves connections alone over which nothing has come yet.
	silentGrace = 250 * time.Millisecond
)

// DefaultMaxBodyBytes is the default of QUEEN_MAX_BODY_BYTES.
const DefaultMaxBodyBytes = 64 << 20

// Config configures a Server.
type Config struct {
	// MaxBodyBytes bounds a request body (QUEEN_MAX_BODY_BYTES).
	MaxBodyBytes int64
	// TLS turns the port to HTTPS; see Certificate. nil is plain HTTP.
	TLS *tls.Config
	// Tenancy reads the header x-queen-tenant (QUEEN_TENANCY_HEADER).
	Tenancy bool
	// Auth checks tokens; nil is without authentication. The server does not close it.
	Auth *Authenticator
	// AdmitBytes is the budget of admission, 0 for none (QUEEN_RAFT_ADMIT_MAX_MB). AdmitHold is how long a request waits
	// for room, a quarter more or less.
	AdmitBytes int64
	AdmitHold  time.Duration
	// AnswerBytes is the budget of large answers that are on their way, and AnswerHold how long one waits for room, a
	// quarter more or less; 0 is DefaultAnswerBytes and DefaultAnswerHold.
	AnswerBytes int64
	AnswerHold  time.Duration
	// Unavailable returns the refusal of every route that is not early, nil while there is none; nil never refuses. It is asked
	// with every request.
	Unavailable func() *Error
	// Metrics receives the families of the server; nil makes a set of its own.
	Metrics *metrics.Set
	Log     zerolog.Logger
}

// Validate reports the first setting that makes no sense.
func (c *Config) Validate() error {
	switch {
	case c.MaxBodyBytes < 1:
		return fmt.Errorf("check http configuration: MaxBodyBytes is %d", c.MaxBodyBytes)
	case c.AdmitBytes < 0 || c.AdmitHold < 0:
		return errors.New("check http configuration: admission is negative")
	case c.AnswerBytes < 0 || c.AnswerHold < 0:
		return errors.New("check http configuration: the budget of answers is negative")
	}
	return nil
}

// Server is the HTTP server of a node. Its life: New, Handle, Start, Open when the node is ready, Drain and Stop.
type Server struct {
	config    Config
	log       zerolog.Logger
	router    router
	stats     *frontStats
	admission *admission
	bulk      *admission
	answers   *admission
	// pace is defaultPace; tests make it short.
	pace pace
	// bodyBase is bodyBaseTimeout; tests shorten it.
	bodyBase time.Duration
	pendings pendings
	gone     *goneWatcher
	http     *fasthttp.Server
	// unmatched stands for requests without a route of the table, unreadStats for those whose head was not understood.
	unmatched   *routeEntry
	dashboard   *routeEntry
	unreadStats *routeStats

	open     atomic.Bool
	draining chan struct{}
	drain    sync.Once

	listener *listener
	served   chan error
}

// New makes a server that does not listen yet.
func New(config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	gone, err := newGoneWatcher()
	if err != nil {
		return nil, err
	}
	if config.Metrics == nil {
		config.Metrics = metrics.NewSet()
	}
	stats := newFrontStats(config.Metrics)
	s := &Server{
		config: config,
		log:    config.Log,
		stats:  stats,
		admission: &admission{
			capacity: config.AdmitBytes, largeCapacity: int64(largeShare * float64(config.AdmitBytes)), hold: config.AdmitHold,
			stats: &stats.admission,
		},
		pace:     defaultPace,
		pendings: pendings{byHeader: map[*fasthttp.RequestHeader]*pending{}},
		gone:     gone,
		draining: make(chan struct{}),
		served:   make(chan error, 1),
	}
	stats.exportAdmission(s.admission)
	s.bodyBase = bodyBaseTimeout
	s.bulk = newBudget(bulkBodies*config.MaxBodyBytes, bulkHold)
	s.answers = newBudget(cmp.Or(config.AnswerBytes, DefaultAnswerBytes), cmp.Or(config.AnswerHold, DefaultAnswerHold))
	s.unreadStats = stats.route("unread")
	s.unmatched = &routeEntry{Route: Route{Pattern: "unmatched", Level: LevelReadWrite}, stats: stats.route("unmatched")}
	s.dashboard = &routeEntry{
		Route: Route{Pattern: "dashboard", Level: LevelPublic, Early: true, Handler: serveDashboard},
		stats: stats.route("dashboard"),
	}
	s.http = s.newHTTP()
	return s, nil
}

// newBudget is an admission of its own for large things only.
func newBudget(bytes int64, hold time.Duration) *admission {
	return &admission{capacity: bytes, largeCapacity: bytes, hold: hold, stats: &admissionStats{
		waited: &metrics.Counter{}, refused: &metrics.Counter{},
	}}
}

// newHTTP sets every option that matters. Body streams are off on purpose: with them the read buffer of every parked poll
// stays allocated, and ReduceMemoryUsage could not free it.
func (s *Server) newHTTP() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                       s.serve,
		ErrorHandler:                  s.unreadable,
		HeaderReceived:                s.beforeBody,
		ExpectHandler:                 s.expect,
		Concurrency:                   maxConnections,
		ReadBufferSize:                maxHeadBytes,
		WriteBufferSize:               writeBufferBytes,
		ReadTimeout:                   headTimeout,
		WriteTimeout:                  answerTimeout,
		IdleTimeout:                   idleTimeout,
		MaxRequestBodySize:            int(s.config.MaxBodyBytes),
		ReduceMemoryUsage:             true,
		LazyRequestTime:               true,
		DisablePreParseMultipartForm:  true,
		SecureErrorLogMessage:         true,
		NoDefaultServerHeader:         true,
		NoDefaultContentType:          true,
		CloseOnShutdown:               true,
		StreamRequestBody:             false,
		DisableHeaderNamesNormalizing: false,
		Logger:                        libraryLog{s.log},
	}
}

// libraryLog takes what fasthttp logs: errors of single connections, which clients cause at will.
type libraryLog struct{ log zerolog.Logger }

// Printf logs at debug level.
func (l libraryLog) Printf(format string, args ...any) { l.log.Debug().Msgf("http: "+format, args...) }

// Handle adds the routing table. It is called before Start; a faulty table panics.
func (s *Server) Handle(routes []Route) {
	for _, route := range routes {
		s.router.add(&routeEntry{Route: route, stats: s.stats.route(route.Pattern)})
	}
}

// Start begins to serve the port. Until Open is called, only early routes and the dashboard answer; all others are 503.
// The listener belongs to the server from here on.
func (s *Server) Start(port net.Listener) error {
	tcp, ok := port.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("start http server: %T is not a TCP listener", port)
	}
	s.listener = newListener(tcp, s.config.TLS, 2*s.config.MaxBodyBytes, s.pace, s.log)
	go func() {
		err := s.http.Serve(s.listener)
		if err != nil {
			s.log.Error().Err(err).Msg("http: the port is lost")
		}
		s.served <- err
	}()
	return nil
}

// Open lets all routes answer.
func (s *Server) Open() { s.open.Store(true) }

// Shut lets only early routes answer, until the next Open.
func (s *Server) Shut() { s.open.Store(false) }

// Drain asks parked polls to answer as if their wait had ended. Running requests and new ones go on (cluster 17.1.3).
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// Stop closes the listener, waits for running requests until ctx ends, and cuts what is left (cluster 17.1.4). Requests
// that still wait for admission are answered "retry" at once. The error says that requests were cut. A server that was
// never started is stopped as well.
func (s *Server) Stop(ctx context.Context) error {
	s.Drain()
	s.admission.close()
	s.bulk.close()
	s.answers.close()
	defer s.gone.close()
	if s.listener == nil {
		return nil
	}
	// Connections over which nothing was ever sent look busy to the library for 5 s.
	silent := time.AfterFunc(silentGrace, func() { s.listener.cut(true) })
	defer silent.Stop()
	err := s.http.ShutdownWithContext(ctx)
	if err != nil {
		s.listener.cut(false)
		err = fmt.Errorf("drain http connections: %w", err)
	}
	// The library knows the listener only once it serves it: a server that is stopped at once would serve for ever.
	if closeErr := s.listener.Close(); closeErr != nil && !errors.Is(closeErr, net.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	return errors.Join(err, <-s.served)
}

// refusalOfState refuses a route while the node cannot serve it.
func (s *Server) refusalOfState(route *routeEntry) *Error {
	if route.Early {
		return nil
	}
	if s.config.Unavailable != nil {
		if refusal := s.config.Unavailable(); refusal != nil {
			return refusal
		}
	}
	if s.open.Load() {
		return nil
	}
	return Refuse(CodeRetry, textNotReady)
}

// serve handles one request, from the raw path to the answer.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	r := &Request{Ctx: ctx, Arrived: time.Now(), server: s, route: s.unmatched}
	decided := s.pendings.take(&ctx.Request.Header)
	if decided != nil {
		r.Arrived = decided.arrived
		body := int64(len(ctx.Request.Body()))
		if decided.gate != nil {
			decided.gate.correct(decided.bytes, body)
			decided.bytes = body
		}
		defer decided.free()
	}
	defer s.finish(r)
	if refusal := s.prepare(r, decided); refusal != nil {
		shape := r.route.Refusal
		if refusal == errTenant {
			shape = ShapeEnvelope
		}
		refusal.write(ctx, shape)
		return
	}
	r.route.Handler(r)
}

// finish turns a panic into a 500 and counts the request.
func (s *Server) finish(r *Request) {
	if cause := recover(); cause != nil {
		s.log.Error().Any("err", cause).Str("route", r.route.Pattern).Bytes("stack", debug.Stack()).Msg("http: a handler panicked")
		r.undo()
		r.Ctx.Response.Reset()
		Refuse(CodeInternal, textInternal).write(r.Ctx, r.route.Refusal)
	}
	s.admission.release(r.permits)
	s.settleAnswer(r)
	r.route.stats.observe(r.Ctx.Response.StatusCode(), time.Since(r.Arrived))
}

// prepare finds the route, checks the level and the tenant. The order matters: without a token nobody learns which routes
// there are.
func (s *Server) prepare(r *Request, decided *pending) *Error {
	header := &r.Ctx.Request.Header
	path, query := splitTarget(header.RequestURI())
	r.raw = query
	var missing *Error
	if decided != nil && decided.route != s.unmatched {
		r.route, r.Params = decided.route, decided.params
	} else {
		missing = s.findRoute(r, path)
	}
	if decided != nil && decided.refusal != nil {
		return decided.refusal
	}
	if refusal := s.authorize(r, path, decided); refusal != nil {
		return refusal
	}
	if missing != nil {
		return missing
	}
	if refusal := s.refusalOfState(r.route); refusal != nil {
		return refusal
	}
	var refusal *Error
	r.Tenant, refusal = tenantOf(header, s.config.Tenancy)
	return refusal
}

// findRoute sets the route of a request, or returns the refusal of a path that has none.
func (s *Server) findRoute(r *Request, path []byte) *Error {
	method := string(r.Ctx.Request.Header.Method())
	found := s.router.find(method, path)
	switch {
	case found.notUTF8:
		if found.meant != nil {
			r.route = found.meant
		}
		return Refuse(CodeBadRequest, "a path segment is not UTF-8")
	case found.entry != nil:
		r.route, r.Params = found.entry, found.params
		return nil
	case found.allow != "":
		return &Error{Code: CodeMethodNotAllowed, Text: "method not allowed", Allow: found.allow}
	case isDashboard(method, path):
		r.route = s.dashboard
		return nil
	}
	return noRoute(path)
}

func (s *Server) authorize(r *Request, path []byte, decided *pending) (refusal *Error) {
	switch {
	case s.config.Auth == nil:
	case decided != nil && decided.checked:
		r.Subject = decided.subject
	default:
		r.Subject, refusal = s.config.Auth.check(path, r.Ctx.Request.Header.Peek(fasthttp.HeaderAuthorization), r.route.Level)
	}
	return refusal
}

// WatchClient watches for the client going away while the request waits, and counts it as parked meanwhile. The caller
// closes the watch before it returns. When the system has no room for another watch, the wait simply ends at its
// deadline: the watch never fires, and a warning says so.
func (r *Request) WatchClient() *Watch {
	stats := r.server.stats
	watch, err := r.server.gone.watch(r.Ctx.Conn().(*conn).tcp)
	if err != nil {
		r.server.log.Warn().Err(err).Msg("http: cannot notice that a client goes away")
		watch = &Watch{C: make(chan struct{})}
	}
	stats.parked.Add(1)
	watch.onClose = func() { stats.parked.Add(-1) }
	return watch
}

// ClientGone tells whether the client has closed its connection by now: one look, for requests that do not wait. Only the
// goroutine of the handler may call it.
func (r *Request) ClientGone() bool { return peerClosed(r.Ctx.Conn().(*conn).tcp) }

// noRoute is the 404 of an unknown path (messaging 2.3).
func noRoute(path []byte) *Error {
	if isAPI(path) {
		return &Error{Code: CodeNoSuchRoute, Text: "not found", Path: string(path)}
	}
	return Refuse(CodeNoSuchRoute, "Not Found")
}
