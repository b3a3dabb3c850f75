package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// requestTimeout is longer than the longest wait the contract allows (60 s), so that a hanging broker fails the test
// instead of the test binary.
const requestTimeout = 75 * time.Second

// Client sends requests to one broker. All methods may be called from any goroutine. A transport failure is in Err
// of the reply, with Status 0.
type Client struct {
	base   *url.URL
	http   *http.Client
	header http.Header
	once   bool // WithoutResend
	// timeout is WithTimeout, deadline is WithDeadline; 0 where nobody asked.
	timeout, deadline time.Duration
}

// NewClient returns a client of the broker at base, an address like http://127.0.0.1:6632.
func NewClient(base string) *Client {
	parsed, err := url.Parse(base)
	if err != nil {
		panic(fmt.Sprintf("BUG: broker address %q: %v", base, err))
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	client := &http.Client{
		Transport: transport,
		// A redirect would hide what the broker answered.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Client{base: parsed, http: client, header: http.Header{}}
}

// With returns a client over the same connections that sends the header with every request.
func (c *Client) With(name, value string) *Client {
	derived := *c
	derived.header = maps.Clone(c.header)
	derived.header.Set(name, value)
	return &derived
}

// WithTimeout returns a client over the same connections that gives up on an answer after so long.
func (c *Client) WithTimeout(timeout time.Duration) *Client {
	derived := *c
	derived.timeout = timeout
	return &derived
}

// WithDeadline returns a client over the same connections whose POST requests carry the deadline as timeoutMs (cluster.md
// 8.2): no write of them takes effect much later.
func (c *Client) WithDeadline(deadline time.Duration) *Client {
	derived := *c
	derived.deadline = deadline
	return &derived
}

// WithoutResend returns a client over the same connections that sends every request at most once. Others leave it to
// the transport, which repeats a GET by itself when a reused connection breaks before the answer: the effect of the
// first try, such as the claim of a pop, would then go unnoticed.
func (c *Client) WithoutResend() *Client {
	derived := *c
	derived.once = true
	return &derived
}

// WithToken returns a client over the same connections that sends the token as its bearer.
func (c *Client) WithToken(token string) *Client { return c.With("Authorization", "Bearer "+token) }

// WithTenant returns a client over the same connections that speaks for the tenant.
func (c *Client) WithTenant(tenant string) *Client { return c.With("x-queen-tenant", tenant) }

// Close gives up the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request is one request. Path is the raw request target, query included: it is sent byte for byte.
type Request struct {
	Method string
	Path   string
	Body   []byte
	Header http.Header
}

// Response is what a broker answered. Status is 0 when Err is set.
type Response struct {
	Status  int
	Header  http.Header
	Body    []byte
	Elapsed time.Duration
	Err     error
}

// Decode unmarshals the body into a Go value.
func (r Response) Decode(into any) error {
	if r.Err != nil {
		return r.Err
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("decode body of status %d: %w: %s", r.Status, err, clip(r.Body))
	}
	return nil
}

// Object returns the body as a JSON object with its numbers as json.Number, or nil when it is none.
func (r Response) Object() map[string]any {
	object, _ := r.Value().(map[string]any)
	return object
}

// Array returns the body as a JSON array, or nil when it is none.
func (r Response) Array() []any {
	array, _ := r.Value().([]any)
	return array
}

// Value returns the body as a JSON value with its numbers as json.Number, or nil when it is not one JSON value.
func (r Response) Value() any {
	decoder := json.NewDecoder(bytes.NewReader(r.Body))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || decoder.More() {
		return nil
	}
	return value
}

// Text returns the string under key of an object body, or "".
func (r Response) Text(key string) string {
	text, _ := r.Object()[key].(string)
	return text
}

// String shows the response for a failure message.
func (r Response) String() string {
	if r.Err != nil {
		return "transport error: " + r.Err.Error()
	}
	return fmt.Sprintf("status %d after %v: %s", r.Status, r.Elapsed.Round(time.Millisecond), clip(r.Body))
}

// Do sends a request and reads the whole answer.
func (c *Client) Do(request Request) Response { return c.DoContext(context.Background(), request) }

// DoContext is Do; when the context ends, the connection is closed as a leaving client closes it.
func (c *Client) DoContext(ctx context.Context, request Request) Response {
	timeout := requestTimeout
	if c.timeout > 0 {
		timeout = c.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path, query, hasQuery := strings.Cut(request.Path, "?")
	// Opaque keeps the path as it stands: nothing is escaped, cleaned or merged on the way.
	target := &url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Opaque: path, RawQuery: query, ForceQuery: hasQuery && query == ""}
	outgoing := &http.Request{Method: request.Method, URL: target, Host: c.base.Host, Header: c.header.Clone()}
	if request.Body != nil {
		outgoing.Body = io.NopCloser(bytes.NewReader(request.Body))
		outgoing.ContentLength = int64(len(request.Body))
		outgoing.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(request.Body)), nil }
	}
	if request.Body == nil && c.once {
		// The transport repeats only what it knows to have no body; this one turns out to be empty when it is sent.
		outgoing.Body = io.NopCloser(bytes.NewReader(nil))
	}
	maps.Copy(outgoing.Header, request.Header)
	start := time.Now()
	incoming, err := c.http.Do(outgoing.WithContext(ctx))
	if err != nil {
		return Response{Err: fmt.Errorf("%s %s: %w", request.Method, clip([]byte(request.Path)), err), Elapsed: time.Since(start)}
	}
	defer func() { _ = incoming.Body.Close() }()
	body, err := io.ReadAll(incoming.Body)
	elapsed := time.Since(start)
	if err != nil {
		return Response{Err: fmt.Errorf("read answer of %s %s: %w", request.Method, clip([]byte(request.Path)), err), Elapsed: elapsed}
	}
	return Response{Status: incoming.StatusCode, Header: incoming.Header, Body: body, Elapsed: elapsed}
}

// Get sends a GET to the raw request target.
func (c *Client) Get(path string) Response {
	return c.Do(Request{Method: http.MethodGet, Path: path})
}

// Delete sends a DELETE without a body to the raw request target.
func (c *Client) Delete(path string) Response {
	return c.Do(Request{Method: http.MethodDelete, Path: path})
}

// Post sends a POST. A string or a []byte is the body as it stands, nil is no body, anything else is marshalled.
func (c *Client) Post(path string, body any) Response {
	if c.deadline > 0 {
		path = withQuery(path, "timeoutMs", strconv.FormatInt(c.deadline.Milliseconds(), 10))
	}
	return c.Do(Request{Method: http.MethodPost, Path: path, Body: encodeBody(body)})
}

// withQuery adds a parameter to a raw request target.
func withQuery(path, name, value string) string {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return path + separator + name + "=" + value
}

func encodeBody(body any) []byte {
	switch typed := body.(type) {
	case nil:
		return nil
	case string:
		return []byte(typed)
	case []byte:
		return typed
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("BUG: a test body does not marshal: %v", err))
	}
	return encoded
}

// clip shortens bytes for messages.
func clip(text []byte) string {
	const shown = 600
	if len(text) <= shown {
		return string(text)
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:shown], len(text))
}
