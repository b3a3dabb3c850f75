package query

import (
	"queen/actors/machine/switches"
	"queen/actors/machine/timer"
	"queen/raftlog/command"
)

// Timers are the reads of timers over the same view, for as long as the request lasts.
func (r *Reads) Timers() *timer.Reads { return &timer.Reads{Reader: r.view, Check: r.ctx.Err} }

// SwitchedOff is what the operator has turned off.
func (r *Reads) SwitchedOff() (command.Switch, error) { return switches.Off(r.view) }
