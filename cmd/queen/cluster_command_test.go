package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fakeCluster plays one node of a cluster: what the specification says of its routes (cluster 4, 7).
type fakeCluster struct {
	*httptest.Server

	mu       sync.Mutex
	routes   map[string][]reply // by method and path; the last reply of a list repeats
	requests []string           // those that change something, with their bodies
}

// reply is one answer; JSON, and the status 200 unless the body begins with another.
type reply string

func newFakeCluster(t *testing.T, routes map[string][]reply) *fakeCluster {
	t.Helper()
	cluster := &fakeCluster{routes: routes}
	cluster.Server = httptest.NewServer(cluster)
	t.Cleanup(cluster.Close)
	return cluster
}

func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a client that went away shows in its own result
	c.mu.Lock()
	defer c.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/system/raft")
	key := r.Method + " " + path
	if r.Method != http.MethodGet {
		c.requests = append(c.requests, strings.TrimSpace(key+" "+string(body)))
	}
	timed := strings.HasPrefix(r.URL.Path, "/api/v1/system/raft/")
	if ms, err := strconv.Atoi(r.URL.Query().Get("timeoutMs")); timed && (err != nil || ms < 1 || ms > 120_000) {
		http.Error(w, "timeoutMs="+r.URL.Query().Get("timeoutMs"), http.StatusTeapot)
		return
	}
	replies := c.routes[key]
	if len(replies) == 0 {
		http.Error(w, `{"error":"no such route","code":"no_such_route"}`, http.StatusNotFound)
		return
	}
	if len(replies) > 1 {
		c.routes[key] = replies[1:]
	}
	status, content, found := strings.Cut(string(replies[0]), " ")
	code, err := strconv.Atoi(status)
	if !found || err != nil {
		code, content = http.StatusOK, string(replies[0])
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, content)
}

// view makes the membership of three nodes that listen nowhere, so that nothing outside the test is asked. members names
// their roles: v for a voter, l for a learner, - for none.
func view(members string) string {
	var voters, learners, rows []string
	for i, role := range members {
		id := strconv.Itoa(i + 1)
		switch role {
		case 'v':
			voters = append(voters, id)
		case 'l':
			learners = append(learners, id)
		default:
			continue
		}
		rows = append(rows, fmt.Sprintf(`{"nodeId":%s,"voter":%t,"raft":"queen-%s:7400","http":"127.0.0.1:%s","matched":90,"lag":0,`+
			`"lastAckMs":0,"live":true,"identity":"ok","kinds":7,"diskPct":41.2,"seenRaft":null}`, id, role == 'v', id, id))
	}
	return fmt.Sprintf(`{"nodeId":1,"source":"leader","viewAgeMs":0,"leader":1,"term":3,"clusterId":"0197c3a2-0000-7000-8000-000000000001",`+
		`"clusterEpoch":1,"voters":[%s],"learners":[%s],"joint":null,"membershipIndex":12,"membershipCommitted":true,"changeInFlight":false,`+
		`"plan":null,"lastLogIndex":90,"committedIndex":90,"liveWithinMs":2000,"promoteMaxLag":1000,"members":[%s]}`,
		strings.Join(voters, ","), strings.Join(learners, ","), strings.Join(rows, ","))
}

func got(members string) reply  { return reply(`{"engine":"raft","membership":` + view(members) + `}`) }
func done(members string) reply { return reply(`{"ok":true,"membership":` + view(members) + `}`) }

func refused(status int, code, text string) reply {
	return reply(fmt.Sprintf(`%d {"ok":false,"code":%q,"error":%q}`, status, code, text))
}

const (
	nodesWell = `{"clusterId":"0197c3a2-0000-7000-8000-000000000001","clusterEpoch":1,"leaderId":1,"term":3,"self":1,"voters":[1,2,3],"members":[` +
		`{"nodeId":1,"role":"voter","state":"leader","reachable":true,"local":true,"httpAddr":"127.0.0.1:1","raftAddr":"queen-1:7400","appliedIndex":90,"lagEntries":0,"identity":"ok","clockSkewMs":0,"diskPct":41.2,"version":"1.0.0","error":null},` +
		`{"nodeId":2,"role":"voter","state":"follower","reachable":true,"local":false,"httpAddr":"127.0.0.1:2","raftAddr":"queen-2:7400","appliedIndex":90,"lagEntries":0,"identity":"ok","clockSkewMs":-3,"diskPct":40,"version":"1.0.0","error":null},` +
		`{"nodeId":3,"role":"voter","state":"follower","reachable":true,"local":false,"httpAddr":"127.0.0.1:3","raftAddr":"queen-3:7400","appliedIndex":88,"lagEntries":2,"identity":"ok","clockSkewMs":12,"diskPct":43.75,"version":"1.0.0","error":null}]}`
	healthWell = `{"status":"healthy","engine":"raft","version":"1.0.0","reasons":[],"raft":{"role":"leader","nodeId":1,"storageFull":false,"apply":{"failure":null,"skipped":[]}}}`
)

// scenario is one call of `queen cluster`.
type scenario struct {
	routes    map[string][]reply
	arguments []string
	environ   []string
	answer    string // what is typed at the question; empty when nobody sits there
	code      int
}

const membershipRoute, nodesRoute = "GET /membership", "GET /api/v1/raft/members"

func scenarios() map[string]scenario {
	well := map[string][]reply{membershipRoute: {got("vvv")}, nodesRoute: {nodesWell}, "GET /health": {healthWell}}
	with := func(key string, replies ...reply) map[string][]reply {
		return map[string][]reply{membershipRoute: {got("vll")}, key: replies}
	}
	address, moved := "PUT /membership/members/2", reply(strings.ReplaceAll(string(done("vll")), "queen-2:7400", "new-2:7400"))
	return map[string]scenario{
		"status":           {routes: well, arguments: []string{"status"}},
		"status-plain":     {routes: well, arguments: []string{"status", "--no-headers", "--no-color"}},
		"status-quiet":     {routes: well, arguments: []string{"status", "-q"}},
		"status-json":      {routes: well, arguments: []string{"status", "--json"}},
		"status-yaml":      {routes: well, arguments: []string{"status", "-o", "yaml"}},
		"status-unwell":    {routes: unwell(), arguments: []string{"status"}, code: 2},
		"status-forbidden": {routes: map[string][]reply{membershipRoute: {refused(403, "forbidden", "admin is required")}}, arguments: []string{"status"}, code: 3},
		"status-no-leader": {routes: map[string][]reply{membershipRoute: {refused(503, "no_leader", "no leader is known")}}, arguments: []string{"status"}, code: 2},

		"add": {routes: with("POST /membership/learners", done("vll")), arguments: []string{"add", "2", "--raft", "q2:7400", "--http", "q2:6632"}},
		"add-new": {routes: map[string][]reply{membershipRoute: {got("v")}, "POST /membership/learners": {done("vl")}},
			arguments: []string{"add", "2", "--raft", "q2:7400", "--http", "q2:6632"}},
		"add-promote": {routes: map[string][]reply{membershipRoute: {got("v")}, "POST /membership/learners": {done("vl")}, "POST /membership/promote": {done("vv")}},
			arguments: []string{"add", "2", "--raft", "q2:7400", "--http", "q2:6632", "--promote"}},
		"add-voter": {routes: map[string][]reply{membershipRoute: {got("vv")}, "POST /membership/learners": {refused(409, "already_voter", "node 2 is a voter")},
			"POST /membership/promote": {done("vv")}}, arguments: []string{"add", "2", "--raft", "q2:7400", "--http", "q2:6632", "--promote"}},
		"add-silent": {routes: with("POST /membership/learners", refused(503, "retry", "node 2 does not answer at q2:7400")),
			arguments: []string{"add", "2", "--raft", "q2:7400", "--http", "q2:6632"}, code: 2},

		"promote":            {routes: with("POST /membership/promote", done("vvv")), arguments: []string{"promote", "2", "3"}},
		"promote-json":       {routes: with("POST /membership/promote", done("vvv")), arguments: []string{"promote", "2", "3", "--json"}},
		"promote-in-flight":  {routes: with("POST /membership/promote", refused(409, "in_flight", "plan 4 (voters) is pending")), arguments: []string{"promote", "2"}, code: 2},
		"promote-refused-js": {routes: with("POST /membership/promote", refused(409, "no_quorum", "1 of 3 voters is live")), arguments: []string{"promote", "2", "-o", "json"}, code: 2},
		"promote-timeout":    {routes: with("POST /membership/promote", refused(504, "timeout", "the change goes on")), arguments: []string{"promote", "2"}, code: 2},
		"promote-asked":      {routes: with("POST /membership/promote", done("vvl")), arguments: []string{"promote", "2"}, answer: "yes\n"},
		"promote-declined":   {routes: with("POST /membership/promote", done("vvl")), arguments: []string{"promote", "2"}, answer: "\n", code: 1},
		"promote-not-asked":  {routes: with("POST /membership/promote", done("vvl")), arguments: []string{"promote", "2", "--yes", "-q"}, answer: "no\n"},

		"voters":      {routes: with("PUT /membership/voters", done("vvv")), arguments: []string{"voters", "1", "2", "3"}},
		"remove":      {routes: map[string][]reply{membershipRoute: {got("vvv")}, "DELETE /membership/members/3": {done("vv")}}, arguments: []string{"remove", "3"}},
		"remove-last": {routes: map[string][]reply{membershipRoute: {got("v")}, "DELETE /membership/members/1": {refused(409, "last_voter", "node 1 is the only voter")}}, arguments: []string{"remove", "1"}, code: 2},
		"replace":     {routes: map[string][]reply{membershipRoute: {got("vvv")}, "POST /membership/replace": {done("vvv")}}, arguments: []string{"replace", "3"}},
		"replace-behind": {routes: map[string][]reply{membershipRoute: {got("vvv")}, "POST /membership/replace": {refused(504, "timeout", "the change goes on")}},
			arguments: []string{"replace", "3"}, code: 2},
		"replace-elsewhere": {routes: map[string][]reply{membershipRoute: {got("vvv")}, "DELETE /membership/members/3": {done("vv")},
			"POST /membership/learners": {done("vvl")}, "POST /membership/promote": {done("vvv")}}, arguments: []string{"replace", "3", "--raft", "new-3:7400"}},
		"replace-elsewhere-again": {routes: map[string][]reply{membershipRoute: {got("vvl")}, "POST /membership/promote": {done("vvv")}},
			arguments: []string{"replace", "3", "--raft", "queen-3:7400"}},
		"replace-stranger": {routes: map[string][]reply{membershipRoute: {got("vv")}}, arguments: []string{"replace", "3", "--raft", "new-3:7400"}, code: 2},
		"address":          {routes: with(address, moved), arguments: []string{"address", "2", "--raft", "new-2:7400", "--http", "new-2:6632"}},
		"address-force":    {routes: with(address, moved), arguments: []string{"address", "2", "--raft", "new-2:7400", "--force"}},
		"address-in-use": {routes: with(address, refused(409, "address_in_use", "node 3 has new-2:7400")),
			arguments: []string{"address", "2", "--raft", "new-2:7400"}, code: 2},

		"transfer":      {routes: with("POST /transfer", `{"ok":true,"from":1,"to":2,"term":4,"ms":38}`), arguments: []string{"transfer"}},
		"transfer-to":   {routes: with("POST /transfer", `{"ok":true,"from":1,"to":2,"term":4,"ms":38}`), arguments: []string{"transfer", "2", "--group", "3"}},
		"transfer-same": {routes: with("POST /transfer", `{"ok":true,"from":2,"to":2,"term":4,"ms":0}`), arguments: []string{"transfer", "2"}},
		"transfer-json": {routes: with("POST /transfer", `{"ok":true,"from":1,"to":2,"term":4,"ms":38}`), arguments: []string{"transfer", "2", "--json"}},
		"transfer-busy": {routes: with("POST /transfer", refused(409, "busy", "a leadership transfer is running")), arguments: []string{"transfer", "2"}, code: 2},
	}
}

// unwell is a cluster with a node down, a plan that waits and a renamed host.
func unwell() map[string][]reply {
	membership := strings.NewReplacer(
		`"plan":null`, `"plan":{"id":4,"kind":"rejoin","target":2,"steps":[{"op":"add","id":2,"state":"done"},{"op":"promote","id":2,"state":"pending"}],"startedAtMs":1,"waiting":"learner_unreachable"}`,
		`"http":"127.0.0.1:3","matched":90,"lag":0,"lastAckMs":0,"live":true`, `"http":"127.0.0.1:3","matched":null,"lag":null,"lastAckMs":90000,"live":false`,
		`"raft":"queen-2:7400","http":"127.0.0.1:2","matched":90,"lag":0,"lastAckMs":0,"live":true,"identity":"ok","kinds":7,"diskPct":41.2,"seenRaft":null`,
		`"raft":"queen-2:7400","http":"127.0.0.1:2","matched":90,"lag":0,"lastAckMs":0,"live":true,"identity":"replaced","kinds":7,"diskPct":41.2,"seenRaft":"new-2:7400"`,
	).Replace(view("vlv"))
	nodes := strings.NewReplacer(
		`"nodeId":2,"role":"voter","state":"follower"`, `"nodeId":2,"role":"learner","state":"learner"`, `"lagEntries":0,"identity":"ok","clockSkewMs":-3`, `"lagEntries":40000,"identity":"replaced","clockSkewMs":-412`,
		`"nodeId":3,"role":"voter","state":"follower","reachable":true`, `"nodeId":3,"role":"voter","state":"unreachable","reachable":false`,
		`"appliedIndex":88,"lagEntries":2,"identity":"ok","clockSkewMs":12,"diskPct":43.75,"version":"1.0.0","error":null`, `"appliedIndex":null,"lagEntries":null,"identity":"","clockSkewMs":null,"diskPct":null,"version":"","error":"dial queen-3:7400: connection refused"`,
	).Replace(nodesWell)
	return map[string][]reply{membershipRoute: {reply(`{"engine":"raft","membership":` + membership + `}`)}, nodesRoute: {reply(nodes)},
		"GET /health": {`503 {"status":"settling","reasons":["lag"],"raft":{"nodeId":1,"storageFull":true,"apply":{"failure":null}}}`}}
}

// TestClusterCommands holds what each command sends, prints and returns against a transcript.
func TestClusterCommands(t *testing.T) {
	for name, row := range scenarios() {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, row.routes)
			var stdout, stderr bytes.Buffer
			around := process{environ: append(row.environ, "QUEENCTL_SERVER="+cluster.URL), stdin: strings.NewReader(row.answer),
				stdout: &stdout, stderr: &stderr, asks: row.answer != ""}
			code := run(t.Context(), append([]string{"cluster"}, row.arguments...), around)
			if code != row.code {
				t.Errorf("exit %d, want %d", code, row.code)
			}
			transcript := fmt.Sprintf("$ queen cluster %s\n%s-- stdout\n%s-- stderr\n%s", strings.Join(row.arguments, " "),
				sent(cluster.requests), endLine(stdout.String()), endLine(stderr.String()))
			golden(t, name, strings.ReplaceAll(transcript, cluster.URL, "http://node-1"))
		})
	}
}

func sent(requests []string) string {
	var text strings.Builder
	for _, request := range requests {
		text.WriteString("> " + request + "\n")
	}
	return text.String()
}

// endLine ends a text with a line end, which a question on the terminal lacks.
func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

func golden(t *testing.T, name, transcript string) {
	t.Helper()
	path := filepath.Join("testdata", "cluster", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(transcript), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if transcript != string(want) {
		t.Errorf("the transcript differs from %s (-update writes it anew):\n%s", path, transcript)
	}
}

// TestEveryTranscriptHasItsScenario keeps golden files of scenarios that are gone from staying behind.
func TestEveryTranscriptHasItsScenario(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "cluster", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	known := scenarios()
	if len(files) != len(known) {
		t.Errorf("%d transcripts of %d scenarios", len(files), len(known))
	}
	for _, file := range files {
		if _, found := known[strings.TrimSuffix(filepath.Base(file), ".txt")]; !found {
			t.Errorf("%s belongs to no scenario", file)
		}
	}
}

func TestWrongUseOfClusterCommandsAsksNobody(t *testing.T) {
	cluster := newFakeCluster(t, nil)
	for line, want := range map[string]string{
		"add 2":                        "want --raft and --http",
		"add 2 --raft a:1":             "want --raft and --http",
		"add --raft a:1 --http a:2":    "accepts 1 arg",
		"add x --raft a:1 --http a:2":  `node "x": want a whole number from 1 to 4294967295`,
		"promote":                      "requires at least 1 arg",
		"promote 0":                    `node "0"`,
		"promote 4294967296":           `node "4294967296"`,
		"promote 2 2":                  "node 2: want every id once",
		"voters -- -1":                 `node "-1"`,
		"remove 1 2":                   "accepts 1 arg",
		"address 2":                    "want --raft, --http or both",
		"address 2 --force":            "want --raft, --http or both",
		"transfer 2 --group 64":        "group 64: want 0 to 63",
		"transfer 2 3":                 "accepts at most 1 arg",
		"status -o xml":                `output "xml": want table, json or yaml`,
		"status --token a --api-key b": "want --token or --api-key, not both",
		"status --timeout 121s":        "timeout 2m1s: want 1ms to 2m0s",
		"status --server localhost":    `server "localhost"`,
		"status --nope":                "unknown flag: --nope",
		"statsu":                       "unknown command",
	} {
		code, _, stderr := execute(t, []string{"QUEENCTL_SERVER=" + cluster.URL}, append([]string{"cluster"}, strings.Fields(line)...)...)
		if code != exitFatal || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, stderr %q; want %d and %q", line, code, stderr, exitFatal, want)
		}
	}
	if len(cluster.requests) > 0 {
		t.Errorf("requests %v", cluster.requests)
	}
}

func TestServerOfTheClusterCommands(t *testing.T) {
	for name, row := range map[string]struct {
		environ, flags []string
		want           string
	}{
		"the default port": {nil, nil, "http://127.0.0.1:6632"},
		"PORT":             {[]string{"PORT=7000"}, nil, "http://127.0.0.1:7000"},
		"the environment":  {[]string{"PORT=7000", "QUEENCTL_SERVER=http://a,http://b"}, nil, "http://a http://b"},
		"the flag":         {[]string{"QUEENCTL_SERVER=http://a"}, []string{"http://c", "http://d"}, "http://c http://d"},
	} {
		flags := clusterFlags{around: process{environ: row.environ}, servers: row.flags}
		if got := strings.Join(flags.chosenServers(), " "); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

func TestUnreachableServerIsUnwell(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	code, _, stderr := execute(t, nil, "cluster", "status", "--server", gone.URL)
	if code != exitServerRefused || !strings.Contains(stderr, "connection refused") {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}

// TestStatusProbesEveryNode gives a cluster of one the address of its own server, so that the probe reaches it.
func TestStatusProbesEveryNode(t *testing.T) {
	for answer, code := range map[reply]int{`{"applied":true,"index":0,"key":"probe","op":"put","value":"probe","version":1}`: 0,
		`503 {"error":"no majority","reason":"kv_timeout"}`: 2} {
		cluster := newFakeCluster(t, map[string][]reply{membershipRoute: {got("v")}, nodesRoute: {nodesWell}, "GET /health": {healthWell},
			"PUT /api/v1/kv/ops/probe": {answer}})
		got, stdout, stderr := execute(t, nil, "cluster", "status", "--probe", "--json", "--server", cluster.URL)
		var shown struct {
			Well   bool
			Probes []struct {
				NodeID uint64
				Error  string
			}
		}
		if err := json.Unmarshal([]byte(stdout), &shown); err != nil {
			t.Fatalf("%v: %s %s", err, stdout, stderr)
		}
		well := code == 0
		if got != code || shown.Well != well || len(shown.Probes) != 1 || shown.Probes[0].NodeID != 1 || (shown.Probes[0].Error == "") != well {
			t.Errorf("%s: exit %d, %s", answer, got, stdout)
		}
		if want := `PUT /api/v1/kv/ops/probe {"ttlSeconds":60,"value":"probe"}`; len(cluster.requests) != 1 || cluster.requests[0] != want {
			t.Errorf("requests %v, want %s", cluster.requests, want)
		}
	}
}

func TestYAMLKeepsStringsAndOrder(t *testing.T) {
	var stdout bytes.Buffer
	flags := clusterFlags{around: process{stdout: &stdout}, format: "yaml"}
	if err := flags.showData([]byte(`{"z":"1","a":"null","c":null,"d":[1,"true"],"e":{}}`)); err != nil {
		t.Fatal(err)
	}
	if want := "z: \"1\"\na: \"null\"\nc: null\nd:\n  - 1\n  - \"true\"\ne: {}\n"; stdout.String() != want {
		t.Errorf("%q, want %q", stdout.String(), want)
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	for name, row := range map[string]struct {
		flags clusterFlags
		want  bool
	}{
		"terminal": {clusterFlags{around: process{colours: true}}, true},
		"pipe":     {clusterFlags{}, false},
		"flag":     {clusterFlags{around: process{colours: true}, noColour: true}, false},
		"NO_COLOR": {clusterFlags{around: process{colours: true, environ: []string{"NO_COLOR=1"}}}, false},
	} {
		if got := row.flags.paint("31", "x") != "x"; got != row.want {
			t.Errorf("%s: colours %t", name, got)
		}
	}
}
