package actors

import (
	"sync/atomic"

	"queen/actors/machine/switches"
	"queen/raftlog/command"
)

// changeSwitches turns surfaces off and on (state 11.1).
func (a *apply) changeSwitches(c *command.Switches) (command.Result, error) {
	off, err := switches.Change(a.batch, a.batch, *c)
	if err != nil {
		return nil, err
	}
	a.after = append(a.after, func() { a.switches.publish(off) })
	return &command.SwitchesResult{Off: off}, nil
}

// switchBoard shows to any goroutine what is off.
type switchBoard struct{ off atomic.Uint32 }

func (b *switchBoard) publish(off command.Switch) { b.off.Store(uint32(off)) }

// SwitchedOff is what the operator has turned off, as applied here.
func (b *Broker) SwitchedOff() command.Switch { return command.Switch(b.switches.off.Load()) }
