package logging

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// DefaultTarget is the target of events that name none: those of the binary itself.
const DefaultTarget = "queen"

// targetField is the field of an event that becomes its target.
const targetField = "target"

// timeFormat is RFC 3339 with milliseconds, always in UTC.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// Options says how lines look.
type Options struct {
	// Level is the lowest level that is written: debug, info, warn or error (LOG_LEVEL).
	Level string
	// JSON selects JSON lines instead of text (QUEEN_LOG_JSON).
	JSON bool
	// Now gives the time of an event; nil means time.Now. Called from every goroutine that logs.
	Now func() time.Time
}

// New returns a logger that writes whole lines to out, one Write a line, from any goroutine. The error names a level that
// does not exist.
func New(out io.Writer, options Options) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(options.Level)
	if err != nil || options.Level == "" {
		return zerolog.Nop(), fmt.Errorf("parse log level %q: want debug, info, warn or error", options.Level)
	}
	now := options.Now
	if now == nil {
		now = time.Now
	}
	return zerolog.New(&lineWriter{out: out, json: options.JSON, now: now}).Level(level), nil
}

// For returns a logger for one part of the process, whose name stands as target in every line.
func For(log zerolog.Logger, target string) zerolog.Logger {
	return log.With().Str(targetField, target).Logger()
}

// lineWriter receives one finished zerolog event per Write.
type lineWriter struct {
	mutex sync.Mutex // guards out and line: lines must not mix
	out   io.Writer
	json  bool
	now   func() time.Time
	line  []byte // reused
}

// Write implements io.Writer for zerolog. It reports the length of its input, as zerolog expects, or the error of the
// output.
func (w *lineWriter) Write(raw []byte) (int, error) {
	event := parseEvent(raw)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	stamp := w.now().UTC().Format(timeFormat)
	if w.json {
		w.line = event.appendJSON(w.line[:0], stamp)
	} else {
		w.line = event.appendText(w.line[:0], stamp)
	}
	if _, err := w.out.Write(w.line); err != nil {
		return 0, fmt.Errorf("write log line: %w", err)
	}
	return len(raw), nil
}
