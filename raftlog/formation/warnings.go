package formation

import (
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"queen/raftlog/peer"
)

// warnings say every 10 s what a first start waits for. The times are those of the monotonic clock.
type warnings struct{ missingAt, differAt time.Duration }

func (w *warnings) begin(clock peer.Clock) {
	w.differAt = clock.Monotonic()
	w.missingAt = w.differAt + warnAfter
}

// log logs what is due of one round.
func (w *warnings) log(clock peer.Clock, logger *zerolog.Logger, self *state, decided *decision) {
	now := clock.Monotonic()
	if decided.action == differ && now >= w.differAt {
		w.differAt = now + warnEvery
		logger.Warn().Uint64("node", self.NodeID).Uint64("peer", decided.found.NodeID).
			Str("own", text(self.Peers)).Str("theirs", text(decided.found.Peers)).Msg("peer lists differ")
	}
	if len(decided.missing) > 0 && now >= w.missingAt {
		w.missingAt = now + warnEvery
		ids := make([]string, len(decided.missing))
		for i, id := range decided.missing {
			ids[i] = strconv.FormatUint(id, 10)
		}
		logger.Warn().Uint64("node", self.NodeID).Str("missing", strings.Join(ids, ",")).
			Msg("first start waits for every peer in QUEEN_RAFT_PEERS")
	}
}
