package contract

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// Levels of the route table (2.6, section 3).
const (
	levelPublic    = "public"
	levelReadOnly  = "read-only"
	levelWriteOnly = "write-only"
	levelReadWrite = "read-write"
	levelAdmin     = "admin"
)

// route is one row of the table of section 3; path has example values in the place of its parameters.
type route struct{ method, path, level string }

// routeTable is section 3, row by row, and those of state.md 1.1 that this build has.
func routeTable() []route {
	return []route{
		{"POST", "/api/v1/push", levelWriteOnly},
		{"GET", "/api/v1/pop", levelReadWrite},
		{"GET", "/api/v1/pop/queue/q", levelReadWrite},
		{"GET", "/api/v1/pop/queue/q/partition/p", levelReadWrite},
		{"POST", "/api/v1/ack", levelReadWrite},
		{"POST", "/api/v1/ack/batch", levelReadWrite},
		{"POST", "/api/v1/lease/x/extend", levelReadWrite},
		{"POST", "/api/v1/transaction", levelReadWrite},
		{"POST", "/api/v1/configure", levelReadWrite},
		{"GET", "/api/v1/resources/queues", levelReadOnly},
		{"GET", "/api/v1/resources/queues/q", levelReadOnly},
		{"GET", "/api/v1/resources/queues/q/depth", levelReadOnly},
		{"GET", "/api/v1/resources/queues/q/sizes", levelReadOnly},
		{"DELETE", "/api/v1/resources/queues/q", levelAdmin},
		{"GET", "/api/v1/resources/partitions", levelReadOnly},
		{"GET", "/api/v1/resources/overview", levelReadOnly},
		{"GET", "/api/v1/resources/namespaces", levelReadOnly},
		{"GET", "/api/v1/resources/tasks", levelReadOnly},
		{"GET", "/api/v1/consumer-groups", levelReadOnly},
		{"GET", "/api/v1/consumer-groups/lagging", levelReadOnly},
		{"GET", "/api/v1/consumer-groups/g", levelReadOnly},
		{"DELETE", "/api/v1/consumer-groups/g", levelAdmin},
		{"DELETE", "/api/v1/consumer-groups/g/queues/q", levelAdmin},
		{"POST", "/api/v1/consumer-groups/g/queues/q/seek", levelReadWrite},
		{"POST", "/api/v1/consumer-groups/g/queues/q/partitions/p/seek", levelReadWrite},
		{"POST", "/api/v1/consumer-groups/g/subscription", levelReadWrite},
		{"POST", "/api/v1/consumer-groups/g/positions", levelReadWrite},
		{"GET", "/api/v1/messages", levelReadOnly},
		{"GET", "/api/v1/messages/1/t", levelReadOnly},
		{"DELETE", "/api/v1/messages/1/t", levelReadWrite},
		{"POST", "/api/v1/messages/1/t/retry", levelReadWrite},
		{"GET", "/api/v1/dlq", levelReadOnly},
		{"DELETE", "/api/v1/dlq", levelAdmin},
		{"POST", "/api/v1/dlq/x/replay", levelReadWrite},
		{"POST", "/api/v1/traces", levelReadWrite},
		{"GET", "/api/v1/traces/names", levelReadOnly},
		{"GET", "/api/v1/traces/by-name/n", levelReadOnly},
		{"GET", "/api/v1/traces/1/t", levelReadOnly},
		{"POST", "/api/v1/kv", levelReadWrite},
		{"GET", "/api/v1/kv/ns/key", levelReadOnly},
		{"PUT", "/api/v1/kv/ns/key", levelReadWrite},
		{"DELETE", "/api/v1/kv/ns/key", levelReadWrite},
		{"GET", "/api/v1/resources/kv/namespaces", levelReadOnly},
		{"POST", "/api/v1/resources/kv/list", levelReadOnly},
		{"POST", "/api/v1/locks", levelReadWrite},
		{"POST", "/api/v1/timers", levelWriteOnly},
		{"GET", "/api/v1/timers/q", levelReadOnly},
		{"GET", "/api/v1/timers/q/k", levelReadOnly},
		{"DELETE", "/api/v1/timers/q/k", levelReadWrite},
		{"POST", "/api/v1/fetch", levelReadOnly},
		{"POST", "/api/v1/fetch/offsets", levelReadOnly},
		{"POST", "/api/v1/partitions/changed", levelReadOnly},
		{"GET", "/api/v1/status", levelReadOnly},
		{"GET", "/api/v1/status/queues", levelReadOnly},
		{"GET", "/api/v1/status/queues/q", levelReadOnly},
		{"GET", "/api/v1/status/analytics", levelReadOnly},
		{"GET", "/api/v1/analytics/queue-lag", levelReadOnly},
		{"GET", "/api/v1/analytics/queue-ops", levelReadOnly},
		{"GET", "/api/v1/analytics/queue-parked-replicas", levelReadOnly},
		{"GET", "/api/v1/analytics/retention", levelReadOnly},
		{"GET", "/api/v1/analytics/workload", levelReadOnly},
		{"GET", "/api/v1/analytics/dlq-signatures", levelReadOnly},
		{"GET", "/api/v1/analytics/partition-liveness", levelReadOnly},
		{"GET", "/api/v1/analytics/system-metrics", levelReadOnly},
		{"GET", "/api/v1/analytics/worker-metrics", levelReadOnly},
		{"POST", "/api/v1/stats/refresh", levelAdmin},
		{"GET", "/api/v1/system/config", levelAdmin},
		{"GET", "/health", levelPublic},
		{"GET", "/metrics", levelPublic},
		{"GET", "/metrics/prometheus", levelPublic},
		{"GET", "/status", levelReadOnly},
	}
}

// operatorRoutes are those of cluster.md 4.1 and 7.3 and of state.md 1.1 that this build has; 2.3 counts them among the known paths.
func operatorRoutes() []route {
	return []route{
		{"GET", "/api/v1/raft/status", levelReadOnly},
		{"GET", "/api/v1/raft/members", levelReadOnly},
		{"GET", "/api/v1/raft/liveness", levelReadOnly},
		{"GET", "/api/v1/system/raft/membership", levelAdmin},
		{"POST", "/api/v1/system/raft/membership/learners", levelAdmin},
		{"POST", "/api/v1/system/raft/membership/promote", levelAdmin},
		{"PUT", "/api/v1/system/raft/membership/voters", levelAdmin},
		{"PUT", "/api/v1/system/raft/membership/members/7", levelAdmin},
		{"DELETE", "/api/v1/system/raft/membership/members/7", levelAdmin},
		{"POST", "/api/v1/system/raft/transfer", levelAdmin},
		{"GET", "/api/v1/system/raft/state-hash", levelAdmin},
		{"GET", "/api/v1/system/kv-timers", levelAdmin},
		{"POST", "/api/v1/system/kv-timers", levelAdmin},
	}
}

// headPaths are the paths where HEAD works as GET does (2.3), the dashboard aside.
var headPaths = []string{"/health", "/metrics", "/metrics/prometheus"}

func TestUnknownAPIPathAnswers404_2_3(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/", "/api/v1", "/api/v1/", "/api/v2/push", "/api/v1/nowhere", "/api/v1/push/more",
		"/streams/", "/streams/v1/nowhere", "/api/v1/pop/queue/q/partition/p/more", "/api/v1/PUSH"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			answer := suite.client.Do(harness.Request{Method: method, Path: path})
			need(t, answer, 404)
			want := map[string]any{"code": "no_such_route", "error": "not found", "path": path}
			if !reflect.DeepEqual(answer.Object(), want) {
				t.Errorf("%s %s: want %v, got %v", method, path, want, answer)
			}
		}
	}
}

func TestPathsWithoutARouteAnswerAsUnknown_2_3(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/v1/system/maintenance", "/api/v1/system/maintenance/pop", "/api/v1/status/buffers",
		"/api/v1/analytics/postgres-stats", "/api/v1/queues/q/clear", "/api/v1/messages/1/t/dlq"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			needEnvelope(t, suite.client.Do(harness.Request{Method: method, Path: path}), 404, "no_such_route")
		}
	}
}

// 3, state.md, cluster.md and operations.md: the routes of what this build does not have answer as unknown ones and do
// nothing, so that nobody takes a quota or a key for stored.
func TestRoutesOfWhatIsNotBuiltAreUnknown_3(t *testing.T) {
	t.Parallel()
	for _, request := range []harness.Request{
		{Method: "POST", Path: "/api/v1/resources/quota"}, {Method: "DELETE", Path: "/api/v1/resources/tenant"},
		{Method: "GET", Path: "/api/v1/kv/ns"}, {Method: "GET", Path: "/api/v1/system/ephemeral"},
		{Method: "POST", Path: "/api/v1/ephemeral/push"}, {Method: "POST", Path: "/streams/v1/queries"},
		{Method: "POST", Path: "/streams/v1/cycle"}, {Method: "GET", Path: "/api/v1/system/backup"},
	} {
		answer := suite.client.Do(request)
		needEnvelope(t, answer, 404, "no_such_route")
		if answer.Text("path") != request.Path {
			t.Errorf("want the path %s, got %v", request.Path, answer)
		}
	}
}

func TestMethodAPathDoesNotHaveAnswers405WithAllow_2_3(t *testing.T) {
	t.Parallel()
	methods := map[string][]string{}
	for _, row := range append(routeTable(), operatorRoutes()...) {
		methods[row.path] = append(methods[row.path], row.method)
	}
	// A static segment wins only for the methods it has (2.3); DELETE reaches the parameter.
	methods["/api/v1/consumer-groups/lagging"] = append(methods["/api/v1/consumer-groups/lagging"], "DELETE")
	for path, has := range methods {
		withHead := slices.Contains(headPaths, path)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if slices.Contains(has, method) || method == "HEAD" && withHead {
				continue
			}
			answer := suite.client.Do(harness.Request{Method: method, Path: path})
			if answer.Err != nil || answer.Status != 405 {
				t.Errorf("%s %s: want 405, got %v", method, path, answer)
				continue
			}
			var allow []string
			for _, name := range strings.Split(answer.Header.Get("Allow"), ",") {
				if name = strings.TrimSpace(name); name != "HEAD" || !withHead {
					allow = append(allow, name)
				}
			}
			if slices.Sort(allow); !slices.Equal(allow, slices.Sorted(slices.Values(has))) {
				t.Errorf("%s %s: Allow is %q, the path has %v", method, path, answer.Header.Get("Allow"), has)
			}
			want := map[string]any{"error": "method not allowed", "code": "method_not_allowed"}
			if method != "HEAD" && !reflect.DeepEqual(answer.Object(), want) {
				t.Errorf("%s %s: want %v, got %v", method, path, want, answer)
			}
		}
	}
}

func TestOtherPathWithAnotherMethodAnswers404_2_3(t *testing.T) {
	t.Parallel()
	requests := []harness.Request{
		{Method: "POST", Path: "/"}, {Method: "POST", Path: "/nowhere"}, {Method: "DELETE", Path: "/index.html"},
		{Method: "PUT", Path: "/apix/v1"}, {Method: "GET", Path: "/auth/nowhere"}, {Method: "POST", Path: "/auth/nowhere"},
	}
	for _, request := range requests {
		answer := suite.client.Do(request)
		need(t, answer, 404)
		if want := map[string]any{"error": "Not Found", "code": "no_such_route"}; !reflect.DeepEqual(answer.Object(), want) {
			t.Errorf("%s %s: want %v, got %v", request.Method, request.Path, want, answer)
		}
	}
}

func TestOtherPathShowsTheDashboard_2_3(t *testing.T) {
	t.Parallel()
	start := suite.client.Get("/")
	need(t, start, 200)
	if got := start.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/html") {
		t.Fatalf("the start page is HTML, got %q", got)
	}
	for _, path := range []string{"/queues", "/some/deep/page", "/apix", "/queues?x=1"} {
		answer := suite.client.Get(path)
		need(t, answer, 200)
		if string(answer.Body) != string(start.Body) {
			t.Errorf("%s must show the start page", path)
		}
	}
}

func TestHeadWorksWhereItMust_2_3(t *testing.T) {
	t.Parallel()
	for _, path := range append([]string{"/", "/some/page"}, headPaths...) {
		get := suite.client.Get(path)
		head := suite.client.Do(harness.Request{Method: "HEAD", Path: path})
		need(t, head, get.Status)
		if len(head.Body) != 0 || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") {
			t.Errorf("HEAD %s: want the header of GET and no body, got %v %v", path, head.Header, head)
		}
	}
	// That there is no body on the wire shows in the next answer of the same connection.
	wire, err := suite.broker.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	for _, method := range []string{"HEAD", "HEAD", "GET"} {
		if err := wire.Send(method + " /health HTTP/1.1\r\nHost: queen\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		need(t, wire.Receive(method), 200)
	}
}

func TestStaticSegmentWinsOverAParameter_2_3(t *testing.T) {
	t.Parallel()
	t.Run("lagging is a list", func(t *testing.T) {
		answer := suite.client.Get("/api/v1/consumer-groups/lagging")
		need(t, answer, 200)
		if answer.Array() == nil {
			t.Fatalf("want an array, got %v", answer)
		}
	})
	t.Run("DELETE deletes the group named lagging", func(t *testing.T) {
		queue := uniqueName(t)
		pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
		query := "consumerGroup=lagging&subscriptionMode=all&commitOnDelivery=true"
		needMessages(t, suite.client.Pop(queue, query), "t")
		answer := suite.client.Delete("/api/v1/consumer-groups/lagging")
		need(t, answer, 200)
		if answer.Object()["success"] != true || answer.Text("consumerGroup") != "lagging" {
			t.Fatalf("got %v", answer)
		}
		needMessages(t, suite.client.Pop(queue, query), "t")
	})
	t.Run("trace names are a list", func(t *testing.T) {
		answer := suite.client.Get("/api/v1/traces/names")
		need(t, answer, 200)
		needKeys(t, answer.Object(), "trace_names", "total", "pagination")
	})
	t.Run("traces by name is no partition", func(t *testing.T) {
		answer := suite.client.Get("/api/v1/traces/by-name/" + uniqueName(t))
		need(t, answer, 200)
		needKeys(t, answer.Object(), "traces", "total", "pagination")
	})
}

func TestEveryReadRouteAnswersJSONOnAnEmptyBroker_3(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	missing := map[string]string{ // rows that name an object, and the text of its absence
		"/api/v1/resources/queues/q":       "Queue not found",
		"/api/v1/resources/queues/q/depth": "Queue not found",
		"/api/v1/resources/queues/q/sizes": "Queue not found",
		"/api/v1/status/queues/q":          "Queue not found",
		"/api/v1/consumer-groups/g":        "Consumer group not found",
		"/api/v1/messages/1/t":             "Message not found",
	}
	bodies := map[string]string{
		"/api/v1/fetch":              `{"entries":[]}`,
		"/api/v1/resources/kv/list":  `{"namespace":"ns"}`,
		"/api/v1/fetch/offsets":      `{"entries":[]}`,
		"/api/v1/partitions/changed": `{"entries":[]}`,
	}
	for _, row := range routeTable() {
		if row.level != levelReadOnly && row.level != levelPublic {
			continue
		}
		t.Run(row.method+" "+row.path, func(t *testing.T) {
			request := harness.Request{Method: row.method, Path: row.path}
			if body, has := bodies[row.path]; has {
				request.Body = []byte(body)
			}
			answer := client.Do(request)
			switch {
			case missing[row.path] != "":
				need(t, answer, 404)
				if got := answer.Text("error"); got != missing[row.path] {
					t.Fatalf("want %q, got %v", missing[row.path], answer)
				}
			case row.path == "/api/v1/analytics/dlq-signatures": // lacks its required parameter
				need(t, answer, 400)
			case row.path == "/api/v1/analytics/workload":
				// groupBy stands in the row without a mark of optionality: absent, it is refused or has a default.
				if answer.Status != 200 && answer.Status != 400 || answer.Object() == nil {
					t.Fatalf("got %v", answer)
				}
			case row.path == "/metrics/prometheus":
				need(t, answer, 200)
			default:
				need(t, answer, 200)
				if answer.Value() == nil {
					t.Fatalf("want JSON, got %v", answer)
				}
			}
		})
	}
	t.Run("with their required parameters", func(t *testing.T) {
		for _, path := range []string{"/api/v1/analytics/workload?groupBy=queue", "/api/v1/analytics/dlq-signatures?queue=q"} {
			answer := client.Get(path)
			need(t, answer, 200)
			if answer.Object() == nil {
				t.Fatalf("want an object, got %v", answer)
			}
		}
	})
}
