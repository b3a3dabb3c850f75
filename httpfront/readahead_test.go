package httpfront

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestRequestsAreReadWholeHoweverTheyArrive: requests that come in one piece, one beyond what is read ahead, and one that
// comes byte by byte.
func TestRequestsAreReadWholeHoweverTheyArrive(t *testing.T) {
	s := startServer(t, testConfig(), Route{Method: "POST", Pattern: "/size", Level: LevelPublic, Handler: func(r *Request) {
		r.JSON(200, fmt.Appendf(nil, "%d", len(r.Body())))
	}})
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	post := func(bytes int) string {
		return fmt.Sprintf("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", bytes, strings.Repeat("x", bytes))
	}
	answers := bufio.NewReader(c)
	expect := func(sizes ...int) {
		t.Helper()
		for _, size := range sizes {
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != 200 || string(body) != fmt.Sprint(size) {
				t.Fatalf("want %d, got %d %s %v", size, answer.StatusCode, body, err)
			}
		}
	}
	write := func(text string) {
		t.Helper()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
	}
	write(post(7) + post(0) + post(1))
	expect(7, 0, 1)
	write(post(3*readAheadBytes) + post(5))
	expect(3*readAheadBytes, 5)
	for _, piece := range strings.Split(post(9), "") {
		write(piece)
	}
	expect(9)
	write(post(2) + "POST /size HT")
	expect(2)
	write(post(4)[len("POST /size HT"):])
	expect(4)
}
