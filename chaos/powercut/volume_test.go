//go:build powercut

package powercut

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCutKeepsWhatWasFlushedAndNothingElse proves the method: without it a campaign that finds nothing says nothing.
func TestCutKeepsWhatWasFlushedAndNothingElse(t *testing.T) {
	for _, journal := range []string{Ordered, Writeback} {
		t.Run(journal, func(t *testing.T) {
			volume, err := NewVolume(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := volume.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := volume.Darken(); err != nil {
				t.Fatal(err)
			}
			if err := volume.Lighten(journal); err != nil {
				t.Fatal(err)
			}
			grown := create(t, volume, "grown")
			write(t, grown, "flushed ")
			if err := grown.Sync(); err != nil {
				t.Fatal(err)
			}
			write(t, grown, "not flushed")
			unflushed := create(t, volume, "unflushed")
			write(t, unflushed, "lost")

			if err := volume.Darken(); err != nil {
				t.Fatal(err)
			}
			if err := grown.Sync(); err == nil {
				t.Error("a flush in the dark must fail")
			}
			if err := unix.Fdatasync(int(unflushed.Fd())); err == nil {
				t.Error("a flush in the dark must fail")
			}
			_, _ = grown.Close(), unflushed.Close()
			if err := volume.Lighten(Ordered); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(volume.Path(), "grown")); err != nil || string(got) != "flushed " {
				t.Errorf("want what was flushed, got %q, %v", got, err)
			}
			if got, err := os.ReadFile(filepath.Join(volume.Path(), "unflushed")); err == nil {
				t.Errorf("want nothing, got %q", got)
			}
		})
	}
}

func create(t *testing.T, volume *Volume, name string) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(volume.Path(), name))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func write(t *testing.T, file *os.File, text string) {
	t.Helper()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
