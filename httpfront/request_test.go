package httpfront

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"strings"
	"testing"

	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// TestEveryCodeHasAStatus reads the constants from the source, so that a new code cannot be forgotten.
func TestEveryCodeHasAStatus(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			return true
		}
		for _, value := range spec.Values {
			text := strings.Trim(value.(*ast.BasicLit).Value, `"`)
			codes++
			if text != "" && statusOf[Code(text)] == 0 {
				t.Errorf("no status for %s", text)
			}
		}
		return true
	})
	if codes != len(statusOf)+1 {
		t.Errorf("%d codes and %d statuses", codes, len(statusOf))
	}
}

func TestErrorsBecomeTheirAnswers(t *testing.T) {
	var failure error
	s := startServer(t, testConfig(),
		Route{Method: "GET", Pattern: "/api/fail", Handler: func(r *Request) { r.Fail(failure) }},
		Route{Method: "GET", Pattern: "/api/pop", Refusal: ShapePop, Handler: func(r *Request) { r.Fail(failure) }},
		Route{Method: "GET", Pattern: "/api/fetch", Refusal: ShapeFetch, Handler: func(r *Request) { r.Fail(failure) }},
		Route{Method: "GET", Pattern: "/api/group", Refusal: ShapeSuccess, Handler: func(r *Request) { r.Fail(failure) }},
	)
	_, badPush := wire.DecodePush([]byte(`{}`))
	_, badOption := wire.DecodeConfigure([]byte(`{"queue":"q","options":{"leaseTime":0}}`))
	for _, c := range []struct {
		err    error
		target string
		status int
		body   string
		retry  string
	}{
		{Refuse(CodeTimeout, textDeadline), "/api/fail", 503, `{"error":"the request deadline elapsed","code":"timeout"}`, "1"},
		{context.DeadlineExceeded, "/api/fail", 503, `{"error":"the request deadline elapsed","code":"timeout"}`, "1"},
		{fmt.Errorf("propose: %w", &Error{Code: CodeNoLeader, Text: "no leader", Leader: "b:6632"}), "/api/fail", 503,
			`{"error":"no leader","code":"no_leader","leader":"b:6632"}`, "1"},
		{&Error{Code: CodeStorageFull, Text: "full", Node: 3}, "/api/fail", 507, `{"error":"full","code":"storage_full","node":3}`, ""},
		{RefuseStatus(404, "Queue not found"), "/api/fail", 404, `{"error":"Queue not found"}`, ""},
		{badPush, "/api/fail", 400, `{"error":"bad push body: missing items","code":"bad_body"}`, ""},
		{badOption, "/api/fail", 400,
			`{"error":"leaseTime must be from 1 to 2147483647","code":"bad_request","invalid":"leaseTime"}`, ""},
		{&command.Refusal{Code: "name_too_long", Text: "too long"}, "/api/pop", 413, `{"error":"too long","code":"name_too_long"}`, ""},
		{&command.Refusal{Code: "unheard_of", Text: "secret"}, "/api/fail", 500, `{"error":"internal error","code":"internal"}`, ""},
		{errors.New("secret"), "/api/fail", 500, `{"error":"internal error","code":"internal"}`, ""},
		{Refuse(CodeBadRequest, "no"), "/api/pop", 400, `{"success":false,"error":"no","messages":[]}`, ""},
		{Refuse(CodeBadRequest, "no"), "/api/fetch", 400, `{"error":"no"}`, ""},
		{Refuse(CodeBadRequest, "no"), "/api/group", 400, `{"success":false,"error":"no"}`, ""},
	} {
		failure = c.err
		got := s.call(t, "GET", c.target, "")
		got.expect(t, c.status, c.body)
		if got.header.Get("Retry-After") != c.retry {
			t.Errorf("%v: Retry-After %q", c.err, got.header.Get("Retry-After"))
		}
		if got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%v: Content-Type %q", c.err, got.header.Get("Content-Type"))
		}
	}
}

func TestQueryParametersAreRefusedByName(t *testing.T) {
	s := startServer(t, testConfig(), Route{Method: "GET", Pattern: "/api/q", Refusal: ShapeFetch, Handler: func(r *Request) {
		batch, err := r.QueryPositive("batch", 200)
		if err != nil {
			r.Fail(err)
			return
		}
		limit, err := r.QueryClamped("limit", 100, 1, 1000)
		if err != nil {
			r.Fail(err)
			return
		}
		wait, present, err := r.QueryBool("wait")
		if err != nil {
			r.Fail(err)
			return
		}
		group, named, err := r.QueryText("consumerGroup")
		if err != nil {
			r.Fail(err)
			return
		}
		timeout, err := r.QueryTimeoutMs(30_000)
		if err != nil {
			r.Fail(err)
			return
		}
		r.JSON(200, fmt.Appendf(nil, "%d %d %t %t %q %t %d", batch, limit, wait, present, group, named, timeout))
	}})
	for query, want := range map[string]string{
		"":                                  `200 100 false false "" false 30000`,
		"?batch=7&limit=0&wait=1&unknown=x": `7 1 true true "" false 30000`,
		"?limit=99999999999999999999999":    `200 1000 false false "" false 30000`,
		"?limit=-99999999999999999999999":   `200 1 false false "" false 30000`,
		"?wait=false&consumerGroup=":        `200 100 false true "" true 30000`,
		"?consumerGroup=a+b%2Bc%zz":         `200 100 false false "a b+c%zz" true 30000`,
		"?timeoutMs=99999999":               `200 100 false false "" false 60000`,
		"?batch=0":                          `{"error":"batch must be a positive integer"}`,
		"?batch=-1":                         `{"error":"batch must be a positive integer"}`,
		"?batch=x":                          `{"error":"batch must be a positive integer"}`,
		"?batch=1.5":                        `{"error":"batch must be a positive integer"}`,
		"?batch=9223372036854775808":        `{"error":"batch must be a positive integer"}`,
		"?limit=":                           `{"error":"limit must be an integer"}`,
		"?limit=1e3":                        `{"error":"limit must be an integer"}`,
		"?wait=yes":                         `{"error":"wait must be true, false, 1 or 0"}`,
		"?consumerGroup=%ff":                `{"error":"consumerGroup is not UTF-8"}`,
		"?timeoutMs=0":                      `{"error":"timeoutMs must be from 1 to 60000"}`,
	} {
		if got := s.call(t, "GET", "/api/q"+query, ""); got.body != want {
			t.Errorf("%s: got %s, want %s", query, got.body, want)
		}
	}
}

func TestTheTenantHeaderCountsOnlyWithTenancy(t *testing.T) {
	route := Route{Method: "GET", Pattern: "/api/t", Refusal: ShapePop, Handler: func(r *Request) { r.JSON(200, []byte(r.Tenant.String())) }}
	const tenant = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"
	for _, tenancy := range []bool{false, true} {
		config := testConfig()
		config.Tenancy = tenancy
		s := startServer(t, config, route)
		s.call(t, "GET", "/api/t", "").expect(t, 200, command.DefaultTenant.String())
		named := s.call(t, "GET", "/api/t", "", "x-queen-tenant: "+strings.ToUpper(tenant))
		bad := s.call(t, "GET", "/api/t", "", "x-queen-tenant: acme")
		empty := s.call(t, "GET", "/api/t", "", "x-queen-tenant:")
		if !tenancy {
			for _, got := range []answer{named, bad, empty} {
				got.expect(t, 200, command.DefaultTenant.String())
			}
			continue
		}
		named.expect(t, 200, tenant)
		for _, got := range []answer{bad, empty} {
			got.expect(t, 400, `{"error":"invalid x-queen-tenant header (must be a UUID)"}`)
		}
	}
}

func TestMetricsCountRoutesByPattern(t *testing.T) {
	s, err := New(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	running := startServer(t, testConfig(), routingTable()...)
	running.router.add(&routeEntry{
		Route: Route{Method: "GET", Pattern: "/metrics/prometheus", Handler: running.MetricsPage(func(w io.Writer) {
			io.WriteString(w, "queen_other 1\n")
		})},
		stats: running.stats.route("/metrics/prometheus"),
	})
	running.call(t, "GET", "/api/v1/pop/queue/secret", "")
	running.call(t, "GET", "/api/v1/pop/queue/other", "")
	running.call(t, "GET", "/api/nope", "")
	running.raw(t, "GET", "nonsense\r\n\r\n").expect(t, 400, `{"error":"malformed HTTP request","code":"bad_request"}`)
	eventually(t, "all requests are counted", func() bool {
		page := running.call(t, "GET", "/metrics/prometheus", "")
		if page.header.Get("Content-Type") != "text/plain; version=0.0.4" {
			t.Fatalf("Content-Type is %q", page.header.Get("Content-Type"))
		}
		for _, line := range []string{
			`queen_http_requests_total{route="/api/v1/pop/queue/:queue",status="200"} 2`,
			`queen_http_requests_total{route="unmatched",status="404"} 1`,
			`queen_http_requests_total{route="unread",status="400"} 1`,
			`queen_http_request_seconds_bucket{route="/api/v1/pop/queue/:queue",le="+Inf"} 2`,
			`queen_raft_admit_bytes{kind="cap"} 0`,
			`queen_raft_admit_total{outcome="refused"} 0`,
			`queen_parked_long_polls 0`,
			`queen_other 1`,
		} {
			if !strings.Contains(page.body, line+"\n") {
				return false
			}
		}
		return !strings.Contains(page.body, "secret")
	})
}

func TestKeptBytesAreACopy(t *testing.T) {
	original := []byte("abc")
	kept := Keep(original)
	original[0] = 'x'
	if !bytes.Equal(kept, []byte("abc")) {
		t.Errorf("kept %q", kept)
	}
}
