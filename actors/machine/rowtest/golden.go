package rowtest

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Golden compares encoded bytes with testdata/NAME.hex of the package that is tested, which is never to change without a new
// format version: rows must be readable by every later build.
func Golden(t testing.TB, name string, got []byte) {
	t.Helper()
	GoldenText(t, name+".hex", hex.EncodeToString(got)+"\n")
}

// GoldenText compares a text with a file below testdata, for rows that are readable as they are.
func GoldenText(t testing.TB, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: bytes differ:\n%s\nwant\n%s", path, got, want)
	}
}
