package deadletter

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// letter is a dead letter of the message at an offset, whose id begins with a number.
func letter(number byte, offset uint64, group string) Row {
	return Row{
		ID: uuid.UUID{number}, QueueID: 3, PartitionID: 5, PartitionUUID: uuid.UUID{0xFF}, Partition: "p", Group: group,
		Offset: offset, Txid: fmt.Appendf(nil, "t%d", offset), Error: "boom", HasError: true, RetryCount: 2,
		FailedMicros: 10, CreatedMicros: 4,
	}
}

func stored(payloadBytes int) []byte {
	return command.AppendMessage(nil, &command.Message{ID: uuid.UUID{7}, Txid: []byte("t"), Payload: bytes.Repeat([]byte("x"), payloadBytes)})
}

func mustFile(t testing.TB, m *rowtest.Memory, row Row, message []byte) {
	t.Helper()
	if err := File(m, m, row, message); err != nil {
		t.Fatal(err)
	}
}

// TestOneDeadLetterPerMessageAndGroup files again and again: the row keeps its id and is refreshed (messaging 6.5).
func TestOneDeadLetterPerMessageAndGroup(t *testing.T) {
	m := rowtest.NewMemory()
	mustFile(t, m, letter(1, 0, "g"), stored(10))
	again := letter(2, 0, "g")
	again.Error, again.HasError, again.RetryCount, again.FailedMicros = "", false, 9, 99
	mustFile(t, m, again, stored(10))
	mustFile(t, m, letter(3, 0, "other"), stored(10))
	mustFile(t, m, letter(4, 1, "g"), stored(10))
	if row, err := Find(m, uuid.UUID{2}); err != nil || row != nil {
		t.Errorf("filed twice: %+v, %v", row, err)
	}
	row, err := Find(m, uuid.UUID{1})
	if err != nil || row == nil {
		t.Fatalf("the first is gone: %v", err)
	}
	if row.HasError || row.Error != "" || row.RetryCount != 9 || row.FailedMicros != 99 || row.CreatedMicros != 4 {
		t.Errorf("the row is %+v", row)
	}
	if m.Len() != 3*Rows {
		t.Errorf("%d rows for three dead letters", m.Len())
	}
}

// TestDeadLettersAgreeWithList runs random filings and deletions against a list.
func TestDeadLettersAgreeWithList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rowtest.NewMemory()
		known := map[uuid.UUID]Row{}
		messages := map[uuid.UUID][]byte{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			m.NextEntry()
			offset := rapid.Uint64Range(0, 3).Draw(t, "offset")
			group := rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "group")
			if rapid.Bool().Draw(t, "file") {
				row := letter(byte(i+1), offset, group)
				row.RetryCount = uint32(i)
				message := stored(rapid.SampledFrom([]int{0, 10, inlineBytes + 1}).Draw(t, "bytes"))
				if err := File(m, m, row, message); err != nil {
					t.Fatal(err)
				}
				for id, old := range known {
					if old.Offset == offset && old.Group == group {
						old.RetryCount = row.RetryCount
						known[id], row.ID = old, uuid.Nil
					}
				}
				if row.ID != uuid.Nil {
					known[row.ID], messages[row.ID] = row, message
				}
			} else {
				for id, old := range known {
					if old.Offset != offset || old.Group != group {
						continue
					}
					row, err := Find(m, id)
					if err != nil || row == nil {
						t.Fatalf("find %s: %+v, %v", id, row, err)
					}
					Delete(m, row)
					delete(known, id)
				}
			}
			for id, want := range known {
				row, err := Get(m, 3, id)
				if err != nil || row == nil {
					t.Fatalf("get %s: %+v, %v", id, row, err)
				}
				err = row.Stored(m, func(stored []byte) error {
					if !bytes.Equal(stored, messages[id]) {
						return errors.New("another message")
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				row.Message, row.Chunk = nil, nil
				if !reflect.DeepEqual(*row, want) {
					t.Fatalf("row is %+v, want %+v", *row, want)
				}
			}
			if m.Len() != Rows*len(known) {
				t.Fatalf("%d rows for %d dead letters", m.Len(), len(known))
			}
			checkAddresses(t, m, known)
		}
		large := 0
		for id := range known {
			if len(messages[id]) > inlineBytes {
				large++
			}
		}
		if len(m.Chunks) != large {
			t.Fatalf("%d chunks for %d large messages", len(m.Chunks), large)
		}
	})
}

// checkAddresses demands that an address lists its dead letters, oldest first.
func checkAddresses(t *rapid.T, m *rowtest.Memory, known map[uuid.UUID]Row) {
	for offset := range uint64(4) {
		var want []uuid.UUID
		for id, row := range known {
			if row.Offset == offset {
				want = append(want, id)
			}
		}
		slices.SortFunc(want, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		rows, err := At(m, 5, fmt.Appendf(nil, "t%d", offset))
		if err != nil {
			t.Fatal(err)
		}
		var got []uuid.UUID
		for _, row := range rows {
			got = append(got, row.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("address %d lists %v, want %v", offset, got, want)
		}
	}
}

func TestLongErrorTextIsCutAtACharacter(t *testing.T) {
	m := rowtest.NewMemory()
	row := letter(1, 0, "g")
	row.Error = strings.Repeat("é", MaxErrorBytes)
	mustFile(t, m, row, stored(1))
	found, err := Find(m, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(found.Error); n > MaxErrorBytes || n < MaxErrorBytes-utf8.UTFMax || !utf8.ValidString(found.Error) {
		t.Errorf("%d bytes are kept, valid=%t", n, utf8.ValidString(found.Error))
	}
}

// TestRowBytesIsAnUpperBound: apply counts on it before it lets an ack file dead letters.
func TestRowBytesIsAnUpperBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rowtest.NewMemory()
		row := letter(1, ^uint64(0), strings.Repeat("\x01", rapid.IntRange(0, 205).Draw(t, "group")))
		row.Partition = strings.Repeat("\x01", rapid.IntRange(0, 205).Draw(t, "partition"))
		row.Error = strings.Repeat("\x01", rapid.IntRange(0, 3000).Draw(t, "error"))
		row.Txid = bytes.Repeat([]byte("t"), rapid.IntRange(1, 65_535).Draw(t, "txid"))
		row.QueueID, row.PartitionID, row.FailedMicros, row.CreatedMicros = ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)
		if err := File(m, m, row, stored(rapid.IntRange(0, 2*inlineBytes).Draw(t, "payload"))); err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for key, value := range m.All() {
			bytes += len(key) + len(value)
		}
		if bound := RowBytes(len(row.Error), len(row.Txid)); bytes > bound || m.Len() > Rows {
			t.Fatalf("%d rows of %d bytes, bounds are %d and %d", m.Len(), bytes, Rows, bound)
		}
	})
}

func TestDeadLetterRowFormat(t *testing.T) {
	row := letter(1, 2, "g")
	row.Message = []byte("m")
	row.Chunk = &store.ChunkRef{Bucket: 1, Entry: 2, Ordinal: 3, Bytes: 4}
	const want = `{"id":"01000000-0000-0000-0000-000000000000","queueId":3,"partitionId":5,` +
		`"partitionUuid":"ff000000-0000-0000-0000-000000000000","partition":"p","group":"g","offset":2,"txid":"dDI=",` +
		`"hasError":true,"retryCount":2,"failedMicros":10,"createdMicros":4,"message":"bQ==",` +
		`"chunk":{"Bucket":1,"Entry":2,"Ordinal":3,"Bytes":4},"error":"Ym9vbQ=="}`
	if got := string(row.encode()); got != want {
		t.Errorf("the row is\n%s\nwant\n%s", got, want)
	}
}

func TestDamagedDeadLetterIsRefused(t *testing.T) {
	m := rowtest.NewMemory()
	row := letter(1, 0, "g")
	mustFile(t, m, row, stored(1))
	m.Set(place(&row), []byte("short"))
	if err := File(m, m, row, stored(1)); !errors.Is(err, ErrBadRow) {
		t.Errorf("a damaged place gives %v", err)
	}
	mustFile(t, m, letter(2, 1, "g"), stored(1))
	m.Set(layout.DeadLetter(3, uuid.UUID{2}), []byte("{"))
	if _, err := Find(m, uuid.UUID{2}); !errors.Is(err, ErrBadRow) {
		t.Errorf("a damaged row gives %v", err)
	}
	m.Remove(layout.DeadLetter(3, uuid.UUID{2}))
	if err := File(m, m, letter(3, 1, "g"), stored(1)); !errors.Is(err, ErrBadRow) {
		t.Errorf("a place without its row gives %v", err)
	}
}

func FuzzDeadLetterRow(f *testing.F) {
	row := letter(1, 2, "g")
	f.Add(row.encode())
	f.Add([]byte(`{"error":"","chunk":{}}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		row, err := DecodeRow(value)
		if err != nil {
			return
		}
		again, err := DecodeRow(row.encode())
		if err != nil || again.Error != row.Error || again.ID != row.ID || !bytes.Equal(again.Message, row.Message) {
			t.Errorf("%+v is written and read as %+v, %v", row, again, err)
		}
	})
}
