package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func optionsFor(dir string) Options {
	return Options{Dir: dir, NodeID: 2, Groups: 1, Build: "test", NowMs: func() int64 { return 1764460800000 }}
}

func open(t *testing.T, options Options) *Store {
	t.Helper()
	store, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func change(t *testing.T, store *Store, change func(*Identity)) {
	t.Helper()
	if err := store.Update(change); err != nil {
		t.Fatal(err)
	}
}

func TestEmptyDirectoryGetsAnIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	store := open(t, optionsFor(dir))
	got := store.Current()
	if counter, ok := NonceCounter(got.BootNonce); !ok || counter != 1 {
		t.Errorf("boot nonce %q, want counter 1", got.BootNonce)
	}
	if !store.Fresh() || got.Incarnation == "" || got.ClusterID != "" || got.NodeID != 2 {
		t.Errorf("fresh %v, identity %+v", store.Fresh(), got)
	}
	if want := (Layout{Format: 1, Groups: 1, CreatedAtMs: 1764460800000, Build: "test"}); store.Layout() != want {
		t.Errorf("layout %+v, want %+v", store.Layout(), want)
	}
	// Another directory is another incarnation.
	if other := open(t, optionsFor(t.TempDir())).Current(); other.Incarnation == got.Incarnation || other.BootNonce == got.BootNonce {
		t.Errorf("two directories with one identity: %+v", other)
	}
}

func TestEveryOpenHasANewBootNonce(t *testing.T) {
	dir := t.TempDir()
	first := open(t, optionsFor(dir)).Current()
	second := open(t, optionsFor(dir)).Current()
	store := open(t, optionsFor(dir))
	third := store.Current()
	if store.Fresh() {
		t.Error("an existing directory is called fresh")
	}
	if want := []string{first.BootNonce, second.BootNonce}; !reflect.DeepEqual(third.PendingNonces, want) {
		t.Errorf("pending %v, want %v", third.PendingNonces, want)
	}
	if first.Incarnation != third.Incarnation {
		t.Error("the incarnation changed")
	}
	for want, nonce := range map[uint64]string{1: first.BootNonce, 2: second.BootNonce, 3: third.BootNonce} {
		if counter, ok := NonceCounter(nonce); !ok || counter != want {
			t.Errorf("boot nonce %q, want counter %d", nonce, want)
		}
	}
	change(t, store, func(i *Identity) { i.Confirm(second.BootNonce, 7) })
	fourth := open(t, optionsFor(dir)).Current()
	if fourth.ConfirmedNonce != second.BootNonce || fourth.AddedIndex != 7 || !reflect.DeepEqual(fourth.PendingNonces, []string{third.BootNonce}) {
		t.Errorf("after confirming the second: %+v", fourth)
	}
}

func TestConfirmMovesOnlyForward(t *testing.T) {
	start := func() Identity {
		return Identity{BootNonce: "4-d", ConfirmedNonce: "1-a", PendingNonces: []string{"2-b", "3-c"}}
	}
	for nonce, want := range map[string]struct {
		changed   bool
		confirmed string
		pending   []string
	}{
		"1-a": {false, "1-a", []string{"2-b", "3-c"}},
		"2-b": {true, "2-b", []string{"3-c"}},
		"3-c": {true, "3-c", []string{}},
		"4-d": {true, "4-d", nil},
		"9-x": {false, "1-a", []string{"2-b", "3-c"}},
		"":    {false, "1-a", []string{"2-b", "3-c"}},
	} {
		i := start()
		changed := i.Confirm(nonce, i.AddedIndex)
		if changed != want.changed || i.ConfirmedNonce != want.confirmed || fmt.Sprint(i.PendingNonces) != fmt.Sprint(want.pending) {
			t.Errorf("confirm %q: %v, %+v", nonce, changed, i)
		}
	}
}

// TestConfirmNotesTheEntryOfTheIncarnation: a node that is removed and added again has one nonce and another entry.
func TestConfirmNotesTheEntryOfTheIncarnation(t *testing.T) {
	i := Identity{BootNonce: "4-d", ConfirmedNonce: "1-a", AddedIndex: 3}
	for _, step := range []struct {
		nonce   string
		added   uint64
		changed bool
		want    uint64
	}{{"9-x", 5, false, 3}, {"1-a", 3, false, 3}, {"1-a", 5, true, 5}, {"4-d", 5, true, 5}, {"4-d", 8, true, 8}} {
		if changed := i.Confirm(step.nonce, step.added); changed != step.changed || i.AddedIndex != step.want {
			t.Errorf("confirm %q of entry %d: %v, %+v", step.nonce, step.added, changed, i)
		}
	}
}

func TestPendingNoncesAreBounded(t *testing.T) {
	i := Identity{BootNonce: newNonce(1)}
	for counter := uint64(2); counter <= 3*maxPendingNonces; counter++ {
		i.boot(newNonce(counter))
	}
	if len(i.PendingNonces) != maxPendingNonces {
		t.Fatalf("%d pending nonces, want %d", len(i.PendingNonces), maxPendingNonces)
	}
	if newest, _ := NonceCounter(i.PendingNonces[maxPendingNonces-1]); newest != 3*maxPendingNonces-1 {
		t.Errorf("the newest pending nonce has counter %d", newest)
	}
}

// TestDamagedDirectoriesAreNeverEmpty has the rows of cluster 18 and 3.1 that are about these files.
func TestDamagedDirectoriesAreNeverEmpty(t *testing.T) {
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	corrupt := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("{}\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, row := range map[string]struct {
		damage  []func(*testing.T, string)
		options func(*Options)
		want    error
		text    string
	}{
		"identity missing beside raft":   {damage: []func(*testing.T, string){remove("identity.json")}, want: ErrDamaged, text: "identity.json is missing"},
		"identity missing beside store":  {damage: []func(*testing.T, string){remove("identity.json"), remove("raft")}, want: ErrDamaged, text: "identity.json is missing"},
		"identity missing beside groups": {damage: []func(*testing.T, string){remove("identity.json"), remove("raft"), remove("store")}, want: ErrDamaged, text: "identity.json is missing"},
		"both files missing":             {damage: []func(*testing.T, string){remove("identity.json"), remove("layout.json")}, want: ErrDamaged, text: "identity.json is missing"},
		"identity damaged":               {damage: []func(*testing.T, string){corrupt("identity.json")}, want: ErrDamaged, text: "identity.json: checksum differs"},
		"identity empty":                 {damage: []func(*testing.T, string){func(t *testing.T, dir string) { corruptWith(t, dir, "identity.json", "") }}, want: ErrDamaged, text: "identity.json: checksum differs"},
		"layout missing":                 {damage: []func(*testing.T, string){remove("layout.json")}, want: ErrDamaged, text: "layout.json is missing"},
		"layout damaged":                 {damage: []func(*testing.T, string){corrupt("layout.json")}, want: ErrDamaged, text: "layout.json: checksum differs"},
		"log missing":                    {damage: []func(*testing.T, string){remove("raft")}, want: ErrDamaged, text: "raft, with the log, the term and the vote, is missing"},
		"other node id":                  {options: func(o *Options) { o.NodeID = 5 }, want: ErrOtherNode, text: "is of node 2, QUEEN_RAFT_NODE_ID is 5"},
		"other group count":              {options: func(o *Options) { o.Groups = 4 }, want: ErrGroups, text: "says 1, QUEEN_RAFT_GROUPS is 4"},
		"newer format": {damage: []func(*testing.T, string){func(t *testing.T, dir string) {
			if err := WriteRecord(filepath.Join(dir, "layout.json"), &Layout{Format: 2, Groups: 1, Build: "9.0.0"}); err != nil {
				t.Fatal(err)
			}
		}}, want: ErrNewerFormat, text: "this build reads directory format 1"},
	} {
		dir := t.TempDir()
		store := open(t, optionsFor(dir))
		for _, state := range stateDirectories {
			if err := os.Mkdir(filepath.Join(dir, state), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		change(t, store, func(i *Identity) { i.ClusterID, i.Began = "c", true })
		for _, damage := range row.damage {
			damage(t, dir)
		}
		options := optionsFor(dir)
		if row.options != nil {
			row.options(&options)
		}
		_, err := Open(options)
		if !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.text) {
			t.Errorf("%s: %v", name, err)
		}
		if errors.Is(row.want, ErrDamaged) && (err == nil || !strings.Contains(err.Error(), "queen cluster replace 2")) {
			t.Errorf("%s: no remedy in %v", name, err)
		}
	}
}

func corruptWith(t *testing.T, dir, name, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestInterruptedFirstStartIsEmpty(t *testing.T) {
	dir := t.TempDir()
	open(t, optionsFor(dir))
	if err := os.Remove(filepath.Join(dir, "identity.json")); err != nil {
		t.Fatal(err)
	}
	corruptWith(t, dir, "LOCK", "")
	corruptWith(t, dir, "reserve", "")
	corruptWith(t, dir, "identity.json.tmp", `{"clus`)
	if store := open(t, optionsFor(dir)); !store.Fresh() {
		t.Error("a directory with nothing but layout.json is not fresh")
	}
}

func TestRecoveryTakesADirectoryOfAnotherNode(t *testing.T) {
	dir := t.TempDir()
	open(t, optionsFor(dir))
	options := optionsFor(dir)
	options.NodeID, options.Recovering = 5, true
	store := open(t, options)
	change(t, store, func(i *Identity) { i.NodeID = 5 })
	options.Recovering = false
	if got := open(t, options).Current().NodeID; got != 5 {
		t.Errorf("node id %d, want 5", got)
	}
}

func TestCurrentIsACopy(t *testing.T) {
	store := open(t, optionsFor(t.TempDir()))
	change(t, store, func(i *Identity) {
		i.PendingNonces, i.Formation = []string{"a"}, &Formation{Members: []FirstMember{{NodeID: 2}}}
	})
	copied := store.Current()
	copied.PendingNonces[0], copied.Formation.Members[0].NodeID = "b", 9
	if got := store.Current(); got.PendingNonces[0] != "a" || got.Formation.Members[0].NodeID != 2 {
		t.Errorf("changed through a copy: %+v", got)
	}
}

func TestFailedUpdateChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	store := open(t, optionsFor(dir))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := store.Update(func(i *Identity) { i.ClusterID = "c" }); err == nil {
		t.Fatal("an update without a directory succeeds")
	}
	if got := store.Current().ClusterID; got != "" {
		t.Errorf("cluster id %q after a failed update", got)
	}
}

func TestResetIsCompletedAfterACrash(t *testing.T) {
	type crash struct{}
	for crashAt := range 4 { // 3 is no crash
		dir := t.TempDir()
		store := open(t, optionsFor(dir))
		change(t, store, func(i *Identity) {
			i.ClusterID, i.ClusterEpoch, i.Began, i.ConfirmedNonce = "c", 1, true, i.BootNonce
			i.Formation, i.Lineage = &Formation{ClusterID: "c"}, []Ancestor{{ClusterID: "b"}}
		})
		for _, state := range append(stateDirectories[:], "snapshots", "history") {
			if err := os.MkdirAll(filepath.Join(dir, state, "inner"), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		former := store.Current()
		passed := 0
		store.options.Faults = func(string) {
			if passed == crashAt {
				panic(crash{})
			}
			passed++
		}
		func() {
			defer func() {
				if got := recover(); got != nil && got != (crash{}) {
					panic(got)
				}
			}()
			if err := store.Reset("c", 2, "replaced"); err != nil {
				t.Fatal(err)
			}
		}()
		got := open(t, optionsFor(dir)).Current()
		if got.Incarnation == former.Incarnation || got.ClusterID != "c" || got.ClusterEpoch != 2 || got.Began ||
			got.Resetting || got.Formation != nil || got.ConfirmedNonce != "" || len(got.Lineage) != 1 {
			t.Errorf("crash at %d: %+v", crashAt, got)
		}
		for _, state := range append(stateDirectories[:], "snapshots") {
			if _, err := os.Stat(filepath.Join(dir, state)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("crash at %d: %s is still there: %v", crashAt, state, err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "history")); err != nil {
			t.Errorf("crash at %d: %v", crashAt, err)
		}
	}
}

func TestAnotherClusterNeverResets(t *testing.T) {
	dir := t.TempDir()
	store := open(t, optionsFor(dir))
	change(t, store, func(i *Identity) { i.ClusterID = "mine" })
	before := store.Current()
	if err := store.Reset("other", 1, "replaced"); !errors.Is(err, ErrForeign) {
		t.Errorf("reset by another cluster: %v", err)
	}
	if got := store.Current(); !reflect.DeepEqual(got, before) {
		t.Errorf("changed to %+v", got)
	}
}

func TestNonceCounter(t *testing.T) {
	for nonce, want := range map[string]uint64{"1-0011223344556677": 1, "18446744073709551615-ffffffffffffffff": 1<<64 - 1} {
		if got, ok := NonceCounter(nonce); !ok || got != want {
			t.Errorf("%q: %d, %v", nonce, got, ok)
		}
	}
	for _, nonce := range []string{"", "1", "-0011223344556677", "1-", "1-001122334455667", "1-00112233445566zz", "-1-0011223344556677", "x-0011223344556677"} {
		if _, ok := NonceCounter(nonce); ok {
			t.Errorf("%q is a boot nonce", nonce)
		}
	}
}
