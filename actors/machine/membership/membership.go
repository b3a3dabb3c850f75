package membership

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"queen/raftlog/command"
	"queen/store/layout"
)

// Reader is what the machine reads rows through.
type Reader interface {
	Get(key []byte) ([]byte, error)
	Scan(prefix, from []byte, visit func(key, value []byte) bool) error
}

// Writer takes the machine's effects.
type Writer interface {
	Put(key, value []byte)
	Delete(key []byte)
}

const (
	// maxRows bounds the table: members, and nodes that are about to be some (cluster 4.2: at most 8 members).
	maxRows = 16
	// maxEnded is how many plans are remembered after their end: long enough for whoever waited to ask again.
	maxEnded = 16
	// Keys is how many rows a change writes at most.
	Keys = maxRows + 1
)

// ErrBadRow is returned for a row that does not decode: the store is damaged.
var ErrBadRow = errors.New("membership row does not decode")

// mainKey holds what is not about one member.
var mainKey = layout.Meta("membership")

// mainRow is its value. Both rows are few and rarely written: JSON, whose struct encoding is deterministic.
type mainRow struct {
	Index  uint64              `json:"index"`
	Format uint32              `json:"format"`
	Plan   *command.Plan       `json:"plan,omitempty"`
	Ended  []command.EndedPlan `json:"ended,omitempty"`
}

// Load reads the state; without rows, that of a cluster before its first entry about it.
func Load(r Reader) (*command.MembershipState, error) {
	value, err := r.Get(mainKey)
	if err != nil {
		return nil, fmt.Errorf("read membership: %w", err)
	}
	row := mainRow{Format: command.FormatVersion}
	if value != nil {
		if err := decode(value, &row); err != nil {
			return nil, err
		}
	}
	state := &command.MembershipState{Index: row.Index, Format: row.Format, Plan: row.Plan, Ended: row.Ended}
	var bad error
	err = r.Scan(layout.Members(), nil, func(_, value []byte) bool {
		var member command.Member
		bad = decode(value, &member)
		state.Members = append(state.Members, member)
		return bad == nil
	})
	if err != nil {
		return nil, fmt.Errorf("read members table: %w", err)
	}
	return state, bad
}

func decode(value []byte, row any) error {
	if err := json.Unmarshal(value, row); err != nil {
		return fmt.Errorf("%w: %w", ErrBadRow, err)
	}
	return nil
}

func encode(row any) []byte {
	value, err := json.Marshal(row)
	if err != nil {
		panic(fmt.Sprintf("BUG: encode membership row: %v", err))
	}
	return value
}

// Moment is where and when a change is made.
type Moment struct {
	Index       uint64
	StampMicros uint64
}

// Change makes a change and returns the state after it, or why it is refused; then nothing changes.
func Change(r Reader, w Writer, at Moment, c *command.Membership) (*command.MembershipState, *command.Refusal, error) {
	before, err := Load(r)
	if err != nil {
		return nil, nil, err
	}
	after, refusal := change(before, at, c)
	if refusal != nil {
		return nil, refusal, nil
	}
	for _, member := range before.Members {
		if _, stays := after.Member(member.NodeID); !stays {
			w.Delete(layout.Member(member.NodeID))
		}
	}
	for _, member := range after.Members {
		if old, known := before.Member(member.NodeID); !known || !reflect.DeepEqual(old, member) {
			w.Put(layout.Member(member.NodeID), encode(&member))
		}
	}
	w.Put(mainKey, encode(&mainRow{Index: after.Index, Format: after.Format, Plan: after.Plan, Ended: after.Ended}))
	return after, nil, nil
}

// change is the state after a change.
func change(before *command.MembershipState, at Moment, c *command.Membership) (*command.MembershipState, *command.Refusal) {
	if c.Expect != before.Index {
		return nil, refuse("membership_changed", "the membership was changed by entry %d, the command was made after entry %d", before.Index, c.Expect)
	}
	after := &command.MembershipState{
		Index: at.Index, Format: max(before.Format, c.Format), Members: slices.Clone(before.Members), Plan: before.Plan,
		Ended: slices.Clone(before.Ended),
	}
	for _, id := range c.Delete {
		after.Members = slices.DeleteFunc(after.Members, func(m command.Member) bool { return m.NodeID == id })
	}
	for _, member := range c.Put {
		put(after, member, at.Index)
	}
	if len(after.Members) > maxRows {
		return nil, refuse("membership_invalid", "the members table has room for %d rows", maxRows)
	}
	if c.End != command.PlanGoesOn && after.Plan != nil {
		after.Ended = append(after.Ended, command.EndedPlan{ID: after.Plan.ID, End: c.End})
		after.Ended = after.Ended[max(0, len(after.Ended)-maxEnded):]
		after.Plan = nil
	}
	if c.Begin != nil {
		if after.Plan != nil {
			return nil, refuse("in_flight", "plan %d is pending", after.Plan.ID)
		}
		plan := *c.Begin
		plan.StartedMs = at.StampMicros / 1000
		after.Plan = &plan
	}
	return after, nil
}

// put writes a row. A row of the same incarnation stays as old as it is.
func put(state *command.MembershipState, member command.Member, index uint64) {
	member.AddedIndex = index
	if old, known := state.Member(member.NodeID); known && old.Incarnation == member.Incarnation {
		member.AddedIndex = old.AddedIndex
	}
	at, found := slices.BinarySearchFunc(state.Members, member.NodeID, func(m command.Member, id uint64) int { return cmp.Compare(m.NodeID, id) })
	if found {
		state.Members[at] = member
	} else {
		state.Members = slices.Insert(state.Members, at, member)
	}
}

func refuse(code, format string, args ...any) *command.Refusal {
	return &command.Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}
