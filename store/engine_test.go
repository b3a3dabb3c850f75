package store

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestTheEngineLogsOneShortLineForEachEvent(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"histogram": {"Block cache might be too small. Metrics: hit: 1\n\n -- Histogram:\nMin value: 1\n[1, 2) 7 50%\n", "badger: Block cache might be too small. Metrics: hit: 1"},
		"new line":  {"flushed\n", "badger: flushed"},
		"long":      {strings.Repeat("ä", 1000), "badger: " + strings.Repeat("ä", maxEngineLineBytes/2) + "…"},
	} {
		var out bytes.Buffer
		engineLog{zerolog.New(&out)}.Warningf("%s", c.text)
		if got, want := out.String(), `{"level":"warn","message":"`+c.want+`"}`+"\n"; got != want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
