package httpfront

import (
	"time"

	"github.com/valyala/fasthttp"
)

// Limits of the answers that are on their way. A client that asks for much and reads nothing keeps its answer in memory,
// so large answers share a budget: they take permits before they are read from the store, and give them back when they
// have been written or the connection has ended.
const (
	// DefaultAnswerBytes bounds the large answers of the node together: four of the largest pops.
	DefaultAnswerBytes = 256 << 20
	// FreeAnswerBytes is the size up to which an answer needs no permits.
	FreeAnswerBytes = 1 << 20
	// DefaultAnswerHold is how long a request waits for room before the answer is "retry".
	DefaultAnswerHold = 5 * time.Second
)

// ReserveAnswer takes permits for an answer of so many bytes, before it is read from the store; small ones need none. It
// waits some seconds for room. An error is a refusal for Fail: then the caller undoes what it has claimed. Only the
// goroutine of the handler may call it, once.
func (r *Request) ReserveAnswer(bytes int64) error {
	if bytes <= FreeAnswerBytes {
		return nil
	}
	switch r.server.answers.acquire(bytes) {
	case admitRefused:
		return Refuse(CodeRetry, textAnswers)
	case admitClosed:
		return Refuse(CodeRetry, textStopping)
	}
	r.answer().bytes = bytes
	return nil
}

// OnUndelivered has a function called when the answer cannot be written to its end: because the client has gone, because
// it does not read, or because another answer takes its place. begun tells whether something of the answer was written.
// It is called at most once, on the goroutine of the connection, after the handler has returned.
func (r *Request) OnUndelivered(undelivered func(begun bool)) { r.answer().undelivered = undelivered }

func (r *Request) answer() *sending {
	if r.sending == nil {
		r.sending = &sending{budget: r.server.answers}
	}
	return r.sending
}

// settleAnswer hands what depends on the answer over to the connection. An answer that turned out large although nobody
// had reserved room for it needs permits all the same, or is replaced.
func (s *Server) settleAnswer(r *Request) {
	held := int64(0)
	if r.sending != nil {
		held = r.sending.bytes
	}
	if size := int64(len(r.Ctx.Response.Body())); held == 0 && size > FreeAnswerBytes {
		if err := r.ReserveAnswer(size); err != nil {
			r.undo()
			r.Ctx.Response.Reset()
			r.Fail(err)
		}
	}
	r.giveBackExcess()
	if r.sending != nil {
		r.Ctx.Conn().(*conn).sending.Store(r.sending)
	}
}

// giveBackExcess lets an answer keep no more permits than it needs: what it may have is often more than what it turns out to be.
func (r *Request) giveBackExcess() {
	size := int64(len(r.Ctx.Response.Body()))
	if size <= FreeAnswerBytes {
		size = 0
	}
	if r.sending == nil || r.sending.bytes <= size {
		return
	}
	r.server.answers.correct(r.sending.bytes, size)
	r.sending.bytes = size
}

// undo takes back what depends on an answer that is not sent.
func (r *Request) undo() {
	if r.sending == nil {
		return
	}
	if undelivered := r.sending.undelivered; undelivered != nil {
		undelivered(false)
	}
	r.sending.undelivered = nil
}

// Answer lets encode append a JSON body to an empty buffer and answers with it. Ordinary answers are made so: neither the
// buffer nor the copy that the connection sends is made anew each time.
func (r *Request) Answer(status int, encode func(dst []byte) []byte) {
	buffer := scratch.Get().(*[]byte)
	body := encode((*buffer)[:0])
	if cap(body) > keptScratchBytes {
		r.JSONOwned(status, body)
		return
	}
	r.JSON(status, body)
	*buffer = body
	scratch.Put(buffer)
}

// NoContent answers 204.
func (r *Request) NoContent() { r.Ctx.SetStatusCode(fasthttp.StatusNoContent) }

// Admit takes byte permits for a request of which only the body tells that it needs some (cluster 11.1), as a route with Admit does
// before the body is read. They are given back with the answer. Only the goroutine of the handler may call it, once.
func (r *Request) Admit() error {
	bytes := int64(len(r.Body()))
	switch r.server.admission.acquire(bytes) {
	case admitRefused:
		return Refuse(CodeOverloaded, textOverloaded)
	case admitClosed:
		return Refuse(CodeRetry, textStopping)
	}
	r.permits = bytes
	return nil
}
