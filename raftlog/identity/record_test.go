package identity

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// goldens are the files whose form never changes: directories that exist must open for ever.
var goldens = map[string]any{
	"identity.json": &Identity{
		ClusterID: "0f8fad5b-d9cb-469f-a165-70867728950e", ClusterEpoch: 2, NodeID: 3,
		Incarnation: "7c9e6679-7425-40de-944b-e07fc1f90ae7", BootNonce: "12-00112233aabbccdd",
		ConfirmedNonce: "10-0011223344556677", PendingNonces: []string{"11-8899aabbccddeeff"},
		Lineage: []Ancestor{{ClusterID: "16fd2706-8baf-433b-82eb-8c7fada847da", ClusterEpoch: 1, AtMs: 1764460800000}},
		Formation: &Formation{
			ClusterID: "16fd2706-8baf-433b-82eb-8c7fada847da", ClusterEpoch: 1,
			Members: []FirstMember{{NodeID: 3, Raft: "queen-3:7400", HTTP: "queen-3:6632", Incarnation: "7c9e6679-7425-40de-944b-e07fc1f90ae7"}},
		},
		Began: true,
	},
	"identity-empty.json": &Identity{NodeID: 1, Incarnation: "7c9e6679-7425-40de-944b-e07fc1f90ae7", BootNonce: "1-00112233aabbccdd"},
	"layout.json":         &Layout{Format: 1, Groups: 1, CreatedAtMs: 1764460800000, Build: "1.0.0"},
}

func TestFilesKeepTheirForm(t *testing.T) {
	for name, value := range goldens {
		golden := filepath.Join("testdata", name)
		written := filepath.Join(t.TempDir(), name)
		if err := WriteRecord(written, value); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(written)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		read := reflect.New(reflect.TypeOf(value).Elem()).Interface()
		if err := ReadRecord(golden, read); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read, value) {
			t.Errorf("%s: read %+v, want %+v", name, read, value)
		}
	}
}

func TestDamageOfAnyBitIsSeen(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(body []byte, what string, at int) {
		var read Identity
		if err := decodeRecord("identity.json", body, &read); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s at %d: %v, want ErrDamaged", what, at, err)
		}
	}
	for at := range whole {
		for bit := range 8 {
			body := append([]byte(nil), whole...)
			body[at] ^= 1 << bit
			damaged(body, "flipped bit", at)
		}
		damaged(whole[:at], "cut", at)
	}
	damaged(append(whole[:len(whole):len(whole)], '\n'), "longer", len(whole))
}

func TestFormerFileStaysUntilTheNewOneIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "layout.json")
	if err := WriteRecord(path, &Layout{Format: 1}); err != nil {
		t.Fatal(err)
	}
	// What a crash during the writing leaves: half of a temporary file.
	if err := os.WriteFile(path+".tmp", []byte(`{"form`), 0o644); err != nil {
		t.Fatal(err)
	}
	var read Layout
	if err := ReadRecord(path, &read); err != nil || read.Format != 1 {
		t.Fatalf("read %+v, %v", read, err)
	}
	if err := WriteRecord(path, &Layout{Format: 2}); err != nil {
		t.Fatal(err)
	}
	if err := ReadRecord(path, &read); err != nil || read.Format != 2 {
		t.Fatalf("read %+v, %v", read, err)
	}
}
