package actors

import (
	"queen/actors/machine/switches"
	"queen/raftlog/command"
)

func (m *model) changeSwitches(c *command.Switches) command.Result {
	m.off = m.off&^c.On | c.Off
	return &command.SwitchesResult{Off: m.off}
}

// refuseKV is why no call of KV or of locks may be carried out; nil when one may.
func (m *model) refuseKV() *command.Refusal {
	if m.off&command.SwitchKV == 0 {
		return nil
	}
	return &command.Refusal{Code: "kv_disabled", Text: "KV is turned off, and locks with it"}
}

// switches turns something off for a while.
func (g *generator) switches() command.Command {
	if g.model.off != 0 {
		return command.Switches{On: g.model.off}
	}
	return command.Switches{Off: pick(g, []command.Switch{
		command.SwitchKV, command.SwitchKV, command.SwitchTimersSchedule, command.SwitchTimersSchedule, command.SwitchTimersFire,
	})}
}

func (d *dump) switches(off command.Switch) { d.add("switched off %b", off) }

// switches reads them out of a store.
func (d *dumper) switches() {
	d.t.Helper()
	off, err := switches.Off(d.view)
	d.check(err)
	d.dump.switches(off)
}
