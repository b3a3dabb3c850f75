package command

// Switch is a set of surfaces that an operator can turn off and on again (state 11.1). All are on until one is turned off.
type Switch uint8

// The switches.
const (
	// SwitchKV stops KV, and locks with it.
	SwitchKV Switch = 1 << iota
	// SwitchTimersSchedule stops the scheduling of timers.
	SwitchTimersSchedule
	// SwitchTimersFire stops the delivery of timers; what is due meanwhile waits.
	SwitchTimersFire
)

// Has tells whether all of some switches are in the set.
func (s Switch) Has(of Switch) bool { return s&of == of }

// Switches turns some switches on and others off, and leaves the rest as they are. What stands in both is off.
type Switches struct {
	On, Off Switch
}

// SwitchesResult says which switches are off now.
type SwitchesResult struct {
	Off Switch
}

func (c Switches) appendTo(dst []byte) []byte { return append(dst, byte(c.On), byte(c.Off)) }

func (r *SwitchesResult) appendTo(dst []byte) []byte { return append(dst, byte(r.Off)) }

func (d *decoder) switches() Switches {
	return Switches{On: Switch(d.byte("switches that are on")), Off: Switch(d.byte("switches that are off"))}
}

func (d *decoder) switchesResult() *SwitchesResult {
	return &SwitchesResult{Off: Switch(d.byte("switches"))}
}
