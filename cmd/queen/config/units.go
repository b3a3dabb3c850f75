package config

import "time"

// Milliseconds is a span of time in whole milliseconds, as variables ending in _MS carry it.
type Milliseconds int64

// Duration returns the span as a time.Duration.
func (m Milliseconds) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Seconds is a span of time in whole seconds, as variables ending in _S carry it.
type Seconds int64

// Duration returns the span as a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// bytesPerMegabyte converts variables ending in _MB (cluster 1.1.9).
const bytesPerMegabyte = 1 << 20
