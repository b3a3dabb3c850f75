package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func testLogger(t *testing.T, level string, asJSON bool) (zerolog.Logger, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	log, err := New(&out, Options{Level: level, JSON: asJSON, Now: func() time.Time {
		return time.Date(2026, 10, 5, 11, 0, 0, 123_000_000, time.FixedZone("two hours east", 7200))
	}})
	if err != nil {
		t.Fatal(err)
	}
	return log, &out
}

func TestLineFormats(t *testing.T) {
	for name, row := range map[string]struct {
		write      func(zerolog.Logger)
		text, json string
	}{
		"stable phrase": {
			func(log zerolog.Logger) {
				raft := For(log, "raft")
				raft.Warn().Bool("full", true).Msg("raft storage pressure changed")
			},
			`2026-10-05T09:00:00.123Z WARN raft: raft storage pressure changed full=true`,
			`{"ts":"2026-10-05T09:00:00.123Z","level":"WARN","target":"raft","msg":"raft storage pressure changed","full":true}`,
		},
		"config line": {
			func(log zerolog.Logger) { log.Info().Msg("config: PORT=6632") },
			`2026-10-05T09:00:00.123Z INFO queen: config: PORT=6632`,
			`{"ts":"2026-10-05T09:00:00.123Z","level":"INFO","target":"queen","msg":"config: PORT=6632"}`,
		},
		"values that need quotes": {
			func(log zerolog.Logger) {
				log.Error().Err(errors.New("open log: no space")).Str("queue", "a=b").Str("empty", "").Int64("ms", 5).
					Strs("list", []string{"x", "y"}).Dict("nested", zerolog.Dict().Int("n", 1)).Msg("this node stops")
			},
			`2026-10-05T09:00:00.123Z ERROR queen: this node stops error="open log: no space" queue="a=b" empty="" ms=5 list=["x","y"] nested={"n":1}`,
			`{"ts":"2026-10-05T09:00:00.123Z","level":"ERROR","target":"queen","msg":"this node stops","error":"open log: no space","queue":"a=b","empty":"","ms":5,"list":["x","y"],"nested":{"n":1}}`,
		},
		"a client cannot start a line": {
			func(log zerolog.Logger) { log.Debug().Str("queue", "a\nb").Msg("odd\r\nmessage \"quoted\"") },
			`2026-10-05T09:00:00.123Z DEBUG queen: odd\r\nmessage "quoted" queue="a\nb"`,
			`{"ts":"2026-10-05T09:00:00.123Z","level":"DEBUG","target":"queen","msg":"odd\r\nmessage \"quoted\"","queue":"a\nb"}`,
		},
		"the innermost target wins": {
			func(log zerolog.Logger) { inner := For(For(log, "raft"), "store"); inner.Info().Msg("m") },
			`2026-10-05T09:00:00.123Z INFO store: m`,
			`{"ts":"2026-10-05T09:00:00.123Z","level":"INFO","target":"store","msg":"m"}`,
		},
	} {
		for _, asJSON := range []bool{false, true} {
			log, out := testLogger(t, "debug", asJSON)
			row.write(log)
			want := row.text
			if asJSON {
				want = row.json
				if !json.Valid(out.Bytes()) {
					t.Errorf("%s: not JSON: %s", name, out)
				}
			}
			if got := strings.TrimSuffix(out.String(), "\n"); got != want {
				t.Errorf("%s:\n got %s\nwant %s", name, got, want)
			}
		}
	}
}

func TestLowerLevelsAreNotWritten(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		log, out := testLogger(t, level, false)
		log.Debug().Msg("m")
		log.Info().Msg("m")
		log.Warn().Msg("m")
		log.Error().Msg("m")
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("level %s writes %d lines, want %d", level, got, want)
		}
	}
	for _, level := range []string{"", "loud"} {
		if _, err := New(&bytes.Buffer{}, Options{Level: level}); err == nil {
			t.Errorf("level %q was accepted", level)
		}
	}
}

func TestUnreadableEventIsKept(t *testing.T) {
	for _, raw := range []string{"plain text", `{"level":"info"`, `["a"]`, ""} {
		if got := parseEvent([]byte(raw)); got.message != raw || got.level != "ERROR" {
			t.Errorf("%q became %+v", raw, got)
		}
	}
}

// failingWriter fails every write.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteErrorReachesTheCaller(t *testing.T) {
	writer := &lineWriter{out: failingWriter{}, now: time.Now}
	if _, err := writer.Write([]byte(`{"message":"m"}`)); err == nil {
		t.Error("the error of the output was swallowed")
	}
}

func TestConcurrentLinesDoNotMix(t *testing.T) {
	log, out := testLogger(t, "info", false)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				log.Info().Str("k", "v").Msg("message")
			}
		})
	}
	group.Wait()
	for line := range strings.Lines(out.String()) {
		if line != "2026-10-05T09:00:00.123Z INFO queen: message k=v\n" {
			t.Fatalf("mixed line %q", line)
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(`{"level":"info","target":"x","message":"m","k":[1,{"a":"b"}]}`))
	f.Add([]byte("{\"k\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		parsed := parseEvent(raw)
		if line := parsed.appendText(nil, "t"); bytes.Count(line, []byte("\n")) != 1 {
			t.Fatalf("%q gives %q", raw, line)
		}
		if line := parsed.appendJSON(nil, "t"); bytes.Count(line, []byte("\n")) != 1 {
			t.Fatalf("%q gives %q", raw, line)
		}
	})
}
