package query

import (
	"queen/actors/machine/switches"
	"queen/actors/machine/timer"
	"queen/raftlog/command"
)

// Timers are the reads of timers over the same view, for as long as the request lasts.
func (r *Reads) Timers() *timer.Reads { return &timer.Reads{Reader: r.view, Check: r.ctx.Err} }

// WhileOn is nil while a switch is on; a *command.Refusal otherwise.
func (r *Reads) WhileOn(of command.Switch) error {
	refusal, err := switches.Refuse(r.view, of)
	if refusal != nil {
		return refusal
	}
	return err
}

// SwitchedOff is what the operator has turned off.
func (r *Reads) SwitchedOff() (command.Switch, error) { return switches.Off(r.view) }
