package harness

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestClientWithoutResendSendsARequestOnce: a server that breaks a reused connection sees a second try of a plain
// client and none of the other.
func TestClientWithoutResendSendsARequestOnce(t *testing.T) {
	for name, want := range map[string]struct {
		derive func(*Client) *Client
		seen   int64
	}{
		"plain":          {func(c *Client) *Client { return c }, 2},
		"without resend": {(*Client).WithoutResend, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/break" {
					seen.Add(1)
					panic(http.ErrAbortHandler)
				}
				if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
					t.Errorf("want a GET without a body, got length %d and encoding %v", r.ContentLength, r.TransferEncoding)
				}
			}))
			defer server.Close()
			client := want.derive(NewClient(server.URL))
			if reply := client.Get("/warm"); reply.Err != nil {
				t.Fatal(reply.Err)
			}
			if reply := client.Get("/break"); reply.Err == nil {
				t.Fatalf("want a broken connection, got %v", reply)
			}
			if seen.Load() != want.seen {
				t.Fatalf("want %d tries, the server saw %d", want.seen, seen.Load())
			}
		})
	}
}
