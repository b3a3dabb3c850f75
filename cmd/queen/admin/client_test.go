package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// answer is one answer of a scripted server.
type answer struct {
	status     int
	body       string
	retryAfter string
}

// scripted is a server that gives its answers in order, the last one again and again, and remembers the requests.
type scripted struct {
	*httptest.Server

	mu       sync.Mutex
	answers  []answer
	requests []string
	headers  []http.Header
}

func newScripted(t *testing.T, answers ...answer) *scripted {
	server := &scripted{answers: answers}
	server.Server = httptest.NewServer(server)
	t.Cleanup(server.Close)
	return server
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a client that went away shows in its own result
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
	s.headers = append(s.headers, r.Header.Clone())
	s.headers[len(s.headers)-1].Set("X-Test-Timeout", r.URL.Query().Get("timeoutMs"))
	next := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if next.retryAfter != "" {
		w.Header().Set("Retry-After", next.retryAfter)
	}
	w.WriteHeader(next.status)
	_, _ = io.WriteString(w, next.body)
}

func (s *scripted) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// client makes a client that does not wait in real time; the waits go to the returned list.
func client(t *testing.T, options Options) (*Client, *[]time.Duration) {
	t.Helper()
	var waits []time.Duration
	options.Pause = func(ctx context.Context, wait time.Duration) error {
		waits = append(waits, wait)
		return ctx.Err()
	}
	made, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made, &waits
}

const membershipAnswer = `{"engine":"raft","membership":{"nodeId":1,"source":"leader","leader":1,"term":3,"voters":[1],"members":[]}}`

func TestServersAreTriedInTurn(t *testing.T) {
	dead := httptest.NewServer(nil)
	dead.Close()
	for status, elsewhere := range map[int]bool{500: true, 503: true, 504: true, 507: true, 400: false, 401: false, 403: false, 404: false, 409: false} {
		first := newScripted(t, answer{status: status, body: `{"ok":false,"code":"c","error":"e"}`})
		second := newScripted(t, answer{status: 200, body: membershipAnswer})
		asked, _ := client(t, Options{Servers: []string{dead.URL, first.URL, second.URL}})
		_, err := asked.Membership(t.Context())
		if elsewhere != (err == nil) || elsewhere != (len(second.seen()) == 1) || len(first.seen()) != 1 {
			t.Errorf("%d: %d and %d requests, error %v", status, len(first.seen()), len(second.seen()), err)
		}
		refusal, refused := errors.AsType[*Refusal](err)
		if !elsewhere && (!refused || refusal.Status != status || refusal.Code != "c" || refusal.Text != "e") {
			t.Errorf("%d: the refusal is %v", status, err)
		}
	}
}

func TestTooManyRequestsWaitsAsLongAsAsked(t *testing.T) {
	server := newScripted(t, answer{429, `{"error":"slow down","code":"overloaded"}`, "3"}, answer{429, ``, ""}, answer{429, ``, "9999"},
		answer{status: 200, body: membershipAnswer})
	asked, waits := client(t, Options{Servers: []string{server.URL}})
	if _, err := asked.Membership(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{3 * time.Second, time.Second, longestRetryAfter}; !slices.Equal(*waits, want) {
		t.Errorf("waited %v, want %v", *waits, want)
	}
}

func TestTooManyRequestsEndsWithTheTimeout(t *testing.T) {
	server := newScripted(t, answer{429, `{"error":"slow down","code":"overloaded"}`, "5"})
	asked, err := New(Options{Servers: []string{server.URL}, Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	_, err = asked.Membership(t.Context())
	if refusal, refused := errors.AsType[*Refusal](err); !refused || refusal.Status != 429 {
		t.Errorf("error %v, want the last refusal", err)
	}
}

func TestServersAreToldTheTimeThatIsLeft(t *testing.T) {
	server := newScripted(t, answer{status: 200, body: membershipAnswer})
	asked, _ := client(t, Options{Servers: []string{server.URL}, Timeout: 10 * time.Second})
	if _, err := asked.Promote(t.Context(), []uint64{2}); err != nil {
		t.Fatal(err)
	}
	left, err := strconv.Atoi(server.headers[0].Get("X-Test-Timeout"))
	if err != nil || left < 1 || left > 10_000 {
		t.Errorf("timeoutMs=%d (%v), want 1 to 10000", left, err)
	}
}

func TestBearerIsForTheNamedServersOnly(t *testing.T) {
	stranger := newScripted(t, answer{status: 200, body: `{"status":"healthy","raft":{"nodeId":2}}`})
	address := strings.TrimPrefix(stranger.URL, "http://")
	server := newScripted(t,
		answer{status: 200, body: fmt.Sprintf(`{"membership":{"leader":1,"members":[{"nodeId":2,"http":%q,"live":true}]}}`, address)},
		answer{status: 200, body: `{"members":[]}`},
		answer{status: 200, body: `{"status":"healthy","raft":{"nodeId":1}}`})
	asked, _ := client(t, Options{Servers: []string{server.URL}, Bearer: "secret"})
	survey, err := asked.Survey(t.Context(), SurveyOptions{})
	if err != nil || !survey.Well {
		t.Fatalf("%v, %+v", err, survey)
	}
	if got := server.headers[0].Get("Authorization"); got != "Bearer secret" {
		t.Errorf("Authorization %q", got)
	}
	if got := stranger.headers[0].Get("Authorization"); got != "" {
		t.Errorf("a server that nobody named got %q", got)
	}
}

func TestPromotionWaitsForALearnerThatIsBehind(t *testing.T) {
	behind := answer{status: 409, body: `{"ok":false,"code":"learner_behind","error":"node 2 lacks 5000 entries"}`}
	server := newScripted(t, behind, behind, answer{status: 200, body: membershipAnswer})
	asked, waits := client(t, Options{Servers: []string{server.URL}})
	if _, err := asked.PromoteWhenCaughtUp(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if len(server.seen()) != 3 || len(*waits) != 2 {
		t.Errorf("requests %v, waits %v", server.seen(), *waits)
	}
	server = newScripted(t, answer{status: 409, body: `{"ok":false,"code":"no_quorum","error":"no"}`})
	asked, waits = client(t, Options{Servers: []string{server.URL}})
	if _, err := asked.PromoteWhenCaughtUp(t.Context(), 2); err == nil || len(*waits) != 0 {
		t.Errorf("another refusal: error %v, waits %v", err, *waits)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := asked.PromoteWhenCaughtUp(ended, 2); err == nil {
		t.Error("a cancelled call succeeded")
	}
}

func TestAnswersOfStrangersAreErrors(t *testing.T) {
	for _, body := range []string{``, `<html>`, `{}`, `{"membership":null}`, `[]`} {
		server := newScripted(t, answer{status: 200, body: body})
		asked, _ := client(t, Options{Servers: []string{server.URL}})
		if _, err := asked.Membership(t.Context()); err == nil || !strings.Contains(err.Error(), "not the answer of a Queen node") {
			t.Errorf("%q: error %v", body, err)
		}
	}
}

func TestRefusedOptions(t *testing.T) {
	for want, options := range map[string]Options{
		"want 1 to 16 URLs":  {},
		`server "localhost"`: {Servers: []string{"localhost"}},
		`server "ftp://x"`:   {Servers: []string{"ftp://x"}},
		"timeout 3m0s":       {Servers: []string{"http://x"}, Timeout: 3 * time.Minute},
		"timeout -1s":        {Servers: []string{"http://x"}, Timeout: -time.Second},
	} {
		if _, err := New(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", options, err, want)
		}
	}
}

func TestRefusalKeepsTheWordsOfTheServer(t *testing.T) {
	for body, want := range map[string]string{
		`{"ok":false,"code":"in_flight","error":"plan 4 (promote) is pending"}`: "409 in_flight: plan 4 (promote) is pending",
		`{"error":"no"}`:                  "409: no",
		`{"code":"busy"}`:                 "409 busy",
		"Bad Gateway\nnginx":              "409: Bad Gateway",
		``:                                "409",
		strings.Repeat("x", 1000):         "409: " + strings.Repeat("x", maxShownBytes),
		strings.Repeat("x", 199) + "€uro": "409: " + strings.Repeat("x", 199),
	} {
		if got := newRefusal(&http.Response{StatusCode: 409}, []byte(body)).Error(); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}
