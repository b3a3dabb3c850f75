package wire

import "queen/raftlog/command"

// DecodeSwitches reads the body of a change of the switches of KV and timers (state 11.1). Absent and null leave a switch as it
// is. The error is an *Error.
func DecodeSwitches(body []byte) (c command.Switches, err error) {
	named := []struct {
		name string
		of   command.Switch
		raw  []byte
	}{
		{"kv", command.SwitchKV, nil},
		{"timersSchedule", command.SwitchTimersSchedule, nil},
		{"timersFire", command.SwitchTimersFire, nil},
	}
	members := make([]member, len(named))
	for i := range named {
		members[i] = member{named[i].name, &named[i].raw}
	}
	if err := objectMembers(body, members...); err != nil {
		return c, badBody("bad switches body: ", err)
	}
	for i := range named {
		switch n := &named[i]; {
		case nothing(n.raw):
		case kindOf(n.raw) != kindBool:
			return c, badRequest("%s must be true or false", n.name)
		case n.raw[0] == 't':
			c.On |= n.of
		default:
			c.Off |= n.of
		}
	}
	if c == (command.Switches{}) {
		return c, badRequest("kv, timersSchedule or timersFire is required")
	}
	return c, nil
}
