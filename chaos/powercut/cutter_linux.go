package powercut

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
)

// darkMax is how long a broker may live on in the dark. Every flush fails then, and nothing may be acknowledged.
const darkMax = 300 * time.Millisecond

// Cutter takes the power from a broker whose data lies on a volume. Its methods are called from one goroutine.
type Cutter struct {
	volume *Volume
	data   string
	random *rand.Rand

	stop    context.CancelFunc
	writers sync.WaitGroup
}

// NewCutter starts random writeback of the files below data. Close ends it.
func NewCutter(volume *Volume, data string, seed uint64) *Cutter {
	cutter := &Cutter{volume: volume, data: data, random: rand.New(rand.NewPCG(seed, 2))}
	cutter.startWriteback()
	return cutter
}

// Cut is a campaign.Interruption. One time in three the broker is frozen at the cut; otherwise it lives on in the dark
// for a moment.
func (c *Cutter) Cut(broker *harness.Broker, history *ledger.History) error {
	if c.random.IntN(3) == 0 {
		return c.CutFrozen(broker)
	}
	c.Close()
	// What is answered from here on did not leave the building. It must not count either: a flush that is in flight at
	// the cut may report success although ext4 could not note in its journal that the blocks are written. A flush
	// that begins in the dark fails, so a call sent then must not be acknowledged.
	dark := history.Blackout()
	if err := c.volume.Darken(); err != nil {
		return err
	}
	dark()
	<-time.After(time.Duration(c.random.Int64N(int64(darkMax))))
	broker.Kill()
	return c.powerBack()
}

// CutFrozen stops all threads of the broker wherever they are, cuts, and kills it: nothing happens in the dark, and
// every answer that was sent counts.
func (c *Cutter) CutFrozen(broker *harness.Broker) error {
	c.Close()
	if err := freeze(broker.PID()); err != nil {
		return err
	}
	if err := c.volume.Darken(); err != nil {
		return err
	}
	broker.Kill()
	return c.powerBack()
}

// powerBack mounts the volume as the next boot does and starts the writeback again.
func (c *Cutter) powerBack() error {
	journal := Ordered
	if c.random.IntN(2) == 0 {
		journal = Writeback
	}
	if err := c.volume.Lighten(journal); err != nil {
		return fmt.Errorf("bring the power back: %w", err)
	}
	c.startWriteback()
	return nil
}

// Close ends the writeback, so that no file of the volume is open.
func (c *Cutter) Close() {
	c.stop()
	c.writers.Wait()
}

func (c *Cutter) startWriteback() {
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	random := rand.New(rand.NewPCG(c.random.Uint64(), 3))
	c.writers.Go(func() { writeBack(ctx, c.data, random) })
}
