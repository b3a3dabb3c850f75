package store

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestScrubFindsDamageThatNobodyHasRead(t *testing.T) {
	none := func(context.Context, int) error { return nil }
	tests := map[string]func(t *testing.T, dir string){
		"key of a row":   func(t *testing.T, dir string) { flipText(t, dir, "main/*.sst", "a rather long key") },
		"value of a row": func(t *testing.T, dir string) { flipText(t, dir, "main/*.sst", "valuevalue") },
		"chunk":          func(t *testing.T, dir string) { flipText(t, dir, "buckets/*/*.vlog", "chunkchunk") },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			o := quiet(t.TempDir())
			s := mustOpen(t, o)
			b := s.Begin(1, 1)
			b.Put([]byte("a rather long key"), []byte(strings.Repeat("value", 100)))
			b.ReserveChunk() // never set
			ref := b.SetChunk(b.ReserveChunk(), []byte(strings.Repeat("chunk", 100)))
			b.Put([]byte("ref"), ref.Append(nil))
			commit(t, s, b)
			mustClose(t, s)
			s = mustOpen(t, o)
			defer mustClose(t, s)
			if err := s.Scrub(t.Context(), none); err != nil {
				t.Fatalf("before the damage: %v", err)
			}
			damage(t, o.Dir)
			if err := s.Scrub(t.Context(), none); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("damage was not found: %v", err)
			}
			if s.Usage().Corruptions != 1 {
				t.Fatalf("%d corruptions", s.Usage().Corruptions)
			}
		})
	}
}

func TestScrubVisitsEverythingOnceAtThePaceGiven(t *testing.T) {
	o := quiet(t.TempDir())
	o.BucketBytes = 50_000
	s := mustOpen(t, o)
	defer mustClose(t, s)
	const entries, perEntry = 25, 130
	for i := uint64(1); i <= entries; i++ {
		b := s.Begin(i, 1)
		for k := range perEntry {
			ref := b.SetChunk(b.ReserveChunk(), make([]byte, 100))
			b.Put([]byte{'k', byte(i), byte(k)}, ref.Append(nil))
		}
		commit(t, s, b)
	}
	want := 2*entries*perEntry + 1 + s.Usage().Buckets // rows and chunks, applied row, bucket rows
	seen := 0
	err := s.Scrub(t.Context(), func(_ context.Context, rows int) error {
		if rows < 1 || rows > scrubStep+perEntry {
			t.Errorf("step of %d rows", rows)
		}
		seen += rows
		return nil
	})
	if err != nil || seen != want {
		t.Fatalf("%d of %d, %v", seen, want, err)
	}
	enough := errors.New("enough")
	if err := s.Scrub(t.Context(), func(context.Context, int) error { return enough }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
}
