// Package switches is the pure machine of what an operator can turn off: one row with the switches that are off (state 11.1). There
// is no row as long as none has ever been changed, and everything is on.
package switches

import (
	"errors"
	"fmt"

	"queen/raftlog/command"
	"queen/store/layout"
)

// Reader is what the machine reads its row through.
type Reader interface {
	Get(key []byte) ([]byte, error)
}

// Writer takes the machine's effects.
type Writer interface {
	Put(key, value []byte)
}

// ErrBadRow is returned for a row that does not decode: the store is damaged.
var ErrBadRow = errors.New("row of the switches does not decode")

var rowKey = layout.Meta("switches")

// rowVersion is the first byte of the row; rows of a later format are not read by this build.
const rowVersion = 1

// Off reads which switches are off.
func Off(r Reader) (command.Switch, error) {
	value, err := r.Get(rowKey)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read switches: %w", err)
	case value == nil:
		return 0, nil
	case len(value) != 2 || value[0] != rowVersion:
		return 0, fmt.Errorf("decode switches of %d bytes: %w", len(value), ErrBadRow)
	}
	return command.Switch(value[1]), nil
}

// Refusal is what a call is answered whose surface is off, in a transaction with its code as the reason (state 11.4). What the switch of
// firing governs is no call.
func Refusal(of command.Switch) *command.Refusal {
	switch of {
	case command.SwitchKV:
		return &command.Refusal{Code: "kv_disabled", Text: "KV is turned off, and locks with it"}
	case command.SwitchTimersSchedule:
		return &command.Refusal{Code: "timers_disabled", Text: "the scheduling of timers is turned off; cancels work"}
	}
	panic("BUG: no call is refused for this switch")
}

// Refuse is the refusal while a switch is off; nil while it is on.
func Refuse(r Reader, of command.Switch) (*command.Refusal, error) {
	off, err := Off(r)
	if err != nil || !off.Has(of) {
		return nil, err
	}
	return Refusal(of), nil
}

// Change carries a command out and returns which switches are off then. What changes nothing writes nothing.
func Change(r Reader, w Writer, c command.Switches) (command.Switch, error) {
	before, err := Off(r)
	if err != nil {
		return 0, err
	}
	off := before&^c.On | c.Off
	if off != before {
		w.Put(rowKey, []byte{rowVersion, byte(off)})
	}
	return off, nil
}
