package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"queen/raftlog"
	"queen/raftlog/identity"
	"queen/raftlog/peer"
)

// witnessEvery is how soon what the members have shown is written down (cluster 2.5).
const witnessEvery = time.Second

// witnessRecord is the content of witness.json.
type witnessRecord struct {
	Witnesses []raftlog.Witness `json:"witnesses"`
}

func (n *Node) witnessFile() string { return filepath.Join(n.logDirectory(), "witness.json") }

// readWitnesses reads what the members had shown. Without it the node starts with nothing (cluster 18).
func (n *Node) readWitnesses() []raftlog.Witness {
	var record witnessRecord
	err := identity.ReadRecord(n.witnessFile(), &record)
	if err != nil && (n.port.identity.Current().Began || !errors.Is(err, os.ErrNotExist)) {
		n.log.Warn().Err(err).Msg("raft: what the members have shown cannot be read: it is gathered anew")
	}
	if err != nil {
		return nil
	}
	return record.Witnesses
}

// keepWitnesses writes it down when it has changed, until ctx ends.
func (n *Node) keepWitnesses(ctx context.Context) {
	ticker := time.NewTicker(witnessEvery)
	defer ticker.Stop()
	var written []raftlog.Witness
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// The lock keeps the directory where it is. Whoever has it may need a while: then the next tick comes.
		if !n.engine.TryLock() {
			continue
		}
		if n.raft != nil && !n.halted && n.raft.Failed() == nil {
			if now := n.raft.Witnesses(); !slices.Equal(now, written) {
				if err := identity.WriteRecord(n.witnessFile(), &witnessRecord{now}); err != nil {
					n.log.Warn().Err(err).Msg("raft: what the members have shown cannot be written")
				}
				written = now
			}
		}
		n.engine.Unlock()
	}
}

// witnessed are the records of a node, for its judge.
func (p *raftPort) witnessed(id uint64) []peer.Witness {
	log := p.log.Load()
	if log == nil {
		return nil
	}
	var found []peer.Witness
	for _, w := range log.Witnesses() {
		if w.NodeID == id {
			found = append(found, peer.Witness{Incarnation: w.Incarnation, BootNonce: w.BootNonce, Term: w.Term, Index: w.Index})
		}
	}
	return found
}
