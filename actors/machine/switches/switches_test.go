package switches

import (
	"errors"
	"testing"

	"queen/raftlog/command"
)

// rows is a store in memory that counts what is written.
type rows struct {
	values map[string][]byte
	puts   int
}

func (r *rows) Get(key []byte) ([]byte, error) { return r.values[string(key)], nil }

func (r *rows) Put(key, value []byte) {
	r.values[string(key)] = value
	r.puts++
}

func TestSwitchesAreOnUntilTurnedOff(t *testing.T) {
	r := &rows{values: map[string][]byte{}}
	if off, err := Off(r); off != 0 || err != nil {
		t.Fatalf("an empty store has %b off, %v", off, err)
	}
	for _, step := range []struct {
		change command.Switches
		off    command.Switch
		puts   int
	}{
		{command.Switches{On: command.SwitchKV}, 0, 0},
		{command.Switches{Off: command.SwitchTimersFire}, command.SwitchTimersFire, 1},
		{command.Switches{Off: command.SwitchTimersFire}, command.SwitchTimersFire, 1},
		{command.Switches{Off: command.SwitchKV}, command.SwitchKV | command.SwitchTimersFire, 2},
		{command.Switches{On: command.SwitchTimersFire, Off: command.SwitchTimersSchedule}, command.SwitchKV | command.SwitchTimersSchedule, 3},
		{command.Switches{}, command.SwitchKV | command.SwitchTimersSchedule, 3},
		{command.Switches{On: command.SwitchKV | command.SwitchTimersSchedule}, 0, 4},
		{command.Switches{On: command.SwitchKV, Off: command.SwitchKV}, command.SwitchKV, 5},
	} {
		off, err := Change(r, r, step.change)
		if stored, readErr := Off(r); err != nil || readErr != nil || off != step.off || stored != off || r.puts != step.puts {
			t.Fatalf("%+v: off %b stored %b after %d writes, %v %v", step.change, off, stored, r.puts, err, readErr)
		}
	}
}

func TestDamagedRowIsAnError(t *testing.T) {
	for _, value := range [][]byte{{}, {1}, {2, 0}, {1, 0, 0}} {
		r := &rows{values: map[string][]byte{string(rowKey): value}}
		if _, err := Off(r); !errors.Is(err, ErrBadRow) {
			t.Errorf("%x: %v", value, err)
		}
		if _, err := Change(r, r, command.Switches{}); !errors.Is(err, ErrBadRow) {
			t.Errorf("%x: %v", value, err)
		}
	}
}

func TestCallsAreRefusedWhileTheirSwitchIsOff(t *testing.T) {
	r := &rows{values: map[string][]byte{}}
	for of, code := range map[command.Switch]string{command.SwitchKV: "kv_disabled", command.SwitchTimersSchedule: "timers_disabled"} {
		if refusal, err := Refuse(r, of); refusal != nil || err != nil {
			t.Errorf("%b is on: %v, %v", of, refusal, err)
		}
		if _, err := Change(r, r, command.Switches{Off: of}); err != nil {
			t.Fatal(err)
		}
		if refusal, err := Refuse(r, of); err != nil || refusal == nil || refusal.Code != code || refusal.Text == "" {
			t.Errorf("%b is off: %v, %v", of, refusal, err)
		}
		if _, err := Change(r, r, command.Switches{On: of}); err != nil {
			t.Fatal(err)
		}
	}
	if refusal, err := Refuse(&rows{values: map[string][]byte{string(rowKey): {1}}}, command.SwitchKV); refusal != nil || !errors.Is(err, ErrBadRow) {
		t.Errorf("a damaged row: %v, %v", refusal, err)
	}
}
