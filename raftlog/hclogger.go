package raftlog

import (
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// libraryLogger gives the libraries' lines to our logger. Their level falls by one step: what operators need to know is
// said by our own events, with fixed keys; errors stay warnings. The library says the same of a node that is down with every
// try, so a warning about a node comes once per libraryLinesEvery, with the number of those that it stands for.
type libraryLogger struct {
	logger zerolog.Logger
	name   string
	args   []any
	// said is shared by all loggers that are made of this one.
	said *saidLines
}

// libraryLinesEvery is how often a library may warn about one thing.
const libraryLinesEvery = 10 * time.Second

// linesOf are the library's lines for which there is one of ours, by what the library says.
var linesOf = map[string]string{
	"failed to contact quorum of nodes, stepping down": "raft: no quorum acknowledgement: this leader steps down",
}

func newLibraryLogger(logger zerolog.Logger, clock Clock, name string) *libraryLogger {
	return &libraryLogger{logger: logger, name: name, said: &saidLines{clock: clock, lines: map[saidLine]*saidLast{}}}
}

// saidLines counts the warnings of a library, by text and node.
type saidLines struct {
	clock Clock
	mu    sync.Mutex
	lines map[saidLine]*saidLast
}

type saidLine struct{ message, node string }

type saidLast struct {
	at time.Duration
	// kept is how many lines have been kept back since.
	kept int
}

// maxSaidLines bounds saidLines. The library has some dozen texts, and groups have few nodes.
const maxSaidLines = 1024

// say tells whether a line is to be written, and for how many it stands.
func (s *saidLines) say(line saidLine) (stands int, write bool) {
	now := s.clock.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.lines[line]
	switch {
	case last == nil:
		if len(s.lines) >= maxSaidLines {
			clear(s.lines)
		}
		last = &saidLast{}
		s.lines[line] = last
	case now-last.at < libraryLinesEvery:
		last.kept++
		return 0, false
	}
	stands = last.kept + 1
	last.at, last.kept = now, 0
	return stands, true
}

// nodeOf is the node that a line is about; empty when it names none.
func nodeOf(args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "target", "id", "server-id":
			if peer, ok := args[i+1].(raft.Server); ok {
				return string(peer.ID)
			}
			return fmt.Sprint(args[i+1])
		}
	}
	return ""
}

// isGuarded tells whether a value that the library gives with a line is the error of a guarded node.
func isGuarded(value any) bool {
	err, is := value.(error)
	return is && errors.Is(err, errGuarded)
}

// Log implements hclog.Logger.
func (l *libraryLogger) Log(level hclog.Level, message string, args ...any) {
	if ours, ok := linesOf[message]; ok {
		l.logger.Warn().Msg(ours)
	}
	if slices.ContainsFunc(args, isGuarded) {
		level = hclog.Info // why it takes no part this node has said itself, and the library tries again all the time
	}
	var event *zerolog.Event
	switch level {
	case hclog.Error:
		stands, write := l.said.say(saidLine{message, nodeOf(args)})
		if !write {
			return
		}
		if event = l.logger.Warn(); stands > 1 {
			event = event.Int("count", stands)
		}
	case hclog.Warn, hclog.Info:
		event = l.logger.Debug()
	default:
		event = l.logger.Trace()
	}
	if !event.Enabled() {
		return
	}
	for _, list := range [][]any{l.args, args} {
		for i := 0; i+1 < len(list); i += 2 {
			key := fmt.Sprint(list[i])
			if key == "target" { // which our lines have for something else
				key = "peer"
			}
			event = event.Str(key, fmt.Sprint(list[i+1]))
		}
	}
	event.Str("from", l.name).Msg(message)
}

// Trace implements hclog.Logger.
func (l *libraryLogger) Trace(message string, args ...any) { l.Log(hclog.Trace, message, args...) }

// Debug implements hclog.Logger.
func (l *libraryLogger) Debug(message string, args ...any) { l.Log(hclog.Debug, message, args...) }

// Info implements hclog.Logger.
func (l *libraryLogger) Info(message string, args ...any) { l.Log(hclog.Info, message, args...) }

// Warn implements hclog.Logger.
func (l *libraryLogger) Warn(message string, args ...any) { l.Log(hclog.Warn, message, args...) }

// Error implements hclog.Logger.
func (l *libraryLogger) Error(message string, args ...any) { l.Log(hclog.Error, message, args...) }

// IsTrace implements hclog.Logger.
func (l *libraryLogger) IsTrace() bool { return l.logger.GetLevel() <= zerolog.TraceLevel }

// IsDebug implements hclog.Logger.
func (l *libraryLogger) IsDebug() bool { return l.IsTrace() }

// IsInfo implements hclog.Logger.
func (l *libraryLogger) IsInfo() bool { return l.logger.GetLevel() <= zerolog.DebugLevel }

// IsWarn implements hclog.Logger.
func (l *libraryLogger) IsWarn() bool { return l.IsInfo() }

// IsError implements hclog.Logger.
func (l *libraryLogger) IsError() bool { return l.logger.GetLevel() <= zerolog.WarnLevel }

// ImpliedArgs implements hclog.Logger.
func (l *libraryLogger) ImpliedArgs() []any { return l.args }

// With implements hclog.Logger.
func (l *libraryLogger) With(args ...any) hclog.Logger {
	joined := append(append([]any(nil), l.args...), args...)
	return &libraryLogger{logger: l.logger, name: l.name, args: joined, said: l.said}
}

// Name implements hclog.Logger.
func (l *libraryLogger) Name() string { return l.name }

// Named implements hclog.Logger.
func (l *libraryLogger) Named(name string) hclog.Logger { return l.ResetNamed(l.name + "." + name) }

// ResetNamed implements hclog.Logger.
func (l *libraryLogger) ResetNamed(name string) hclog.Logger {
	return &libraryLogger{logger: l.logger, name: name, args: l.args, said: l.said}
}

// SetLevel implements hclog.Logger; the level is ours to set.
func (l *libraryLogger) SetLevel(hclog.Level) {}

// GetLevel implements hclog.Logger.
func (l *libraryLogger) GetLevel() hclog.Level {
	switch {
	case l.IsTrace():
		return hclog.Trace
	case l.IsInfo():
		return hclog.Info
	}
	return hclog.Error
}

// StandardLogger implements hclog.Logger.
func (l *libraryLogger) StandardLogger(options *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(options), "", 0)
}

// StandardWriter implements hclog.Logger.
func (l *libraryLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return l.logger }
