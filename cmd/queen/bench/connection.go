package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// connection is one client of the broker with one TCP connection, opened with the first call and again after one that
// failed. It is used by one goroutine; the body that call returns is valid until the next call.
//
// It writes and reads with fasthttp's messages on a connection of its own: fasthttp's client keeps a goroutine per host that
// nobody can stop, and repeats a GET whose connection broke, while a pop must never be repeated behind our back, since
// the first one may have claimed messages.
type connection struct {
	address  string
	tls      *tls.Config // nil: plain HTTP
	base     string
	token    string
	socket   net.Conn // nil until the first call and after a failed one
	reader   *bufio.Reader
	writer   *bufio.Writer
	response fasthttp.Response
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
	c := &connection{
		address: server.Host, base: server.Scheme + "://" + server.Host, token: options.Token,
		reader: bufio.NewReaderSize(nil, readBufferBytes), writer: bufio.NewWriterSize(nil, writeBufferBytes),
	}
	if server.Scheme == "https" {
		c.tls = &tls.Config{ServerName: server.Hostname(), MinVersion: tls.VersionTLS12}
	}
	if server.Port() == "" {
		c.address = net.JoinHostPort(server.Hostname(), server.Scheme) // the scheme is the name of its port
	}
	return c, nil
}

func (c *connection) close() {
	if c.socket != nil {
		// Nothing is in flight any more, so there is nothing that a failing close could lose.
		_ = c.socket.Close()
		c.socket = nil
	}
}

// newRequest prepares a call that is sent many times.
func (c *connection) newRequest(method, path string) *fasthttp.Request {
	request := &fasthttp.Request{}
	request.Header.SetMethod(method)
	request.URI().DisablePathNormalizing = true // names of queues may hold anything, "%2F" and "//" included
	request.SetRequestURI(c.base + path)
	if method != fasthttp.MethodGet {
		request.Header.SetContentType("application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request
}

// open connects when there is no connection.
func (c *connection) open(deadline time.Time) error {
	if c.socket != nil {
		return nil
	}
	dialer := &net.Dialer{Deadline: deadline}
	var socket net.Conn
	var err error
	if c.tls == nil {
		socket, err = dialer.Dial("tcp", c.address)
	} else {
		socket, err = tls.DialWithDialer(dialer, "tcp", c.address, c.tls)
	}
	if err != nil {
		return fmt.Errorf("dial %s: %w", c.address, err)
	}
	c.socket = socket
	c.reader.Reset(socket)
	c.writer.Reset(socket)
	return nil
}

// exchange sends one request and reads its answer.
func (c *connection) exchange(request *fasthttp.Request, deadline time.Time) error {
	if err := c.socket.SetDeadline(deadline); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	if err := request.Write(c.writer); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	if err := c.writer.Flush(); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	if err := c.response.ReadLimitBody(c.reader, maxAnswerBytes); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// maxAnswerBytes bounds an answer; a pop carries at most 64 MiB of payloads (messaging 2.11) and what surrounds them.
const maxAnswerBytes = 512 << 20

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
	deadline := time.Now().Add(timeout)
	if err := c.open(deadline); err != nil {
		return 0, nil, &callError{code: "dial", text: err.Error()}
	}
	request.SetBodyRaw(body)
	if err := c.exchange(request, deadline); err != nil {
		c.close()
		return 0, nil, brokenCall(err)
	}
	if c.response.ConnectionClose() {
		c.close()
	}
	status = c.response.StatusCode()
	if slices.Contains(wanted, status) {
		return status, c.response.Body(), nil
	}
	return status, nil, c.refusal(status)
}

// brokenCall describes a call of which something may have reached the broker.
func brokenCall(err error) *callError {
	failure := &callError{code: "error", text: err.Error(), unknown: true}
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		failure.code = "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		failure.code = "closed"
	}
	return failure
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
