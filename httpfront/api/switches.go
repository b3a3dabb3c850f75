package api

import (
	"queen/actors/query"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// switchesAnswer is what an operator sees of the switches (state 11.1).
type switchesAnswer struct {
	KVEnabled             bool `json:"kvEnabled"`
	TimersScheduleEnabled bool `json:"timersScheduleEnabled"`
	TimersFireEnabled     bool `json:"timersFireEnabled"`
	// The rest is about quotas, of which this build has none.
	QuotaTenants int `json:"quotaTenants"`
	QuotaAgeMs   int `json:"quotaAgeMs"`
	QuotaHot     int `json:"quotaHot"`
}

func showSwitches(off command.Switch) switchesAnswer {
	return switchesAnswer{
		KVEnabled:             !off.Has(command.SwitchKV),
		TimersScheduleEnabled: !off.Has(command.SwitchTimersSchedule),
		TimersFireEnabled:     !off.Has(command.SwitchTimersFire),
	}
}

// describeSwitches shows what is on.
func (a *API) describeSwitches(r *httpfront.Request) error {
	return a.reading(r, func(q *query.Reads) error {
		off, err := q.SwitchedOff()
		if err != nil {
			return err
		}
		return answerJSON(r, 200, showSwitches(off))
	})
}

// whileOn refuses what an operator has turned off: the log would refuse it, and a pause should write no entries. This node may not have
// heard yet that it is on again, so it asks before it says no.
func (a *API) whileOn(r *httpfront.Request, of command.Switch) error {
	if !a.broker().SwitchedOff().Has(of) {
		return nil
	}
	return a.reading(r, func(q *query.Reads) error { return q.WhileOn(of) })
}

// changeSwitches turns surfaces on and off, for all nodes.
func (a *API) changeSwitches(r *httpfront.Request) error {
	change, err := wire.DecodeSwitches(r.Body())
	if err != nil {
		return err
	}
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	applied, err := a.broker().Execute(span, &change)
	if err != nil {
		return err
	}
	return answerJSON(r, 200, showSwitches(applied.(*command.SwitchesResult).Off))
}
