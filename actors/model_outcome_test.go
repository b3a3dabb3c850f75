package actors

import (
	"slices"

	window "queen/actors/machine/outcome"
	"queen/raftlog/command"
	"queen/store/layout"
)

// modelOutcomes is the request-id window as a list of the rows that there are, looked through from end to end.
type modelOutcomes struct {
	rows []modelOutcomeRow // oldest first
	// below is up to which sequence an origin has answered.
	below map[uint64]uint64
	// term is when the term began, now is the stamp of the entry.
	term, now uint64
	window    uint64
	reached   modelReached
}

type modelOutcomeRow struct {
	index, stamp uint64
	outcomes     []modelOutcome
}

type modelOutcome struct {
	id     command.RequestID
	result command.Result
}

// modelReached counts what has happened to requests: repeats that got their first result, and those in the same entry; repeats
// of answered requests; rows that went because nobody wants them, and for their age; rows that waited for another entry.
type modelReached struct{ repeated, repeatedInEntry, answered, unwanted, old, left int }

func (m *modelOutcomes) begin(index uint64, h *command.Header) {
	m.now, m.window = h.StampMicros, uint64(h.Settings.RequestIDWindowSeconds)*modelSecond
	m.rows = append(m.rows, modelOutcomeRow{index: index, stamp: m.now})
}

// once runs a command that has not been run under its id.
func (m *modelOutcomes) once(item *command.Item, run func(command.Command) command.Result) command.Result {
	id := item.Request
	if _, begins := item.Command.(command.TermStart); begins {
		m.term = m.now
	}
	if id == (command.RequestID{}) {
		return run(item.Command)
	}
	if id.Sequence < m.below[id.Origin] {
		m.reached.answered++
		return &command.Refusal{Code: "outcome_unknown", Text: "the command has been executed before, its outcome is not remembered"}
	}
	for i, row := range m.rows {
		for _, known := range row.outcomes {
			if known.id == id {
				m.reached.repeated++
				if i == len(m.rows)-1 {
					m.reached.repeatedInEntry++
				}
				return known.result
			}
		}
	}
	result := run(item.Command)
	row := &m.rows[len(m.rows)-1]
	row.outcomes = append(row.outcomes, modelOutcome{id, result})
	m.below[id.Origin] = max(m.below[id.Origin], item.AnsweredBelow)
	return result
}

func (m *modelOutcomes) wanted(o modelOutcome) bool { return o.id.Sequence >= m.below[o.id.Origin] }

// end forgets what has had its time, at most 64 rows at a time: those that nobody wants first.
func (m *modelOutcomes) end() {
	row := &m.rows[len(m.rows)-1]
	row.outcomes = slices.DeleteFunc(row.outcomes, func(o modelOutcome) bool { return !m.wanted(o) })
	if len(row.outcomes) == 0 {
		m.rows = m.rows[:len(m.rows)-1]
	}
	budget := 64
	m.drop(&budget, &m.reached.unwanted, func(r modelOutcomeRow) bool { return !slices.ContainsFunc(r.outcomes, m.wanted) })
	if m.now >= m.term+m.window {
		m.drop(&budget, &m.reached.old, func(r modelOutcomeRow) bool { return r.stamp+m.window+5*modelSecond < m.now })
	}
	for origin := range m.below {
		if !slices.ContainsFunc(m.rows, func(r modelOutcomeRow) bool {
			return slices.ContainsFunc(r.outcomes, func(o modelOutcome) bool { return o.id.Origin == origin })
		}) {
			delete(m.below, origin)
		}
	}
}

func (m *modelOutcomes) drop(budget, dropped *int, when func(modelOutcomeRow) bool) {
	m.rows = slices.DeleteFunc(m.rows, func(r modelOutcomeRow) bool {
		if !when(r) {
			return false
		}
		if *budget == 0 {
			m.reached.left++
			return false
		}
		*budget--
		*dropped++
		return true
	})
}

func (d *dump) outcome(index, stamp uint64, id command.RequestID, result command.Result) {
	text := canonical(result)
	switch result.(type) {
	case notModelled, *command.SweepResult, *command.MoveChunksResult:
		text = "not modelled"
	}
	d.add("outcome %d@%d %x/%d %s", index, stamp, id.Origin, id.Sequence, text)
}

func (m *modelOutcomes) dump() string {
	var d dump
	for _, row := range m.rows {
		for _, o := range row.outcomes {
			d.outcome(row.index, row.stamp, o.id, o.result)
		}
	}
	for origin, below := range m.below {
		d.add("origin %x has answered below %d", origin, below)
	}
	return d.text()
}

// dumpOutcomes reads the same out of the store.
func (m *machine) dumpOutcomes() string {
	m.t.Helper()
	view := m.store.View()
	defer view.Close()
	d := dumper{t: m.t, view: view}
	below := map[uint64]uint64{}
	for _, r := range d.rows([]byte{layout.FamilyOutcome}) {
		row, err := window.ReadRow(view, r.value)
		d.check(err)
		for _, origin := range row.Origins {
			below[origin.Origin] = origin.Below
		}
		for i := range row.Outcomes {
			result, err := command.DecodeResult(row.Outcomes[i].Result)
			d.check(err)
			d.dump.outcome(layout.LastNumber(r.key), row.StampMicros, row.Outcomes[i].Request, result)
		}
	}
	for origin, number := range below {
		d.dump.add("origin %x has answered below %d", origin, number)
	}
	return d.dump.text()
}
