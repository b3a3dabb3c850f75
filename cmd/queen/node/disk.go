package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"queen/cmd/queen/config"
	"queen/httpfront"
	"queen/raftlog"
)

// diskGate refuses growing writes while a data volume is nearly full (cluster 11.3): that of any live voter, as the leader says; its
// own while no leader does.
type diskGate struct {
	path      string
	node      uint64
	high, low float64
	log       zerolog.Logger
	percent   atomic.Pointer[float64]
	reserve   atomic.Int64
	closed    atomic.Bool
	// cluster is what the leader says of the group's gate.
	cluster atomic.Pointer[func() (node uint64, percent float64, known bool)]
	stop    chan struct{}
	done    sync.WaitGroup
}

// diskInterval is how often the volume is measured.
const diskInterval = time.Second

func newDiskGate(c *config.Config, log zerolog.Logger) *diskGate {
	g := &diskGate{
		path: c.RaftDirectory, node: uint64(c.RaftNodeID), log: log, stop: make(chan struct{}),
		high: float64(c.RaftDiskHighPercent), low: float64(c.RaftDiskLowPercent),
	}
	g.measure()
	g.done.Add(1)
	go g.run()
	return g
}

func (g *diskGate) run() {
	defer g.done.Done()
	ticker := time.NewTicker(diskInterval)
	defer ticker.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-ticker.C:
			g.measure()
		}
	}
}

func (g *diskGate) measure() {
	var stat unix.Statfs_t
	if err := unix.Statfs(g.path, &stat); err != nil {
		g.log.Warn().Err(err).Msg("the data volume cannot be measured")
		return
	}
	used := float64(stat.Blocks - stat.Bfree)
	percent := 100 * used / max(used+float64(stat.Bavail), 1)
	g.percent.Store(&percent)
	free, reserve := int64(stat.Bavail)*int64(stat.Bsize), reserveOf(int64(stat.Blocks)*int64(stat.Bsize))
	g.reserve.Store(reserve)
	full := percent >= g.high || free < reserve+reserve/2
	if g.closed.Load() {
		full = full || percent >= g.low || free < 2*reserve
	}
	if g.closed.Swap(full) != full {
		g.log.Warn().Uint64("node", g.node).Float64("percent", percent).
			Msg(fmt.Sprintf("raft storage pressure changed full=%t", full))
	}
}

const (
	// reservePercent of the volume is kept free for the store, which writes through memory maps and must stop before the
	// volume is full; within the two bounds.
	reservePercent  = 8
	reserveMinBytes = 32 << 20
	reserveMaxBytes = 192 << 20
)

func reserveOf(volumeBytes int64) int64 {
	return min(max(volumeBytes/100*reservePercent, reserveMinBytes), reserveMaxBytes)
}

// ReserveBytes is the free space below which the store stops. The gate closes well before, so that acks and deletes still
// find room.
func (g *diskGate) ReserveBytes() int64 { return g.reserve.Load() }

// roomy tells whether this node's own volume does not close the gate: it is measured once a second.
func (g *diskGate) roomy() bool { return !g.closed.Load() }

// Percent is the use of the data volume.
func (g *diskGate) Percent() float64 {
	if p := g.percent.Load(); p != nil {
		return *p
	}
	return 0
}

// report is what this node tells the leader of its disk.
func (g *diskGate) report() raftlog.Disk {
	return raftlog.Disk{Percent: g.Percent(), Full: g.closed.Load()}
}

// follow makes the gate that of the group.
func (g *diskGate) follow(cluster func() (node uint64, percent float64, known bool)) {
	g.cluster.Store(&cluster)
}

// full returns whose volume closes the gate; 0 while it is open.
func (g *diskGate) full() (node uint64, percent float64) {
	if cluster := g.cluster.Load(); cluster != nil {
		if node, percent, known := (*cluster)(); known {
			return node, percent
		}
	}
	if g.closed.Load() {
		return g.node, g.Percent()
	}
	return 0, 0
}

// Full tells whether the gate is closed.
func (g *diskGate) Full() bool {
	node, _ := g.full()
	return node != 0
}

// Closed implements api.Gate.
func (g *diskGate) Closed() *httpfront.Error {
	node, percent := g.full()
	if node == 0 {
		return nil
	}
	refusal := httpfront.Refuse(httpfront.CodeStorageFull,
		fmt.Sprintf("the data volume of node %d is %.1f%% full", node, percent))
	refusal.Node = node
	return refusal
}

func (g *diskGate) close() {
	close(g.stop)
	g.done.Wait()
}
