package cursor

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/uuid"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
)

// fullState has every part of a row.
func fullState() State {
	return State{
		Cursor:          300,
		TotalConsumed:   290,
		Failures:        2,
		Attempt:         3,
		AttemptStart:    300,
		HasAttemptStart: true,
		NotBeforeMicros: startMicros + 1,
		Ceiling:         304,
		HasCeiling:      true,
		Lease: Lease{
			ID: uuid.UUID{0: 1, 15: 2}, End: 303, ExpiresMicros: startMicros + second, GrantedTerm: 9, Conflated: true,
			Before: Attempts{Count: 2, Start: 299, HasStart: true},
		},
		Undo: Undo{
			Valid: true, First: 290, Failures: 1, Attempts: Attempts{Count: 1, Start: 290, HasStart: true}, Ceiling: 300, HasCeiling: true,
		},
		Released: remember(uuid.UUID{0: 3, 15: 4}, &AckCall{Items: []AckItem{
			{Txid: txidHash(1)},
			{Txid: txidHash(2)},
			{Txid: txidHash(3), Status: command.AckDeadLetter},
			{Txid: txidHash(4), Status: command.AckFailed},
		}}, []command.AckVerdict{releasedOK, releasedOK, filedOK, unresolved}, 3),
	}
}

func TestRowsKeepTheirFormat(t *testing.T) {
	full := fullState()
	leased := New(7)
	leased.Lease = Lease{ID: uuid.UUID{15: 1}, End: 9, ExpiresMicros: startMicros, GrantedTerm: 1}
	leased.Attempt, leased.HasAttemptStart, leased.AttemptStart = 1, true, 7
	large := releasedBench(t, 75).state
	rows := map[string][]byte{
		"zero":    State{}.AppendTo(nil),
		"leased":  leased.AppendTo(nil),
		"full":    full.AppendTo(nil),
		"spilled": large.AppendTo(nil),
		"spill":   large.SpillTo(nil),
	}
	for name, row := range rows {
		rowtest.Golden(t, name, row)
	}
	for _, state := range []State{{}, leased, full, large} {
		decoded(t, state)
	}
}

func TestDecodeRefusesWhatAppendToDoesNotWrite(t *testing.T) {
	row := fullState().AppendTo(nil)
	for length := range row {
		// A row may end before a whole number of remembered runs; everything else is cut off in the middle.
		if _, err := Decode(row[:length]); err == nil && length < len(row)-2*(runHead+tagBytes)-runHead-2*tagBytes {
			t.Errorf("decoded the first %d bytes", length)
		} else if err != nil && !errors.Is(err, ErrBadRow) {
			t.Errorf("decode of %d bytes = %v", length, err)
		}
	}
	edit := func(row []byte, at int, value byte) []byte {
		row = append([]byte(nil), row...)
		row[at] = value
		return row
	}
	zero := State{}.AppendTo(nil)
	spilled := releasedBench(t, 75).state.AppendTo(nil)
	cases := map[string][]byte{
		"other version":           edit(zero, 0, 2),
		"trailing byte":           append(append([]byte(nil), zero...), 0),
		"trailing byte, spilled":  append(append([]byte(nil), spilled...), 0),
		"lease part without id":   edit(zero, 1, partConflated),
		"zero failures written":   append(edit(zero, 1, partFailures), 0),
		"failures beyond 32 bits": append(edit(zero, 1, partFailures), 0x80, 0x80, 0x80, 0x80, 0x10),
		"padded number":           append(append([]byte(nil), zero[:3]...), 0x80, 0, 0),
		"number beyond 64 bits":   append(append([]byte(nil), zero[:3]...), bytes.Repeat([]byte{0xff}, 11)...),
	}
	runs := func(tail ...byte) []byte {
		row := append([]byte(nil), zero...)
		row[2] = partReleased >> 8
		row = append(row, make([]byte, 15)...)
		return append(append(row, 1), tail...)
	}
	tag := make([]byte, tagBytes)
	run := func(outcome, count byte, tags int) []byte {
		return append([]byte{outcome, count, 0}, bytes.Repeat(tag, tags)...)
	}
	cases["run of none"] = runs(run(0, 0, 0)...)
	cases["run cut off"] = runs(run(0, 2, 1)...)
	cases["run without a head"] = runs(0, 1)
	cases["one run in two"] = runs(append(run(0, 1, 1), run(0, 1, 1)...)...)
	cases["unknown outcome"] = runs(run(6<<2, 1, 1)...)
	cases["more than a row carries"] = runs(run(0, 75, 75)...)
	for name, bad := range cases {
		if state, err := Decode(bad); !errors.Is(err, ErrBadRow) {
			t.Errorf("%s: decode = %+v, %v", name, state, err)
		}
	}
	if _, err := Decode(runs(run(0, 1, 1)...)); err != nil {
		t.Errorf("the base of the refused rows is refused itself: %v", err)
	}
}

func TestDecodedStateSharesNothingWithItsRow(t *testing.T) {
	row := fullState().AppendTo(nil)
	state, err := Decode(row)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]byte(nil), row...)
	clear(row)
	if !bytes.Equal(state.AppendTo(nil), want) {
		t.Fatal("the state changed with the row")
	}
}

// FuzzDecode: whatever is decoded is written back as the same bytes, and works.
func FuzzDecode(f *testing.F) {
	f.Add(State{}.AppendTo(nil))
	f.Add(fullState().AppendTo(nil))
	f.Add(releasedBench(f, 75).state.AppendTo(nil))
	f.Fuzz(func(t *testing.T, row []byte) {
		state, err := Decode(row)
		if err != nil {
			if !errors.Is(err, ErrBadRow) {
				t.Fatalf("decode = %v", err)
			}
			return
		}
		if again := state.AppendTo(nil); !bytes.Equal(again, row) {
			t.Fatalf("row %x became %x", row, again)
		}
		exercise(state)
	})
}

// exercise runs every step on a state that may make no sense; none may panic.
func exercise(state State) {
	call := AckCall{Lease: state.Released.Lease, Items: []AckItem{
		{Where: InRange, Offset: state.Cursor}, {Where: Below, Status: command.AckFailed}, {Where: InRange, Offset: state.Lease.End, Status: command.AckDeadLetter},
	}}
	for _, lease := range []uuid.UUID{uuid.Nil, state.Lease.ID, state.Released.Lease} {
		call.Lease = lease
		for _, now := range []uint64{0, startMicros} {
			trial := state
			trial.Check(now, call)
			trial.Ack(now, call, Policy{FileDeadLetters: true})
			trial.UndoDelivery(now, trial.Undo.First, trial.Cursor-1, nil)
			trial.Claim(now, ClaimInput{Window: Window{VisibleEnd: NoCap}, Max: 3, MaxEnd: NoCap, Lease: uuid.UUID{15: 1}})
			trial.Extend(now, uuid.UUID{15: 1}, second, 2, nil)
		}
	}
}

// FuzzAttachSpill: whatever is attached is written back as the same bytes.
func FuzzAttachSpill(f *testing.F) {
	large := releasedBench(f, 75).state
	f.Add(large.SpillTo(nil))
	row := large.AppendTo(nil)
	f.Fuzz(func(t *testing.T, spill []byte) {
		state, err := Decode(row)
		if err != nil {
			t.Fatal(err)
		}
		if state.AttachSpill(spill) != nil {
			return
		}
		if again := state.SpillTo(nil); !bytes.Equal(again, spill) {
			t.Fatalf("second row %x became %x", spill, again)
		}
		exercise(state)
	})
}
