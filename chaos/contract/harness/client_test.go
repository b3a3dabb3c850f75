package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// echo answers with the request line as the server read it.
func echo(t *testing.T, status int, answer func(*http.Request) string) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer(r)))
	}))
	t.Cleanup(server.Close)
	return NewClient(server.URL)
}

func TestRequestTargetIsSentByteForByte(t *testing.T) {
	// A listener instead of a server: servers refuse some of the targets that Queen must read.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // the listener was closed
			}
			line, _ := bufio.NewReader(connection).ReadString('\n')
			target := strings.TrimSuffix(strings.TrimPrefix(line, "GET "), " HTTP/1.1\r\n")
			_, _ = fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(target), target)
			_ = connection.Close()
		}
	})
	client := NewClient("http://" + listener.Addr().String())
	for _, target := range []string{"/a%2Fb", "/a//b/../c", "/x%", "/é/\xff", "/p?a=+%20&b", "/p?", "/{\"q\"}|^"} {
		if got := client.Get(target); got.Err != nil || string(got.Body) != target {
			t.Errorf("sent %q, the server read %v", target, got)
		}
	}
}

func TestHeadersOfADerivedClientDoNotLeak(t *testing.T) {
	client := echo(t, 200, func(r *http.Request) string { return r.Header.Get("Authorization") + r.Header.Get("x-queen-tenant") })
	if got := client.WithToken("abc").WithTenant("t").Get("/"); string(got.Body) != "Bearer abct" {
		t.Errorf("got %v", got)
	}
	if got := client.Get("/"); len(got.Body) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestTypedCallsDecodeTheirStatusOnly(t *testing.T) {
	const body = `[{"index":0,"message_id":"m","transaction_id":"t","queueName":"q","status":"queued","offset":9007199254740993}]`
	reply := echo(t, 201, func(*http.Request) string { return body }).Push(Item{Queue: "q", Payload: 1})
	if reply.Err != nil || len(reply.Items) != 1 || *reply.Items[0].Offset != 9007199254740993 {
		t.Errorf("got %v", reply)
	}
	if reply := echo(t, 400, func(*http.Request) string { return `{"error":"no"}` }).Push(); reply.Err != nil || reply.Items != nil || reply.Text("error") != "no" {
		t.Errorf("a refusal is left to the test, got %v", reply)
	}
	if reply := echo(t, 201, func(*http.Request) string { return `{}` }).Push(); reply.Err == nil {
		t.Error("an answer of another shape must show")
	}
}

func TestPushBodyOfATypedItem(t *testing.T) {
	var sent string
	client := echo(t, 201, func(r *http.Request) string {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		sent = string(body)
		return "[]"
	})
	client.Push(Item{Queue: "", Payload: nil}, Item{Queue: "q", Partition: "p", Payload: json.RawMessage("1.0"), TransactionID: "t"})
	want := `{"items":[{"queue":"","payload":null},{"queue":"q","partition":"p","payload":1.0,"transactionId":"t"}]}`
	if sent != want {
		t.Errorf("want %s, got %s", want, sent)
	}
}

func TestUnreachableBrokerIsATransportError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if reply := NewClient(server.URL).Get("/health"); reply.Err == nil || reply.Status != 0 {
		t.Errorf("got %v", reply)
	}
}

func TestTokenIsSignedOverHeaderAndClaims(t *testing.T) {
	// Computed with the hmac module of Python.
	const want = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhIn0.qBdA9L_PTGPhu7ipY7Xs4Eol-m79U_HNIifGEFJXeJQ"
	if got := Token("secret", map[string]any{"sub": "a"}); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestBrokerThatExitsIsReportedWithItsLog(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "broken")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho \"FATAL: no such luck\"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Start(Options{Binary: binary, Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "FATAL: no such luck") || !strings.Contains(err.Error(), "exited") {
		t.Errorf("got %v", err)
	}
}
