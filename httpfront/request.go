package httpfront

import (
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"queen/httpfront/wire"
)

// Request is one request in the hands of its handler. It belongs to the goroutine of the handler and is dead when the
// handler returns.
type Request struct {
	Ctx *fasthttp.RequestCtx
	// Tenant owns everything the request names (messaging 2.5).
	Tenant uuid.UUID
	// Subject is the sub of the verified token; empty without authentication (messaging 2.6).
	Subject string
	// Params are the decoded path parameters in the order of the pattern.
	Params []string
	// Arrived is when the head had been read; deadlines count from here.
	Arrived time.Time

	server *Server
	route  *routeEntry
	query  fasthttp.Args
	parsed bool
	raw    []byte // the query as sent
	// permits are the bytes that Admit has got.
	permits int64
	// sending is what depends on the fate of the answer, nil when nothing does.
	sending *sending
}

// Param returns a path parameter by its name in the pattern.
func (r *Request) Param(name string) string {
	for i, known := range r.route.names {
		if known == name {
			return r.Params[i]
		}
	}
	panic("BUG: the pattern " + r.route.Pattern + " has no parameter " + name)
}

// Body returns the body. It is valid until the handler returns; see Keep.
func (r *Request) Body() []byte { return r.Ctx.Request.Body() }

// Keep copies bytes of the request for use after the handler has returned. It is the only place that does: memory of a
// request is used again for the next one.
func Keep(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }

// JSON answers with a body that is JSON already. The body is copied.
func (r *Request) JSON(status int, body []byte) {
	writeJSON(r.Ctx, status, body)
}

// jsonType is the Content-Type of every JSON answer.
const jsonType = "application/json"

func writeJSON(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentType(jsonType)
	ctx.Response.SetBody(body)
}

// JSONOwned is JSON without the copy: the answer takes the body over, and the caller must not use it again.
func (r *Request) JSONOwned(status int, body []byte) {
	r.Ctx.SetStatusCode(status)
	r.Ctx.Response.Header.SetContentType(jsonType)
	r.Ctx.Response.SetBodyRaw(body)
}

// scratch holds buffers for answers; see Answer.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// keptScratchBytes is the largest buffer that is kept for the next answer: a batch of some hundred messages.
const keptScratchBytes = 1 << 20

// Fail answers with the refusal that an error stands for; an error that is none is a 500 and is logged.
func (r *Request) Fail(err error) {
	refusal, internal := classify(err)
	if internal {
		r.server.log.Error().Err(err).Str("route", r.route.Pattern).Msg("request failed")
	}
	refusal.write(r.Ctx, r.route.Refusal)
}

// write makes the answer of a refusal.
func (e *Error) write(ctx *fasthttp.RequestCtx, shape Shape) {
	status := e.HTTPStatus()
	if seconds := retryAfterSeconds(status); seconds > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(seconds))
	}
	if e.Allow != "" {
		ctx.Response.Header.Set("Allow", e.Allow)
	}
	if family := families[shape]; family != nil && family.write(ctx, e) {
		return
	}
	if status != fasthttp.StatusBadRequest {
		shape = ShapeEnvelope
	}
	var body []byte
	switch {
	case e.Path != "":
		body = wire.AppendNoRoute(nil, e.Path)
	case shape == ShapePop:
		body = wire.AppendPopRefusal(nil, e.Text)
	case shape == ShapeFetch:
		body = wire.AppendEnvelope(nil, &wire.Envelope{Error: e.Text})
	case shape == ShapeSuccess:
		body = wire.AppendSuccessRefusal(nil, e.Text)
	default:
		body = wire.AppendEnvelope(nil, &wire.Envelope{
			Error: e.Text, Code: string(e.Code), Leader: e.Leader, Invalid: e.Invalid, Node: e.Node,
		})
	}
	writeJSON(ctx, status, body)
}

// Draining is closed when the server begins to stop: parked polls answer as if their wait had ended (cluster 17.1.3).
func (r *Request) Draining() <-chan struct{} { return r.server.draining }

// statusClientGone marks, in the metrics only, a request whose client left before the answer.
const statusClientGone = 499

// Abandon ends a request whose client has gone: nothing is answered that anybody could read.
func (r *Request) Abandon() {
	r.Ctx.SetStatusCode(statusClientGone)
	r.Ctx.SetConnectionClose()
}
