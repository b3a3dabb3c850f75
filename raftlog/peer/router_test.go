package peer

import (
	"errors"
	"strings"
	"testing"
)

func TestRouter(t *testing.T) {
	var addresses book
	one := start(t, &addresses, 1, nil)
	two := start(t, &addresses, 2, nil)
	asking, serving := NewRouter(one.Network, Admin), NewRouter(two.Network, Admin)
	serving.Handle("double", func(remote Hello, body []byte) ([]byte, error) {
		if remote.NodeID != 1 {
			t.Errorf("asked by node %d", remote.NodeID)
		}
		return []byte("[" + string(body) + "," + string(body) + "]"), nil
	})
	serving.Handle("nothing", func(_ Hello, body []byte) ([]byte, error) {
		if len(body) != 0 {
			t.Errorf("body %q", body)
		}
		return nil, nil
	})
	serving.Handle("refuse", func(Hello, []byte) ([]byte, error) { return nil, errors.New("not today") })
	serving.Handle("broken", func(Hello, []byte) ([]byte, error) { return []byte("{"), nil })
	for _, row := range []struct{ kind, body, want, failure string }{
		{"double", `{"a":1}`, `[{"a":1},{"a":1}]`, ""},
		{"nothing", "", "", ""},
		{"refuse", "", "", "not today"},
		{"broken", "", "", "json"},
		{"stranger", "", "", "does not know the request"},
	} {
		got, err := asking.Ask(ctxFor(t), 2, row.kind, []byte(row.body))
		var remote *RemoteError
		if row.failure != "" {
			if !errors.As(err, &remote) || remote.Node != 2 || remote.Kind != row.kind || !strings.Contains(err.Error(), row.failure) {
				t.Errorf("%s: %v", row.kind, err)
			}
		} else if err != nil || string(got) != row.want {
			t.Errorf("%s: %s, %v", row.kind, got, err)
		}
	}
	if _, err := asking.Ask(ctxFor(t), 2, "double", []byte(`"`+strings.Repeat("x", maxRequestBytes)+`"`)); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("a request that is too large: %v", err)
	}
	if _, err := asking.Ask(ctxFor(t), 2, "double", []byte(`{`)); err == nil {
		t.Error("a body that is no JSON is sent")
	}
	// One connection serves many requests, and a broken one ends nothing but itself.
	conn := dial(t, one, 2, Admin)
	for _, row := range [][2]string{
		{`{"kind":"double","body":1}`, `{"body":[1,1]}`},
		{`{"kind":`, `{"error":"decode request: unexpected end of JSON input"}`},
		{`{"kind":"double","body":2}`, `{"body":[2,2]}`},
	} {
		if err := conn.WriteFrame([]byte(row[0])); err != nil {
			t.Fatal(err)
		}
		if got, err := conn.ReadFrame(1000); err != nil || string(got) != row[1] {
			t.Errorf("%s: %s, %v", row[0], got, err)
		}
	}
}
