package rowtest

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// Codec is how values of a kind are written to rows and read from them.
type Codec[T any] struct {
	Encode func(value T) []byte
	Decode func(row []byte) (T, error)
	// Bad is the error of a row that does not decode.
	Bad error
}

// Golden compares the row of a value with its golden file, and demands that it reads back as the value.
func (c Codec[T]) Golden(t testing.TB, name string, value T) {
	t.Helper()
	row := c.Encode(value)
	Golden(t, name, row)
	if back, err := c.Decode(row); err != nil || !reflect.DeepEqual(back, value) {
		t.Errorf("%s: read back %+v, %v; want %+v", name, back, err, value)
	}
}

// Cut demands that the row of a value is refused when it ends too early. The last tail bytes may be missing, since they end
// with the row.
func (c Codec[T]) Cut(t testing.TB, name string, value T, tail int) {
	t.Helper()
	row := c.Encode(value)
	for n := range len(row) - tail {
		if _, err := c.Decode(row[:n]); !errors.Is(err, c.Bad) {
			t.Errorf("%s: %d bytes of %d: %v", name, n, len(row), err)
		}
	}
}

// Stable is the rule of decoders that are fed anything: what they do not refuse is written and read back as the same value.
func (c Codec[T]) Stable(t testing.TB, row []byte) {
	t.Helper()
	value, ok := c.accepts(t, row)
	if !ok {
		return
	}
	if again, err := c.Decode(c.Encode(value)); err != nil || !reflect.DeepEqual(again, value) {
		t.Fatalf("%+v reads back as %+v, %v", value, again, err)
	}
}

// Exact is Stable for formats that have one row for a value: what is not refused is written as the same bytes.
func (c Codec[T]) Exact(t testing.TB, row []byte) {
	t.Helper()
	value, ok := c.accepts(t, row)
	if !ok {
		return
	}
	if again := c.Encode(value); !bytes.Equal(again, row) {
		t.Fatalf("%x is read as %+v, which is written as %x", row, value, again)
	}
}

func (c Codec[T]) accepts(t testing.TB, row []byte) (value T, ok bool) {
	t.Helper()
	value, err := c.Decode(row)
	if err != nil && !errors.Is(err, c.Bad) {
		t.Fatalf("undeclared error %v", err)
	}
	return value, err == nil
}
