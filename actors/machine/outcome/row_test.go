package outcome

import (
	"bytes"
	"errors"
	"testing"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
	"queen/store/layout"
)

// sampleRows is a memory with the row of an entry of two origins, and one that is a chunk.
func sampleRows(t testing.TB) *memory {
	r := newRig(t)
	r.entry(call(0x0102030405060708, 300, 290), call(9, 1, 1), call(0x0102030405060708, 301, 300))
	r.index++
	r.memory.next(r.index)
	r.window.Begin(r.index, r.now)
	item := call(9, 2, 1)
	r.window.Note(&item, large(inlineBytes))
	r.window.Finish(r.memory, FinishInput{WindowSeconds: testWindow, RoomBytes: testRoom})
	return r.memory
}

func TestRowsEqualGoldenFiles(t *testing.T) {
	memory := sampleRows(t)
	inline, chunked := memory.Row(layout.Outcome(1)), memory.Row(layout.Outcome(2))
	rowtest.Golden(t, "row-inline", inline)
	rowtest.Golden(t, "row-chunk", chunked)
	row, err := ReadRow(memory, inline)
	if err != nil || row.StampMicros != testStart+1000 || len(row.Origins) != 2 || len(row.Outcomes) != 3 {
		t.Fatalf("read %+v, %v", row, err)
	}
	if first := row.Origins[0]; first != (Answered{0x0102030405060708, 300}) {
		t.Errorf("the first origin is %+v", first)
	}
	for _, o := range row.Outcomes {
		result, err := command.DecodeResult(o.Result)
		if err != nil || *result.(*command.Refusal) != *named(o.Request).(*command.Refusal) {
			t.Errorf("request %+v has the result %+v, %v", o.Request, result, err)
		}
	}
	row, err = ReadRow(memory, chunked)
	if err != nil || len(row.Outcomes) != 1 || row.chunk == nil {
		t.Errorf("read %+v, %v", row, err)
	}
}

func TestHostileRowsAreRefused(t *testing.T) {
	body := func(change func(b []byte) []byte) []byte {
		good := appendBodyHead([]byte{rowVersion, placeInline}, 5, []Answered{{7, 300}}, 1)
		return change(append(good, 0, 2, 2, byte(command.ResultDone), 1))
	}
	whole := body(func(b []byte) []byte { return b })
	if _, err := ReadRow(newMemory(), whole); err != nil {
		t.Fatal(err)
	}
	last := len(whole) - 1
	for name, data := range map[string][]byte{
		"empty":              {},
		"newer version":      body(func(b []byte) []byte { b[0]++; return b }),
		"unknown place":      body(func(b []byte) []byte { b[1] = 2; return b }),
		"cut chunk":          {rowVersion, placeChunk, 1, 2},
		"origin out of list": body(func(b []byte) []byte { b[last-4] = 1; return b }),
		"result too long":    body(func(b []byte) []byte { b[last-2] = 9; return b }),
		"bytes at the end":   body(func(b []byte) []byte { return append(b, 0) }),
		"many origins":       {rowVersion, placeInline, 5, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"many outcomes":      {rowVersion, placeInline, 5, 0, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		if _, err := ReadRow(newMemory(), data); !errors.Is(err, ErrBadRow) {
			t.Errorf("%s: %v", name, err)
		}
	}
	far := appendBodyHead([]byte{rowVersion, placeInline}, 5, []Answered{{7, 300}}, 1)
	far = append(far, 0, 0x80, 0x80, 4, 0) // 65536 beyond what is answered
	if _, err := ReadRow(newMemory(), far); !errors.Is(err, ErrBadRow) {
		t.Errorf("sequence too far: %v", err)
	}
}

func FuzzReadRow(f *testing.F) {
	memory := sampleRows(f)
	for _, value := range memory.All() {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		row, err := ReadRow(memory, data)
		if err != nil {
			return
		}
		body, _, err := readBody(memory, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range row.Outcomes {
			// What loading finds, finding finds.
			want, wantErr := command.DecodeResult(o.Result)
			got, err := resultAt(body, o.at)
			if len(o.Result) > 0 && (err == nil) != (wantErr == nil) {
				t.Fatalf("result %x: %v and %v", o.Result, err, wantErr)
			}
			if err == nil && wantErr == nil && !bytes.Equal(command.AppendResult(nil, got), command.AppendResult(nil, want)) {
				t.Fatalf("result %+v, want %+v", got, want)
			}
		}
		// Rows that contradict themselves are refused too.
		alone := newMemory()
		alone.Set(layout.Outcome(3), data)
		if row.chunk == nil {
			if _, err := Load(alone); err != nil && !errors.Is(err, ErrBadRow) {
				t.Fatal(err)
			}
		}
	})
}
