package httpfront

import (
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// How long a request may take to arrive. The head has headTimeout from its first byte on. The body must keep its pace all
// the time, and has bodyBaseTimeout and as long as it takes at bodyBytesPerSecond as a whole: 64 MiB may take 17 minutes,
// an ordinary push about half a minute. A body of unknown length has the time of the largest one, and holds permits for
// 64 KiB only. Whoever is slower gets a 408 and the connection is closed.
const (
	headTimeout        = 60 * time.Second
	bodyBaseTimeout    = 30 * time.Second
	bodyBytesPerSecond = 64 << 10
)

// bodyTimeout is the read timeout of a body, marked as such.
func (s *Server) bodyTimeout(bytes int64) time.Duration {
	return bodyMark + s.bodyBase + time.Duration(bytes/bodyBytesPerSecond)*time.Second
}

// pending is what was decided about a request before its body was read.
type pending struct {
	// refusal ends the request without its body.
	refusal *Error
	// route and params are those of the request; route is never nil.
	route  *routeEntry
	params []string
	// checked says that the token was checked; subject is its sub.
	checked bool
	subject string
	// bytes are the permits held, gate is who gets them back.
	bytes   int64
	gate    *admission
	arrived time.Time
}

// free gives the permits back.
func (p *pending) free() {
	if p.gate != nil {
		p.gate.release(p.bytes)
	}
}

// Bodies of routes without admission are read all the same, and the library asks for the memory of the whole body at
// once, before a byte has come. So the large ones among them share a budget of their own: bulkBodies of the largest
// size. An ack is never refused for it, it waits like any request on a busy machine; only after bulkHold is the answer
// "retry".
const (
	bulkBytes  = 1 << 20
	bulkBodies = 8
	bulkHold   = 30 * time.Second
)

// pendings remembers decisions from the hook that sees the head until the handler or the error handler takes them over.
// The library calls the hook with the header that is embedded in the context of the request and with nothing else, so
// the address of the header is the key. fasthttp goes on from the hook to exactly one of: the handler, the error
// handler, the expect handler followed by one of these or by the end of the connection. All three take the entry.
type pendings struct {
	mu       sync.Mutex
	byHeader map[*fasthttp.RequestHeader]*pending
}

func (p *pendings) put(header *fasthttp.RequestHeader, decided *pending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byHeader[header] = decided
}

func (p *pendings) look(header *fasthttp.RequestHeader) *pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byHeader[header]
}

func (p *pendings) take(header *fasthttp.RequestHeader) *pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	decided := p.byHeader[header]
	if decided != nil {
		delete(p.byHeader, header)
	}
	return decided
}

// takeIf takes an entry only if it is still this one: the header may belong to another request by now.
func (p *pendings) takeIf(header *fasthttp.RequestHeader, decided *pending) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if decided == nil || p.byHeader[header] != decided {
		return false
	}
	delete(p.byHeader, header)
	return true
}

// beforeBody is called when the head of a request has been read and its body has not. It may block: that is how a
// request without room waits. A refusal lowers the limit of the body, so that reading it fails at once and the error
// handler answers; a request without a body reaches the handler, which answers then.
func (s *Server) beforeBody(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	// Only a connection that was cut in the middle can have left an entry behind.
	s.drop(header)
	length := int64(header.ContentLength())
	config := fasthttp.RequestConfig{ReadTimeout: s.bodyTimeout(s.config.MaxBodyBytes)}
	if length >= 0 {
		config.ReadTimeout = s.bodyTimeout(min(length, s.config.MaxBodyBytes))
	}
	if length <= bulkBytes && (header.IsGet() || header.IsHead()) {
		return config
	}
	decided := s.decide(header, length)
	if decided == nil {
		return config
	}
	s.pendings.put(header, decided)
	if decided.refusal != nil {
		config.MaxRequestBodySize = 1
	}
	return config
}

// decide returns nil for requests that need no permit. length is -1 for a chunked body and -2 for none.
func (s *Server) decide(header *fasthttp.RequestHeader, length int64) *pending {
	path, _ := splitTarget(header.RequestURI())
	found := s.router.find(string(header.Method()), path)
	if length > s.config.MaxBodyBytes {
		return nil // the library refuses it without reading it
	}
	if found.entry == nil || !found.entry.Admit {
		return s.decideBulk(found, length)
	}
	decided := &pending{route: found.entry, params: found.params, arrived: time.Now()}
	if decided.refusal = s.refusalOfState(found.entry); decided.refusal != nil {
		return decided
	}
	if s.config.Auth != nil {
		decided.checked = true
		decided.subject, decided.refusal = s.config.Auth.check(path, header.Peek(fasthttp.HeaderAuthorization), found.entry.Level)
		if decided.refusal != nil {
			return decided
		}
	}
	bytes := max(length, 0)
	if length == -1 {
		bytes = chunkedBytes
	}
	decided.enter(s.admission, bytes, CodeOverloaded, textOverloaded)
	return decided
}

// decideBulk lets a large body in on a route without admission.
func (s *Server) decideBulk(found match, length int64) *pending {
	if length <= bulkBytes {
		return nil
	}
	decided := &pending{route: s.unmatched, arrived: time.Now()}
	if found.entry != nil {
		decided.route, decided.params = found.entry, found.params
	}
	decided.enter(s.bulk, length, CodeRetry, textBulk)
	return decided
}

// enter asks a gate for permits; code and text refuse the request when there is no room.
func (p *pending) enter(gate *admission, bytes int64, code Code, text string) {
	switch gate.acquire(bytes) {
	case admitGranted:
		p.gate, p.bytes = gate, bytes
	case admitRefused:
		p.refusal = Refuse(code, text)
	case admitClosed:
		p.refusal = Refuse(CodeRetry, textStopping)
	}
}

// expect answers Expect: 100-continue. What is refused already is answered without asking for the body.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	header := &ctx.Request.Header
	decided := s.pendings.look(header)
	refusal := (*Error)(nil)
	switch {
	case decided != nil && decided.refusal != nil:
		refusal = decided.refusal
	case int64(header.ContentLength()) > s.config.MaxBodyBytes:
		refusal = Refuse(CodePayloadTooLarge, textBodyTooBig)
	}
	client := ctx.Conn().(*conn)
	if refusal == nil {
		// Should writing "100 Continue" fail, neither handler is called: the end of the connection gives the permits back.
		client.afterClose = func() {
			if s.pendings.takeIf(header, decided) {
				decided.free()
			}
		}
		return fasthttp.StatusContinue
	}
	s.drop(header)
	client.linger = true
	refusal.write(ctx, ShapeEnvelope)
	s.observeUnread(decided, refusal.HTTPStatus())
	return refusal.HTTPStatus()
}

// drop takes the decision about a request back.
func (s *Server) drop(header *fasthttp.RequestHeader) {
	if decided := s.pendings.take(header); decided != nil {
		decided.free()
	}
}

// unreadable answers requests whose head or body could not be read, and those that were refused before their body. The
// library closes the connection afterwards.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	decided := s.pendings.take(&ctx.Request.Header)
	refusal := refusalOfReading(err)
	if decided != nil {
		decided.free()
		if decided.refusal != nil {
			refusal = decided.refusal
		}
	}
	if client, ok := ctx.Conn().(*conn); ok {
		client.linger = refusal.HTTPStatus() != fasthttp.StatusRequestTimeout
	}
	shape := ShapeEnvelope
	if decided != nil && refusal.Code != CodePayloadTooLarge { // which has one body everywhere (state 1.3)
		shape = decided.route.Refusal
	}
	refusal.write(ctx, shape)
	s.observeUnread(decided, refusal.HTTPStatus())
}

// observeUnread counts a request that had no handler.
func (s *Server) observeUnread(decided *pending, status int) {
	if decided == nil {
		s.unreadStats.observe(status, 0)
		return
	}
	decided.route.stats.observe(status, time.Since(decided.arrived))
}
