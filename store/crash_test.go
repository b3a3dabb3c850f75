package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// crashes runs a world and takes an image of the directory at crash points.
type crashes struct {
	t       *testing.T
	dir     string
	world   *world
	options Options

	mu       sync.Mutex
	wanted   map[string]int // passages of a point still to come before the image
	synced   image          // on the disk for sure
	pending  image          // on the disk as far as its files are synced from now on
	taken    image
	at       string
	finished bool
}

func newCrashes(t *testing.T, seed uint64, point string, passage int) *crashes {
	c := &crashes{t: t, dir: t.TempDir(), world: newWorld(seed), wanted: map[string]int{point: passage}, synced: image{}}
	c.options = Options{Dir: c.dir, BucketBytes: 15_000, HousekeepingEvery: 2e6, Logger: zerolog.Nop(),
		Faults: c.pass, synced: c.fileSynced}
	return c
}

// fileSynced makes the content that a file had when the durable point began part of what is safe.
func (c *crashes) fileSynced(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, err := filepath.Rel(c.dir, path)
	if err != nil {
		c.t.Error(err)
	}
	if file, ok := c.pending[name]; ok && !c.finished {
		c.synced[name] = file
	}
}

func (c *crashes) pass(point string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		return
	}
	if n, ok := c.wanted[point]; ok {
		if c.wanted[point] = n - 1; n == 1 {
			c.taken, c.at = takeImage(c.t, c.dir), point
			c.finished = true
		}
	}
}

// run executes entries with several in flight, and durable points between, until the image is taken or all are done.
func (c *crashes) run(random *rand.Rand, entries uint64) {
	s := mustOpen(c.t, c.options)
	c.synced = takeImage(c.t, c.dir)
	var inFlight sync.WaitGroup
	for i := uint64(1); i <= entries; i++ {
		b := s.Begin(i, i/10+1)
		c.world.apply(c.t, b)
		inFlight.Add(1)
		s.Commit(b, func(err error) {
			if err != nil {
				c.t.Errorf("commit: %v", err)
			}
			inFlight.Done()
		})
		if random.IntN(15) == 0 {
			inFlight.Wait() // so that the image holds no less than what the durable point promises
			pending := takeImage(c.t, c.dir)
			c.mu.Lock()
			c.pending = pending
			c.mu.Unlock()
			durable(c.t, s)
		}
	}
	inFlight.Wait()
	c.mu.Lock()
	if !c.finished {
		c.taken, c.at, c.finished = takeImage(c.t, c.dir), "end", true
	}
	c.mu.Unlock()
	mustClose(c.t, s)
}

// verify opens an image: the state is exactly that of the durable point, and a replay ends like the first run.
func (c *crashes) verify(name string, files image) {
	c.t.Helper()
	dir := files.write(c.t)
	defer os.RemoveAll(dir)
	record, _, err := readDurable(dir)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	o := c.options
	o.Dir, o.Faults = dir, nil
	s, err := Open(o)
	if err != nil {
		c.t.Fatalf("%s at %s: %v", name, c.at, err)
	}
	if index, term := s.Applied(); index != record.Index || term != record.Term {
		c.t.Fatalf("%s at %s: applied %d of term %d, durable %d of %d", name, c.at, index, term, record.Index, record.Term)
	}
	v := s.View()
	if err := c.world.compare(v, record.Index); err != nil {
		c.t.Fatalf("%s at %s, seed %d, durable %d: %v", name, c.at, c.world.seed, record.Index, err)
	}
	v.Close()
	c.world.run(c.t, s, c.world.last())
	c.world.checkView(c.t, s)
	mustClose(c.t, s)
	s = mustOpen(c.t, o)
	c.world.checkView(c.t, s)
	mustClose(c.t, s)
}

var crashPoints = []string{
	FaultBlockWritten, FaultStoreCommitted, FaultFilesSynced, FaultDurableWritten,
	FaultBeforeUnlink, FaultAfterUnlink, FaultBeforeSeal, FaultAfterSeal,
}

// TestKillAtAnyPointLeavesTheDurableState and the next test cover I2 and cluster.md 19.
func TestKillAtAnyPointLeavesTheDurableState(t *testing.T) {
	for i, point := range crashPoints {
		t.Run(point, func(t *testing.T) {
			const passage = 3
			c := newCrashes(t, uint64(i), point, passage)
			c.run(rand.New(rand.NewPCG(uint64(i), 1)), 100)
			if c.at != point {
				t.Fatalf("point %s was not passed %d times", point, passage)
			}
			c.verify("kill", c.taken)
		})
	}
}

func TestPowerCutLeavesTheDurableState(t *testing.T) {
	rounds, seed := 3, uint64(1)
	if text := os.Getenv("STORE_POWER_CUTS"); text != "" { // a longer campaign, for example 500
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds, seed = n, rand.Uint64()
	}
	for round := range rounds {
		seed := seed + uint64(round)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			point := crashPoints[random.IntN(len(crashPoints))]
			c := newCrashes(t, seed, point, 1+random.IntN(30))
			c.run(random, 150)
			for cut := range 3 {
				c.verify(fmt.Sprintf("power cut %d", cut), powerCut(random, c.synced, c.taken))
			}
		})
	}
}

// TestPowerCutLosesWhatWasNotSynced shows that the harness can fail: without a durable point the cut must lose entries.
func TestPowerCutLosesWhatWasNotSynced(t *testing.T) {
	lost := false
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		old := fileImage{size: 8 * pageBytes}
		now := fileImage{size: 8 * pageBytes, pages: map[int64][]byte{}}
		for at := int64(0); at < now.size; at += pageBytes {
			now.pages[at] = slices.Repeat([]byte{1}, pageBytes)
		}
		for _, page := range mixPages(random, old, now).pages {
			lost = lost || page[0] == 0 || page[pageBytes-1] == 0
		}
	}
	if !lost {
		t.Fatal("no page was ever lost")
	}
}
