package raftlog

import (
	"fmt"
	"io"
	"log"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// libraryLogger gives the libraries' lines to our logger. Their level falls by one step: what operators need to know is
// said by our own events, with fixed keys; errors stay warnings.
type libraryLogger struct {
	logger zerolog.Logger
	name   string
	args   []any
}

// Log implements hclog.Logger.
func (l *libraryLogger) Log(level hclog.Level, message string, args ...any) {
	var event *zerolog.Event
	switch level {
	case hclog.Error:
		event = l.logger.Warn()
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
			event = event.Str(fmt.Sprint(list[i]), fmt.Sprint(list[i+1]))
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
	return &libraryLogger{logger: l.logger, name: l.name, args: joined}
}

// Name implements hclog.Logger.
func (l *libraryLogger) Name() string { return l.name }

// Named implements hclog.Logger.
func (l *libraryLogger) Named(name string) hclog.Logger { return l.ResetNamed(l.name + "." + name) }

// ResetNamed implements hclog.Logger.
func (l *libraryLogger) ResetNamed(name string) hclog.Logger {
	return &libraryLogger{logger: l.logger, name: name, args: l.args}
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
