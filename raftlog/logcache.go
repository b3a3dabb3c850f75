package raftlog

import (
	"sync"

	"github.com/hashicorp/raft"
)

// logCacheEntries is how many recent entries are kept in memory for followers, at most: what the library sends at once.
const logCacheEntries = maxAppendEntries

// logCache keeps the newest entries, which followers ask for, within a number and a number of bytes. The library's own cache
// bounds the number only, and 64 entries may have 48 MiB each. Entries are shared and immutable.
type logCache struct {
	maxBytes int64

	mu sync.RWMutex
	// ring has the entry with index i at i modulo its length. oldest to newest are in it; both 0 when it is empty.
	ring           [logCacheEntries]*raft.Log
	oldest, newest uint64
	bytes          int64
}

// get fills log and says whether the entry is here.
func (c *logCache) get(index uint64, log *raft.Log) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if index < c.oldest || index > c.newest || c.newest == 0 {
		return false
	}
	*log = *c.ring[index%logCacheEntries]
	return true
}

// put adds the entries that were just appended to the log.
func (c *logCache) put(logs []*raft.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, log := range logs {
		if c.newest > 0 && log.Index != c.newest+1 {
			c.dropLocked()
		}
		if c.newest == 0 {
			c.oldest = log.Index
		} else if log.Index-c.oldest == logCacheEntries {
			c.evictLocked()
		}
		c.ring[log.Index%logCacheEntries] = log
		c.newest = log.Index
		c.bytes += int64(len(log.Data))
		for c.bytes > c.maxBytes && c.oldest < c.newest {
			c.evictLocked()
		}
	}
}

// evictLocked removes the oldest entry; there is another one, or there will be at once.
func (c *logCache) evictLocked() {
	slot := c.oldest % logCacheEntries
	c.bytes -= int64(len(c.ring[slot].Data))
	c.ring[slot] = nil
	c.oldest++
}

// drop forgets everything: the log was cut.
func (c *logCache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked()
}

func (c *logCache) dropLocked() {
	c.ring = [logCacheEntries]*raft.Log{}
	c.oldest, c.newest, c.bytes = 0, 0, 0
}
