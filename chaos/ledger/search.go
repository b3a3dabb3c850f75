package ledger

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"
)

const (
	// maxOpen bounds the calls that may stand open at one instant: one bit each.
	maxOpen = 64
	// maxConfigurations bounds the search. A run with few unknown outcomes needs a handful.
	maxConfigurations = 200_000
)

// step is one call as one cursor sees it. An optional step may have taken effect or not.
type step struct {
	span     Span
	optional bool
	// unseen marks optional steps that all have the same effect, and are possible the longer the later they end.
	unseen bool
	// apply gives the states that the step may lead to; without any, the reason says why.
	apply func(cursor) (after []cursor, reason string)
	label string
}

// configuration is one possible truth at an instant: a state, and which of the open steps have taken effect.
type configuration struct {
	cursor cursor
	taken  uint64
}

// search decides whether some order of the steps, each between its ends, explains all answers. It walks the instants
// in order and keeps every configuration that is possible so far (just-in-time linearization).
type search struct {
	steps    []step
	slots    [maxOpen]int // step in each slot
	used     uint64
	possible map[configuration]struct{}
}

// explain returns the finding that no order exists, or nothing.
func explain(reader Reader, steps []step) []Violation {
	type instant struct {
		at    time.Duration
		ends  bool
		index int
	}
	instants := make([]instant, 0, 2*len(steps))
	for i, one := range steps {
		instants = append(instants, instant{one.span.Start, false, i}, instant{one.span.End, true, i})
	}
	slices.SortStableFunc(instants, func(a, b instant) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return boolean(a.ends) - boolean(b.ends)
	})
	s := &search{steps: steps, possible: map[configuration]struct{}{{cursor: newCursor()}: {}}}
	slot := make([]int, len(steps))
	for _, now := range instants {
		if !now.ends {
			free := bits.TrailingZeros64(^s.used)
			if free == maxOpen {
				return []Violation{violation("undecided", "%v has more than %d open calls at %v", reader, maxOpen, show(now.at))}
			}
			s.used |= 1 << free
			s.slots[free], slot[now.index] = now.index, free
			continue
		}
		reasons, decided := s.end(slot[now.index])
		if !decided {
			return []Violation{violation("undecided", "%v has too many possible states at %v", reader, show(now.at))}
		}
		if len(s.possible) == 0 {
			return []Violation{violation("cursor", "%v: %s cannot be: %s\n%s", reader, steps[now.index].label, reasons, s.context(now.index))}
		}
	}
	return nil
}

// end closes a slot: only configurations survive in which its step has taken effect, unless the step is optional.
func (s *search) end(slot int) (reasons string, decided bool) {
	bit := uint64(1) << slot
	survivors := map[configuration]struct{}{}
	seen := maps.Clone(s.possible)
	work := slices.Collect(maps.Keys(s.possible))
	refusals := map[string]struct{}{}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if at.taken&bit != 0 {
			survivors[configuration{at.cursor, at.taken &^ bit}] = struct{}{}
			continue
		}
		if s.steps[s.slots[slot]].optional {
			survivors[configuration{at.cursor, at.taken}] = struct{}{}
		}
		for _, other := range s.candidates(at) {
			after, reason := s.steps[s.slots[other]].apply(at.cursor)
			if other == slot && reason != "" {
				refusals[reason] = struct{}{}
			}
			for _, state := range after {
				next := configuration{state, at.taken | 1<<other}
				if _, known := seen[next]; !known {
					seen[next] = struct{}{}
					work = append(work, next)
				}
			}
		}
		if len(seen) > maxConfigurations {
			return "", false
		}
	}
	s.possible = survivors
	s.used &^= bit
	return strings.Join(slices.Sorted(maps.Keys(refusals)), "; or "), true
}

// candidates lists the open steps that may take effect next. Of those that are unseen it gives the one that ends first of all that are
// possible: whatever another one could do now, this one can do as well, and the other one can do later what this one could. Without
// that, each of them would double the configurations.
func (s *search) candidates(at configuration) []int {
	var slots []int
	first, firstEnd := -1, time.Duration(0)
	for open := s.used &^ at.taken; open != 0; open &= open - 1 {
		slot := bits.TrailingZeros64(open)
		step := s.steps[s.slots[slot]]
		if !step.unseen {
			slots = append(slots, slot)
			continue
		}
		if first >= 0 && firstEnd <= step.span.End {
			continue
		}
		if after, _ := step.apply(at.cursor); len(after) > 0 {
			first, firstEnd = slot, step.span.End
		}
	}
	if first >= 0 {
		slots = append(slots, first)
	}
	return slots
}

// context lists what happened to the cursor around a step.
func (s *search) context(culprit int) string {
	const shown = 10
	order := make([]int, len(s.steps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(s.steps[a].span.End - s.steps[b].span.End) })
	at := slices.Index(order, culprit)
	var text strings.Builder
	for _, i := range order[max(0, at-shown):min(len(order), at+3)] {
		mark := " "
		if i == culprit {
			mark = ">"
		}
		fmt.Fprintf(&text, "   %s [%v, %v] %s\n", mark, show(s.steps[i].span.Start), show(s.steps[i].span.End), s.steps[i].label)
	}
	return text.String()
}
