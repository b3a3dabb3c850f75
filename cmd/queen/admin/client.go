package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxTimeout is the longest timeoutMs that the membership routes take (cluster 4.1).
	MaxTimeout = 120 * time.Second
	// DefaultTimeout is theirs as well.
	DefaultTimeout = 30 * time.Second

	// answerAllowance is how much longer than its own deadline a server may take to say so.
	answerAllowance = 5 * time.Second
	// maxAnswerBytes bounds one answer; eight members need a few KiB.
	maxAnswerBytes = 4 << 20
	// maxServers bounds the list: a cluster has at most 8 members.
	maxServers = 16
	// longestRetryAfter bounds what a server may ask for; Queen asks for 1 to 5 s (cluster 8.5).
	longestRetryAfter = 10 * time.Second
)

// Options says whom to ask and how.
type Options struct {
	// Servers are base URLs such as http://127.0.0.1:6632, in order of preference. Required.
	Servers []string
	// Bearer is a token or an API key; empty sends none.
	Bearer string
	// AnyCertificate switches the verification of the servers' certificates off.
	AnyCertificate bool
	// Timeout bounds one call over all its tries; 0 is DefaultTimeout.
	Timeout time.Duration
	// Pause waits before a repeat and returns early, with the cause, when ctx ends; nil waits in real time.
	Pause func(ctx context.Context, wait time.Duration) error
}

// Client asks the servers of one cluster. Its methods may be called from any goroutine.
type Client struct {
	options Options
	servers []*url.URL
	http    *http.Client
}

// New checks the options and makes a client; Close gives up its connections.
func New(options Options) (*Client, error) {
	if len(options.Servers) == 0 || len(options.Servers) > maxServers {
		return nil, fmt.Errorf("servers: want 1 to %d URLs", maxServers)
	}
	client := &Client{options: options}
	for _, text := range options.Servers {
		server, err := url.Parse(text)
		if err != nil || server.Host == "" || (server.Scheme != "http" && server.Scheme != "https") {
			return nil, fmt.Errorf("server %q: want something like http://127.0.0.1:6632", text)
		}
		server.Path, server.RawQuery, server.Fragment = strings.TrimSuffix(server.Path, "/"), "", ""
		client.servers = append(client.servers, server)
	}
	if client.options.Timeout == 0 {
		client.options.Timeout = DefaultTimeout
	}
	if client.options.Timeout < time.Millisecond || client.options.Timeout > MaxTimeout {
		return nil, fmt.Errorf("timeout %v: want 1ms to %v", options.Timeout, MaxTimeout)
	}
	if client.options.Pause == nil {
		client.options.Pause = pause
	}
	client.http = &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: options.AnyCertificate, MinVersion: tls.VersionTLS12}},
		// A redirect would carry the token to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client, nil
}

// Close gives up the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// WithDeadline bounds a sequence of calls by the client's timeout. A call without it is bounded by itself.
func (c *Client) WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.options.Timeout)
}

// pause is the Pause of real time.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// call is one request to whichever server answers.
type call struct {
	method, path string
	// body is marshalled; nil sends none.
	body any
	// timed sends the time that is left as timeoutMs, as the membership routes take it.
	timed bool
	// open sends no token: the route is public, and its server may not be one that the user has named.
	open bool
}

// do sends a call to one server after another (promise 1) and returns the body of the first 2xx.
func (c *Client) do(ctx context.Context, call call) ([]byte, error) {
	ctx, cancel := c.WithDeadline(ctx)
	defer cancel()
	deadline, _ := ctx.Deadline()
	// The caller's cancellation counts, its deadline reaches the server as timeoutMs and is given some room here.
	tries, stop := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(answerAllowance))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			stop()
		}
	})()

	var problems []error
	for _, server := range c.servers {
		body, err := c.persist(ctx, tries, server, call)
		if err == nil {
			return body, nil
		}
		if len(c.servers) > 1 {
			err = fmt.Errorf("%s: %w", server.Redacted(), err)
		}
		problems = append(problems, err)
		if !elsewhere(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(problems...)
}

// persist asks one server, again and again while it answers 429 and time is left.
func (c *Client) persist(ctx, tries context.Context, server *url.URL, call call) ([]byte, error) {
	for {
		body, err := c.ask(ctx, tries, server, call)
		refusal, refused := errors.AsType[*Refusal](err)
		if !refused || refusal.Status != http.StatusTooManyRequests {
			return body, err
		}
		if waited := c.options.Pause(ctx, refusal.retryAfter); waited != nil {
			return nil, err
		}
	}
}

// elsewhere tells whether another server may know better.
func elsewhere(err error) bool {
	refusal, refused := errors.AsType[*Refusal](err)
	return !refused || refusal.Status >= 500
}

// ask sends a call to one server once. ctx says how much time the server is given, tries bounds the exchange.
func (c *Client) ask(ctx, tries context.Context, server *url.URL, call call) ([]byte, error) {
	target := server.JoinPath(call.path)
	if deadline, bounded := ctx.Deadline(); call.timed && bounded {
		left := max(1, time.Until(deadline).Milliseconds())
		target.RawQuery = url.Values{"timeoutMs": {strconv.FormatInt(left, 10)}}.Encode()
	}
	var content io.Reader
	if call.body != nil {
		encoded, err := json.Marshal(call.body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(tries, call.method, target.String(), content)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if content != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.options.Bearer != "" && !call.open {
		request.Header.Set("Authorization", "Bearer "+c.options.Bearer)
	}
	return c.exchange(request)
}

// exchange sends a request and returns the body of a 2xx; anything else is a Refusal.
func (c *Client) exchange(request *http.Request) ([]byte, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err // it names method and URL already
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", request.URL.Redacted(), err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, newRefusal(response, body)
	}
	return body, nil
}
