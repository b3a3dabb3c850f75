package store

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// errCut stops an activation between two steps, as a kill does.
var errCut = errors.New("cut here")

// switching is a store in place and another, of later entries, in staging.
type switching struct {
	options Options
	staging string
	before  *world // what the store in place holds
	after   *world // what the import holds
}

func newSwitching(t *testing.T) *switching {
	t.Helper()
	root := t.TempDir()
	c := &switching{options: quiet(filepath.Join(root, "store")), staging: filepath.Join(root, "snapshots"), before: newWorld(1)}
	s := mustOpen(t, c.options)
	c.before.run(t, s, 10)
	mustClose(t, s)
	source, w := exportSource(t, quiet(t.TempDir()))
	c.after = w
	if err := os.Rename(exported(t, source), c.staging); err != nil {
		t.Fatal(err)
	}
	mustClose(t, source)
	return c
}

// open opens the store after a crash and says whether it is the new one; it must be one of the two.
func (c *switching) open(t *testing.T) (isNew bool) {
	t.Helper()
	if err := CompleteActivation(c.options.Dir); err != nil {
		t.Fatal(err)
	}
	installation, isNew, err := Installed(c.options.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, c.options)
	defer mustClose(t, s)
	index, _ := s.Applied()
	world := c.before
	if isNew {
		world = c.after
		if installation.Index != index {
			t.Fatalf("installed %d, applied %d", installation.Index, index)
		}
	}
	if index != world.last() {
		t.Fatalf("applied %d, want %d, new %t", index, world.last(), isNew)
	}
	world.checkView(t, s)
	root, err := os.ReadDir(filepath.Dir(c.options.Dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range root {
		if strings.HasPrefix(entry.Name(), "store.") {
			t.Fatalf("%s is left", entry.Name())
		}
	}
	return isNew
}

func TestCutActivationLeavesTheOldStoreOrTheNewOne(t *testing.T) {
	for _, test := range []struct {
		step  string
		isNew bool
	}{{"", false}, {faultNamedNew, true}, {faultNamedOld, true}, {faultReplaced, true}, {"end", true}} {
		t.Run("cut at "+test.step, func(t *testing.T) {
			c := newSwitching(t)
			if _, err := Import(t.Context(), c.staging, nil, c.options); err != nil {
				t.Fatal(err)
			}
			if test.step != "" {
				o := c.options
				o.failWrite = func(step string) error {
					if step == test.step {
						return errCut
					}
					return nil
				}
				if err := Activate(c.staging, o); !errors.Is(err, errCut) && test.step != "end" {
					t.Fatal(err)
				}
			}
			if isNew := c.open(t); isNew != test.isNew {
				t.Fatalf("new %t", isNew)
			}
			if err := CleanStaging(c.staging); err != nil {
				t.Fatal(err)
			}
			if isNew := c.open(t); isNew != test.isNew {
				t.Fatalf("after cleaning: new %t", isNew)
			}
		})
	}
}

// TestSecondActivationReplacesTheFirst: also one whose predecessor was cut while its old store was removed.
func TestSecondActivationReplacesTheFirst(t *testing.T) {
	c := newSwitching(t)
	for range 2 {
		if _, err := Import(t.Context(), c.staging, nil, c.options); err != nil {
			t.Fatal(err)
		}
		o := c.options
		o.failWrite = func(step string) error {
			if step == faultReplaced {
				return errCut
			}
			return nil
		}
		if err := Activate(c.staging, o); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
	}
	if !c.open(t) {
		t.Fatal("the old store came back")
	}
}

// TestPowerCutDuringInstallationLeavesTheOldStoreOrTheNewOne: at each crash point everything that was not fsynced since it
// was last written is lost, files by themselves and with them their names.
func TestPowerCutDuringInstallationLeavesTheOldStoreOrTheNewOne(t *testing.T) {
	for _, point := range []string{"begin", FaultStaged, faultNamedNew, faultNamedOld, FaultActivated, faultReplaced} {
		t.Run(point, func(t *testing.T) {
			c := newSwitching(t)
			cut := newPowerCut(t, filepath.Dir(c.options.Dir), point)
			cut.pass("begin")
			o := c.options
			o.Faults, o.synced = cut.pass, cut.fileSynced
			o.failWrite = func(step string) error {
				cut.pass(step)
				return nil
			}
			if _, err := Import(t.Context(), c.staging, nil, o); err != nil {
				t.Fatal(err)
			}
			if err := Activate(c.staging, o); err != nil {
				t.Fatal(err)
			}
			if cut.left == nil {
				t.Fatalf("point %s was not passed", point)
			}
			root := cut.left.write(t)
			c.options.Dir, c.staging = filepath.Join(root, "store"), filepath.Join(root, "snapshots")
			if err := CleanStaging(c.staging); err != nil {
				t.Fatal(err)
			}
			wantNew := point != "begin" && point != FaultStaged
			if isNew := c.open(t); isNew != wantNew {
				t.Fatalf("new %t", isNew)
			}
		})
	}
}

// installationCut remembers what of a directory is on the disk. Files are known by what they hold, because directories are
// renamed as a whole; renames are durable when the next step begins, which is what move is for.
type installationCut struct {
	t     *testing.T
	root  string
	point string

	mu     sync.Mutex
	synced map[string]fileImage // by name within its store
	left   image
}

func newPowerCut(t *testing.T, root, point string) *installationCut {
	c := &installationCut{t: t, root: root, point: point, synced: map[string]fileImage{}}
	for name, file := range takeImage(t, root) {
		c.synced[within(name)] = file
	}
	return c
}

// within cuts off the name of the store, which changes.
func within(name string) string {
	for _, place := range []string{"snapshots/store/", "store.incoming/", "store.replaced/", "store/"} {
		if rest, ok := strings.CutPrefix(name, place); ok {
			// Old and new store are told apart by what they are: only one of them is read after the cut.
			return rest
		}
	}
	return name
}

func (c *installationCut) fileSynced(path string) {
	file, err := readSparse(path)
	if err != nil {
		c.t.Error(err)
		return
	}
	name, err := filepath.Rel(c.root, path)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	c.synced["new/"+within(name)] = file
	c.mu.Unlock()
}

func (c *installationCut) pass(point string) {
	if point != c.point || c.left != nil {
		return
	}
	now := takeImage(c.t, c.root)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = image{}
	random := rand.New(rand.NewPCG(1, uint64(len(point))))
	for _, name := range slices.Sorted(maps.Keys(now)) {
		file := now[name]
		if sameImage(c.synced["new/"+within(name)], file) || sameImage(c.synced[within(name)], file) {
			c.left[name] = file
			continue
		}
		// Not known to be on the disk as it is now: lost, empty, or there.
		switch random.IntN(3) {
		case 0:
		case 1:
			c.left[name] = fileImage{}
		default:
			c.left[name] = mixPages(random, fileImage{size: file.size}, file)
		}
	}
}

func sameImage(a, b fileImage) bool {
	return a.size == b.size && maps.EqualFunc(a.pages, b.pages, slices.Equal)
}
