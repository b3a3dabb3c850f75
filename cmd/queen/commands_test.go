package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
)

// execute runs one command line with an environment of its own.
func execute(t *testing.T, environ []string, arguments ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = run(t.Context(), arguments, process{environ: environ, stdout: &out, stderr: &problems})
	return code, out.String(), problems.String()
}

func TestExitCodes(t *testing.T) {
	for name, row := range map[string]struct {
		environ   []string
		arguments []string
		code      int
		stderr    string // part of it
	}{
		"valid settings":               {nil, []string{"config", "check"}, 0, ""},
		"refused settings":             {[]string{"QUEEN_RAFT_PIPELINE=abc"}, []string{"config", "check"}, 1, `FATAL: QUEEN_RAFT_PIPELINE="abc": want a whole number from 1 to 1024`},
		"check of an unknown point":    {[]string{"QUEEN_TEST_FAULTS=x"}, []string{"config", "check"}, 1, `FATAL: QUEEN_TEST_FAULTS="x"`},
		"unknown variable":             {[]string{"QUEEN_FOO=1"}, []string{"config", "check"}, 0, "config: unknown variable QUEEN_FOO is ignored"},
		"refused flag":                 {nil, []string{"config", "check", "--queen-raft-pipeline=0"}, 1, `FATAL: QUEEN_RAFT_PIPELINE="0"`},
		"serve with refused settings":  {[]string{"PORT=0"}, []string{"serve"}, 1, `ERROR queen: FATAL: PORT="0": want a whole number from 1 to 65535`},
		"serve is the default":         {[]string{"PORT=0"}, nil, 1, `ERROR queen: FATAL: PORT="0"`},
		"JSON log of a refusal":        {[]string{"PORT=0", "QUEEN_LOG_JSON=true"}, nil, 1, `"msg":"FATAL: PORT=\"0\": want a whole number from 1 to 65535"`},
		"serve with an unknown point":  {[]string{"QUEEN_TEST_FAULTS=no.point"}, []string{"serve"}, 2, "FATAL: QUEEN_TEST_FAULTS"},
		"serve with an unknown flag":   {nil, []string{"serve", "--nope"}, 2, "unknown flag: --nope"},
		"default with an unknown flag": {nil, []string{"--nope"}, 2, "unknown flag: --nope"},
		"serve with an argument":       {nil, []string{"serve", "now"}, 2, "unknown command"},
		"unknown command":              {nil, []string{"sevre"}, 1, `unknown command "sevre"`},
		"unknown flag elsewhere":       {nil, []string{"version", "--nope"}, 1, "unknown flag: --nope"},
		"sleep nothing":                {nil, []string{"sleep", "0"}, 0, ""},
		"sleep nonsense":               {nil, []string{"sleep", "soon"}, 1, `sleep "soon"`},
		"sleep for ever":               {nil, []string{"sleep", "1e9"}, 1, "want seconds from 0 to 3600"},
		"bench with bad options":       {nil, []string{"bench", "push", "--batch=0"}, 1, "batch 0: want 1 to"},
		"bench with a bad mode":        {nil, []string{"bench", "pull"}, 1, `mode "pull"`},
		"bench with a bad output":      {nil, []string{"bench", "-o", "xml"}, 1, `output "xml"`},
		"show with a bad output":       {nil, []string{"config", "show", "-o", "xml"}, 1, `output "xml"`},
		"health without a server":      {nil, []string{"health", "--url", "http://127.0.0.1:1"}, 1, "ask health"},
		"health of nonsense":           {nil, []string{"health", "--url", "nonsense"}, 1, `url "nonsense"`},
	} {
		code, _, stderr := execute(t, row.environ, row.arguments...)
		if code != row.code || !strings.Contains(stderr, row.stderr) {
			t.Errorf("%s: exit %d, stderr %q; want %d and %q", name, code, stderr, row.code, row.stderr)
		}
	}
}

func TestConfigShowNamesValueAndSource(t *testing.T) {
	code, stdout, _ := execute(t, []string{"QUEEN_RAFT_TOKEN=0123456789abcdef", "PORT=7000"}, "config", "show", "-o", "json", "--log-level", "warn", "--queen-log-json")
	var shown struct {
		Settings []struct{ Name, Value, Source, Default, Allowed string }
	}
	if err := json.Unmarshal([]byte(stdout), &shown); code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s", code, err, stdout)
	}
	found := map[string]string{}
	for _, setting := range shown.Settings {
		found[setting.Name] = setting.Value + " " + setting.Source + " " + setting.Default
	}
	for name, want := range map[string]string{
		"PORT": "7000 env 6632", "LOG_LEVEL": "warn flag info", "QUEEN_LOG_JSON": "true flag false", "QUEEN_RAFT_PIPELINE": "4 default 4",
	} {
		if found[name] != want {
			t.Errorf("%s shows %q, want %q", name, found[name], want)
		}
	}
	if strings.Contains(stdout, "0123456789abcdef") || !strings.HasPrefix(found["QUEEN_RAFT_TOKEN"], "***") {
		t.Errorf("the token is shown as %q", found["QUEEN_RAFT_TOKEN"])
	}
	code, stdout, stderr := execute(t, []string{"PORT=x"}, "config", "show")
	if code != 1 || !strings.Contains(stdout, "QUEEN_RAFT_PIPELINE") || !strings.Contains(stderr, "FATAL: PORT") {
		t.Errorf("refused settings: exit %d, stderr %q", code, stderr)
	}
}

func TestHealthFollowsTheStatus(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		body   string
		code   int
		stdout string
	}{
		"ready":    {200, `{"status":"healthy","reasons":[]}`, 0, "healthy\n"},
		"settling": {503, `{"status":"settling","reasons":["booting","no_leader"]}`, 1, "settling: booting, no_leader\n"},
		"not JSON": {200, `<html>`, 1, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/health" {
				http.NotFound(w, r)
				return
			}
			w.WriteHeader(row.status)
			_, _ = w.Write([]byte(row.body)) // a client that went away shows in the command's own result
		}))
		_, port, err := net.SplitHostPort(server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for _, arguments := range [][]string{{"health", "--url", server.URL}, {"health", "--port", port}} {
			code, stdout, stderr := execute(t, nil, arguments...)
			if code != row.code || stdout != row.stdout {
				t.Errorf("%s %v: exit %d, stdout %q, stderr %q", name, arguments, code, stdout, stderr)
			}
		}
		server.Close()
	}
}

func TestVersionNamesFormatAndPlatform(t *testing.T) {
	code, stdout, _ := execute(t, nil, "version")
	if code != 0 || !strings.HasPrefix(stdout, "queen ") || !strings.Contains(stdout, "\nformat 7\ngo1.") {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
}

func TestSignalsStopAndHurry(t *testing.T) {
	received := make(chan os.Signal, 2)
	ctx, stopped := stopOnSignals(context.Background(), zerolog.Nop(), received)
	if ctx.Err() != nil {
		t.Fatal("stopped before a signal")
	}
	received <- syscall.SIGTERM
	<-ctx.Done()
	select {
	case <-secondSignal(ctx):
		t.Fatal("one signal already hurries")
	default:
	}
	received <- syscall.SIGTERM
	<-secondSignal(ctx)
	<-stopped

	received = make(chan os.Signal, 2)
	ctx, stopped = stopOnSignals(context.Background(), zerolog.Nop(), received)
	close(received)
	<-stopped
	<-ctx.Done()
	select {
	case <-secondSignal(ctx):
		t.Fatal("the end of watching hurries")
	default:
	}
}
