package peer

import (
	"maps"
	"slices"
	"sync"

	"github.com/rs/zerolog"
)

// settingsWatch warns about nodes that run with other values where all must be the same (cluster 1.1, rule 10): once for
// each node, setting and value.
type settingsWatch struct {
	logger zerolog.Logger

	mu   sync.Mutex
	seen map[settingKey]string
}

// settingKey is bounded: nodes have proved to know the token, and names are those of this node.
type settingKey struct {
	node uint64
	name string
}

// compare logs the differences that are new.
func (w *settingsWatch) compare(self, remote *Hello) {
	for _, name := range slices.Sorted(maps.Keys(self.Settings)) {
		own := self.Settings[name]
		theirs, told := remote.Settings[name]
		if !told || !w.changed(settingKey{remote.NodeID, name}, theirs, own) {
			continue
		}
		w.logger.Warn().Msgf("config: node %d runs with %s=%s, this node with %s", remote.NodeID, name, theirs, own)
	}
}

// changed tells whether a value differs from this node's and was not logged yet.
func (w *settingsWatch) changed(key settingKey, theirs, own string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if theirs == own {
		delete(w.seen, key)
		return false
	}
	if former, found := w.seen[key]; found && former == theirs {
		return false
	}
	w.seen[key] = theirs
	return true
}
