package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// connection is one client of the broker with one TCP connection. It is used by one goroutine; the body that call returns is
// valid until the next call.
type connection struct {
	host     *fasthttp.HostClient
	response fasthttp.Response
	base     string
	token    string
}

// Sizes of a connection's buffers: large enough that a usual request and answer pass in one system call each.
const (
	readBufferBytes  = 64 << 10
	writeBufferBytes = 16 << 10
)

func newConnection(options Options) (*connection, error) {
	server, err := url.Parse(options.Server)
	if err != nil {
		return nil, fmt.Errorf("parse server %q: %w", options.Server, err)
	}
	secure := server.Scheme == "https"
	address := server.Host
	if server.Port() == "" {
		address = net.JoinHostPort(server.Hostname(), map[bool]string{false: "80", true: "443"}[secure])
	}
	return &connection{base: server.Scheme + "://" + server.Host, token: options.Token, host: &fasthttp.HostClient{
		Addr: address, IsTLS: secure, MaxConns: 1, NoDefaultUserAgentHeader: true, DisablePathNormalizing: true,
		ReadBufferSize: readBufferBytes, WriteBufferSize: writeBufferBytes,
		// The library repeats a GET whose connection broke. A pop must never be repeated behind our back: the first one may
		// have claimed messages.
		MaxIdemponentCallAttempts: 1,
		MaxIdleConnDuration:       time.Hour,
	}}, nil
}

func (c *connection) close() { c.host.CloseIdleConnections() }

// newRequest prepares a call that is sent many times.
func (c *connection) newRequest(method, path string) *fasthttp.Request {
	request := &fasthttp.Request{}
	request.Header.SetMethod(method)
	request.SetRequestURI(c.base + path)
	if method != fasthttp.MethodGet {
		request.Header.SetContentType("application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request
}

// callError says why a call has no usable answer.
type callError struct {
	status     int    // 0: no answer came
	code       string // of the error envelope, or the kind of network error
	text       string
	retryAfter time.Duration
	// unknown is set when the broker may have done what was asked.
	unknown bool
}

func (e *callError) Error() string {
	if e.status == 0 {
		return "network " + e.code + ": " + e.text
	}
	return fmt.Sprintf("status %d %s: %s", e.status, e.code, e.text)
}

// kind is the key under which the error is counted.
func (e *callError) kind() string {
	if e.status == 0 {
		return "network " + e.code
	}
	if e.code == "" {
		return strconv.Itoa(e.status)
	}
	return strconv.Itoa(e.status) + " " + e.code
}

// final tells whether sending the same call again cannot help (messaging 2.7, "throw").
func (e *callError) final() bool {
	return e.status >= 400 && e.status < 500 && e.status != fasthttp.StatusTooManyRequests
}

// call sends a request. The answer's status is one of wanted, or there is an error.
func (c *connection) call(request *fasthttp.Request, body []byte, timeout time.Duration, wanted ...int) (status int, answer []byte, failure *callError) {
	request.SetBodyRaw(body)
	request.SetTimeout(timeout)
	if err := c.host.Do(request, &c.response); err != nil {
		return 0, nil, networkError(err)
	}
	status = c.response.StatusCode()
	for _, want := range wanted {
		if status == want {
			return status, c.response.Body(), nil
		}
	}
	return status, nil, c.refusal(status)
}

func networkError(err error) *callError {
	refused := &callError{code: "error", text: err.Error(), unknown: true}
	var operation *net.OpError
	switch {
	case errors.Is(err, fasthttp.ErrTimeout), errors.Is(err, fasthttp.ErrDialTimeout):
		refused.code = "timeout"
	case errors.As(err, &operation) && operation.Op == "dial":
		refused.code, refused.unknown = "dial", false // nothing was sent
	case errors.Is(err, fasthttp.ErrConnectionClosed):
		refused.code = "closed"
	}
	return refused
}

// maxErrorTextBytes keeps a page of HTML out of the result.
const maxErrorTextBytes = 200

// maxRetryAfter bounds how long an answer can hold up a client.
const maxRetryAfter = 5 * time.Second

func (c *connection) refusal(status int) *callError {
	var envelope struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}
	body := c.response.Body()
	if json.Unmarshal(body, &envelope) != nil {
		envelope.Error = string(body)
	}
	if len(envelope.Error) > maxErrorTextBytes {
		envelope.Error = envelope.Error[:maxErrorTextBytes]
	}
	refused := &callError{status: status, code: envelope.Code, text: envelope.Error}
	// A 5xx may stand for a write that is committed later; 507 says that nothing was done.
	refused.unknown = status >= 500 && status != fasthttp.StatusInsufficientStorage
	if seconds, err := strconv.Atoi(string(c.response.Header.Peek("Retry-After"))); err == nil && seconds > 0 {
		refused.retryAfter = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	return refused
}

// Waits before a call is repeated when the answer names none.
const (
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = time.Second
)

// pause waits before attempt number attempt (from 1) and returns early when ctx ends.
func (e *callError) pause(ctx context.Context, attempt int) {
	wait := e.retryAfter
	if wait == 0 {
		wait = min(lastBackoff, firstBackoff<<min(attempt-1, 10))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
